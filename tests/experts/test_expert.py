"""What every linear expert shares: its outputs, its average, its room."""

import numpy as np
import pytest
from numba import njit

from streamk.encoding.codec import Unit
from streamk.experts.expert import FINAL, ITERATE, Merge, count_step, evaluate
from streamk.experts.projection import Projection
from streamk.losses import CODES


def expert(average=False, outputs=3, features=100, columns=128, seed=0):
    made = Projection(CODES["class", "squared"], average, 1.0, None)
    made.grow(outputs, features, columns)
    made.coefficients[..., :features] = np.random.default_rng(seed).normal(
        size=(*made.coefficients.shape[:2], features)
    )
    return made


@njit
def outputs_of(record, phi, i, outputs, e):
    evaluate(record, e, phi, i, outputs)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("outputs", [1, 3, 4, 7])
def test_outputs_are_inner_products(average, outputs):
    made = expert(average, outputs)
    phi = np.random.default_rng(1).normal(size=(3, 128)).astype(np.float32)
    out = np.full((2, 2, outputs), np.nan, dtype=np.float32)
    outputs_of(made.record, phi, 2, out, 1)
    np.testing.assert_allclose(out[1, ITERATE], made.coefficients[0] @ phi[2], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out[1, FINAL], made.coefficients[-1] @ phi[2], rtol=1e-4, atol=1e-4)
    assert np.isnan(out[0]).all()


def test_an_expert_may_have_some_of_the_columns():
    made = expert()
    made.first = 64
    phi = np.random.default_rng(1).normal(size=(3, 256)).astype(np.float32)
    out = np.empty((1, 2, 3), dtype=np.float32)
    outputs_of(made.record, phi, 1, out, 0)
    np.testing.assert_allclose(out[0, 0], made.coefficients[0] @ phi[1, 64:192], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("average", [False, True])
def test_growing_changes_nothing_learned(average):
    made = expert(average)
    before = made.coefficients.copy()
    for outputs, features, columns in ((5, 100, 128), (5, 200, 256), (2, 200, 256), (9, 300, 320)):
        made.grow(outputs, features, columns)
        assert made.features == features
        assert made.coefficients.shape == (1 + average, max(outputs, 3 + 2), columns)
        assert made.coefficients.ctypes.data % 64 == 0
        assert (made.coefficients[:, :3, :128] == before).all()
        assert not made.coefficients[:, 3:].any()
        assert not made.coefficients[..., 128:].any()


def test_the_average_follows_the_iterate():
    """Polynomial decay: of iterates 1 … t the weights are as t(t + 1)(t + 2)."""
    made = expert(average=True, outputs=1, features=64, columns=64)
    iterates = np.random.default_rng(2).normal(size=(20, 64)).astype(np.float32)
    for t, iterate in enumerate(iterates, 1):
        made.coefficients[ITERATE, 0] = iterate
        count_step(made.clock, made.coefficients) if t % 2 else made.count_block(5)
    t = np.arange(1, 21)
    weights = t * (t + 1) * (t + 2)
    np.testing.assert_allclose(
        made.coefficients[FINAL, 0], weights @ iterates / weights.sum(), rtol=1e-4, atol=1e-6
    )
    assert made.clock.tolist() == [10 + 5 * 10, 20]


def test_a_merge_is_the_weighted_mean():
    one, two = expert(outputs=2, seed=1), expert(outputs=3, seed=2)
    one.clock[:], two.clock[:] = (5, 5), (7, 3)
    merged = Projection(one.loss, False, 1.0, None)
    merged.grow(3, 100, 128)
    merged.merge_from(
        [one, two], Merge([0.25, 0.75], [([2, 0], Unit(2.0, 0.0)), ([0, 1, 2], Unit(1.0, 0.0))])
    )
    expected = 0.75 * two.coefficients[0]
    expected[[2, 0]] += 0.5 * one.coefficients[0]
    np.testing.assert_allclose(merged.coefficients[0], expected, rtol=1e-6)
    assert merged.clock.tolist() == [12, 8]


def test_only_possible_parts_are_taken_over():
    made, other = expert(seed=1), expert(seed=2)
    other.load_state_dict({name: part.copy() for name, part in made.state_dict().items()})
    assert other.coefficients.tobytes() == made.coefficients.tobytes()
    for name, value, message in (
        ("coefficients", np.full((1, 3, 128), np.nan, np.float32), "coefficients are impossible"),
        ("coefficients", np.zeros((1, 3, 64), np.float32), "shape"),
        ("clock", np.array([1.5, 0.0]), "counters are impossible"),
        ("clock", np.array([-1.0, 0.0]), "counters are impossible"),
    ):
        with pytest.raises(ValueError, match=message):
            other.load_state_dict({**made.state_dict(), name: value})
