"""The exact solution of few events, and its share in predictions."""

import numpy as np
import pytest
from sklearn import datasets, gaussian_process, kernel_ridge

import streamk
from streamk.encoding.rows import EncodedRows
from streamk.features.sample import Sampled
from streamk.learners import few_events
from streamk.learners.few_events import FEW, FewEvents, share_of, solve
from streamk.learners.loading import loads
from streamk.model_file import unpack

NAMES = "abcd"
BOTH = pytest.mark.parametrize("made", [streamk.KernelRegressor, streamk.KernelClassifier])


def log(count, classifies, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 4))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=count)
    events = [
        dict(zip(NAMES, row, strict=True)) | {"kind": "pq"[k % 2]}
        for k, row in enumerate(X.round(6).tolist())
    ]
    return events, np.digitize(y, [-0.5, 0.5]).astype(str).tolist() if classifies else y.tolist()


def learned(made, count, **parameters):
    events, targets = log(count + 50, made.classifies)
    learner = made(seed=3, **parameters)
    learner.learn_many(events[:count], targets[:count])
    return learner, events[count:], targets[count:]


def answers(learner, events):
    """Return predictions of one event after another, as numbers."""
    if not learner.classifies:
        return np.array([learner.predict_one(x) for x in events])
    return np.array([[*learner.predict_proba_one(x).values()] for x in events])


def sampled(X, y, weights=None, memory=None):
    keys = np.arange(1, X.shape[1] + 1, dtype=np.uint64)[None]
    rows = EncodedRows(np.arange(X.shape[1], dtype=np.int32)[None], keys, X)
    labels = np.zeros((len(X), 64), dtype=np.float32) if memory is None else memory
    goal = np.array([y, np.ones(len(y)) if weights is None else weights])
    return Sampled(rows, labels, goal, np.zeros((2, len(y))))


def choices(X):
    """Yield the kernel matrix, and the penalty, of every choice without the label memory."""
    Z = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -3.0, 3.0) / np.sqrt(X.shape[1])
    for linear in (0.0, 0.5):
        near = gaussian_process.kernels.RBF(1.0)(Z)
        for penalty in (0.03, 0.3, 1.0):
            yield (1.0 - linear) * near + linear * Z @ Z.T, penalty


@pytest.mark.parametrize("noise", [0.02, 2.0])
@pytest.mark.parametrize("shape", [np.sin, np.asarray])
def test_the_solution_is_the_kernel_ridge_regression_of_most_likelihood(shape, noise):
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(60, 3)), rng.choice([0.5, 1.0, 3.0], size=60)
    y = 50.0 + 7.0 * (shape(2.0 * X[:, 0]) + noise * rng.normal(size=60))
    ridge = solve(sampled(X[:40], y[:40], weights[:40]), 1.0, False, False)
    relative = weights[:40] / weights[:40].mean()
    z = (y[:40] - y[:40].mean()) / y[:40].std()
    z -= np.average(z, weights=relative)
    best = (-np.inf,)
    for k, (kernel, penalty) in enumerate(choices(X[:40])):
        covariance = kernel + np.diag(penalty / relative)
        scale = z @ np.linalg.inv(covariance) @ z / len(z)
        likelihood = -0.5 * np.linalg.slogdet(scale * covariance)[1]
        best = max(best, (likelihood, k, kernel, penalty))
    model = kernel_ridge.KernelRidge(alpha=best[3], kernel="precomputed")
    model.fit(best[2], z, sample_weight=relative)
    expected = np.average(y[:40], weights=relative) + y[:40].std() * model.predict(best[2])
    found = ridge.predict(sampled(X[:40], y[:40]).rows, np.zeros((40, 64)))[:, 0]
    assert found == pytest.approx(expected, rel=1e-6)


def test_errors_are_those_of_solutions_of_the_events_before():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=30)
    ridge = solve(sampled(X, y), 1.0, False, False)
    z = (y - y.mean()) / y.std()
    totals = []
    for kernel, penalty in choices(X):
        errors = [
            z[i] - kernel[i, :i] @ np.linalg.solve(kernel[:i, :i] + penalty * np.eye(i), z[:i])
            for i in range(1, 30)
        ]
        totals.append(np.mean(np.square(errors)))
    assert min(abs(np.array(totals) / ridge.error - 1.0)) < 1e-6


def test_probabilities_have_the_sharpness_of_least_log_loss():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2))
    clear, noisy = (X[:, 0] > 0).astype(float), rng.integers(2, size=80).astype(float)
    sharp, flat = (solve(sampled(X, codes), 1.0, False, True) for codes in (clear, noisy))
    assert sharp.beta > flat.beta == 1.0
    rows = sampled(X, clear).rows
    for ridge in (sharp, flat):
        p = ridge.predict(rows, np.zeros((80, 64)))
        assert (p > 0.0).all()
        assert p.sum(axis=1) == pytest.approx(np.ones(80))
    right = sharp.predict(rows, np.zeros((80, 64))).argmax(axis=1) == clear
    assert right.mean() > 0.95


def test_the_label_memory_is_an_input_where_it_says_something():
    rng = np.random.default_rng(4)
    y = np.cumsum(rng.normal(size=100))
    ridge = solve(sampled(rng.normal(size=(100, 2)), y), 1.0, True, False)
    assert ridge.events.shape == (100, 2 + 64)
    assert ridge.error < 0.3
    X = rng.normal(size=(100, 2))
    assert solve(sampled(X, X[:, 0] ** 2), 1.0, True, False).events.shape == (100, 2)


def test_the_last_label_is_an_input_of_the_next_prediction(monkeypatch):
    rng = np.random.default_rng(5)
    y = 100.0 + np.resize([1.0, -1.0], 120) + 0.1 * rng.normal(size=120)
    events = [{"a": a} for a in rng.normal(size=120).tolist()]
    monkeypatch.setattr(few_events, "share_of", lambda *_: 1.0)
    predicted = streamk.KernelRegressor(seed=3).predict_learn_many(events, y.tolist())
    assert np.abs(predicted[60:] - y[60:]).mean() < 0.2


@BOTH
def test_the_share_falls_to_nothing_at_256_events(made, monkeypatch):
    calls = []
    mixed = FewEvents.mixed
    monkeypatch.setattr(FewEvents, "mixed", lambda *a: calls.append(len(a[4].sample)) or mixed(*a))
    events, targets = log(FEW + 20, made.classifies)
    made(seed=3).predict_learn_many(events, targets)
    assert calls == [*range(FEW)]
    shares, quotients = [], []
    for count in (10, 100, 128, 192, 255):
        learner, rest, _ = learned(made, count)
        together = answers(learner, rest[:1])
        exact = learner._few_events._solved[2]
        monkeypatch.setattr(FewEvents, "mixed", lambda _, predictions, *__: predictions)
        experts = answers(learner, rest[:1])
        monkeypatch.setattr(FewEvents, "mixed", mixed)
        rows = learner._codec.inputs.encode_checked(rest[0], False)
        sections, memory = learner._map.sections, learner._codec.memory
        if made.classifies:
            alone = exact.predict(rows, memory[:1])
            quotients.append(exact.error / learner._combiner.losses.min())
        else:
            states = few_events._states((sections.sample.record.goal[0, :count] - exact.mean) / exact.unit)
            alone = exact.predict(rows, states[-1:])[0]
            predicted, actual = sections.sample.events().outcomes[:, 1:]
            quotients.append(exact.error / np.mean((predicted - actual) ** 2 / exact.unit**2))
        shares.append(float(np.mean((together - experts) / (alone - experts))))
    taper, quotients = np.array([1.0, 1.0, 1.0, 0.5, 2.0 - 255 / 128]), np.array(quotients)
    odds = np.array([0.0, 1.0, 1.0, 1.0, 1.0]) * quotients**4 if made.classifies else quotients**2
    assert shares == pytest.approx(taper / (1.0 + odds))
    assert all(0.1 < share < 1.0 for share in shares[1:3])
    assert share_of(48, 1.0, 1.0, True) == pytest.approx(1.0 / 1.5)


@BOTH
@pytest.mark.parametrize("count", [1, 2, 17, 40, 254, 255])
def test_every_way_to_predict_agrees(made, count):
    learner, events, _ = learned(made, count)
    before = learner.to_bytes()
    many = learner.predict_proba_many(events) if made.classifies else learner.predict_many(events)
    many = np.array([[*row.values()] for row in many] if made.classifies else many)
    assert learner.to_bytes() == before
    loaded = loads(before)
    assert (answers(loaded, events[:1]) == many[:1]).all()
    again = loads(before)
    again_many = again.predict_proba_many(events) if made.classifies else again.predict_many(events)
    assert again_many == (
        learner.predict_proba_many(events) if made.classifies else learner.predict_many(events)
    )
    frozen = learner.frozen()
    one_by_one = answers(frozen, events)
    assert (answers(loads(frozen.to_bytes()), events) == one_by_one).all()
    far = frozen.predict_proba_many(events) if made.classifies else frozen.predict_many(events)
    far = np.array([[*row.values()] for row in far] if made.classifies else far)
    assert far == pytest.approx(one_by_one, rel=1e-5)


@pytest.mark.parametrize("count", [1, 17, 70, 200])
def test_probabilities_sum_to_1_where_the_solution_lacks_a_class(count):
    learner, events, _ = learned(streamk.KernelClassifier, count)
    for label in ("first", "second"):
        learner.learn_one(events[0], label)
        p = learner.predict_proba_one(events[1])
        assert sum(p.values()) == pytest.approx(1.0)
        assert min(p.values()) > 0.0


def test_a_loaded_learner_predicts_the_same_after_a_new_class():
    learner, events, _ = learned(streamk.KernelClassifier, 70)
    learner.predict_one(events[0])
    learner.learn_one(events[0], "new")
    loaded = loads(learner.to_bytes())
    assert learner.predict_proba_one(events[1]) == loaded.predict_proba_one(events[1])
    assert learner.predict_proba_one(events[1])["new"] < 0.5


@BOTH
def test_labels_that_come_later_say_less(made, monkeypatch):
    solved, shares = [], []
    solve, share = few_events.solve, few_events.share_of
    monkeypatch.setattr(few_events, "solve", lambda *a: solved.append(a[2]) or solve(*a))
    monkeypatch.setattr(few_events, "share_of", lambda *a: shares.append(share(*a)) or shares[-1])
    events, targets = log(100, made.classifies)
    learner = made(seed=3)
    for k, x in enumerate(events):
        learner.ask_one(k, x)
        if k >= 5:
            learner.tell_one(k - 5, targets[k - 5])
    assert set(solved[-20:]) == {made.classifies}
    assert set(shares[-20:]) == {0.5}  # errors of late labels are those of models of fewer events
    assert shares == sorted(shares)
    assert few_events.share_of(32, 1.0, None, made.classifies) == 0.25


@BOTH
def test_extreme_values_give_finite_predictions(made):
    learner = made(seed=3)
    events = [
        {},
        {"a": 1e90},
        {"a": -1e90, "b": None},
        {"b": float("nan"), "c": "x"},
        {"a": 1e-300, "c": "y", "d": True},
        *({"a": float(k % 3), "b": 5.0} for k in range(20)),
    ]
    targets = [1e99, -1e99, 0.0, 1e-300, 1.0, *([2.0] * 20)]
    for k, (x, y) in enumerate(zip(events, targets, strict=True)):
        for asked in (x, {"z": 1.0, "c": "new"}, {}):
            assert np.isfinite(answers(learner, [asked]).astype(float)).all()
        learner.learn_one(x, str(y) if made.classifies else y, [1.0, 1e9, 1e-12, 3.0][k % 4])
    assert np.isfinite(answers(learner.frozen(), events)).all()


def test_a_missing_number_is_at_its_mean():
    learner, events, _ = learned(streamk.KernelRegressor, 60)
    learner.predict_one(events[0])
    ridge, inputs = learner._few_events._solved[2], learner._codec.inputs
    place = ridge.inputs.keys.tolist().index(inputs.entry("a")[1])
    x = events[0] | {"a": ridge.inputs.means[place]}
    gone, there = (inputs.encode_checked(event, False).copy() for event in (x | {"a": None}, x))
    memory = np.zeros((1, 64))
    assert ridge.predict(gone, memory) == pytest.approx(ridge.predict(there, memory))
    unknown = inputs.encode_checked(x | {"new": 3.0, "kind": "new"}, False)
    assert ridge.inputs.matrix(unknown, memory)[0] == pytest.approx(
        ridge.inputs.matrix(
            inputs.encode_checked({k: v for k, v in x.items() if k != "kind"}, False), memory
        )[0]
    )


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("count", [FEW - 1, FEW])
def test_closed_models_have_few_events_if_any(count, neighbours):
    learner, *_ = learned(streamk.KernelRegressor, count, neighbours=neighbours)
    _, arrays = unpack(learner.closed().to_bytes(), "it")
    assert ("map.sample.values" in arrays) == (neighbours and count < FEW)


TABLES = datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer, datasets.load_digits


def test_the_first_50_events_of_tables():
    """In random order; the nearest event before, on the scales of all of them, is right as often as .80."""
    right = []
    for load in TABLES:
        X, y = load(return_X_y=True)
        for seed in range(3):
            drawn = np.random.default_rng(seed).permutation(len(y))[:50]
            names = [f"x{k}" for k in range(X.shape[1])]
            found = streamk.KernelClassifier(seed=seed).predict_learn_many(X[drawn], y[drawn], names=names)
            right.append(np.mean(np.array(found) == y[drawn]))
    assert np.mean(right) > 0.78
