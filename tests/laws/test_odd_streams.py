"""No odd stream makes a state that is not finite, or a model that cannot be saved, read and copied."""

import warnings

import numpy as np
import pytest

import streamk

from .odd_streams import odd_stream
from .written import check_written

OTHERS = (
    (streamk.KaczmarzRegressor, {"features": 64, "average": True}),
    (streamk.KaczmarzClassifier, {"features": 64, "loss": "margin"}),
    (streamk.SubspacePursuitRegressor, {"features": 128, "rank": 16}),
    (streamk.MatchingPursuitRegressor, {"features": 64, "period": 40, "max_features": 128}),
    (streamk.KaczmarzPursuitClassifier, {"features": 64, "period": 30, "block_size": 7}),
    (streamk.DoublyStochasticRegressor, {"features": 4, "growth": "fixed", "batch_size": 9}),
)
LENGTHS = (400, 900, 1500, 4500)  # events at most: blocks of features, replacements and growth come in turn


def learners(seed):
    """The default learner for numbers or for classes, and every few streams another class of learner."""
    cls = streamk.KernelRegressor if seed % 2 else streamk.KernelClassifier
    yield cls(features=768, seed=seed)
    if seed % 4 == 0:
        cls, parameters = OTHERS[seed // 4 % len(OTHERS)]
        yield cls(**parameters, seed=seed)


def check_stream(seed, most):
    for learner in learners(seed):
        classifies = hasattr(learner, "labels")
        events, targets, weights = odd_stream(seed, classifies, most)
        predict = learner.predict_proba_many if classifies else learner.predict_many
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            third = len(events) // 3
            for part in (slice(third), slice(third, 2 * third), slice(2 * third, None)):
                learner.learn_many(events[part], targets[part], None if weights is None else weights[part])
                found = predict(events[:5])
                assert np.isfinite([list(p.values()) if classifies else p for p in found]).all()
            learner.flush()
            check_written(learner)
            for copy in (learner.frozen(), learner.closed()):
                check_written(copy)


def check_streams(seeds, most):
    for seed in seeds:
        try:
            check_stream(seed, most)
        except Exception as error:
            raise AssertionError(f"odd stream {seed} of up to {most} events: {error!r}") from error


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, 10))])
def test_a_thousand_odd_streams(part):
    check_streams(range(100 * part, 100 * (part + 1)), most=200)


@pytest.mark.long
@pytest.mark.parametrize("part", range(100))
def test_ten_thousand_odd_streams(part):
    most = LENGTHS[part % len(LENGTHS)]
    check_streams(range(100_000 + 100 * part, 100_000 + 100 * (part + 1)), most)


def test_blocks_of_rows_that_are_almost_the_same_keep_coefficients_bounded():
    """With weights 1 and 1e9 in turn, the rounding of their products is larger than the ridge."""
    check_streams([104368], most=4500)


@pytest.mark.parametrize("name", ["KernelRegressor", "KernelClassifier"])
def test_merges_of_odd_streams_can_be_read(name):
    for seed in range(12):
        parts = [getattr(streamk, name)(features=768, seed=seed) for _ in range(2)]
        classifies = name == "KernelClassifier"
        for k, learner in enumerate(parts):
            events, targets, weights = odd_stream(1000 + 2 * seed + k, classifies, 400)
            learner.learn_many(events, targets, weights)
        check_written(streamk.merge(parts))


def rare_flag(n):
    """58 numbers of noise, and a flag in one event of 300 that alone decides the target."""
    rng = np.random.default_rng(0)
    z, flag = rng.normal(size=(n, 58)), rng.random(n) < 1.0 / 300.0
    events = [
        {f"x{j}": value for j, value in enumerate(row)} | ({"r": "r"} if f else {})
        for row, f in zip(z.tolist(), flag, strict=True)
    ]
    return events, (7.0 * flag + rng.normal(size=n) / 3.0).tolist()


def test_a_rare_flag_of_great_relevance_can_be_read():
    learner = streamk.KernelRegressor(seed=5)
    events, targets = rare_flag(8400)
    learner.learn_many(events, targets)
    assert abs(learner._map.sections.transforms).max() > 60.0  # the bound is reached
    for each in (learner, learner.frozen(), learner.closed()):
        check_written(each)


def test_weights_of_1_and_1e9_in_turn_leave_predictions_finite():
    learner, rng = streamk.KernelRegressor(seed=5), np.random.default_rng(0)
    for i in range(2000):
        learner.learn_one({"c": "a"}, rng.normal(), w=1.0 if i % 2 else 1e9)
        assert abs(learner.predict_one({"c": "a"})) < 5.0
    check_written(learner)


def test_labels_that_wait_for_their_block_have_probability_0():
    learner = streamk.KaczmarzPursuitClassifier(features=64, block_size=7, seed=1)
    learner.learn_many([{"a": float(i)} for i in range(14)], [i % 2 for i in range(14)])
    learner.learn_many([{"a": 1.0}], [5])
    for found in learner.predict_proba_many([{"a": 1.0}, {"a": 3.0}]):
        assert found[5] == 0.0
        assert sum(found.values()) == pytest.approx(1.0)
