import math

import numpy as np
import pytest

from streamk.evaluation import metric as metrics
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.metric import METRICS, Metric, decide, loss_and_error
from streamk.evaluation.numbers import NumberSums
from streamk.evaluation.tallies import ClassTally, NumberTally


def test_losses_of_single_events_add_up_to_the_log_loss_and_the_accuracy():
    rng = np.random.default_rng(2)
    given, targets = rng.dirichlet(np.ones(3), 200), rng.integers(0, 3, 200)
    given[:20] = np.eye(3)[rng.integers(0, 3, 20)]  # certain, right or wrong
    sums = ClassSums()
    sums.add(targets, given, np.full(200, -1))
    pairs = [loss_and_error(y, dict(enumerate(row))) for y, row in zip(targets.tolist(), given, strict=True)]
    losses, errors = np.array(pairs).T
    assert sums.values()["log_loss"] == pytest.approx(losses.mean())
    assert sums.values()["accuracy"] == pytest.approx(1.0 - errors.mean())


def test_a_class_without_probability_has_a_bounded_loss():
    assert loss_and_error("new", {"a": 1.0}) == (-math.log(1e-15), 1.0)
    assert decide({"a": 0.0, "b": 0.0}) is None


def test_tallies_of_training_are_the_sums_of_replay():
    rng = np.random.default_rng(3)
    targets, predictions = rng.normal(size=(2, 50))
    sums = NumberSums()
    sums.add(targets, predictions)
    found = NumberTally.of(targets.tolist(), predictions.tolist()).values()
    assert found == {name: pytest.approx(value, rel=1e-5) for name, value in sums.values().items()}
    assert ClassTally.of("aab", "abb").values() == {"accuracy": round(2 / 3, 6)}


def test_a_better_prediction_has_a_better_value():
    rng, values = np.random.default_rng(4), []
    classes, targets = rng.integers(0, 2, 400), rng.normal(size=400)
    for right in (0.9, 0.6):  # probability of the true class, and the share of the target that is predicted
        shown = np.where(rng.random(400) < right, classes, 1 - classes)
        of_classes, of_numbers = ClassSums(), NumberSums()
        costs = (shown != classes).astype(float)
        of_classes.add(
            classes, np.where(np.eye(2)[shown] > 0, right, 1.0 - right), np.zeros(400, dtype=int), costs
        )
        ends = right * targets - (1.0 - right), right * targets + (1.0 - right)
        of_numbers.add(targets, right * targets, *ends)
        values.append(of_classes.values() | of_numbers.values())
    for name, metric in METRICS.items():
        better, worse = (found[name] for found in values)
        if name == "calibration_error":  # both are calibrated
            better, worse = 0.0, 1.0
        assert metric.better == 0 or metric.better * (better - worse) > 0.0, name


def test_a_metric_is_added_in_one_place(monkeypatch):
    """Values, columns of curves, titles and directions follow from its entry."""
    from connectors.replay.page.words import better, metric_name, metric_order

    answered = Metric("answered", "share answered", 1, lambda sums: sums.answered / max(sums.events, 1))
    monkeypatch.setattr(ClassSums, "METRICS", (*metrics.CLASSES, answered))
    monkeypatch.setitem(METRICS, "answered", answered)
    sums = ClassSums()
    sums.add(np.array([0, 1]), np.array([[0.0, 0.0], [0.2, 0.8]]), np.array([-1, 0]))
    assert sums.columns()[-1] == "answered"
    assert sums.values()["answered"] == 0.5
    assert (metric_name("answered"), better("answered")) == ("share answered", 1)
    assert metric_order([sums.values()])[-1] == "answered"
