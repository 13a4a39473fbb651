"""Learned relevance: what it finds, and that features follow it."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.codec import Unit
from streamk.encoding.rows import CATEGORY
from streamk.features.columns.plain import columns_of
from streamk.features.cross_moments import MOST
from streamk.features.exchange import FIELDS, Exchanges
from streamk.features.relevance import LARGEST_FACTOR, transform_of, transform_row
from streamk.features.sections import DIAGONAL, IDENTITY, WHOLE, Sections
from tests.features.scratch import scratch_of


@njit
def transform(sections, inputs, found, slots, count):
    transform_row(sections, scratch_of(inputs, found, slots, count, 1.0), 0)


ONES = np.ones(4)
NONE = np.zeros(0)


def transform_alike(found, whole):
    """The transform of inputs of variance 1 and use 1, all of them columns and always there."""
    ones = np.ones(len(found))
    return transform_of(found, NONE, (ones, NONE), (ones, NONE), float(len(found)), whole)[0]


def test_the_matrix_is_the_root_of_the_sharpened_outer_product():
    gradients = np.random.default_rng(0).normal(size=(50, 4)) @ np.diag([3.0, 1.0, 0.1, 0.0])
    m = gradients.T @ gradients
    sharp = np.diag(np.sqrt(np.diag(m))) @ m @ np.diag(np.sqrt(np.diag(m)))
    expected = 0.98 * 4 * sharp / np.trace(sharp) + 0.02 * np.eye(4)
    whole = transform_alike(m, True)
    np.testing.assert_allclose(whole[1:5, 1:5] @ whole[1:5, 1:5], expected, atol=1e-5)
    np.testing.assert_allclose(whole, whole.T, atol=1e-6)
    diagonal = transform_alike(m, False)
    np.testing.assert_allclose(diagonal[1:5, 1:5], np.diag(np.sqrt(np.diag(expected))), atol=1e-6)
    for found in (whole, diagonal):
        np.testing.assert_allclose((found[1:5, 1:5] ** 2).sum(), 4.0, rtol=1e-5)  # mean square 1
        rest = np.r_[0, 5:MOST]
        np.testing.assert_array_equal(found[np.ix_(rest, rest)], np.eye(len(rest)))


def test_distances_keep_their_size_whatever_the_variances():
    """``Σ var T²`` over columns and the rest of fields is how many fields an event has."""
    m, fields = np.diag([1.0, 0.5, 0.2]), np.array([0.3, 0.6])
    variances, rest = np.array([1.0, 0.25, 0.1]), np.array([0.9, 1.0])
    transform, factors = transform_of(m, fields, (ONES[:3], ONES[:2]), (variances, rest), 5.0, False)
    floor = 0.02 * (variances.sum() + rest.sum())
    size = variances @ (transform.diagonal()[1:4] ** 2) + rest @ factors[1:3] ** 2
    np.testing.assert_allclose(size, 0.98 * 5.0 + floor, rtol=1e-5)
    np.testing.assert_array_equal(factors[3:], 1.0)


@pytest.mark.parametrize("whole", [True, False])
def test_an_input_of_no_use_has_no_relevance_at_all(whole):
    m = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]])
    uses = np.array([1.0, 0.5, 0.0]), np.array([0.0])
    transform, factors = transform_of(m, np.zeros(1), uses, (np.ones(3), np.ones(1)), 4.0, whole)
    assert not transform[3].any()
    assert not transform[:, 3].any()
    assert factors[1] == 0.0
    np.testing.assert_allclose(
        (transform @ transform.T)[2, 2] if whole else transform[2, 2] ** 2,
        0.98 * 4.0 * 0.5 / 2.5 + 0.02 * 0.5, rtol=1e-5,
    )  # fmt: skip


def test_nothing_found_changes_nothing():
    for columns in (0, 4, MOST - 1):
        np.testing.assert_array_equal(transform_alike(np.zeros((columns, columns)), True), np.eye(MOST))


def test_inputs_are_transformed_where_they_have_relevance():
    rng = np.random.default_rng(1)
    sections = Sections(768, True)
    sections.keys = columns_of([11, 12, 13])
    sections.transforms[:] = rng.normal(size=(2, MOST, MOST))
    sections.exchanges.tags = columns_of([2**64 + CATEGORY - 5, 98], FIELDS)
    sections.factors[:, 1:3] = [[0.5, 0.25], [2.0, 3.0]]
    inputs = rng.normal(size=(6, 1, 6)).astype(np.float32)
    before = inputs.copy()
    found = np.array([[13, 99, 11, 98, 97, 0]], dtype=np.uint64)
    slots = np.array([[0, CATEGORY - 5, 1, 2, 3, 0]], dtype=np.int32)
    transform(sections.record, inputs, found, slots, 5)
    np.testing.assert_array_equal(inputs[:2], before[:2])
    for q in range(2):
        for k in range(2):
            z = before[k, 0]
            t = sections.transforms[q]
            of_field, of_number = sections.factors[q, 1:3]
            expected = [
                t[3, 3] * z[0] + t[3, 1] * z[2], of_field * z[1], t[1, 3] * z[0] + t[1, 1] * z[2],
                of_number * z[3], z[4], 0.0,
            ]  # fmt: skip
            np.testing.assert_allclose(inputs[2 * (1 + q) + k, 0], expected, atol=1e-5)


def sections_with(keys, use):
    """Sections that have columns for these numbers, each tested and found to be of this use."""
    sections = Sections(768, True)
    sections.keys = columns_of(keys)
    sections.tags[1 : 1 + len(keys)] = keys
    sections.exchanges.tags = columns_of(keys, FIELDS)
    sections.exchanges.tests[1 : 1 + len(keys)] = [1000.0, 1000.0, 500.0 * (1.0 - use), 1e-3]
    sections.exchanges.pool_counts[:] = len(keys)
    return sections


def test_the_older_block_starts_again_as_the_better_one():
    sections = sections_with([5, 6], 1.0)
    sections.moments[1:3, 1:3] = [[2.0, 1.0], [1.0, 2.0]]
    sections.cross.sums[0, 0, 0] = 16.0
    spans = [sections.columns_of_part(part) for part in (1, 2)]
    assert sections.renew(0, [1.0, 1.0], 1.0) == spans[0]
    assert sections.kinds.tolist() == [DIAGONAL, IDENTITY]
    assert sections.renew(1, [1.0, 1.0], 1.0) == spans[1]
    assert sections.kinds.tolist() == [DIAGONAL, WHOLE]
    assert sections.transforms[1, 1, 2] != 0.0
    np.testing.assert_allclose(sections.moments[1, 1], 2.0 / 4)
    assert sections.cross.sums[0, 0, 0] == 16.0 / 4
    assert sections.exchanges.tests[1, 0] == 1000.0 / 4


@pytest.mark.parametrize(
    ("errors", "kind"), [([1.0, 1.2], DIAGONAL), ([1.0, 1.08], WHOLE), ([1.0, 0.9], WHOLE)]
)
def test_the_younger_block_is_given_a_tenth(errors, kind):
    sections = sections_with([5, 6], 1.0)
    sections.moments[1:3, 1:3] = [[2.0, 1.0], [1.0, 2.0]]
    sections.renew(0, [1.0, 1.0], 1.0)
    sections.renew(1, [1.0, 1.0], 1.0)
    sections.renew(0, errors, 1.0)  # the first is the older one
    assert sections.kinds.tolist() == [kind, WHOLE]


def stream(n, seed=0, noise=6):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2 + noise))
    names = [f"x{j}" for j in range(2 + noise)]
    return [dict(zip(names, row, strict=True)) for row in z.tolist()], np.sin(2 * z[:, 0]) + 0.5 * z[:, 1]


@pytest.mark.parametrize("learned", [True, False])
def test_noise_gets_little_relevance(learned):
    xs, y = stream(5000)
    learner = streamk.KernelRegressor(features=768, relevance=learned, seed=3)
    learner.learn_many(xs, y)
    found = learner.summary()["relevance"]
    assert set(found) == set(xs[0])
    share = {name: np.array(r) ** 2 for name, r in found.items()}
    total = sum(share.values())
    noise = sum(share[f"x{j}"] for j in range(2, 8)) / total
    if learned:
        assert noise.min() < 0.15, noise  # 6 of 8 by number; a twentieth of all is given to everyone alike
        assert noise.max() < 0.4, noise  # found at 1,000 events
        assert (share["x0"] > share["x1"]).all()
    else:
        np.testing.assert_allclose(noise, 6 / 8)


def test_neighbours_have_no_part_in_gradients():
    """Their outputs follow single events; gradients of a learner that has nothing else would be noise."""
    xs, y = stream(400)
    learner = streamk.KernelRegressor(features=768, binning=False, label_memory=False, seed=3)
    learner.learn_many(xs, y)
    nearest = learner._names.index("neighbours")
    learner._combiner.weights[:] = 0.0
    learner._combiner.weights[:, nearest] = 1.0
    learner._combiner.curvature[:] = 1e12 * np.eye(len(learner._names))
    learner._combiner.shares[:] = 0.0
    learner._combiner.shares[0] = 1.0
    before = learner._map.sections.moments.copy()
    learner.learn_many(xs, y)
    found = learner._map.sections.moments - before
    assert found[0, 0] > 0.0
    assert abs(found[1:, 1:]).max() < 1e-3  # shares move to other experts, a thousandth an event


def test_it_pays_where_most_inputs_are_noise():
    xs, y = stream(6000, seed=1, noise=10)
    errors = {}
    for learned in (True, False):
        learner = streamk.KernelRegressor(features=768, relevance=learned, seed=3)
        found = np.array(learner.predict_learn_many(xs, y))
        errors[learned] = np.mean((found - y)[3000:] ** 2)
    assert errors[True] < 0.8 * errors[False], errors


@pytest.mark.parametrize(("binning", "level"), [(True, 0.0), (False, 50.0)])  # logarithms depend on the level
def test_the_unit_of_the_target_changes_nothing(binning, level):
    xs, y = stream(600)
    found = []
    for targets in (y, 1000.0 * y - level):
        learner = streamk.KernelRegressor(features=768, binning=binning, logarithm=binning, seed=3)
        learner.learn_many(xs, targets)
        found.append(learner._map.sections.moments)
    assert found[0][0, 0] == 600 // 32 + 1  # events at which gradients were taken
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-3 * found[0].max())


def test_without_relevance_nothing_is_followed():
    xs, y = stream(2500)
    learner = streamk.KernelRegressor(features=768, relevance=False, seed=3)
    learner.learn_many(xs, y)
    sections = learner._map.sections
    assert not sections.moments.any()
    assert not sections.cross.squares.size
    assert sections.kinds.tolist() == [IDENTITY, IDENTITY]


@pytest.mark.parametrize(
    "name", ["map.columns", "map.moments", "map.gaps", "map.transforms", "map.kinds", "map.grown"]
)
def test_an_impossible_file_is_refused(name):
    sections = Sections(768, True)
    sections.keys = columns_of([5, 6])
    arrays = {k: v.copy() for k, v in sections.state_dict().items()} | {
        "map.grown": np.zeros(1, dtype=np.int64)
    }
    arrays["map.gaps"] = np.zeros((3, 3))
    bad = {
        "map.gaps": np.nan,
        "map.columns": 0,
        "map.moments": np.nan,
        "map.transforms": np.inf,
        "map.kinds": 7,
        "map.grown": 1,
    }
    arrays[name].flat[0] = bad[name]
    with pytest.raises(ValueError, match="impossible"):
        Sections(768, True).load_state_dict(arrays)


def test_blocks_are_the_same_whatever_the_order_of_the_columns():
    one, other, merged = sections_with([5, 6, 7], 1.0), sections_with([7, 8, 5], 1.0), Sections(768, True)
    for sections, gradient in ((one, [1.0, 0.0, 2.0]), (other, [2.0, 0.0, 1.0])):
        sections.moments[1:4, 1:4] = np.outer(gradient, gradient)
    merged.merge_from([one, other], [([0], Unit(1.0, 0.0))] * 2, [0.5, 0.5])
    assert all(merged.has_block_of(part, block) for part in (one, other) for block in (0, 1))
    np.testing.assert_allclose(merged.moments[1, 3], 4.0)  # of 5 and 7, from both
    assert merged.moments[4].tolist() == [0.0] * MOST
    one.renew(0, [1.0, 1.0], 1.0)
    again = Sections(768, True)
    again.merge_from([one, other], [([0], Unit(1.0, 0.0))] * 2, [0.5, 0.5])
    assert [again.has_block_of(part, 0) for part in (one, other)] == [True, False]
    assert again.has_block_of(other, 1)
    assert again.kinds.tolist() == [DIAGONAL, IDENTITY]


def test_grids_get_other_fields_only_if_importance_has_moved(monkeypatch):
    sections, found = Sections(768, True), np.ones(FIELDS, dtype=np.float32)
    monkeypatch.setattr(Exchanges, "importance", lambda self: found.copy())
    sections.exchanges.tags = columns_of([11, 12, 13, 14], FIELDS)
    shares = [1.0, 0.6, 0.4, 0.0], [1.0, 0.6, 0.8, 0.2], [0.4, 0.6, 0.8, 1.0]
    found[1:5] = [1.0, 0.6, 0.4, 0.0]
    sections.renew(1, [1.0, 1.0], 1.0)  # the first block to open follows whatever it is
    for now, kept in zip(shares, (0, 0, 2), strict=True):
        found[1:5] = now
        assert sections.has_moved(1) == (kept == 2)
        sections.renew(1, [1.0, 1.0], 1.0)
        np.testing.assert_allclose(sections.importance[1, 1:5], shares[kept], rtol=1e-6)


def test_a_model_file_keeps_relevance_of_the_columns_in_use():
    xs, y = stream(2500)
    learner = streamk.KernelRegressor(features=768, budget="small", seed=3)
    learner.learn_many(xs, y)
    again = streamk.loads(learner.to_bytes())
    ours, theirs = learner._map.sections, again._map.sections
    for name in ("moments", "gaps", "transforms", "factors", "importance", "kinds", "keys", "tags"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.importance[:, :9].min() < 0.2
    for name in ("tags", "tests", "pool_keys", "pool_slots", "pool_values", "pool_counts"):
        np.testing.assert_array_equal(getattr(ours.exchanges, name), getattr(theirs.exchanges, name))
    assert ours.state_dict()["map.moments"].shape == (9, 9)
    closed = learner.closed()
    assert closed.predict_many(xs[:20]) == learner.predict_many(xs[:20])
    without = streamk.KernelRegressor(features=768, binning=False, neighbours=False, seed=3)
    without.learn_many(xs, y)
    assert len(without.closed().to_bytes()) < 60_000 < len(without.to_bytes())
    assert len(closed.to_bytes()) < 140_000 < len(learner.to_bytes())


def test_what_is_explained_needs_no_cross_moments():
    made = []
    for error in (0.0, 0.5, 2.0, 9.0):
        sections = sections_with([5, 6], 1.0)
        sections.moments[0, 0], sections.moments[1, 1], sections.moments[2, 2] = 1.0, 1.0, 0.1
        sections.cross.grow(1)
        sections.cross.sums[0, :3, :3] = np.diag([100.0] * 3)
        sections.cross.sums[1, 2, 0] = 100.0  # of the second input with the target, whose variance is 2
        sections.cross.squares[0] = 200.0
        sections.renew(0, [1.0, 1.0], error)
        made.append(sections.transforms[0].diagonal()[1:3] ** 2)
    assert made[0][0] > 1.9 > 0.2 > made[0][1]
    assert made[0][1] < made[1][1] < made[2][1]
    np.testing.assert_array_equal(made[2], made[3])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("largest", "variance"), [(1.0, 1e-9), (1e90, 1e-6), (1e-120, 1.0), (1.0, 0.0)])
def test_relevance_is_bounded_however_rare_an_input_is(largest, variance, whole):
    found, uses, variances = np.diag([largest, 0.0]), np.array([1.0, 0.5]), np.array([variance, variance])
    fields = np.array([largest, 0.0])
    transform, factors = transform_of(found, fields, (uses, uses), (variances, variances), 60.0, whole)
    assert (abs(transform) <= LARGEST_FACTOR).all()
    assert ((factors >= 0.0) & (factors <= LARGEST_FACTOR)).all()
