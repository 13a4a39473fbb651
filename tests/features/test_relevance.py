"""Learned relevance: what it finds, and that features follow it."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.codec import Unit
from streamk.features.cross_moments import MOST
from streamk.features.plain import columns_of, index_of
from streamk.features.relevance import transform_of, transform_row
from streamk.features.sections import DIAGONAL, IDENTITY, WHOLE, SectionRecord, Sections


@njit
def transform(sections, inputs, found, count):
    transform_row(sections, inputs, found, count, 0)


def test_the_matrix_is_the_root_of_the_sharpened_outer_product():
    gradients = np.random.default_rng(0).normal(size=(50, 4)) @ np.diag([3.0, 1.0, 0.1, 0.0])
    m = gradients.T @ gradients
    sharp = np.diag(np.sqrt(np.diag(m))) @ m @ np.diag(np.sqrt(np.diag(m)))
    expected = 0.98 * 4 * sharp / np.trace(sharp) + 0.02 * np.eye(4)
    whole = transform_of(m, True)
    np.testing.assert_allclose(whole[1:5, 1:5] @ whole[1:5, 1:5], expected, atol=1e-5)
    np.testing.assert_allclose(whole, whole.T, atol=1e-6)
    diagonal = transform_of(m, False)
    np.testing.assert_allclose(diagonal[1:5, 1:5], np.diag(np.sqrt(np.diag(expected))), atol=1e-6)
    for found in (whole, diagonal):
        np.testing.assert_allclose((found[1:5, 1:5] ** 2).sum(), 4.0, rtol=1e-5)  # mean square 1
        rest = np.r_[0, 5:MOST]
        np.testing.assert_array_equal(found[np.ix_(rest, rest)], np.eye(len(rest)))


def test_nothing_found_changes_nothing():
    for columns in (0, 4, MOST - 1):
        np.testing.assert_array_equal(transform_of(np.zeros((columns, columns)), True), np.eye(MOST))


def test_inputs_are_transformed_where_they_have_relevance():
    rng = np.random.default_rng(1)
    keys = columns_of([11, 12, 13])
    transforms = rng.normal(size=(2, MOST, MOST)).astype(np.float32)
    record = SectionRecord(
        np.float32(1.0), keys, index_of(keys), 0, np.zeros(3, dtype=np.int64),
        np.zeros((3, 4), dtype=np.int64), transforms, np.zeros((MOST, MOST)), np.zeros((3, MOST)), True,
        np.zeros((1, MOST, MOST)), np.zeros(0),
    )  # fmt: skip
    inputs = rng.normal(size=(6, 1, 4)).astype(np.float32)
    before = inputs.copy()
    transform(record, inputs, np.array([[13, 99, 11, 0]], dtype=np.uint64), 3)
    np.testing.assert_array_equal(inputs[:2], before[:2])
    for q in range(2):
        for k in range(2):
            z = before[k, 0]
            t = transforms[q]
            expected = [t[3, 3] * z[0] + t[3, 1] * z[2], z[1], t[1, 3] * z[0] + t[1, 1] * z[2], 0.0]
            np.testing.assert_allclose(inputs[2 * (1 + q) + k, 0], expected, atol=1e-5)


def test_the_older_block_begins_anew_as_the_better_one():
    sections = Sections(768, True)
    sections.keys = columns_of([5, 6])
    sections.moments[1:3, 1:3] = [[2.0, 1.0], [1.0, 2.0]]
    sections.cross.sums[0, 0, 0] = 16.0
    spans = [sections.columns_of_part(part) for part in (1, 2)]
    assert sections.renew(2, 1, 1.0) == spans[0]
    assert sections.kinds.tolist() == [DIAGONAL, IDENTITY]
    assert sections.renew(3, 0, 1.0) == spans[1]
    assert sections.kinds.tolist() == [DIAGONAL, WHOLE]
    assert sections.transforms[1, 1, 2] != 0.0
    assert sections.renew(4, 1, 1.0) == spans[0]
    assert sections.kinds.tolist() == [WHOLE, WHOLE]
    np.testing.assert_allclose(sections.moments[1, 1], 2.0 / 8)
    assert sections.cross.sums[0, 0, 0] == 16.0 / 8


def stream(n, seed=0, noise=6):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2 + noise))
    names = [f"x{j}" for j in range(2 + noise)]
    return [dict(zip(names, row, strict=True)) for row in z.tolist()], np.sin(2 * z[:, 0]) + 0.5 * z[:, 1]


@pytest.mark.parametrize("learned", [True, False])
def test_noise_is_found_to_be_worth_little(learned):
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


def test_it_pays_where_most_inputs_are_noise():
    xs, y = stream(6000, seed=1, noise=10)
    errors = {}
    for learned in (True, False):
        learner = streamk.KernelRegressor(features=768, relevance=learned, seed=3)
        found = np.array(learner.predict_learn_many(xs, y))
        errors[learned] = np.mean((found - y)[3000:] ** 2)
    assert errors[True] < 0.8 * errors[False], errors


def test_the_unit_of_the_target_changes_nothing():
    xs, y = stream(600)
    found = []
    for targets in (y, 1000.0 * y - 50.0):
        learner = streamk.KernelRegressor(features=768, seed=3)
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
    arrays = {k: v.copy() for k, v in sections.arrays().items()} | {"map.grown": np.zeros(1, dtype=np.int64)}
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
        Sections(768, True).restore(arrays)


def test_blocks_are_the_same_whatever_the_order_of_the_columns():
    one, other, merged = (Sections(768, True) for _ in range(3))
    one.keys, other.keys = columns_of([5, 6, 7]), columns_of([7, 8, 5])
    for sections, gradient in ((one, [1.0, 0.0, 2.0]), (other, [2.0, 0.0, 1.0])):
        sections.moments[1:4, 1:4] = np.outer(gradient, gradient)
    merged.take([one, other], [([0], Unit(1.0, 0.0))] * 2)
    assert all(merged.has_block_of(part, block) for part in (one, other) for block in (0, 1))
    np.testing.assert_allclose(merged.moments[1, 3], 4.0)  # of 5 and 7, from both
    assert merged.moments[4].tolist() == [0.0] * MOST
    one.renew(2, 0, 1.0)
    again = Sections(768, True)
    again.take([one, other], [([0], Unit(1.0, 0.0))] * 2)
    assert [again.has_block_of(part, 0) for part in (one, other)] == [True, False]
    assert again.has_block_of(other, 1)
    assert again.kinds.tolist() == [DIAGONAL, IDENTITY]


def test_a_model_file_keeps_relevance_of_the_columns_in_use():
    xs, y = stream(2500)
    learner = streamk.KernelRegressor(features=768, seed=3)
    learner.learn_many(xs, y)
    again = streamk.loads(learner.to_bytes())
    ours, theirs = learner._map.sections, again._map.sections
    for name in ("moments", "gaps", "transforms", "kinds", "keys"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.arrays()["map.moments"].shape == (9, 9)
    closed = learner.closed()
    assert closed.predict_many(xs[:20]) == learner.predict_many(xs[:20])
    assert len(closed.to_bytes()) < 60_000 < len(learner.to_bytes())


def test_what_is_explained_needs_no_cross_moments():
    made = []
    for error in (0.0, 0.5, 2.0, 9.0):
        sections = Sections(768, True)
        sections.keys = columns_of([5, 6])
        sections.moments[0, 0], sections.moments[1, 1], sections.moments[2, 2] = 1.0, 1.0, 0.1
        sections.cross.grow(1)
        sections.cross.sums[0, :3, :3] = np.diag([100.0] * 3)
        sections.cross.sums[1, 2, 0] = 100.0  # of the second input with the target, whose variance is 2
        sections.cross.squares[0] = 200.0
        sections.renew(2, 0, error)
        made.append(sections.transforms[0].diagonal()[1:3] ** 2)
    assert made[0][0] > 1.9 > 0.2 > made[0][1]
    assert made[0][1] < made[1][1] < made[2][1]
    np.testing.assert_array_equal(made[2], made[3])
