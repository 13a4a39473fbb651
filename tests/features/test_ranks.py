"""Ranks among the distinct values of a number."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.features.ranks import KNOTS, rank_of


@njit
def ranks_of(knots, place, numbers):
    return np.array([rank_of(knots, place, number) for number in numbers])


def learner(values, seed=1, **parameters):
    made = streamk.KernelRegressor(features=768, seed=seed, **parameters)
    made.learn_many([{"a": float(v)} for v in values], [float(v > 0.0) for v in values])
    return made


def ranks(made):
    return made._map.sections.ranks


def knots(made, tag=None):
    sections = made._map.sections
    place = sections.exchanges.places[tag or next(iter(sections.exchanges.places))]
    return sections.ranks.knots[place]


def test_ranks_lie_between_knots():
    made = np.zeros((3, 5), dtype=np.float32)
    made[1] = 0.0, 0.5, 0.5, 2.0, 3.0
    numbers = np.array([-9.0, 0.0, 0.25, 0.5, 1.25, 3.0, 4.0])
    expected = 1.0 + 3.0**0.5 * (2.0 * np.array([0.0, 0.0, 0.125, 0.5, 0.625, 1.0, 1.0]) - 1.0)
    np.testing.assert_allclose(ranks_of(made, 1, numbers), expected)
    assert (ranks_of(made, 2, numbers) == numbers).all()  # without knots


def test_knots_are_quantiles_of_distinct_values():
    values = np.random.default_rng(2).lognormal(size=1024).round(2)
    made = learner(values)
    statistics = made._codec.inputs.statistics[0]
    distinct = np.unique(
        np.clip((values - statistics[1]) / np.sqrt(statistics[2] / statistics[0]), -4.0, 4.0)
    )
    expected = 1.0 + np.quantile(distinct, np.linspace(0.0, 1.0, KNOTS))
    np.testing.assert_allclose(knots(made), expected, atol=1e-5)


def test_knots_move_with_every_doubling():
    values = np.random.default_rng(3).normal(size=2048)
    made = streamk.KernelRegressor(features=768, seed=1)
    seen = []
    for n, value in enumerate(values, 1):
        made.learn_one({"a": value}, value)
        if not seen or (ranks(made).knots != seen[-1][1]).any():
            seen.append((n, ranks(made).knots.copy()))
    assert [n for n, _ in seen[1:]] == [128, 256, 512, 1024, 2048]
    last, statistics = values[-1024:], made._codec.inputs.statistics[0]
    standard = (last - statistics[1]) / np.sqrt(statistics[2] / statistics[0])
    expected = 1.0 + np.quantile(np.unique(np.clip(standard, -4.0, 4.0)), np.linspace(0.0, 1.0, KNOTS))
    before = seen[-2][1][seen[-2][1].any(axis=1)][0]
    np.testing.assert_allclose(knots(made), (before + expected) / 2.0, atol=1e-5)


def test_other_values_of_a_number_that_is_mostly_zero_differ_in_rank():
    rng = np.random.default_rng(4)
    made = learner(np.where(rng.random(1024) < 0.9, 0.0, rng.random(1024)))
    assert (knots(made) == knots(made)[0]).sum() == 1


def test_batches_give_the_same_knots_as_single_events_and_are_saved():
    values = np.random.default_rng(5).normal(size=700)
    whole, one = learner(values), streamk.KernelRegressor(features=768, seed=1)
    for n, value in enumerate(values):
        one.learn_one({"a": float(value)}, float(value > 0.0))
        if n == 511:
            one = streamk.loads(one.to_bytes())
    assert (ranks(one).knots == ranks(whole).knots).all()
    assert (ranks(whole.frozen()).knots == ranks(whole).knots).all()


def test_merged_knots_are_the_mean():
    one, other = (learner(np.random.default_rng(k).normal(size=1024) * k) for k in (1, 2))
    merged = streamk.merge([one, other])
    np.testing.assert_allclose(knots(merged), (knots(one) + knots(other)) / 2.0, atol=1e-6)


@pytest.mark.parametrize("parameters", [{"budget": "small"}, {"relevance": False}, {"binning": False}])
def test_learners_without_ranks(parameters):
    assert not ranks(learner(np.random.default_rng(6).normal(size=300), **parameters)).knots.any()


def test_impossible_knots_are_refused():
    made = learner(np.random.default_rng(7).normal(size=200))
    arrays = {"map.knots": made._map.sections.state_dict()["map.knots"]}
    assert arrays["map.knots"].shape == (2, KNOTS)
    for wrong in (arrays["map.knots"][:, ::-1], arrays["map.knots"] + 9.0, arrays["map.knots"] * np.nan):
        with pytest.raises(ValueError, match="its knots are impossible"):
            ranks(made).load_state_dict({"map.knots": np.ascontiguousarray(wrong)})
