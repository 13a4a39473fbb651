"""Random binning features: kernels, the choice of fields, categories, and pinned cells."""

import itertools

import numpy as np
import pytest
from numba import njit

from streamk.encoding.rows import CATEGORY
from streamk.features.columns.cells import GRIDS, importance_of, negative_logarithm
from streamk.features.columns.family import fill
from streamk.features.columns.plain import columns_of, index_of
from streamk.features.sections import Sections
from streamk.vector.cells import CELLS
from tests.features.scratch import scratch_of

SCALES, SIZES, BLOCKS = (2.0, 1.0, 0.5, 0.25), (1, 2, 2, 3), 2
KEYS = [11, 12, 13, 14, 15]


@njit
def fill_row(grids, sections, inputs, found, of, count, unit, phi):
    fill(grids, sections, scratch_of(inputs, found, of, count, unit), 0, False, phi)


GRID_FAMILY = [family.name for family in Sections(768, True).families].index("cells")


def grids_of(sections):
    """The grids that a handle refers to."""
    return sections.families[GRID_FAMILY].referred


def record(seed=1, sections=None):
    sections = sections or Sections(768, True)
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
    found = phi[0, first : first + GRIDS]
    assert ((found >= 0) & (found < CELLS) & (found % 1.0 == 0.0)).all()
    return found.astype(int)


def numbers(*values):
    return dict(zip(KEYS, values, strict=False))


def test_shared_cells_are_the_mean_of_laplacian_kernels():
    one, other = np.array([0.3, -1.1, 0.8]), np.array([0.5, -1.0, 0.2])
    alone = np.exp(-abs(one - other)[None, :] / np.array(SCALES)[:, None])
    several = [
        np.mean([alone[:, list(chosen)].prod(axis=1) for chosen in itertools.combinations(range(3), size)])
        for size in SIZES
    ]
    shared = [(cells(r, numbers(*one)) == cells(r, numbers(*other))).mean() for r in map(record, range(60))]
    assert np.mean(shared) == pytest.approx(np.mean(several), abs=0.01)


def test_cells_are_pinned():
    found = cells(record(7), {**numbers(0.25, -1.5), CATEGORY - 3: 99})
    assert found[:12].tolist() == PINNED
    assert int(found @ np.arange(GRIDS)) == PINNED_SUM


PINNED = [1322, 3578, 7321, 8098, 2306, 7709, 7476, 4067, 3791, 8100, 7336, 5240]
PINNED_SUM = 125382442


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
    assert shares == pytest.approx([np.mean(SIZES) / 5] * 5, abs=0.03)


def test_important_fields_are_in_more_grids():
    sections = Sections(768, True)
    sections.exchanges.tags = columns_of(KEYS, 512)
    sections.importance[0] = importance_of([1.0, 0.0, 0.0, 0.0, 0.0], 512)
    made = record(3, sections)
    assert (made.field_places == index_of(sections.exchanges.tags)).all()
    event = numbers(*[0.0] * 5)
    changed = cells(made, event | {KEYS[0]: 100.0}) != cells(made, event)
    block = np.arange(GRIDS) // (len(SIZES) * len(SCALES)) % BLOCKS
    assert changed[block == 0].mean() > 0.9
    assert changed[block == 1].mean() == pytest.approx(np.mean(SIZES) / 5, abs=0.12)


def test_new_importance_takes_effect_with_the_same_fields():
    sections = Sections(768, True)
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


def test_without_binning_there_are_no_columns():
    sections = Sections(768, True, binning=False)
    assert sections.columns_of("cells").start == sections.width == Sections(768, True).width - GRIDS
    assert len(grids_of(sections.record).keys) == 0


def test_negative_logarithm():
    words = [2**64 - 1, 2**63, 2**62, 3 * 2**61, 1, 0]
    assert [negative_logarithm(np.uint64(w)) for w in words] == [0.0, 1.0, 2.0, 1.5, 64.0, 64.0]
