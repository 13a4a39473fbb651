import json

import numpy as np
import pytest

import streamk
from streamk.learners.description import describe
from streamk.learners.summary import Summary, plot_weights
from tests.laws.subjects import LEARNERS, build

NAMES = ["wave", "<noise>"]


def trained(events=1500):
    X = np.random.default_rng(3).normal(size=(events, 2))
    learner = streamk.KernelRegressor(features=768, seed=1)
    learner.learn_many(X, np.sin(3 * X[:, 0]), names=NAMES)
    return learner


def test_a_summary_is_a_dict_of_json_values():
    summary = trained().summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["features"] == trained().feature_count
    assert summary["bytes"] == len(trained().to_bytes())


def test_relevance_and_weights_are_sorted():
    summary = Summary(
        relevance={"a": [0.1, 0.5], "b": [0.75, 0.25], "c": [0.0, 0.0]},
        experts=[{"expert": "x", "weight": 0.2}, {"expert": "y", "weight": -0.9}],
    )
    assert list(summary.relevance().items()) == [("b", 0.5), ("a", 0.3), ("c", 0.0)]
    assert list(summary.weights().items()) == [("y", -0.9), ("x", 0.2)]


def test_blocks_that_have_not_learned_relevance_do_not_count():
    assert Summary(relevance={"a": [1.0, 1.0], "b": [1.0, 1.0]}).relevance() == {}
    assert Summary(relevance={"a": [1.0, 1.0], "b": [0.2, 1.0]}).relevance() == {"a": 1.0, "b": 0.2}
    assert Summary(relevance={}).relevance() == {}
    assert Summary().relevance() == {}


def test_a_summary_prints_bars():
    lines = repr(trained().summary()).splitlines()
    assert lines[0].startswith("1,500 events, 768 features, ")
    first = lines.index("relevance of inputs") + 1
    assert lines[first].split()[0] == "wave"
    assert lines[first].count("█") == 30
    assert lines[first + 1].split()[0] == "<noise>"
    assert lines[first + 1].count("█") < 5
    weights = lines[lines.index("weights of experts") + 1 :]
    assert len(weights) == min(20, len(trained().summary()["experts"]))
    assert weights[0].count("█") == 30


def test_no_more_than_twenty_inputs_are_shown():
    summary = Summary(events=1, features=1, bytes=1, relevance={f"x{k}": [k / 30] for k in range(30)})
    assert len(repr(summary).splitlines()) == 2 + 20
    assert summary.plot().axes[0].get_yticklabels()[0].get_text() == "x29"
    assert summary.to_html("").count("<tr><th") == 20


def test_a_learner_in_a_notebook():
    text = trained()._repr_html_()
    assert "KernelRegressor(features=768, " in text
    assert "1,500 events learned" in text
    assert text.count("<caption>") == 2
    assert "&lt;noise&gt;" in text
    assert "<noise>" not in text


def test_plots():
    figure = trained().summary().plot()
    assert [panel.get_title() for panel in figure.axes] == ["relevance of inputs", "weights of experts"]
    with pytest.raises(ValueError, match="no relevance and no weights to plot; learn events first"):
        streamk.KaczmarzClassifier(seed=1).summary().plot()


def test_weights_over_events():
    learner, summaries = streamk.KernelClassifier(features=768, seed=1), []
    for _ in range(2):
        learner.learn_many([{"x": i % 7} for i in range(200)], [i % 7 > 3 for i in range(200)])
        summaries.append(learner.summary())
    lines = {line.get_label(): line.get_xydata() for line in plot_weights(summaries).axes[0].lines}
    assert len(lines) == len(summaries[0]["experts"])
    for name, points in lines.items():
        assert points.tolist() == [[s["events"], s.weights()[name]] for s in summaries]
        assert points[0][0] == 200


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_a_summary(name):
    learner = build(*LEARNERS[name])
    assert learner.summary()["events"] == 0
    assert type(learner).__name__ in learner._repr_html_()
    assert describe(learner)["relevance"] == {}
