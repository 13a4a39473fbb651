"""Exchange tests: what they find of fields, what one test computes, and what the pool holds."""

import functools

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.rows import CATEGORY
from streamk.features.columns.plain import columns_of, in_use, tag_of
from streamk.features.exchange import (
    FIELDS,
    POOL,
    Exchanges,
    count_test,
    drawn,
    exchange_field,
    pool_event,
    rarity,
    use_of,
)
from streamk.features.sections import Sections
from tests.features.scratch import scratch_of

COLOUR = CATEGORY - 3
COLOUR_TAG = 2**64 + COLOUR


@njit
def put_into_pool(exchanges, inputs, found, slots, count, events, unit):
    pool_event(exchanges, scratch_of(inputs, found, slots, count, unit), 0, events)


@njit
def exchanged(exchanges, inputs, found, slots, count, j, events, unit, changed, keys, changed_slots):
    scratch = scratch_of(inputs, found, slots, count, unit[0])
    return exchange_field(
        exchanges, scratch, 0, j, events, unit, scratch_of(changed, keys, changed_slots, 0, 1.0)
    )


@njit
def counted(exchanges, slot, key, squares, products, errors, weight, moved):
    count_test(exchanges, tag_of(slot, np.uint64(key)), squares, products, errors, weight, moved)


@njit
def rarity_of(events):
    return rarity(events)


@njit
def draw(events, count):
    return drawn(events, count)


def test_use_is_the_posterior_mean_of_a_spike_and_a_uniform():
    squares, products, spread = 3.0, 0.6, 0.2
    ratio, error = 1.0 - 2.0 * products / squares, 2.0 * np.sqrt(spread) / squares
    rho = np.linspace(0.0, 1.0, 100_001)
    likelihood = np.exp(-0.5 * ((rho - ratio) / error) ** 2)
    expected = (rho * likelihood).mean() / (likelihood.mean() + likelihood[0])
    assert use_of(squares, products, spread) == pytest.approx(expected, rel=5e-3)


def test_use_without_knowledge_is_the_same_for_all_fields():
    assert (
        use_of(1e-9, 1e-9, 1.0)
        == pytest.approx(use_of(1.0, -0.2, 1e9), rel=1e-3)
        == pytest.approx(0.25, 0.02)
    )


def one_row(values, slots, keys, width=4, families=2):
    count = len(values)
    inputs = np.zeros((families, 1, width), dtype=np.float32)
    inputs[:, 0, :count] = np.array(values) * np.array([[0.5], [0.25]])
    found, of = np.zeros((1, width), dtype=np.uint64), np.zeros((1, width), dtype=np.int32)
    found[0, :count], of[0, :count] = keys, slots
    return inputs, found, of, count


UNIT = np.array([0.5, 0.25])


def exchange(sections, row, j, events=7):
    inputs, found, of, count = row
    changed, keys, slots = (
        np.full(inputs.shape, 9.0, np.float32),
        np.full(found.shape, 9, np.uint64),
        of.copy(),
    )
    to = exchanged(sections.exchanges.record, inputs, found, of, count, j, events, UNIT, changed, keys, slots)
    return to, changed[:, 0], keys[0].tolist(), slots[0].tolist()


def pooled(values, slots, keys):
    """Sections in whose pool all events are this one."""
    sections = Sections(768, True)
    inputs, found, of, count = one_row(values, slots, keys)
    for events in range(POOL):
        put_into_pool(sections.exchanges.record, inputs, found, of, count, events, UNIT[0])
    assert (sections.exchanges.pool_counts == len(values)).all()
    return sections


def test_a_number_takes_the_value_of_another_event():
    sections = pooled([1.5, 0.75], [0, 1], [11, 12])
    to, changed, keys, _ = exchange(sections, one_row([2.0, 1.0, 1.0], [0, 2, 1], [11, 13, 12]), 0)
    assert (to, keys) == (3, [11, 13, 12, 0])
    np.testing.assert_array_equal(changed, np.outer(UNIT, [1.5, 1.0, 1.0, 0.0]))


def test_a_category_changes_all_at_once():
    sections = pooled([1.0, 0.75], [COLOUR, 1], [70, 12])
    to, changed, keys, slots = exchange(sections, one_row([1.0, 1.0], [COLOUR, 1], [71, 12]), 0)
    assert (to, keys, slots[:2]) == (2, [70, 12, 0, 0], [COLOUR, 1])
    np.testing.assert_array_equal(changed, np.outer(UNIT, [1.0, 1.0, 0.0, 0.0]))


def test_a_field_that_the_other_event_lacks_becomes_absent():
    sections = pooled([0.75], [1], [12])
    to, changed, keys, slots = exchange(sections, one_row([1.0, 2.0], [COLOUR, 1], [71, 12]), 0)
    assert (to, keys, slots[0]) == (1, [12, 0, 0, 0], 1)
    np.testing.assert_array_equal(changed, np.outer(UNIT, [2.0, 0.0, 0.0, 0.0]))


def test_an_equal_value_and_an_empty_pool_are_no_tests():
    sections = pooled([1.5], [0], [11])
    assert exchange(sections, one_row([1.5], [0], [11]), 0)[0] == -1
    assert exchange(Sections(768, True), one_row([1.5], [0], [11]), 0)[0] == -1


def test_one_event_counts_a_bounded_amount():
    sections = Sections(768, True)
    counted(sections.exchanges.record, COLOUR, 71, 4.0, 1.0, 3.0, 2.0, True)
    counted(sections.exchanges.record, 0, 12, 1e12, 1e6, 1.0, 1.0, True)
    counted(sections.exchanges.record, 1, 13, 1.0, 1.0, 1.0, 1.0, False)
    assert in_use(sections.exchanges.tags) == [COLOUR_TAG, 12, 13]
    tests = sections.exchanges.tests
    np.testing.assert_allclose(tests[1], [2.0, 2.0 * 4.0 / 8, 2.0 * 1.0 / 8, 2.0 * 1.0 / 64])
    assert tests[2, 1] < 1.0
    assert not tests[3].any()
    assert sections.exchanges.use()[13] == (0.0, 0.0)


def test_fields_beyond_the_last_place_are_not_counted():
    sections = Sections(768, True)
    sections.exchanges.tags = columns_of(list(range(1, FIELDS)), FIELDS)
    counted(sections.exchanges.record, 0, 5000, 1.0, 0.0, 0.0, 1.0, True)
    assert len(in_use(sections.exchanges.tags)) == FIELDS - 1
    assert not sections.exchanges.tests.any()


def test_every_input_is_drawn_alike_and_few_inputs_are_drawn_rarely():
    for count, events, rare in ((3, range(4000), 1), (20, range(4096), 1), (9, range(65_536, 131_072), 32)):
        found = np.bincount([1 + draw(float(n), count) for n in events], minlength=1 + count)
        share = len(events) / max(count, 8) / rare
        assert (abs(found[1:] - share) < 5 * np.sqrt(share)).all()


def test_as_many_events_are_examined_between_any_two_openings():
    found = [rarity_of(float(n)) for n in (0, 4_095, 4_096, 8_191, 8_192, 1_000_000)]
    assert found == [1, 1, 2, 2, 4, 256]


def test_the_pool_is_replaced_slowly_and_at_random():
    sections = Sections(768, True)
    for events in range(4000):
        inputs, found, of, count = one_row([float(events)], [0], [11])
        put_into_pool(sections.exchanges.record, inputs, found, of, count, events, UNIT[0])
    ages = 4000 - sections.exchanges.pool_values[:, 0]
    assert 500 < ages.mean() < 1600  # 1,024 in the long run
    assert len(set(ages.tolist())) == POOL


def test_merging_adds_tests_by_tag_and_mixes_pools():
    one, other, merged = (Exchanges() for _ in range(3))
    one.tags, other.tags = columns_of([5, 6], FIELDS), columns_of([6, 7], FIELDS)
    one.tests[1:3], other.tests[1:3] = [[1.0] * 4, [2.0] * 4], [[4.0] * 4, [8.0] * 4]
    one.pool_counts[:], other.pool_counts[:] = 1, 2
    merged.merge_from([one, other])
    assert in_use(merged.tags) == [5, 6, 7]
    assert merged.tests[1:4, 0].tolist() == [1.0, 6.0, 8.0]
    assert merged.pool_counts.tolist() == [1, 2] * (POOL // 2)


NOISE = {
    "constant": lambda rng, n: {"extra": ["same"] * n},
    "constant number": lambda rng, n: {"extra": [3.5] * n},
    "booleans": lambda rng, n: {f"extra{k}": (rng.random(n) < 0.5).tolist() for k in range(2)},
    "row number": lambda rng, n: {"extra": [float(i) for i in range(n)]},
    "unique string": lambda rng, n: {"extra": [f"id {i}" for i in rng.permutation(n)]},
    "normal": lambda rng, n: {"extra": rng.normal(size=n).tolist()},
}


@functools.cache
def without_noise(classifies, n=5000):
    """A stream of three inputs: targets, events, and the error of a learner without other columns."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(n, 3))
    y = np.sin(2.0 * z[:, 0]) + 0.6 * z[:, 1] * z[:, 2] + 0.1 * rng.normal(size=n)
    xs = [dict(zip("abc", row, strict=True)) for row in z.tolist()]
    return y, xs, error_on(xs, y, classifies)[0]


def error_on(xs, y, classifies, **parameters):
    """The error of a learner on the second half of a stream, and the learner."""
    half = len(xs) // 2
    targets = (y > 0.0).tolist() if classifies else y
    cls = streamk.KernelClassifier if classifies else streamk.KernelRegressor
    learner = cls(features=768, seed=3, **parameters)
    found = np.array(learner.predict_learn_many(xs, targets))[half:]
    wrong = found != np.array(targets)[half:] if classifies else (found - y[half:]) ** 2 / y.var()
    return wrong.mean(), learner


@pytest.mark.parametrize("classifies", [True, False])
@pytest.mark.parametrize("kind", NOISE)
def test_a_column_that_says_nothing_costs_next_to_nothing(kind, classifies):
    """Against the same stream without it, and with relevance that is not learned."""
    y, plain, alone = without_noise(classifies)
    columns = NOISE[kind](np.random.default_rng(6), len(plain))
    noisy = [x | {name: column[i] for name, column in columns.items()} for i, x in enumerate(plain)]
    found, learner = error_on(noisy, y, classifies)
    fixed, _ = error_on(noisy, y, classifies, relevance=False)
    assert found < alone + 0.03
    assert found < fixed + 0.01
    relevance = learner.summary()["relevance"]
    if "constant" in kind:
        assert [r for name, r in relevance.items() if name.startswith("extra")] == [[0.0, 0.0]]
    most = max((max(r) for name, r in relevance.items() if name.startswith("extra")), default=0.0)
    assert most < 0.7 * max(relevance["a"])
