"""The classifier around the solvers: events in, probabilities out."""

import itertools

import numpy as np
import pytest

import streamk
from streamk.encoding.rows import EncodedRows
from streamk.exact.expansion import InputColumns
from streamk.exact.lssvm import blocks_of, last_or_best
from streamk.exact.lssvm_solver import System, kaczmarz
from streamk.kernels import kernel

NAMES = ["a", "b"]


def ring(count=400, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 2))
    return X, np.where((X**2).sum(axis=1) < 1.2, "in", "out")


@pytest.mark.parametrize("solver", ["kaczmarz", "pursuit", "kaczmarz-pursuit", "nystrom"])
def test_every_solver_learns_a_ring(solver):
    X, y = ring(700)
    learner = streamk.LSSVMClassifier(solver=solver, block=100, committee=3, seed=1)
    learner.fit(X[:500], y[:500], names=NAMES)
    assert np.mean(learner.predict_many(X[500:], names=NAMES) == y[500:]) > 0.93
    given = learner.predict_proba_many(X[500:], names=NAMES)
    assert np.allclose(given.sum(axis=1), 1.0)
    assert (given >= 0.0).all()


def test_a_fit_is_the_dense_solution():
    """Weights divide the ridge; scales are means and deviations; the answer is the projected output."""
    X, y = ring(80)
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 2.0, size=80)
    learner = streamk.LSSVMClassifier(block=80, gamma=2.0, bandwidth=1.5, scale_inputs=False, steps=5, seed=3)
    learner.fit(X, y, weights, names=NAMES)
    exact = kernel("gaussian")
    theta = np.ones((81, 81))
    theta[0, 0] = 0.0
    theta[1:, 1:] = exact(X, X, 1.5) + np.diag(0.5 / weights)
    Z = np.zeros((81, 2))
    Z[1:] = y[:, None] == np.array(learner.labels)
    W = np.linalg.solve(theta, Z)
    outputs = exact(X, X, 1.5) @ W[1:] + W[0]
    first = np.clip((1.0 + outputs[:, 0] - outputs[:, 1]) / 2.0, 0.0, 1.0)  # the nearest point of the simplex
    first = 0.99 * first + 0.005
    assert np.allclose(learner.predict_proba_many(X, names=NAMES)[:, 0], first, atol=1e-4)


def test_scales_are_those_of_all_events():
    X, y = ring(300)
    shifted = X * [1.0, 1000.0] + [5.0, -3e6]
    one, other = (
        streamk.LSSVMClassifier(block=100, seed=1).fit(each, y, names=NAMES) for each in (X, shifted)
    )
    given = one.predict_proba_many(X, names=NAMES)
    assert np.allclose(given, other.predict_proba_many(shifted, names=NAMES), atol=2e-3)


def test_a_committee_is_the_mean_of_its_members():
    X, y = ring(200)
    whole = streamk.LSSVMClassifier(
        solver="kaczmarz", block=40, steps=3, committee=2, scale_inputs=False, bandwidth=1.0, seed=5
    ).fit(X, y, names=NAMES)
    targets = (y[:, None] == np.array(whole.labels)).astype(float)
    order = [whole._codec.inputs.number_key(name, 0) for name in NAMES]
    rows = X[:, np.argsort(order)].astype(np.float32)
    system = System(kernel("gaussian"), 1.0, rows, targets, np.full(200, 0.01))
    orders = [list(itertools.islice(blocks_of(5, member, 200, 40), 5)) for member in (0, 1)]
    assert not np.array_equal(orders[0][0], orders[1][0])
    for blocks in orders:  # a sweep holds every event once
        assert sorted(np.concatenate(blocks)) == list(range(200))
    members = []
    for blocks in orders:
        found = [W.copy() for W in kaczmarz(system, iter(blocks[:3]))]
        members.append((found[1] + found[2]) / 2.0)
    assert np.allclose(whole._expansion.coefficients, np.mean(members, axis=0)[1:], atol=1e-8)
    assert np.allclose(whole._expansion.bias, np.mean(members, axis=0)[0], atol=1e-8)


def test_the_best_solution_is_returned_after_later_steps():
    errors = [5.0, 3.0, 4.0, 4.0, 2.0, 6.0]

    class Judge:
        def error(self, W):
            return errors[int(W[0])]

    def steps():
        W = np.zeros(1)
        for k in range(len(errors)):
            W[0] = k
            yield W

    taken = []
    assert last_or_best(steps(), Judge(), 3, lambda: taken.append(1))[0] == 4.0
    assert len(taken) == 6
    assert last_or_best(steps(), Judge(), 2, lambda: None)[0] == 1.0
    assert last_or_best(steps(), None, 2, lambda: None)[0] == 5.0


def test_predictions_stay_between_solutions():
    """Scales that move on, new names and new labels do not move an answer."""
    X, y = ring(70)
    learner = streamk.LSSVMClassifier(block=30, rows=100, seed=2)
    learner.learn_many(X, y, names=NAMES)
    before = learner.predict_proba_many(X, names=NAMES)
    learner.learn_many(1e3 * X[:20], y[:20], names=NAMES)
    assert np.array_equal(learner.predict_proba_many(X, names=NAMES), before)
    learner.learn_one({"a": 1.0, "new": 5.0}, "third")
    assert np.array_equal(learner.predict_proba_many(X, names=NAMES)[:, :2], before)
    assert learner.predict_proba_one({"a": 0.0, "new": 1.0})["third"] == 0.0
    learner.solve()
    assert not np.allclose(learner.predict_proba_many(X, names=NAMES)[:, :2], before)


def test_validation_stops_and_takes_the_best():
    X, y = ring(400)
    settings = {"block": 20, "steps": 400, "seed": 2}
    learner = streamk.LSSVMClassifier(**settings, validation=0.25).fit(X, y, names=NAMES)
    assert len(learner._expansion.centers) <= 300  # those held back are no centers
    assert np.mean(learner.predict_many(X, names=NAMES) == y) > 0.9


def test_streams_are_solved_again_as_they_grow():
    X, y = ring(600)
    learner = streamk.LSSVMClassifier(block=100, rows=150, seed=2)
    solved = set()
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        learner.learn_one(dict(zip(NAMES, row, strict=True)), label)
        solved.add(learner._solved)
    assert sorted(solved) == [0, 64, 96, 144, 216, 324, 486]
    assert learner.feature_count <= 150
    before = learner.to_bytes()
    learner.solve()
    assert learner._solved == 600
    assert learner.to_bytes() != before
    assert np.mean(learner.predict_many(X, names=NAMES) == y) > 0.9


def test_fit_keeps_everything_and_forgets_what_was_before():
    X, y = ring(300)
    learner = streamk.LSSVMClassifier(block=100, rows=50, seed=2)
    learner.learn_one({"other": 1.0}, "third")
    learner.fit(X, y, names=NAMES)
    assert learner.labels == list(dict.fromkeys(y.tolist()))
    assert learner.events == 300
    assert learner.feature_count == 300
    before = learner.to_bytes()
    with pytest.raises(ValueError, match="row 0"):
        learner.fit(np.full((3, 2), np.inf), y[:3], names=NAMES)
    assert learner.to_bytes() == before


def test_numbers_are_solved_in_their_own_units():
    """A fit by one block of all events is kernel ridge regression with a bias, whatever the units."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 2))
    y = 1e4 + 300.0 * np.sin(X[:, 0]) * X[:, 1]
    learner = streamk.LSSVMRegressor(block=90, gamma=50.0, bandwidth=1.2, scale_inputs=False, steps=8, seed=3)
    learner.fit(X, y, names=NAMES)
    gram = kernel("gaussian")(X, X, 1.2)
    unit = learner._unit()[1]
    theta = np.ones((91, 91))
    theta[0, 0], theta[1:, 1:] = 0.0, gram + np.eye(90) / 50.0
    W = np.linalg.solve(theta, np.append(0.0, (y - 1e4) / unit))
    assert np.allclose(learner.predict_many(X, names=NAMES), 1e4 + unit * (gram @ W[1:] + W[0]), atol=0.3)
    held = streamk.LSSVMRegressor(block=30, validation=0.3, seed=3).fit(X, y, names=NAMES)
    assert np.corrcoef(held.predict_many(X, names=NAMES), y)[0, 1] > 0.9


def test_nothing_cannot_be_solved():
    learner = streamk.LSSVMClassifier(seed=1)
    with pytest.raises(ValueError, match="nothing to solve"):
        learner.solve()
    with pytest.raises(ValueError, match="nothing to solve"):
        learner.fit([], [])


def test_closed_predicts_the_same_and_is_smaller():
    X, y = ring(300)
    learner = streamk.LSSVMClassifier(block=100, seed=2).fit(X, y, names=NAMES)
    closed = learner.closed()
    assert len(closed.to_bytes()) < 0.8 * len(learner.to_bytes())
    assert np.array_equal(
        closed.predict_proba_many(X, names=NAMES), learner.predict_proba_many(X, names=NAMES)
    )
    again = streamk.loads(closed.to_bytes())
    for model in (closed, again):
        model.learn_many(X[:50], y[:50], names=NAMES)
    assert again.to_bytes() == closed.to_bytes()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "newton"}, "solver='newton'"),
        ({"kernel": "rbf"}, "kernel 'rbf' is unknown"),
        ({"gamma": 0.0}, "gamma=0.0"),
        ({"block": 0}, "block=0"),
        ({"steps": 0}, "steps=0"),
        ({"committee": True}, "committee=True"),
        ({"validation": 0.7}, "validation=0.7"),
        ({"rows": -1}, "rows=-1"),
        ({"bandwidth": 0}, "bandwidth=0"),
        ({"scale_inputs": 1}, "scale_inputs=1"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        streamk.LSSVMClassifier(**parameters)


def test_columns_are_inputs_in_the_order_of_their_keys():
    rows = EncodedRows(
        np.full((2, 3), -1, dtype=np.int32),
        np.array([[5, 3, 0], [9, 5, 3]], dtype=np.uint64),
        np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]]),
    )
    columns = InputColumns.of([rows], np.zeros((0, 4)))
    assert columns.keys.tolist() == [3, 5, 9]
    assert columns.dense(rows, 0).tolist() == [[2.0, 1.0, 0.0], [5.0, 4.0, 3.0]]
    unknown = EncodedRows(rows.slots[:1], np.array([[5, 8, 99]], dtype=np.uint64), rows.values[:1])
    assert columns.dense(unknown, 0).tolist() == [[0.0, 1.0, 0.0]]


def test_too_many_inputs_are_refused_with_what_to_do():
    learner = streamk.LSSVMClassifier(seed=1)
    events = [{"text": f"word {k}"} for k in range(65_600)]
    with pytest.raises(ValueError, match="65,600 different inputs"):
        learner.fit(events, [k % 2 for k in range(65_600)])
