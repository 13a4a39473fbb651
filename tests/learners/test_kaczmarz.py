"""The Kaczmarz learners against slow NumPy and closed forms."""

import numpy as np
import pytest

import streamk
from streamk.encoding.keys import number_key
from streamk.losses import CODES, residuals
from tests.references import Scale

NAMES = [f"x{j}" for j in range(4)]
SETTINGS = {"features": 96, "bandwidth": 2.0, "scale_inputs": False, "seed": 3}


def stream(n=200, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = X @ rng.normal(size=(4, classes)) + np.sin(3 * X[:, :1])
    return X, score.argmax(axis=1), score[:, 0] + 0.1 * rng.normal(size=n)


def features(learner, X):
    """Features of unscaled rows in float64, from the definition."""
    e = learner._map
    keys = np.array([number_key(name) for name in NAMES], dtype=np.uint64)
    W = e.frequencies(keys, slice(None), slice(0, e.width)).astype(np.float64)
    phi = np.sqrt(2) * np.cos(2 * np.pi * (X @ W + e.phases))
    phi[:, e.features :] = 0.0
    return phi


def reference(learner, X, y, w, classes):
    """The rule of the docstring, one event at a time, in float64."""
    phi = features(learner, X)
    F, rho, memory = learner.features, learner.regularization, learner.memory
    kind = "class" if classes else "number"
    A = np.zeros((classes or 1, phi.shape[1]))
    mean = A.copy()
    seen = Scale()
    for n in range(len(X)):
        f = A @ phi[n]
        target = y[n]
        if not classes:
            target = seen.standardise(y[n])
            seen.add(y[n], w[n])
        known = max(y[: n + 1]) + 1 if classes else 1
        r = np.zeros(len(A))
        length = residuals(CODES[kind, learner.loss], f[:known].astype(np.float32), target, r[:known])
        rho_n = rho * (1 + min(n, np.inf if memory is None else memory) / 256) * F / w[n]
        A += np.outer(r / (length * phi[n] @ phi[n] + rho_n), phi[n])
        mean += 4.0 / (n + 4.0) * (A - mean)
    return A, mean


@pytest.mark.parametrize("memory", [None, 0, 64])
@pytest.mark.parametrize("loss", ["squared", "margin"])
def test_classifier_is_the_rule(loss, memory):
    X, y, _ = stream()
    y[:3] = 0, 1, 2  # classes appear in order, so codes are labels
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    learner = streamk.KaczmarzClassifier(loss=loss, memory=memory, average=True, **SETTINGS)
    learner.learn_many(X, y, w, names=NAMES)
    A, mean = reference(learner, X, y, w, 3)
    np.testing.assert_allclose(learner._experts[0].coefficients[0], A, atol=2e-5)
    np.testing.assert_allclose(learner._experts[0].coefficients[1], mean, atol=2e-5)


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
def test_regressor_is_the_rule(loss):
    X, _, y = stream()
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    learner = streamk.KaczmarzRegressor(loss=loss, average=True, **SETTINGS)
    learner.learn_many(X, y, w, names=NAMES)
    A, mean = reference(learner, X, y, w, 0)
    np.testing.assert_allclose(learner._experts[0].coefficients[0], A, atol=5e-5)
    np.testing.assert_allclose(learner._experts[0].coefficients[1], mean, atol=5e-5)
    scale = Scale(y, w)
    predicted = scale.mean + scale.spread * features(learner, X) @ mean[0]
    np.testing.assert_allclose(learner.predict_many(X, names=NAMES), predicted, atol=1e-3)


def test_one_block_is_the_ridge_solution():
    X, y, _ = stream(150)
    y[:3] = 0, 1, 2
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    learner = streamk.KaczmarzClassifier(block_size=150, **SETTINGS)
    learner.learn_many(X, y, w, names=NAMES)
    phi = features(learner, X)
    ridge = learner.regularization * learner.features
    # weighted ridge regression in the primal: (Φᵀ W Φ + ρF I)⁻¹ Φᵀ W Y
    exact = np.linalg.solve(
        phi.T @ (w[:, None] * phi) + ridge * np.eye(phi.shape[1]), phi.T @ (w[:, None] * np.eye(3)[y])
    )
    np.testing.assert_allclose(learner._experts[0].coefficients[0], exact.T, atol=2e-5)


@pytest.mark.parametrize("kind", ["squared", "margin", "regression", "average"])
def test_a_block_of_one_event_is_the_event(kind):
    """The two code paths meet: blocks of one row by matrix products, and the compiled rule."""
    X, y, t = stream(60)
    make, y = streamk.KaczmarzClassifier, [int(v) for v in y]
    extra = {"average": kind == "average"}
    if kind == "regression":
        make, y = streamk.KaczmarzRegressor, t
    elif kind != "average":
        extra["loss"] = kind
    single = make(**SETTINGS, **extra)
    single.learn_many(X, y, names=NAMES)
    blocks = make(**SETTINGS, **extra, block_size=2)
    for x, target in zip(X, y, strict=True):
        blocks.learn_one(dict(zip(NAMES, x.tolist(), strict=True)), target)
        blocks.flush()
    ours, theirs = single._experts[0].coefficients, blocks._experts[0].coefficients
    # The first event of a regression differs: a block's target is scaled by the block itself.
    np.testing.assert_allclose(ours, theirs, atol=2e-4 if kind != "regression" else 2e-2)


def test_a_block_of_margins_is_one_projection():
    """Every violated margin of the block is exactly 1 afterwards when nothing is regularised."""
    X, y, _ = stream(20)
    settings = {**SETTINGS, "features": 512, "regularization": 0.0}
    learner = streamk.KaczmarzClassifier(loss="margin", block_size=20, **settings)
    learner.learn_many(X, y, names=NAMES)
    codes = np.array([learner.labels.index(v) for v in y])
    f = features(learner, X) @ learner._experts[0].coefficients[0].T.astype(np.float64)
    rival = np.where(codes == 0, 1, 0)  # all outputs were 0: the best wrong class is the first
    margin = f[np.arange(20), codes] - f[np.arange(20), rival]
    np.testing.assert_allclose(margin, 1.0, atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "margin"])
def test_the_same_rows_in_one_block_without_regularisation(loss):
    learner = streamk.KaczmarzClassifier(loss=loss, block_size=4, regularization=0.0, seed=1)
    for _ in range(2):
        for a in (1.0, 1.0, 2.0, 2.0):
            learner.learn_one({"a": a}, str(a))
    assert learner.events == 8
    assert learner.predict_one({"a": 2.0}) == "2.0"
    assert np.isfinite(learner._experts[0].coefficients).all()


def test_next_to_no_weight_is_next_to_no_step():
    learner = streamk.KaczmarzClassifier(block_size=2, seed=1)
    for y in "ab":
        learner.learn_one({"a": 1.0}, y, w=1e-320)
    assert np.abs(learner._experts[0].coefficients).max() < 1e-30


def test_an_event_is_fitted_exactly_without_regularisation():
    learner = streamk.KaczmarzClassifier(regularization=0, seed=1)
    for x, y in (({"a": 1.0}, "u"), ({"a": 5.0}, "v"), ({"a": -2.0}, "u")):
        learner.learn_one(x, y)
    assert learner.predict_one({"a": -2.0}) == "u"


@pytest.mark.parametrize("block_size", [1, 4])
def test_weight_zero_is_ignored_and_weight_divides_the_regulariser(block_size):
    events = [({"a": float(i), "c": f"v{i % 3}"}, f"k{i % 2}") for i in range(16)]
    plain = streamk.KaczmarzClassifier(seed=1, block_size=block_size)
    noisy = streamk.KaczmarzClassifier(seed=1, block_size=block_size)
    for x, y in events:
        plain.learn_one(x, y)
        noisy.learn_one({"ignored": 3.0, "z": "w"}, "new", w=0.0)
        noisy.learn_one(x, y)
    assert noisy.to_bytes() == plain.to_bytes()
    given = {"seed": 1, "block_size": block_size, "scale_inputs": False}  # scales count weights, too
    heavy = streamk.KaczmarzClassifier(regularization=0.3, **given)
    light = streamk.KaczmarzClassifier(regularization=0.6, **given)
    for x, y in events:
        heavy.learn_one(x, y)
        light.learn_one(x, y, w=2.0)
    a, b = heavy._experts[0].coefficients, light._experts[0].coefficients
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_averaged_learner_predicts_the_same_and_is_half_the_size():
    X, y, _ = stream()
    learner = streamk.KaczmarzClassifier(average=True, seed=2, features=1024)
    learner.learn_many(X, y, names=NAMES)
    half = learner.averaged()
    assert half.average is False
    assert (half.predict_many(X, names=NAMES) == learner.predict_many(X, names=NAMES)).all()
    assert len(half.to_bytes()) < 0.6 * len(learner.to_bytes())
    before = learner.to_bytes()
    half.learn_many(X, y, names=NAMES)
    assert learner.to_bytes() == before


@pytest.mark.parametrize(("kernel", "bandwidth"), [("gaussian", 2.0), ("laplacian", 4.0)])
def test_default_bandwidth_follows_the_fields_present_in_each_event(kernel, bandwidth):
    """Four fields: √4 for a radial kernel, 4 for the 1-norm's, both powers of two, so bits are the same."""
    settings = {"kernel": kernel, "features": 64, "seed": 1}
    learner, fixed = (
        streamk.KaczmarzClassifier(**settings),
        streamk.KaczmarzClassifier(bandwidth=bandwidth, **settings),
    )
    for i in range(40):
        x = {"a": str(i % 7), "b": "xy"[i % 2], "c": True, "e": str(i % 3), "d": "late" if i > 30 else None}
        for each in (learner, fixed):
            each.learn_one({k: v for k, v in x.items() if i > 30 or k != "d"}, i % 7 > 3)
        if i <= 30:
            assert learner.predict_proba_one(x) == fixed.predict_proba_one(x)
    assert learner.predict_proba_one(x) != fixed.predict_proba_one(x)


def test_no_target_makes_a_regressor_diverge():
    rng = np.random.default_rng(0)
    learner = streamk.KaczmarzRegressor(seed=1, memory=0)
    for i in range(2000):
        x = {"a": float(rng.normal() * 10.0 ** rng.integers(-8, 8)), "b": float(rng.normal())}
        learner.learn_one(x, float(rng.standard_cauchy() * 1e6 + i))
    predictions = [learner.predict_one({"a": 1e90, "b": float(v)}) for v in rng.normal(size=50)]
    assert np.isfinite(predictions).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"features": 0}, "features=0"),
        ({"features": 2.5}, "features=2.5"),
        ({"features": True}, "features=True"),
        ({"bandwidth": -1.0}, "bandwidth=-1.0"),
        ({"bandwidth": float("nan")}, "bandwidth=nan"),
        ({"scales": ()}, "scales"),
        ({"scales": (1.0, 0.0)}, "scales"),
        ({"scales": "4"}, "scales"),
        ({"loss": "hinge"}, "loss='hinge': loss must be 'squared' or 'margin'"),
        ({"regularization": -0.1}, "regularization"),
        ({"memory": -1}, "memory"),
        ({"memory": 2.5}, "memory"),
        ({"average": 1}, "average"),
        ({"block_size": 0}, "block_size"),
        ({"scale_inputs": "yes"}, "scale_inputs"),
        ({"directions": "sparse"}, "directions='sparse'"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"kernel": "cubic"}, "kernel 'cubic'"),
        ({"kernel": ["gaussian"]}, "kernel \\['gaussian'\\] is unknown"),
        ({"bandwidth": 10**400}, "bandwidth"),
        ({"memory": 10**400}, "memory"),
        ({"regularization": False}, "regularization"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        streamk.KaczmarzClassifier(**parameters)


def test_a_regressor_has_its_own_losses():
    with pytest.raises(ValueError, match="'squared' or 'huber' or 'epsilon_insensitive'"):
        streamk.KaczmarzRegressor(loss="margin")


@pytest.mark.parametrize("kernel", ["polynomial:8", "arc-cosine:2"])
def test_a_large_number_does_not_spoil_a_learner(kernel):
    learner = streamk.KaczmarzRegressor(kernel=kernel, bandwidth=1.0, scale_inputs=False, seed=1)
    for i in range(5):
        learner.learn_one({"x": float(i)}, float(i))
    for x in (5e4, -1e15):
        learner.learn_one({"x": x}, 1.0)
    for i in range(20):
        learner.learn_one({"x": float(i % 3)}, 1.0)
    assert np.isfinite(learner.predict_one({"x": 1.0}))


def test_nothing_learned_and_nothing_known():
    assert streamk.KaczmarzClassifier().predict_learn_many([{"a": 1.0}], [1], [0.0]) == [None]
