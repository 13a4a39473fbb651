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


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_field_of_many_values_without_effect_does_not_lead(task, seed):
    rng = np.random.default_rng(seed)
    mails, kinds, a = rng.integers(0, 250, 1500), rng.integers(0, 4, 1500), rng.normal(size=1500)
    days = np.datetime64("2026-01-01") + np.arange(1500) // 5
    effect = 0.7 * a + np.array([0.0, 0.6, -0.6, 0.2])[kinds]
    xs = [
        {"mail": f"user{mails[i]}@mail.example", "kind": "pqrs"[kinds[i]], "a": a[i], "day": days[i].item()}
        for i in range(1500)
    ]
    if task == "classification":
        learner = streamk.KernelClassifier(seed=seed)
        learner.learn_many(xs, (rng.random(1500) < 1.0 / (1.0 + np.exp(-1.5 * effect))).tolist())
    else:
        learner = streamk.KernelRegressor(seed=seed)
        learner.learn_many(xs, (effect + rng.normal(size=1500)).tolist())
    fields = learner.summary()["fields"]
    assert {*list(fields)[:2]} == {"a", "kind"}
    assert fields.keys() == {"a", "kind", "mail", "day"}
    assert fields["mail"] < 0.1 * fields["a"]
    assert list(fields.values()) == sorted(fields.values(), reverse=True)
    assert sum(fields.values()) == pytest.approx(1.0, abs=1e-3)
    loaded = streamk.loads(learner.to_bytes())  # it has no names of categories
    hashed = describe(loaded)["fields"]
    assert {name for name in hashed if not name.startswith("#")} == {"a", "day"}
    assert describe(loaded, ["mail", "kind", "a", "day", "other"])["fields"] == fields
    assert "#" not in repr(learner.summary()).partition("weights of experts")[0]
    assert "user1" not in repr(learner.summary())


def test_fields_without_tests_fall_back_to_inputs():
    assert Summary(fields={}, relevance={"a": [0.5]}).by_field() == {"a": 0.5}
    assert Summary(fields={"b": 1.0}, relevance={"a": [0.5]}).by_field() == {"b": 1.0}
    assert streamk.KernelClassifier(seed=1).summary()["fields"] == {}
    learner = streamk.KernelRegressor(seed=1)
    learner.learn_one({"a": 1.0}, 1.0)
    assert learner.summary()["fields"] == {}
