"""The doubly stochastic learners: Algorithm 1 to the letter, block solves in closed form, and convergence."""

import itertools

import numpy as np
import pytest

import streamk
from streamk.losses import CODES, curvature, descents
from tests.references import Scale

from .test_kaczmarz import NAMES, features, stream

SETTINGS = {"bandwidth": 2.0, "scale_inputs": False, "seed": 3}


def gradient(loss, kind, f, aims, quantile=0.5):
    out = np.zeros(f.shape)
    for i in range(len(f)):
        descents(CODES[kind, loss], f[i].astype(np.float32), aims[i], quantile, out[i])
    return np.clip(out, -12, 12)


def reference(learner, X, y, w, classes):
    """Both rules from the docstring, in float64, over full batches and a shorter last one."""
    size, most, m = learner.features, learner.max_features // learner.features, learner.batch_size
    phi = features(learner, X)
    A, mean = np.zeros((2, phi.shape[1], classes or 1))
    blocks, last = 0, -1
    for t, start in enumerate(range(0, len(X), m), 1):
        now = slice(start, min(start + m, len(X)))
        due = min(
            most, {"linear": 1 + start // m, "sqrt": int(np.sqrt(1 + start // m)), "fixed": 1}[learner.growth]
        )
        fresh = [due - 1] if due > blocks else []
        old = [b for b in range(due) if b not in fresh]
        following = old[last + 1 :] + old[: last + 1] if old and last < old[-1] else old
        visits = following[: learner.revisits + (not fresh)]
        turn, last, blocks = fresh + visits, visits[-1] if visits else last, due
        aims = y[now]
        if not classes:
            past = y[: start or m]
            scale = Scale(past, w)
            aims = np.array([scale.standardise(v) for v in aims])
        known = int(y[: now.stop].max()) + 1 if classes else 1
        kind = "class" if classes else "number"
        weights = w[now][:, None] / len(aims)

        def slope(f, aims=aims, known=known, weights=weights, kind=kind):
            G = np.zeros_like(f)
            G[:, :known] = gradient(learner.loss, kind, f[:, :known], aims, learner.quantile)
            return weights * G

        f = phi[now] @ A
        if learner.precondition:
            kappa = curvature(CODES[kind, learner.loss])
            width = min(size, len(aims) // 2)
            for b in turn:
                at = slice(b * size, b * size + width)
                P = phi[now, at]
                system = kappa * P.T @ (weights * P) + learner.regularization * size * np.eye(width)
                step = np.linalg.solve(system, P.T @ slope(f)) / (1 + 1e-4 * t)
                A[at] += step
                f += P @ step
        else:
            nu = learner.regularization
            theta = 1 / nu if learner.step is None else learner.step
            G = slope(f)
            A *= 1 - theta * nu / t
            for b in turn:
                at = slice(b * size, (b + 1) * size)
                A[at] += theta / t * phi[now, at].T @ G / (size * len(turn))
        mean += 4.0 / (t + 3.0) * (A - mean)
    return A.T, mean.T


RULES = [
    {"precondition": False, "regularization": 0.1},
    {"precondition": False, "regularization": 0.2, "step": 7.5, "growth": "fixed"},
    {"precondition": False, "regularization": 0.05, "growth": "sqrt", "revisits": 1},
    {"precondition": True, "regularization": 0.01, "batch_size": 128},
    {"precondition": True, "regularization": 0.01, "batch_size": 150, "growth": "sqrt", "revisits": 5},
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "smoothed_hinge"])
def test_classifier_is_the_rule(rule, loss):
    X, y, _ = stream(1000)
    y[:3] = 0, 1, 2
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    rule = {"features": 64, "max_features": 192, "batch_size": 32, "revisits": 0, **rule}
    learner = streamk.DoublyStochasticClassifier(loss=loss, average=True, **rule, **SETTINGS)
    learner.learn_many(X, y, w, names=NAMES)
    learner.flush()
    A, mean = reference(learner, X, y, w, 3)
    scale = np.abs(A).max()
    np.testing.assert_allclose(
        learner._experts[0].coefficients[0], A[:, : learner._map.width], atol=1e-4 * scale
    )
    np.testing.assert_allclose(
        learner._experts[0].coefficients[1], mean[:, : learner._map.width], atol=1e-4 * scale
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive", "quantile"])
def test_regressor_is_the_rule(rule, loss):
    X, _, y = stream(1000)
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    rule = {"features": 64, "max_features": 192, "batch_size": 32, "revisits": 0, **rule}
    learner = streamk.DoublyStochasticRegressor(loss=loss, quantile=0.7, average=True, **rule, **SETTINGS)
    learner.learn_many(X, y, w, names=NAMES)
    learner.flush()
    A, _ = reference(learner, X, y, w, 0)
    scale = np.abs(A).max()
    np.testing.assert_allclose(
        learner._experts[0].coefficients[0], A[:, : learner._map.width], atol=2e-4 * scale
    )


@pytest.mark.parametrize(
    ("sizes", "highest"),
    [([32, 128, 512], 1.4e-3), pytest.param([64, 256, 1024], 7e-4, marks=pytest.mark.long)],
)
def test_algorithm_1_converges_like_one_over_t(sizes, highest):
    """Kernel ridge regression whose optimum is known: the error at fixed points falls like 1/t.

    The distribution is uniform on 20 points, so ``f* = K (K/20 + ν I)⁻¹ y/20`` exactly. Slopes from 6 runs; a
    wrong sign, decay or step size has slope 0 or more.
    """
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20, 4))
    y = np.where(np.arange(20) % 2, 1.0, -1.0)
    K = streamk.kernels.kernel("gaussian")(points, points, 2.0)
    nu = 0.2
    best = K @ np.linalg.solve(K / 20 + nu * np.eye(20), y / 20)
    errors = np.zeros((6, len(sizes)))
    for seed in range(6):
        learner = streamk.DoublyStochasticRegressor(
            features=64, batch_size=4, precondition=False, regularization=nu, max_features=2**17,
            bandwidth=2.0, scales=(1.0,), scale_inputs=False, scale_target=False, revisits=0, seed=seed,
        )  # fmt: skip
        done = 0
        for k, steps in enumerate(sizes):
            draws = rng.integers(20, size=4 * (steps - done))
            learner.learn_many(points[draws], y[draws], names=NAMES)
            done = steps
            found = learner.predict_many(points, names=NAMES)
            errors[seed, k] = np.mean((found - best) ** 2)
    mean = errors.mean(axis=0)
    slope = np.polyfit(np.log(sizes), np.log(mean), 1)[0]
    assert -1.7 < slope < -0.7, (slope, mean)  # of the variance 1/t, of the bias 1/t²
    assert mean[-1] < highest, mean


def test_block_solves_converge_to_logistic_regression():
    """One block, visited again and again by full batches: the damped steps of a convex problem."""
    from scipy.optimize import minimize

    X, y, _ = stream(400, classes=3)
    y = np.where(np.random.default_rng(5).random(400) < 0.4, np.arange(400) % 3, y)
    y[:3] = 0, 1, 2
    learner = streamk.DoublyStochasticClassifier(
        features=32, growth="fixed", batch_size=400, regularization=1e-4, **{**SETTINGS, "bandwidth": 0.7}
    )
    phi = None

    def loss(flat):
        f = phi @ flat.reshape(32, 3)
        high = f.max(axis=1, keepdims=True)
        p = np.exp(f - high)
        total = p.sum(axis=1, keepdims=True)
        value = np.mean(np.log(total[:, 0]) + high[:, 0] - f[np.arange(400), y])
        return value, (phi.T @ (p / total - np.eye(3)[y]) / 400).ravel()

    learner.learn_many(X, y, names=NAMES)
    phi = features(learner, X)[:, :32]
    values = []
    for _ in range(100):
        values.append(loss(learner._experts[0].coefficients[0, :, :32].T.astype(np.float64).ravel())[0])
        learner.learn_many(X, y, names=NAMES)
    assert all(b < a for a, b in itertools.pairwise(values))  # a majoriser never overshoots
    best = minimize(
        loss, np.zeros(96), jac=True, method="L-BFGS-B", options={"maxiter": 20_000, "maxfun": 20_000}
    ).fun
    start = np.log(3)
    assert best <= values[-1] < best + 0.02 * (start - best)


def test_quantiles_are_quantiles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = X[:, 0] + rng.exponential(size=20_000)
    for quantile in (0.1, 0.5, 0.9):
        learner = streamk.DoublyStochasticRegressor(
            loss="quantile", quantile=quantile, precondition=False, regularization=1e-3, step=20.0,
            features=64, batch_size=16, max_features=1024, bandwidth=3.0, scales=(1.0,), average=True, seed=1,
        )  # fmt: skip
        learner.learn_many(X, y, names=["a", "b"])
        below = np.mean(y[10_000:] < learner.predict_many(X[10_000:], names=["a", "b"]))
        assert abs(below - quantile) < 0.04


@pytest.mark.parametrize("precondition", [False, True])
def test_no_event_makes_it_diverge(precondition):
    rng = np.random.default_rng(0)
    learner = streamk.DoublyStochasticRegressor(
        features=64, batch_size=128, precondition=precondition, regularization=1e-6, seed=1
    )
    for i in range(4000):
        x = {"a": float(rng.normal() * 10.0 ** rng.integers(-8, 8)), "b": float(rng.normal())}
        learner.learn_one(x, float(rng.standard_cauchy() * 1e6 + i), w=float(10.0 ** rng.uniform(-300, 300)))
    found = [learner.predict_one({"a": 1e90, "b": float(v)}) for v in rng.normal(size=50)]
    assert np.isfinite(found).all()


def test_a_batch_waits_for_its_count_and_predictions_do_not():
    learner = streamk.DoublyStochasticClassifier(features=64, batch_size=128, seed=1)
    for i in range(300):
        assert learner.pending == i % 128
        learner.learn_one({"a": float(i % 2)}, bool(i % 2))
        found = learner.predict_proba_one({"a": 1.0})
        assert (found == {False: 0.5, True: 0.5}) == (i < 127)
    assert learner.events == 256
    learner.flush()
    assert (learner.events, learner.pending) == (300, 0)
    assert learner.predict_one({"a": 1.0}) is True


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"batch_size": 100, "features": 64},
            "batch_size=100: batch_size must be at least twice features=64",
        ),
        ({"precondition": 1}, "precondition=1: precondition must be True or False"),
        ({"step": 0}, "step=0: step must be None or a number above 0, at most 1e12"),
        ({"revisits": -1}, "revisits=-1"),
        ({"quantile": 1.0}, "quantile=1.0: quantile must be a number between 0 and 1"),
        ({"regularization": 0}, "regularization=0"),
        ({"loss": "hinge"}, "'squared' or 'huber' or 'epsilon_insensitive' or 'quantile'"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        streamk.DoublyStochasticRegressor(**parameters)


@pytest.mark.parametrize(
    ("revisits", "growth"), [(0, "linear"), (1, "linear"), (3, "linear"), (2, "sqrt"), (2, "fixed")]
)
def test_every_block_is_visited_in_turn(revisits, growth):
    """A step moves the fresh block and so many old ones, oldest first, then again from the first."""
    learner = streamk.DoublyStochasticClassifier(
        features=64, batch_size=128, growth=growth, max_features=640, revisits=revisits, **SETTINGS
    )
    X, y, _ = stream(128 * 30)
    visited, last = [], None
    for start in range(0, len(X), 128):
        before = None if last is None else last.copy()
        learner.learn_many(X[start : start + 128], y[start : start + 128], names=NAMES)
        last = learner._experts[0].coefficients[0]
        moved = []
        for b in range(last.shape[1] // 64):
            at = slice(b * 64, b * 64 + 64)
            if before is None or at.start >= before.shape[1] or (last[:, at] != before[:, at]).any():
                moved.append(b)
        visited.append(moved)
    queue = []
    for step, moved in enumerate(visited):
        new = {"linear": step < 10, "sqrt": (step + 1) ** 0.5 % 1 == 0, "fixed": step == 0}[growth]
        count = {"linear": min(step + 1, 10), "sqrt": int((step + 1) ** 0.5), "fixed": 1}[growth]
        fresh = [count - 1] if new else []
        wished = min(revisits + (not new), count - len(fresh))
        assert len(moved) == wished + len(fresh)
        assert set(fresh) <= set(moved)
        queue += [b for b in moved if b not in fresh]
    counts = np.bincount(queue, minlength=10)
    if revisits and growth == "linear":
        assert counts.max() - counts[:9].min() <= 1 + 10 * revisits // 4
        assert set(queue) >= set(range(9))


def test_decay_beyond_its_range_stays_finite():
    """θν = 50: the first factors of the paper's decay would be −49, −24, …"""
    X, y, _ = stream(512)
    learner = streamk.DoublyStochasticClassifier(
        features=64, batch_size=4, precondition=False, regularization=10.0, step=5.0, **SETTINGS
    )
    learner.learn_many(X, y, names=NAMES)
    found = learner._experts[0].coefficients
    assert np.isfinite(found).all()
    assert 0.0 < np.abs(found).max() < 10.0
