"""The learners of low-rank kernels: what they answer and keep, and data that is out of the ordinary."""

import numpy as np
import pytest
from numba import get_num_threads, set_num_threads
from sklearn.linear_model import Lasso

import streamk
from streamk.kernels import kernel

NAMES = ["a", "b"]
BOTH = [streamk.LowRankKernelClassifier, streamk.LowRankKernelRegressor]


def sinc(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-5.0, 5.0, size=(n, 2))
    length = np.linalg.norm(X, axis=1)
    return X, np.sin(length) / length


def targets(cls, values):
    return values > 0.0 if cls is BOTH[0] else values


@pytest.mark.parametrize("keep_columns", [True, False])
def test_its_answers_are_those_of_the_lasso_over_columns(keep_columns):
    X, y = sinc(80)
    w = np.random.default_rng(1).choice([0.5, 1.0, 4.0], size=80)
    learner = streamk.LowRankKernelRegressor(
        columns=None, bandwidth=0.8, penalty=0.5, tolerance=1e-10, scale_inputs=False, seed=1,
        keep_columns=keep_columns,
    ).fit(X, y, w, names=NAMES)  # fmt: skip
    X32 = X.astype(np.float32).astype(np.float64)
    C = kernel("gaussian")(X32, X32, 0.8)
    centre = np.average(y, weights=w)
    _, unit = learner._unit()
    lasso = Lasso(alpha=np.sqrt(0.5) / 80, fit_intercept=False, tol=1e-12, max_iter=10**6)
    lasso.fit(np.sqrt(w)[:, None] * C, np.sqrt(w) * (y - centre) / unit)
    np.testing.assert_allclose(
        learner.predict_many(X, names=NAMES), centre + unit * C @ lasso.coef_, atol=5e-4
    )


def test_columns_have_length_1_in_their_own_space():
    """Where ``k(x, x)`` is not 1, each column is divided by its root (eq. 2)."""
    X, y = sinc(40)
    learner = streamk.LowRankKernelRegressor(
        columns=None, kernel="polynomial:2", bandwidth=2.0, penalty=0.5, tolerance=1e-10, scale_inputs=False,
        seed=1,
    ).fit(X, y, names=NAMES)  # fmt: skip
    K = kernel("polynomial:2")(X, X, 2.0)
    C = K / np.sqrt(np.diagonal(K))
    _, unit = learner._unit()
    lasso = Lasso(alpha=np.sqrt(0.5) / 40, fit_intercept=False, tol=1e-10, max_iter=10**6)
    lasso.fit(C, (y - y.mean()) / unit)
    answers = learner.predict_many(X, names=NAMES)
    np.testing.assert_allclose(answers, y.mean() + unit * C @ lasso.coef_, atol=2e-3)


def test_only_sampled_events_are_centers():
    X, y = sinc(300)
    learner = streamk.LowRankKernelRegressor(columns=40, penalty=1e-4, seed=1).fit(X, y, names=NAMES)
    assert learner.sparsity == learner.feature_count <= 40
    sparse = streamk.LowRankKernelRegressor(columns=40, penalty=10.0, seed=1).fit(X, y, names=NAMES)
    assert 0 < sparse.sparsity < learner.sparsity


@pytest.mark.parametrize("how", ["file", "closed"])
@pytest.mark.parametrize("cls", BOTH)
def test_sparsity_is_known_and_kept(cls, how):
    X, y = sinc(200)
    learner = cls(columns=60, seed=1)
    assert not learner.sparsity
    learner.fit(X, targets(cls, y), names=NAMES)
    other = streamk.loads(learner.to_bytes()) if how == "file" else learner.closed()
    assert other.sparsity == learner.sparsity
    counts = learner.sparsity.values() if cls is BOTH[0] else [learner.sparsity]
    assert all(0 < count <= 60 for count in counts)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = np.array(["in", "out", "far"])[np.digitize((X**2).sum(axis=1), [1.0, 3.0][: classes - 1])]
    learner = streamk.LowRankKernelClassifier(columns=150, seed=1).fit(X[:600], y[:600], names=NAMES)
    assert np.mean(learner.predict_many(X[600:], names=NAMES) == y[600:]) > 0.9
    shares = learner.predict_proba_many(X, names=NAMES)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares >= 0.0).all()
    assert set(learner.sparsity) == set(y)


def test_each_class_has_the_minimum_of_its_own():
    """Of three classes, the weights of one are those of its regression on 0 and 1."""
    X, y = sinc(80)
    labels = np.digitize(y, [0.0, 0.3])
    learner = streamk.LowRankKernelClassifier(
        columns=None, bandwidth=1.5, penalty=0.05, tolerance=1e-10, scale_inputs=False, seed=1
    ).fit(X, labels, names=NAMES)
    outputs = learner._expansion.outputs(X.astype(np.float32))
    C = kernel("gaussian")(X, X, 1.5)
    for k, label in enumerate(learner.labels):
        share = np.mean(labels == label)
        lasso = Lasso(alpha=np.sqrt(0.05) / 80, fit_intercept=False, tol=1e-10, max_iter=10**6)
        lasso.fit(C, (labels == label) - share)
        np.testing.assert_allclose(outputs[:, k], C @ lasso.coef_ + share, atol=5e-3)


@pytest.mark.parametrize("move", ["exact", "newton"])
def test_moves_end_at_one_place(move):
    X, y = sinc(200)
    learner = streamk.LowRankKernelRegressor(columns=60, penalty=0.1, tolerance=1e-10, move=move, seed=1)
    exact = learner.clone({"move": "exact"}).fit(X, y, names=NAMES)
    answers = learner.fit(X, y, names=NAMES).predict_many(X, names=NAMES)
    np.testing.assert_allclose(answers, exact.predict_many(X, names=NAMES), atol=5e-3)


def test_steps_end_it():
    X, y = sinc(200)
    one = streamk.LowRankKernelRegressor(columns=60, steps=1, seed=1).fit(X, y, names=NAMES)
    assert one.sparsity == 1
    few = streamk.LowRankKernelRegressor(columns=60, steps=9, seed=1).fit(X, y, names=NAMES)
    assert 1 < few.sparsity <= 9


@pytest.mark.parametrize("keep_columns", [True, False])
@pytest.mark.parametrize("cls", BOTH)
def test_the_number_of_threads_does_not_show(cls, keep_columns):
    X, y = sinc(600)
    labels = np.digitize(y, [-0.1, 0.1]) if cls is BOTH[0] else y
    before, models = get_num_threads(), []
    try:
        for threads in (1, before):
            set_num_threads(threads)
            learner = cls(columns=60, keep_columns=keep_columns, seed=1, steps=300)
            models.append(learner.fit(X, labels, names=NAMES).to_bytes())
    finally:
        set_num_threads(before)
    assert models[0] == models[1]


def test_weights_are_events_that_repeat():
    X, y = sinc(80)
    settings = {"columns": None, "bandwidth": 1.5, "penalty": 0.01, "tolerance": 1e-11, "scale_inputs": False}
    one = streamk.LowRankKernelClassifier(**settings, seed=1).fit(X, y > 0.0, np.full(80, 3.0), names=NAMES)
    three = streamk.LowRankKernelClassifier(**settings, seed=1)
    three.fit(np.tile(X, (3, 1)), np.tile(y > 0.0, 3), names=NAMES)
    np.testing.assert_allclose(
        one.predict_proba_many(X, names=NAMES), three.predict_proba_many(X, names=NAMES), atol=2e-3
    )


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("keep_columns", [True, False])
def test_data_out_of_the_ordinary(cls, keep_columns):
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(90, 2))
    cases = {
        "one": plain[:1],
        "two": plain[:2],
        "constant column": np.column_stack([plain[:, 0], np.full(90, 3.0)]),
        "all the same": np.full((90, 2), 3.0),
        "twins": np.repeat(plain[:9], 10, axis=0),
    }
    for kernel_name in ("gaussian", "arc-cosine", "polynomial:2:0"):
        for name, X in cases.items():
            y = targets(cls, X[:, 0] + rng.normal(size=len(X)))
            learner = cls(columns=500, kernel=kernel_name, keep_columns=keep_columns, seed=1)
            learner.fit(X, y, names=NAMES)
            said = learner.predict_many(X, names=NAMES)
            assert len(said) == len(X), name
            if cls is BOTH[1]:
                assert np.isfinite(said).all(), name
            assert streamk.loads(learner.to_bytes()).to_bytes() == learner.to_bytes()


@pytest.mark.parametrize("cls", BOTH)
def test_a_target_that_never_changes(cls):
    X = np.random.default_rng(0).normal(size=(30, 2))
    learner = cls(seed=1).fit(X, np.full(30, 7), names=NAMES)
    assert set(learner.predict_many(X, names=NAMES).tolist()) == {7}
    assert learner.feature_count == 0


@pytest.mark.parametrize("weights", [1e-300, 1e12, 1e300, "mixed"])
@pytest.mark.parametrize("penalty", [1e-12, 1e-3, 1e12])
@pytest.mark.parametrize("cls", BOTH)
def test_extreme_weights_and_penalties_give_numbers(cls, penalty, weights):
    X, y = sinc(120)
    w = 10.0 ** (np.arange(120) % 61 * 10 - 300) if weights == "mixed" else np.full(120, weights)
    learner = cls(columns=60, penalty=penalty, ridge=penalty, seed=1, steps=600)
    learner.fit(X, targets(cls, y), w, names=NAMES)
    answers = (
        learner.predict_proba_many(X, names=NAMES) if cls is BOTH[0] else learner.predict_many(X, names=NAMES)
    )
    assert np.isfinite(answers).all()


def test_a_stream_is_learned():
    X, y = sinc(1500)
    learner = streamk.LowRankKernelRegressor(columns=200, rows=400, seed=1)
    said = learner.predict_learn_many(X, y, names=NAMES)
    late = slice(1000, None)
    assert np.mean((said[late] - y[late]) ** 2) < 0.15 * np.var(y)
    assert learner.feature_count <= 200


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": 0}, "columns=0: columns must be None or a whole number"),
        ({"ridge": 0.0}, "ridge=0.0: ridge must be a number from"),
        ({"penalty": -1.0}, "penalty=-1.0: penalty must be a number from"),
        ({"tolerance": 1.0}, "tolerance=1.0: tolerance must be a number"),
        ({"steps": 0}, "steps=0: steps must be None"),
        ({"move": "slow"}, "move='slow': move must be 'exact' or 'newton'"),
        ({"keep_columns": 1}, "keep_columns=1: keep_columns must be True or False"),
        ({"rows": 0}, "rows=0"),
        ({"kernel": "none"}, "kernel 'none' is unknown"),
        ({"bandwidth": 0.0}, "bandwidth=0.0"),
        ({"seed": -1}, "seed=-1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("cls", BOTH)
def test_what_is_refused(cls, parameters, message):
    with pytest.raises(ValueError, match=message):
        cls(**parameters)
