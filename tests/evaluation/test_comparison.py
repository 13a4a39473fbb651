import re

import numpy as np
import pytest

from streamk.evaluation.bootstrap import BatchMeans
from streamk.evaluation.comparison import chance, compare

SEEDS = 200


def compared(values, **options):
    units = BatchMeans()
    units.add(values)
    return compare(units, "kernel", "ARF", **options)


def advantages(rng, gains, alike=0):
    """Return 1, 0 and −1: who of two is right on events, by ``gains`` more often the first."""
    both = rng.random((2, len(gains))) < 0.2
    if alike:  # the first does worse and the second better for a while, and the other way round
        moods = np.repeat(rng.normal(0.0, 0.1, len(gains) // alike + 1), alike)[: len(gains)]
        both = rng.random((2, len(gains))) < np.array([0.2 + moods, 0.2 - moods])
    return (rng.random(len(gains)) < gains) + both[0].astype(float) - both[1]


@pytest.mark.parametrize("alike", [0, 100])
def test_equal_contenders_are_a_tie(alike):
    rng = np.random.default_rng(21)
    found = [compared(advantages(rng, np.zeros(20_000), alike)) for _ in range(SEEDS)]
    ties = sum(each.leader is None for each in found)
    assert 0.9 * SEEDS <= ties < SEEDS
    assert {each.leader for each in found} == {None, "kernel", "ARF"}


def test_the_better_one_is_found_from_the_start():
    rng = np.random.default_rng(22)
    found = [compared(advantages(rng, np.full(20_000, 0.05))) for _ in range(50)]
    assert all(each.leader == "kernel" and each.bound == 0.001 for each in found)
    assert np.mean([each.ahead_since == 0 for each in found]) >= 0.9
    assert np.mean([each.advantage.low <= 0.05 <= each.advantage.high for each in found]) >= 0.8
    # 0.57 a standard deviation: z of 3.3 needs some 1,400 events, and no test is made of fewer than 2,048
    assert np.median([each.sure_since for each in found]) < 5_000


@pytest.mark.parametrize("begin", [5_000, 10_000, 14_000])
def test_since_when_the_better_one_is_better(begin):
    rng = np.random.default_rng(begin)
    gains = np.where(np.arange(20_000) < begin, 0.0, 0.15)
    found = [compared(advantages(rng, gains)) for _ in range(60)]
    assert all(each.leader == "kernel" for each in found)
    assert np.mean([abs(each.ahead_since - begin) <= 500 for each in found]) >= 0.9
    # over all events it is sure only after half as many again and more: the change is noise to that test
    assert all(each.sure_since > begin + 1_000 for each in found)
    assert np.median([each.sure_since for each in found]) < begin + 7_500


def test_a_late_lead_is_not_mistaken_as_noise():
    """A lead of 0.15 standard deviations in the second half of 2,000 events is found more often than not."""
    hits = 0
    for seed in range(60):
        gains = np.where(np.arange(2000) < 1000, 0.0, 0.3)
        found = compared(gains + 2.0 * np.random.default_rng(seed).normal(size=2000), measure="mae")
        hits += abs((found.ahead_since or 0) - 1000) < 200
    assert hits > 30


def test_who_was_behind_and_is_ahead():
    rng = np.random.default_rng(24)
    gains = np.where(np.arange(20_000) < 4_000, 0.0, 0.2)
    values = advantages(rng, gains)
    values[:4_000] -= rng.random(4_000) < 0.1
    found = compared(-values)
    assert found.leader == "ARF"
    assert abs(found.ahead_since - 4_000) <= 300
    assert found.sure_since > 5_000


def test_sure_since_equals_the_result_of_an_earlier_comparison():
    """Cut at every full unit, the stream gives the same leader and bound from there on, and not before."""
    rng = np.random.default_rng(25)
    values = advantages(rng, np.where(np.arange(20_000) < 6_000, 0.0, 0.08))
    whole = compared(values)
    units = BatchMeans()
    units.add(values)
    length, means = units.length, units.means()
    sure = [chance(means[:k]) < whole.bound and means[:k].mean() > 0.0 for k in range(16, len(means) + 1)]
    first = whole.sure_since // length - 16
    assert 0 < first < len(sure)
    assert all(sure[first:])
    assert not sure[first - 1]


def test_both_ways_round():
    values = advantages(np.random.default_rng(26), np.full(20_000, 0.03))
    one, other = compared(values), compared(-values)
    assert (one.leader, other.leader) == ("kernel", "ARF")
    assert (one.p, one.sure_since, one.ahead_since) == (other.p, other.sure_since, other.ahead_since)
    assert one.words().startswith("kernel is better than ARF by ")
    assert other.words().startswith("ARF is better than kernel by ")
    for found in (one, other):
        mean, low, high = map(float, re.findall(r"\d+\.\d+", found.words())[:3])
        assert 0.0 < low < mean < high


def test_p_is_uniform_where_there_is_no_difference():
    rng = np.random.default_rng(27)
    found = np.array([chance(rng.normal(size=150)) for _ in range(1000)])
    for bound in (0.05, 0.2, 0.5, 0.8):
        assert np.mean(found < bound) == pytest.approx(bound, abs=0.04)


def test_words():
    rng = np.random.default_rng(28)
    found = compared(advantages(rng, np.full(20_000, 0.012)))
    assert found.words() == (
        "kernel is better than ARF by 1.1 points of accuracy (95 % interval 0.4 to 1.8), "
        "sure (p < 0.01) since event 18,432"
    )
    doubtful = compared(advantages(np.random.default_rng(31), np.full(20_000, 0.008)))
    assert ", likely (p < 0.05) since event " in doubtful.words()
    assert compared(np.zeros(1000)).words() == (
        "kernel and ARF are too close to call: kernel is ahead by 0.000 points of accuracy "
        "(95 % interval 0.000 to 0.000, p = 1.00)"
    )
    assert compared(np.zeros(15)).words() == "kernel and ARF cannot be compared on 15 events"
    assert compared(np.full(400, -np.inf)).words() == "kernel and ARF cannot be compared on 400 events"
    late = compared(advantages(rng, np.where(np.arange(20_000) < 10_000, 0.0, 0.2)), measure="mae")
    assert late.words().endswith(f"ahead since about event {late.ahead_since:,}")
    assert " of MAE (95 % interval" in late.words()


def test_a_lead_that_grows_when_it_is_sure_has_not_begun_then():
    lead = np.where(np.arange(20_000) < 15_000, 0.1, 0.4)
    found = compared(advantages(np.random.default_rng(3), lead))
    assert found.sure_since < 15_000
    assert found.ahead_since == 0


def test_what_always_gains_the_same_is_sure():
    found = compared(np.full(1000, 0.25), measure="log_loss")
    assert (found.leader, found.p, found.ahead_since) == ("kernel", 0.0, 0)
    assert found.advantage[:3] == (0.25, 0.25, 0.25)


def test_an_unknown_measure():
    with pytest.raises(ValueError, match="metric 'beauty' is unknown; use accuracy, log_loss, "):
        compared(np.zeros(100), measure="beauty")
