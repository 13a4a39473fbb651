"""The watch over an expert's error, against adaptive windowing that keeps every value."""

import math

import numpy as np
import pytest
from numba import njit

from streamk.experts import change
from streamk.experts.change import (
    BLOCK,
    COUNT,
    KNOWN,
    LEVELS,
    MOST,
    RISES,
    SHARPLY,
    SQUARES,
    SUM,
    empty_watch,
)
from streamk.losses import CODES


@njit
def take_all(watch, errors):
    """Feed errors; return the part to keep after each."""
    parts = np.empty(len(errors))
    for i in range(len(errors)):
        parts[i] = change.part_to_keep(watch, errors[i])
    return parts


@njit
def error(loss, residual, aim):
    return change.error_of(loss, residual, aim)


@njit
def last_level(watch, sums):
    """Feed blocks of these sums, without a look at changes."""
    for i in range(len(sums)):
        change._add_block(watch, sums[i], sums[i])


class Reference:
    """Adaptive windowing in plain Python: a window of all values, in buckets that are lists of them."""

    def __init__(self):
        self.block, self.buckets, self.known, self.rises, self.sharply = [], [], 0, 0, False

    def take(self, value):
        self.block.append(value)
        self.known += 1
        if len(self.block) < BLOCK:
            return 1.0
        self.buckets.append(self.block)
        self.block = []
        size = BLOCK
        while len(alike := [k for k, b in enumerate(self.buckets) if len(b) == size]) > MOST:
            first = alike[0]
            self.buckets[first : first + 2] = [self.buckets[first] + self.buckets[first + 1]]
            size *= 2
        window = np.concatenate(self.buckets)
        variance, found = window.var(), []
        for cut in range(1, len(self.buckets)):
            older, newer = (np.concatenate(part) for part in (self.buckets[:cut], self.buckets[cut:]))
            inverse = 1 / len(older) + 1 / len(newer)
            allowed = math.sqrt(2 * variance * math.log(1e6) * inverse) + 2 / 3 * math.log(1e6) * inverse
            found.append(((newer.mean() - older.mean()) / allowed, cut))
        differ, cut = max(found, key=lambda pair: abs(pair[0]), default=(0.0, 0))
        if abs(differ) <= 1.0:
            return 1.0
        older, newer = (np.concatenate(part).mean() for part in (self.buckets[:cut], self.buckets[cut:]))
        self.buckets = self.buckets[cut:]
        if differ < 0.0:
            return 1.0
        self.sharply = newer >= 2.0 * older
        part, self.known, self.rises = BLOCK / self.known, BLOCK, self.rises + 1
        return part

    def watch(self):
        """The same as an array, as the module says."""
        made = empty_watch()
        made[0, [COUNT, SUM, SQUARES]] = self.sums(self.block)
        made[0, [KNOWN, RISES, SHARPLY]] = self.known, self.rises, self.sharply
        for row in range(1, LEVELS + 1):
            own = [b for b in self.buckets if len(b) == BLOCK << (row - 1)]
            made[row, 0] = len(own)
            for j, bucket in enumerate(own):
                made[row, 1 + 2 * j : 3 + 2 * j] = self.sums(bucket)[1:]
        return made

    def sums(self, values):
        """Halves of a bucket were summed by themselves, and a block in the order of its events."""
        if len(values) > BLOCK:
            middle = len(values) // 2
            _, *older = self.sums(values[:middle])
            _, *newer = self.sums(values[middle:])
            return len(values), older[0] + newer[0], older[1] + newer[1]
        total = squares = 0.0
        for value in values:
            total, squares = total + value, squares + value * value
        return len(values), total, squares


def shifts(seed, n=6000):
    """Errors whose mean and spread change now and then, up and down."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < n:
        a, b = rng.uniform(0.5, 5.0, 2)
        found += rng.beta(a, b, int(rng.integers(50, 1500))).tolist()
    return np.array(found[:n])


@pytest.mark.parametrize("seed", range(6))
def test_it_is_adaptive_windowing_to_the_bit(seed):
    errors, reference, watch = shifts(seed), Reference(), empty_watch()
    for start in range(0, len(errors), 100):
        piece = errors[start : start + 100]
        expected = [reference.take(value) for value in piece.tolist()]
        assert take_all(watch, piece).tolist() == expected
        np.testing.assert_array_equal(watch, reference.watch())
    assert reference.rises > 0


@pytest.mark.parametrize(("after", "sharply"), [(0.35, 0.0), (0.5, 1.0)])
def test_a_sharp_rise_at_least_doubles_errors(after, sharply):
    watch = empty_watch()
    take_all(watch, np.repeat([0.2, after], 640))
    assert watch[0, [RISES, SHARPLY]].tolist() == [1.0, sharply]
    assert change.is_possible(watch)
    take_all(watch, np.full(640, min(1.3 * after, 1.0)))
    assert watch[0, [RISES, SHARPLY]].tolist() == [2.0, 0.0]  # the last rise counts


def test_the_last_level_drops_its_oldest():
    """Without it, a window could never be longer than the array; blocks are numbered to be told apart."""
    watch = empty_watch()
    watch[1:, 0] = MOST
    watch[1:, 1::2] = np.arange(LEVELS * MOST).reshape(LEVELS, MOST)
    before = watch.copy()
    last_level(watch, np.array([1000.0]))
    assert watch[LEVELS, 0] == MOST
    np.testing.assert_array_equal(watch[LEVELS, 1 : 2 * MOST - 2 : 2], before[LEVELS, 3 : 2 * MOST : 2])
    assert watch[LEVELS, 2 * MOST - 1] == before[LEVELS - 1, 1] + before[LEVELS - 1, 3]
    assert watch[1, 0] == MOST - 1
    assert watch[1, 1 : 2 * MOST - 1 : 2].tolist() == [2.0, 3.0, 4.0, 1000.0]
    assert watch[1, 2 * MOST - 1] == 0.0


STATIONARY = {
    "bits": lambda rng, n: (rng.random(n) < 0.1).astype(float),
    "rare bits": lambda rng, n: (rng.random(n) < 0.001).astype(float),
    "uniform": lambda rng, n: rng.random(n),
    "small": lambda rng, n: rng.random(n) * 1e-3,
    "distances": lambda rng, n: np.minimum(abs(rng.normal(0.0, 0.5, n)), 1.0),
    "heavy tails": lambda rng, n: np.minimum(abs(rng.standard_cauchy(n)) * 0.01, 1.0),
    "constant": lambda rng, n: np.full(n, 0.3),
    "nothing": lambda rng, n: np.zeros(n),
}


@pytest.mark.parametrize("shape", STATIONARY)
def test_without_a_change_it_is_silent(shape):
    """A million events of each shape."""
    for seed in range(10):
        watch = empty_watch()
        parts = take_all(watch, STATIONARY[shape](np.random.default_rng(seed), 100_000))
        assert (parts == 1.0).all()
        assert watch[0, RISES] == 0.0
        assert watch[0, KNOWN] == 100_000


def test_errors_that_fall_are_no_change():
    rng = np.random.default_rng(0)
    errors = rng.random(50_000) / np.sqrt(1.0 + np.arange(50_000) / 100.0)
    watch = empty_watch()
    assert (take_all(watch, errors) == 1.0).all()
    assert watch[0, KNOWN] == 50_000
    window = (watch[1:, 0] * BLOCK * 2.0 ** np.arange(LEVELS)).sum()
    assert window < 40_000  # the beginning, when it knew little, would hide a rise


@pytest.mark.parametrize(("before", "after", "soon"), [(0.1, 0.5, 96), (0.1, 0.2, 480), (0.01, 0.1, 320)])
def test_a_rise_is_seen_soon_and_reported_few_times(before, after, soon):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        bits = rng.random(20_000) < np.where(np.arange(20_000) < 10_000, before, after)
        watch = empty_watch()
        parts = take_all(watch, bits.astype(float))
        seen = np.flatnonzero(parts < 1.0)
        assert 1 <= len(seen) <= 3
        assert 10_000 <= seen[0] < 10_000 + 2 * soon
        assert parts[seen[0]] == BLOCK / (seen[0] + 1)
        assert watch[0, RISES] == len(seen)
        assert watch[0, KNOWN] == BLOCK + 20_000 - (seen[-1] + 1)


def test_one_absurd_error_is_no_change():
    errors = np.zeros(10_000)
    errors[[5000, 7000, 7001]] = 1.0
    assert (take_all(empty_watch(), errors) == 1.0).all()


@pytest.mark.parametrize(
    ("loss", "residual", "aim", "expected"),
    [
        (CODES["class", "squared"], [0.1, 0.25], 1.0, 0.25),
        (CODES["class", "squared"], [0.1, -0.25], 1.0, 0.0),
        (CODES["class", "logistic"], [0.1, 0.25], 0.0, 0.1),
        (CODES["class", "squared"], [7.0, 0.0], 0.0, 1.0),
        (CODES["number", "squared"], [0.25], -2.0, 0.25),
        (CODES["number", "squared"], [-0.25], 2.0, 0.25),
        (CODES["number", "squared"], [-5.0], 2.0, 1.0),
    ],
)
def test_an_error_is_what_an_output_lacks(loss, residual, aim, expected):
    assert error(loss, np.array(residual), aim) == expected


def test_it_is_saved_and_restored():
    watch, again = empty_watch(), np.ones_like(empty_watch())
    assert change.WATCH.stored(watch) == {}
    change.WATCH.load({}, again)
    np.testing.assert_array_equal(again, watch)
    take_all(watch, shifts(0, 3007))
    change.WATCH.load(change.WATCH.stored(watch), again)
    np.testing.assert_array_equal(again, watch)
    again[0, COUNT] = 0.0
    assert watch[0, COUNT] != 0.0


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (0, COUNT, float(BLOCK)), (0, COUNT, 0.5), (0, SUM, -0.1), (0, SUM, 32.5), (0, SQUARES, 31.5),
        (0, KNOWN, np.nan), (0, KNOWN, np.inf), (0, RISES, 0.5), (0, RISES, -1.0), (0, RISES + 1, 1.0),
        (1, 0, MOST + 1.0), (1, 0, 1.5), (1, 0, 0.0), (1, 1, 32.5), (1, 2, 31.5), (2, 1, 64.5), (9, 3, 1.0),
        (LEVELS, 0, 1.0),
    ],
)  # fmt: skip
def test_an_impossible_one_is_refused(row, column, value):
    watch = empty_watch()
    take_all(watch, np.full(3007, 0.5))
    watch[row, column] = value
    with pytest.raises(ValueError, match="errors are impossible"):
        change.WATCH.load({"watch": watch}, empty_watch())


def test_a_merge_adds_what_is_known_and_begins_a_window():
    one, two, merged = (empty_watch() for _ in range(3))
    take_all(one, shifts(0, 3000))
    take_all(two, shifts(1, 1000))
    change.merge_from(merged, one, 1.0)
    change.merge_from(merged, two, 0.5)
    assert merged[0, KNOWN] == one[0, KNOWN] + 0.5 * two[0, KNOWN]
    assert merged[0, RISES] == one[0, RISES] + two[0, RISES] > 0
    assert not merged[1:].any()
    assert not merged[0, :KNOWN].any()


def test_next_to_no_information_is_no_reason_to_keep_more():
    """After a merge with tiny weights, less than a block may be known."""
    watch = empty_watch()
    take_all(watch, np.zeros(3200))
    watch[0, KNOWN] = 1.0
    parts = take_all(watch, np.ones(64))
    assert watch[0, RISES] > 0
    assert parts.max() <= 1.0
