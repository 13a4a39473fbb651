"""Random binning features: kernels, the choice of fields, categories, and pinned cells."""

import itertools

import numpy as np
import pytest
from numba import njit

from streamk.encoding.rows import CATEGORY
from streamk.features.columns.cells import importance_of, negative_logarithm
from streamk.features.columns.family import fill
from streamk.features.columns.plain import columns_of, index_of
from streamk.features.plans import BUDGETS, WITHOUT
from streamk.features.sections import Sections
from streamk.vector.cells import BITS
from tests.features.scratch import scratch_of

SCALES, BLOCKS = (2.0, 1.0, 0.5, 0.25), 2
KEYS = [11, 12, 13, 14, 15]


@njit
def fill_row(grids, sections, inputs, found, of, count, unit, phi):
    fill(grids, sections, scratch_of(inputs, found, of, count, unit), 0, False, phi)


GRID_FAMILY = [family.name for family in Sections(768, True).families].index("cells")


def grids_of(sections):
    """The grids that a handle refers to."""
    return sections.families[GRID_FAMILY].referred


def record(seed=1, sections=None, budget="small"):
    sections = sections or Sections(768, True, plan=BUDGETS[budget])
    sections.draw(seed)
    return sections.record


def cells(sections, event, unit=0.5):
    """The cells of an event of keys to numbers, or of slots of categories to keys of values."""
    phi = np.zeros((1, 8000), dtype=np.float32)
    found, of, numbers = [], [], []
    for key, value in event.items():
        category = key <= CATEGORY
        found.append(value if category else key)
        of.append(key if category else 0)
        numbers.append(1.0 if category else value * unit)
    inputs = np.array([[numbers]], dtype=np.float32)
    keys, slots, grids = np.array([found], np.uint64), np.array([of], np.int32), grids_of(sections)
    fill_row(sections.families[GRID_FAMILY], sections, inputs, keys, slots, len(event), unit, phi)
    first = grids.first
    found = phi[0, first : first + len(grids.sizes)]
    assert ((found >= 0) & (found < 1 << BITS) & (found % 1.0 == 0.0)).all()
    return found.astype(int)


def numbers(*values):
    return dict(zip(KEYS, values, strict=False))


@pytest.mark.parametrize("budget", BUDGETS)
def test_shared_cells_are_the_mean_of_laplacian_kernels(budget):
    one, other = np.array([0.3, -1.1, 0.8]), np.array([0.5, -1.0, 0.2])
    alone = np.exp(-abs(one - other)[None, :] / np.array(SCALES)[:, None])
    several = [
        np.mean([alone[:, list(c)].prod(axis=1) for c in itertools.combinations(range(3), min(size, 3))])
        for size in BUDGETS[budget].fields
    ]
    made = [record(seed, budget=budget) for seed in range(60)]
    shared = [(cells(r, numbers(*one)) == cells(r, numbers(*other))).mean() for r in made]
    assert np.mean(shared) == pytest.approx(np.mean(several), abs=0.01)


@pytest.mark.parametrize(("budget", "first", "whole"), [
    ("small", [2707718, 7328534, 14994845, 16586587, 4724012, 15788435], 256816581254),
    ("default", [2707718, 6667473, 14994845, 4340419, 16096978, 11538386], 970237675742),
    ("large", [2707718, 6667473, 14994845, 16094933, 16096978, 11538386], 15320696446728),
])  # fmt: skip
def test_cells_are_pinned(budget, first, whole):
    found = cells(record(7, budget=budget), {**numbers(0.25, -1.5), CATEGORY - 3: 99})
    assert found[:6].tolist() == first
    assert int(found @ np.arange(len(found))) == whole


def test_the_order_of_inputs_does_not_matter():
    event = {11: 0.5, 12: 2.0, CATEGORY - 4: 77, CATEGORY - 3: 55}
    expected = cells(record(), event)
    for order in itertools.permutations(event):
        assert (cells(record(), {key: event[key] for key in order}) == expected).all()


def test_a_new_field_changes_only_the_grids_that_it_enters():
    made = record()
    few, many = cells(made, numbers(0.1, 0.2, 0.3)), cells(made, numbers(0.1, 0.2, 0.3, 0.4))
    changed = np.mean(few != many)  # of one field in four, two in four (twice), three in four
    assert changed == pytest.approx(np.mean([0.25, 0.5, 0.5, 0.75]), abs=0.1)
    assert (cells(made, numbers(0.1, 0.2, 0.3)) == few).all()  # the choice for the last event is not kept


def test_as_many_other_fields_have_other_grids():
    made = record()
    found = [cells(made, {11: 0.5, 12: 0.5, last: 0.5}) for last in (13, 14, 13)]
    assert (found[0] != found[1]).mean() > 0.3
    assert (found[0] == found[2]).all()


def test_every_field_is_chosen_as_often_as_others():
    found = []
    for seed, changed in itertools.product(range(20), range(5)):
        made, event = record(seed), numbers(*[0.0] * 5)
        before = cells(made, event)
        found.append((changed, np.mean(cells(made, event | {KEYS[changed]: 100.0}) != before)))
    shares = [np.mean([share for k, share in found if k == changed]) for changed in range(5)]
    assert shares == pytest.approx([2.0 / 5] * 5, abs=0.03)


@pytest.mark.parametrize("budget", ["small", "default"])
def test_important_fields_are_in_more_grids(budget):
    plan = BUDGETS[budget]
    sections = Sections(768, True, plan=plan)
    sections.exchanges.tags = columns_of(KEYS, 512)
    sections.importance[0] = importance_of([1.0, 0.0, 0.0, 0.0, 0.0], 512)
    made = record(3, sections)
    assert (made.field_places == index_of(sections.exchanges.tags)).all()
    event = numbers(*[0.0] * 5)
    changed = cells(made, event | {KEYS[0]: 100.0}) != cells(made, event)
    block = np.arange(plan.grids) // (len(SCALES) * (1 if plan.by_size else len(plan.fields))) % BLOCKS
    assert changed[block == 0].mean() > 0.9
    assert changed[block == 1].mean() == pytest.approx(np.mean(plan.fields) / 5, abs=0.12)


def test_new_importance_takes_effect_with_the_same_fields():
    sections = Sections(768, True, plan=BUDGETS["small"])
    sections.exchanges.tags = columns_of(KEYS, 512)
    event = numbers(*[0.0] * 5)
    before = cells(record(3, sections), event)
    sections.importance[:] = importance_of([1.0, 0.0, 0.0, 0.0, 0.0], 512)
    assert (cells(sections.record, event) != before).mean() > 0.5


def test_categories_have_cells_of_their_own():
    made = record()
    one, other, again = (cells(made, {CATEGORY - 3: value}) for value in (5, 6, 5))
    assert (one == again).all()
    assert (one == other).mean() < 0.01


def test_an_event_without_fields_and_one_with_very_many():
    made = record()
    empty = cells(made, {})
    assert (cells(made, {}) == empty).all()
    many = {1000 + k: 0.1 * k for k in range(700)}
    assert (cells(made, many) == cells(made, dict(list(many.items())[:512]))).all()


def test_units_do_not_matter():
    one, other = (cells(record(), numbers(0.5, 2.0), unit) for unit in (0.5, 0.25))
    assert (one == other).all()


def test_without_grids_there_are_no_columns():
    sections, with_grids = Sections(768, True, plan=WITHOUT), Sections(768, True, plan=BUDGETS["small"])
    assert sections.columns_of("cells").start == sections.width == with_grids.width - 256
    assert len(grids_of(sections.record).keys) == 0


@pytest.mark.parametrize("budget", BUDGETS)
def test_grids_of_a_plan(budget):
    plan = BUDGETS[budget]
    starts, ends, fields, first, bits = plan.parts.T
    assert starts.tolist() == [0, *ends[:-1]]
    assert ends[-1] == len(plan.sizes) == plan.grids
    assert not ((ends - starts) % 8).any()  # a multiple of the lanes
    assert first.tolist() == [0, *np.cumsum(1 << bits)[:-1]]
    assert plan.cells == (1 << bits).sum()
    for start, end, most in zip(starts, ends, fields, strict=True):
        assert plan.sizes[start:end].max() == most


def test_ranked_numbers_fall_into_cells_by_rank():
    sections = Sections(768, True)
    sections.exchanges.tags = columns_of(KEYS, 512)
    made = record(3, sections)
    before = cells(made, numbers(0.5, 2.0))
    place = sections.exchanges.places[KEYS[0]]
    sections.ranks.knots[place] = 1.0 + np.linspace(0.0, 1.0, 64) ** 3
    event, rank = numbers(1.125, 2.0), 1.0 + 3.0**0.5 * (2.0 * 0.5 - 1.0)
    found = cells(made, event)
    sections.ranks.knots[:] = 0.0
    assert (found != cells(made, event)).any()
    assert (found == cells(made, numbers(rank, 2.0))).mean() > 0.98
    assert (cells(made, numbers(0.5, 2.0)) == before).all()


def test_negative_logarithm():
    words = [2**64 - 1, 2**63, 2**62, 3 * 2**61, 1, 0]
    assert [negative_logarithm(np.uint64(w)) for w in words] == [0.0, 1.0, 2.0, 1.5, 64.0, 64.0]
