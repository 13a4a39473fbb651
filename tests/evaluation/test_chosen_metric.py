"""Contenders are ranked and compared by the metric that was chosen."""

import sys

import numpy as np
import pytest

from streamk.evaluation import Costs, ModelAdapter, Results, replay
from streamk.evaluation.bootstrap import BatchMeans
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.contest import Contest
from streamk.evaluation.jackknife import BatchSums
from streamk.evaluation.metric import CLASSES, METRICS, NUMBERS
from streamk.evaluation.numbers import NumberSums

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "RNG", np.random.default_rng(4))


class Scores(ModelAdapter):
    """It predicts the probability that an event has."""

    def __init__(self, key):
        self.key = key

    def predict(self, x):
        p = x[self.key]
        return {"yes": p, "no": 1.0 - p} if isinstance(p, float) else p[0]

    def learn(self, x, y):
        pass


def classes(count=1000):
    """Targets, probabilities of two classes, and the labels before."""
    p = RNG.random(count)
    targets = (RNG.random(count) < p).astype(np.int64)
    return targets, np.column_stack([1.0 - p, p]), np.append(-1, targets[:-1])


@pytest.mark.parametrize(("name", "ranked"), [("accuracy", False), ("log_loss", True)])
def test_the_jackknife_of_a_mean_is_the_mean_of_each_unit(name, ranked):
    arrays = classes()
    units = BatchSums(ClassSums(ranked=ranked))
    units.add(*arrays)
    wrong = (arrays[1].argmax(axis=1) != arrays[0]).astype(float)
    each = wrong if name == "accuracy" else -np.log(arrays[1][np.arange(1000), arrays[0]])
    losses = units.losses(METRICS[name])
    expected = each[: 1000 // losses.length * losses.length].reshape(-1, losses.length).mean(axis=1)
    np.testing.assert_allclose(losses.means(), expected)
    assert losses.mean() == pytest.approx(each.mean())


@pytest.mark.parametrize("metric", ["auc", "macro_f1", "kappa", "brier"])
def test_units_do_not_depend_on_chunks(metric):
    arrays = classes()
    found = []
    for cuts in ([], [1, 2, 700], range(7, 1000, 7)):
        units = BatchSums(ClassSums())
        for rows in np.split(np.arange(1000), list(cuts)):
            units.add(*(array[rows] for array in arrays))
        found.append(units.losses(METRICS[metric]).means())
    assert len(found[0]) == 62
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_intervals_of_auc_cover_the_true_difference():
    """Scores of one contender have noise; over 60 streams, an interval of 95 % has the mean difference."""
    found = []
    for _ in range(60):
        targets, probabilities, last = classes(1500)
        noisy = np.clip(probabilities[:, 1] + RNG.normal(0.0, 0.3, 1500), 0.0, 1.0)
        units = []
        for scores in (probabilities, np.column_stack([1.0 - noisy, noisy])):
            units.append(BatchSums(ClassSums()))
            units[-1].add(targets, scores, last)
        first, second = (each.losses(METRICS["auc"]).means() for each in units)
        found.append(second - first)
    mean = np.mean(found)
    errors = np.std(found, axis=1) / np.sqrt(len(found[0]))
    assert np.std(np.mean(found, axis=1)) == pytest.approx(np.mean(errors), rel=0.3)
    assert mean > 3 * np.std(np.mean(found, axis=1))


def test_root_mean_squares_of_few_events():
    units = BatchSums(NumberSums())
    units.add(np.array([0.0, 0.0]), np.array([3.0, 4.0]))
    assert units.losses(METRICS["rmse"]).mean() == pytest.approx(np.sqrt(12.5))
    assert isinstance(units.losses(METRICS["r2"]), BatchMeans)


def rare(count=5000):
    """Return a contest's events of which 1.3 % are "yes"; one contender has scores, the other the mean."""
    risk = np.exp(RNG.normal(-6.2, 1.9, count)).clip(0.0, 0.9)
    ys = ["yes" if hit else "no" for hit in RNG.random(count) < risk]
    assert 0.008 < ys.count("yes") / count < 0.025
    return [{"own": float(p), "mean": 0.013} for p in np.minimum(risk, 0.49)], ys


@pytest.mark.parametrize("metric", [metric.name for metric in CLASSES if metric.better])
def test_every_metric_of_classes_ranks(metric):
    xs, ys = rare(3000)
    chosen = Costs(50, 1, "yes") if metric == "cost" else metric
    contest = Contest({"mean": Scores("mean"), "own": Scores("own")}, "classification", metric=chosen)
    contest.take(xs, ys)
    results = Results(contest)
    values = {name: METRICS[metric].better * results.metrics_of(name, metric) for name in results.names}
    assert values[results.ranking()[0]] == max(values.values())
    comparison = results.compare("own", "mean")
    assert comparison.measure == results.headline == metric
    gain = METRICS[metric].better * (results.metrics_of("own", metric) - results.metrics_of("mean", metric))
    assert comparison.advantage.mean == pytest.approx(gain, abs=1e-9)
    assert results.sureness("own").mean == pytest.approx(results.metrics_of("own", metric), abs=1e-9)
    assert METRICS[metric].title in results.verdict()
    curve = results.windows("own")
    assert curve.cumulative[-1] == pytest.approx(results.metrics_of("own", metric), abs=1e-9)
    if metric in ("auc", "log_loss", "brier"):
        assert comparison.leader == "own"


@pytest.mark.parametrize("metric", [metric.name for metric in NUMBERS if metric.better])
def test_every_metric_of_numbers_ranks(metric):
    ys = RNG.normal(size=2000)
    xs = [{"near": (y + RNG.normal(),), "far": (0.0,)} for y in 2.0 * ys]
    contenders = {"far": Scores("far"), "near": Scores("near")}
    contest = Contest(contenders, "regression", level=0.9, metric=metric)
    contest.take(xs, (2.0 * ys).tolist())
    results = Results(contest)
    if metric == "pinball":  # neither has intervals
        assert "cannot be compared" in results.verdict()
        return
    assert results.ranking() == ["near", "far"]
    assert results.verdict().startswith("near is better than far by ")
    assert METRICS[metric].unit in results.verdict()


def test_log_loss_contradicts_accuracy_where_a_class_is_rare():
    xs, ys = rare()
    contest = Contest({"mean": Scores("mean"), "own": Scores("own")}, "classification")
    contest.take(xs, ys)
    results = Results(contest)
    assert results.compare("own", "mean").leader is None
    log_loss, auc = ([results.metrics_of(n, m) for n in ("own", "mean")] for m in ("log_loss", "auc"))
    better = f"log loss ({log_loss[0]:.3g}, mean {log_loss[1]:.3g}) and AUC ({auc[0]:.3g}, mean {auc[1]:.3g})"
    assert results.verdict().startswith(f"No clear winner on accuracy; own has the better {better}: own is ")
    assert "own is better than mean by" in results.verdict()
    assert results.verdict().endswith('; metric="log_loss" ranks by it')
    assert Results(contest, choice="--metric {}").verdict().endswith("; --metric log_loss ranks by it")
    ahead = Contest({"own": Scores("own"), "mean": Scores("mean")}, "classification")  # tied, it is the first
    ahead.take(xs, ys)
    assert Results(ahead).verdict() == results.verdict()
    chosen = Contest({"mean": Scores("mean"), "own": Scores("own")}, "classification", metric="accuracy")
    chosen.take(xs, ys)
    assert "log loss" not in Results(chosen).verdict()


@pytest.mark.parametrize(
    ("task", "metric", "sentence"),
    [
        ("classification", "beauty", "metric 'beauty' is unknown; use accuracy, log_loss, .*, mae, rmse, r2"),
        ("classification", "mae", "metric 'mae' does not fit classification; use accuracy, .*, auc, cost$"),
        ("regression", "auc", "metric 'auc' does not fit regression; use mae, rmse, r2"),
        ("regression", "width", "metric 'width' is unknown"),
        ("regression", "pinball", "metric 'pinball' is of prediction intervals; set their level"),
    ],
)
def test_wrong_metrics_name_the_possible_ones(task, metric, sentence):
    with pytest.raises(ValueError, match=sentence):
        replay([({"own": 0.5}, 1)], {"it": Scores("own")}, task=task, metric=metric)
