"""The mathematics of EigenPro: preconditioner, interpolation, steps, projections."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamk.exact.centers import Centers
from streamk.exact.eigenpro_solver import (
    DELAY,
    EigenPro,
    ExactProjection,
    InexactProjection,
    MiniBatch,
    SolverSettings,
    adjoint,
    bounded,
    interpolate,
    preconditioner,
    step,
)
from streamk.kernels import kernel

from .references import dense_preconditioner, laplace, least_squares

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)).astype(np.float32)
Z = X[:40]
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2]], axis=1).astype(np.float64)
KXZ, KZZ = laplace(X, Z, 2.0), laplace(Z, Z, 2.0)


def solver(projection="exact", centers=Z, masses=None, batch=None, rank=None, subsample=None, bandwidth=2.0):
    masses = np.ones(len(centers)) if masses is None else masses
    wanted = SolverSettings(projection, subsample, rank, batch)
    return EigenPro(kernel("laplace"), bandwidth, Centers(centers, masses), wanted)


def repeated(made, times, X=X, Y=Y, weights=None, seed=1):
    """Pass over rows in random orders; return the coefficients, and their mean over the last half."""
    rng, found = np.random.default_rng(seed), np.zeros((len(made.centers), Y.shape[1]))
    weights, total = np.ones(len(X)) if weights is None else weights, 0.0
    for time in range(times):
        order = rng.permutation(len(X))
        for start in range(0, len(X), made.together):
            part = order[start : start + made.together]
            found = made.learn(found, X[part], Y[part], weights[part])
        total = total + found * (time >= times // 2)
    return found, total / (times - times // 2)


@pytest.mark.parametrize("exponent", [1.0, 0.95])
@pytest.mark.parametrize("masses", ["ones", "clusters"])
@pytest.mark.parametrize("q", [0, 1, 7, 39])
def test_the_preconditioner_is_the_dense_one(q, masses, exponent):
    masses = np.ones(40) if masses == "ones" else RNG.integers(1, 9, size=40).astype(np.float64)
    made = preconditioner(KZZ, masses, q, 10, exponent)
    dense, values = dense_preconditioner(KZZ, masses, q, exponent)
    g = RNG.normal(size=(40, 2))
    np.testing.assert_allclose(made.correction(g), dense @ g, atol=1e-10)
    assert made.highest == 1.0
    # the operator that is left: of the rows with their masses, its top is what made.left says
    whole = np.diag(np.sqrt(masses)) @ (KZZ - KZZ @ dense @ KZZ) @ np.diag(np.sqrt(masses))
    np.testing.assert_allclose(np.linalg.eigvalsh(whole)[-1], made.left * masses.sum(), rtol=1e-9)
    np.testing.assert_allclose(made.left * masses.sum(), values[0] ** (1 - exponent) * values[q] ** exponent)


def test_the_rank_is_the_smallest_that_the_batch_needs():
    values = np.linalg.eigvalsh(KZZ)[::-1] / 40
    for batch in (1, 2, 5, 10, 20):
        made = preconditioner(KZZ, np.ones(40), None, batch)
        q = made.vectors.shape[1]
        assert q <= 10
        assert q == 10 or values[q] * batch <= 1.0
        assert q == 0 or values[q - 1] * batch > 1.0
        assert made.batch == int(1.0 / values[q])


def test_the_rate_is_that_of_eigenpro_2():
    made = preconditioner(KZZ, np.ones(40), 5, 10)
    edge = int(np.ceil(1.0 / made.left + 1.0))
    assert made.rate(1) == made.rate(edge - 1) == 1.0
    np.testing.assert_allclose(made.rate(edge), 1.98 / (1.0 + (edge - 1) * made.left))
    np.testing.assert_allclose(made.rate(1000), 1.98 / (1.0 + 999 * made.left))


def test_a_kernel_of_low_rank_has_a_preconditioner():
    flat = np.ones((20, 20))
    made = preconditioner(flat, np.ones(20), None, 10)
    assert np.isfinite(made.correction(np.ones((20, 1)))).all()
    assert made.vectors.shape[1] == 1
    assert made.left > 0.0
    none = preconditioner(np.zeros((3, 3)), np.ones(3), None, 10)
    assert np.isfinite(none.rate(5))


def test_a_step_is_the_formula():
    """``α − ρ K(Z, Z)⁻¹ (K(Z, X_m) − K(Z, X_s) Q K(X_s, X_m)) g``, with the weights in ``g`` (eq. 31)."""
    made = preconditioner(KZZ[:25, :25], np.ones(25), 6, 10)
    dense, _ = dense_preconditioner(KZZ[:25, :25], np.ones(25), 6, 1.0)
    rows, before = slice(100, 112), RNG.normal(size=(40, 2))
    weights = np.linspace(0.1, 1.0, 12)
    K, k = KXZ[rows], KXZ[rows, :25]
    g = weights[:, None] * (K @ before - Y[rows])
    h = K.T @ g - KZZ[:, :25] @ dense @ k.T @ g
    after = before - made.rate(12) * np.linalg.solve(KZZ, h)
    batch = MiniBatch(X[rows], K.astype(np.float32), Y[rows], weights)
    found = step(batch, before, made, ExactProjection(lambda part: KZZ[part].astype(np.float32), 40))
    np.testing.assert_allclose(KXZ @ found, KXZ @ after, atol=2e-5)
    heavy = step(batch._replace(weights=1e6 * weights), before, made, ExactProjection(lambda p: KZZ[p], 40))
    np.testing.assert_allclose(KXZ @ heavy, KXZ @ found, atol=2e-5)


def test_the_adjoint_is_the_transpose():
    g = RNG.normal(size=(400, 2))
    np.testing.assert_allclose(adjoint(KXZ.astype(np.float32), g), KXZ.T @ g, atol=1e-4)


def test_a_batch_never_gets_worse():
    """Also where the rate is far too large; each output has a step of its own."""
    g, moved = RNG.normal(size=(30, 4)), np.zeros((30, 4))
    moved[:, 0], moved[:, 1], moved[:, 2] = g[:, 0], 5.0 * g[:, 1], -g[:, 2]
    np.testing.assert_allclose(bounded(10.0, g, moved, np.ones(30)), [1.0, 0.2, 0.0, 0.0])
    np.testing.assert_allclose(bounded(0.1, g, moved, np.ones(30)), [0.1, 0.1, 0.0, 0.0])
    weights = RNG.uniform(size=30)
    v = RNG.normal(size=(30, 4))
    best = bounded(1e9, weights[:, None] * v * 3.0, v, weights)  # residual 3 v, so 3 steps of v remove it
    np.testing.assert_allclose(best, 3.0)


@pytest.mark.parametrize(
    ("rank", "subsample"),
    [
        (None, 40),
        (12, 15),
        *(pytest.param(*pair, marks=pytest.mark.long) for pair in [(None, 15), (0, 40), (0, 15), (12, 40)]),
    ],
)
def test_the_fixed_point_is_least_squares(rank, subsample):
    """With all rows in one batch; whatever the preconditioner."""
    made = solver(batch=400, rank=rank, subsample=subsample)
    found, _ = repeated(made, 3000 if rank else 6000)
    best = KXZ @ least_squares(KXZ, Y)
    assert np.abs(best - Y).max() > 0.1
    np.testing.assert_allclose(KXZ @ found, best, atol=1e-3)


def test_the_fixed_point_with_weights():
    weights = RNG.uniform(0.1, 1.0, size=400)
    found, _ = repeated(solver(batch=400, rank=12), 3000, weights=weights)
    np.testing.assert_allclose(KXZ @ found, KXZ @ least_squares(KXZ, Y, weights), atol=1e-3)


def test_batches_end_where_the_data_can_be_fitted():
    truth = RNG.normal(size=(40, 2))
    goal = KXZ @ truth
    found, _ = repeated(solver(batch=50), 400, Y=goal)
    np.testing.assert_allclose(KXZ @ found, goal, atol=1e-4)


def test_the_mean_of_batches_is_near_least_squares():
    _, mean = repeated(solver(), 60)
    best = KXZ @ least_squares(KXZ, Y)
    excess = np.mean((KXZ @ mean - Y) ** 2) / np.mean((best - Y) ** 2)
    assert 1.0 <= excess < 1.01


@pytest.mark.parametrize("projection", ["inexact", "delayed"])
def test_other_projections_are_near_the_exact_one(projection):
    exact, mean = repeated(solver(batch=20), 30)
    found, other = repeated(solver(projection, batch=20), 30)
    assert np.abs(found - exact).max() > 0.0
    np.testing.assert_allclose(KXZ @ other, KXZ @ mean, atol=0.25)
    assert np.mean((KXZ @ other - Y) ** 2) < 1.03 * np.mean((KXZ @ mean - Y) ** 2)


def test_one_delayed_batch_is_one_exact_step():
    """With as good a projection, delay shows only from the second batch on."""
    exact, delayed = solver(batch=30, rank=8), solver("delayed", batch=30, rank=8)
    delayed._project = exact._project
    # a small step: the bounds look at the batch's own error, one of them before the projection
    exact._by = delayed._by = exact._by._replace(highest=20.0)
    zero = np.zeros((40, 2))
    for size, close in ((30, True), (30 * DELAY, False)):
        part = slice(100, 100 + size)
        one = exact.learn(zero, X[part], Y[part], np.ones(size))
        two = delayed.learn(zero, X[part], Y[part], np.ones(size))
        assert (np.abs(KXZ @ one - KXZ @ two).max() < 1e-5) == close


def test_delayed_batches_are_steps_in_the_whole_space():
    """Written out: every row has a coefficient until the projection."""
    made = solver("delayed", batch=10, rank=5)
    made._project = ExactProjection(lambda part: KZZ[part], 40)
    rows, by = slice(100, 140), made._by
    K, own = laplace(X[rows], X[rows], 2.0), np.zeros((40, 2))
    alpha = np.zeros((40, 2))
    for start in range(0, 40, 10):
        b = slice(start, start + 10)
        g = K[b] @ own + KXZ[rows][b] @ alpha - Y[rows][b]
        back = by.vectors @ np.diag(by.factors) @ by.vectors.T @ KXZ[rows][b].T @ g
        v = K[b, b] @ g - KXZ[rows][b] @ back
        rate = np.minimum(by.rate(10), (g * v).sum(axis=0) / (v * v).sum(axis=0))
        own[b] -= rate * g
        alpha += rate * back
    alpha += np.linalg.solve(KZZ, KXZ[rows].T @ own)
    found = made.learn(np.zeros((40, 2)), X[rows], Y[rows], np.ones(40))
    np.testing.assert_allclose(KXZ @ found, KXZ @ alpha, atol=1e-4)


def test_eigenpro_2_interpolates():
    by = preconditioner(KZZ, np.ones(40), None, 16, 0.95)
    goal = RNG.normal(size=(40, 3))
    none = np.zeros((0, 3))
    found = InexactProjection(lambda part: KZZ[part].astype(np.float32), by, sweeps=3000)(goal, none)
    np.testing.assert_allclose(KZZ @ found, goal, atol=1e-2)  # it ends at a thousandth of the goal
    back = RNG.normal(size=(25, 3))
    found = InexactProjection(lambda part: KZZ[part].astype(np.float32), by, sweeps=3000)(goal, back)
    np.testing.assert_allclose(KZZ @ found, goal - KZZ[:, :25] @ back, atol=3e-2)
    exact = ExactProjection(lambda part: KZZ[part].astype(np.float32), 40)(goal, back)
    np.testing.assert_allclose(KZZ @ exact, goal - KZZ[:, :25] @ back, atol=1e-5)
    found = np.zeros_like(goal)
    for _ in range(3000):
        for part in (slice(0, 16), slice(16, 32), slice(32, 40)):
            interpolate(KZZ[part].astype(np.float32), part, goal[part], found, by)
    np.testing.assert_allclose(found, np.linalg.solve(KZZ, goal), rtol=1e-3, atol=1e-3)


def test_a_projection_ends_when_it_is_close():
    asked = []

    def rows_of(part):
        asked.append(part)
        return np.eye(40, dtype=np.float32)[part]

    by = preconditioner(np.eye(40), np.ones(40), 0, 40)
    projection = InexactProjection(rows_of, by, sweeps=50)
    goal = np.ones((40, 1))
    found = projection(goal, goal[:0])
    np.testing.assert_allclose(found, goal, atol=1e-3)
    assert asked[-1].stop == 40
    assert len(asked) <= 2 * 40
    asked.clear()
    InexactProjection(rows_of, by)(1e-9 * goal, goal[:0])
    assert len(asked) <= 2 * 40


def test_a_singular_matrix_is_factored_with_more_on_its_diagonal():
    twice = np.vstack([Z, Z])
    projection = ExactProjection(lambda part: laplace(twice[part], twice, 2.0).astype(np.float32), 80)
    h = KXZ[0]
    found = projection(np.concatenate([h, h])[:, None], np.zeros((0, 1)))
    np.testing.assert_allclose((laplace(Z, twice, 2.0) @ found)[:, 0], h, atol=1e-4)
    indefinite = np.diag([1.0, -1e-4])
    assert np.isfinite(
        ExactProjection(lambda part: indefinite[part], 2)(np.ones((2, 1)), np.zeros((0, 1)))
    ).all()
    with pytest.raises(ValueError, match="cannot be factored; use a larger bandwidth"):
        ExactProjection(lambda part: np.diag([1.0, -1.0])[part], 2)


ODD = {
    "one row again and again": np.repeat(X[:1], 200, axis=0),
    "rows the subsample does not know": X[:200] + 50.0,
    "a far outlier": np.vstack([X[:199], np.full((1, 3), 1e6, dtype=np.float32)]),
    "ten rows": np.tile(X[200:210], (20, 1)),
}


@pytest.mark.parametrize("projection", ["exact", "inexact", "delayed"])
@pytest.mark.parametrize("odd", ODD)
def test_the_step_does_not_diverge(odd, projection):
    rows, made = ODD[odd], solver(projection)
    goal = np.sign(np.sin(np.arange(200.0)))[:, None]
    found, _ = repeated(made, 30, X=rows, Y=goal)
    said = laplace(rows, Z, 2.0) @ found
    assert np.abs(said).max() < 4.0
    assert np.mean((said - goal) ** 2) <= np.mean(goal**2) * 1.1


@settings(max_examples=25)
@given(
    st.integers(1, 12), st.integers(1, 60), st.sampled_from(["exact", "inexact", "delayed"]),
    st.sampled_from([1.0, 1e-3, 1e-290, 1e12]), st.integers(0, 99),
)  # fmt: skip
def test_no_set_of_centers_batches_and_weights_diverges(count, batch, projection, weight, seed):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(count, 2)).astype(np.float32)
    rows = np.vstack([centers[rng.integers(0, count, 40)], rng.normal(size=(40, 2)) * 9]).astype(np.float32)
    goal = rng.normal(size=(80, 1))
    weights = np.where(rng.random(80) < 0.5, weight, 1.0)
    made = solver(projection, centers, batch=batch)
    found, _ = repeated(made, 8, X=rows, Y=goal, weights=weights)
    assert np.abs(laplace(rows, centers, 2.0) @ found).max() < 30.0
