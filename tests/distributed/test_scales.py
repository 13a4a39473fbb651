"""Scales that shards agree on first: what is given, and that recursion then is that of one learner."""

import pickle

import numpy as np
import pytest

import streamk
from streamk.distributed import Rows, learn
from streamk.encoding.scaling import COUNT, HELD, MEAN, SQUARES

from .streams import CLASSIFIER, News, shards_of

NAMES = ["a", "b", "c"]
SPREADS, MEANS = np.array([3.0, 0.01, 100.0]), np.array([5.0, 0.0, -1000.0])


def stream(count, drift=0.0):
    """Numbers of three scales whose means drift, and a target of its own scale."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(count, 3)) + drift * np.arange(count)[:, None] / count
    y = 50.0 * (np.sin(X[:, 0]) + X[:, 1] * X[:, 2]) + 7.0 + rng.normal(size=count)
    return X * SPREADS + MEANS, y


def blocks(X, y, count):
    """Shards that are blocks of time."""
    rows, targets = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()], y.tolist()
    size = len(X) // count
    parts = (slice(k * size, (k + 1) * size) for k in range(count))
    return [Rows(f"part {k}", rows[part], targets[part]) for k, part in enumerate(parts)]


def recursion(**changes):
    return streamk.MatchingPursuitRegressor(growth="fixed", features=64, max_features=64, seed=1, **changes)


def scaled(X, statistics):
    """Inputs as they are seen: standardised, clipped at four deviations, around 1."""
    mean, deviation = statistics[:, MEAN], np.sqrt(statistics[:, SQUARES] / statistics[:, COUNT])
    return 1.0 + np.clip((X - mean) / deviation, -4.0, 4.0)


@pytest.mark.parametrize("order", [1, -1])
def test_recursion_in_shards_is_the_least_squares_solution_of_everything(order):
    """Scaled in NumPy, and learned by one learner that does not scale."""
    X, y = stream(9000, drift=3.0)
    trained = learn(blocks(X, y, 6)[::order], recursion(), round=400, scales="first", engine="here").learner
    codec = trained._codec
    X_statistics, y_statistics = codec.inputs.statistics[:3], codec.target
    assert (X_statistics[:, HELD] == np.inf).all()
    assert y_statistics[0, HELD] == np.inf
    for statistics, values in [*zip(X_statistics, X.T, strict=True), (y_statistics[0], y)]:
        assert statistics[COUNT] == len(X) - 1  # the farthest is left out
        np.testing.assert_allclose(statistics[MEAN], values.mean(), atol=2e-3 * values.std())
        np.testing.assert_allclose(statistics[SQUARES] / statistics[COUNT], values.var(), rtol=5e-3)
    whole = recursion(scale_inputs=False, scale_target=False)
    deviation = np.sqrt(y_statistics[0, SQUARES] / y_statistics[0, COUNT])
    z = np.clip((y - y_statistics[0, MEAN]) / deviation, -6.0, 6.0)
    whole.learn_many(scaled(X, X_statistics), z, names=NAMES)
    said = np.array(trained.predict_many(X[::9], names=NAMES))
    truth = y_statistics[0, MEAN] + deviation * np.array(
        whole.predict_many(scaled(X[::9], X_statistics), names=NAMES)
    )
    np.testing.assert_allclose(said, truth, atol=1e-6 * y.std())


def test_with_running_scales_recursion_errs_hardly_more_than_one_learner():
    X, y = stream(16_000)
    one = recursion()
    one.learn_many(X[:12_000], y[:12_000], names=NAMES)
    trained = learn(blocks(X[:12_000], y[:12_000], 6), recursion(), round=400, engine="here").learner
    errors = [
        np.sqrt(np.mean((np.array(m.predict_many(X[12_000:], names=NAMES)) - y[12_000:]) ** 2))
        for m in (one, trained)
    ]
    assert errors[1] < 1.02 * errors[0]


LEARNERS = {
    "numbers": (streamk.KernelRegressor(features=768, seed=7), False),
    "classes": (streamk.KernelClassifier(features=768, seed=7), True),
    "first order": (CLASSIFIER, True),
    "with memory": (streamk.KaczmarzRegressor(features=64, memory=1000, seed=7), False),
    "blocks": (streamk.KaczmarzRegressor(features=64, block_size=32, seed=7), False),
    "gradient": (streamk.DoublyStochasticClassifier(features=64, batch_size=128, seed=7), True),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_given_scales_stay(name):
    """Through learning, one by one and many at once; copies; files; merging."""
    learner, classes = LEARNERS[name]
    shards = shards_of((300, 200, 250), classes)
    trained = learn(shards, learner, round=100, scales="first", engine="here")
    model = trained.learner
    given = model._codec.inputs.statistics.copy(), model._codec.target.copy()
    assert (given[0][: model._codec.inputs.slots, HELD] == np.inf).all()
    assert model.events == 750 - model.pending
    assert trained.curve[0].events <= 300
    assert all(entry.turn == 1 for entry in trained.curve)
    copies = [streamk.loads(model.to_bytes()), pickle.loads(pickle.dumps(model))]
    for copy in copies:
        assert copy.to_bytes() == model.to_bytes()
    for number, shard in enumerate(shards):
        copies[0].learn_many([{"x": 1e6, "colour": "red"}, *shard.rows], [shard.targets[0], *shard.targets])
        copies[1].learn_one({"x": -50.0 * number, "new": 1.0 + number}, shard.targets[0])
        copies[1].predict_one({"x": 2.0, "new": 3.0})
    for copy in copies:
        copy.flush()
    merged = streamk.merge(copies, base=model)
    for copy in (*copies, merged, streamk.merge(copies)):
        slots = copy._codec.inputs.numbers
        np.testing.assert_array_equal(copy._codec.inputs.statistics[slots["x"]], given[0][0])
        np.testing.assert_array_equal(copy._codec.target, given[1])
    running = copies[1]._codec.inputs
    assert running.statistics[running.numbers["new"], HELD] != np.inf  # met later
    merged.learn_many(shards[0].rows, shards[0].targets)


def test_bytes_do_not_depend_on_engine_and_workers():
    shards = shards_of((120, 70, 0, 90))
    runs = [
        learn(shards, CLASSIFIER, round=40, scales="first", passes=2, **how)
        for how in ({"engine": "here"}, {"workers": 1}, {"workers": 2})
    ]
    assert len({run.learner.to_bytes() for run in runs}) == 1
    assert [entry.turn for entry in runs[0].curve] == [1, 1, 1, 1, 2, 2, 2]
    assert runs[0].events == 560


@pytest.mark.parametrize("until", [1, 2, 3, 4, 5])
def test_interrupted_while_agreeing_and_after(tmp_path, until):
    shards, path = shards_of((120, 70, 0, 90)), tmp_path / "run"
    whole = learn(shards, CLASSIFIER, round=40, scales="first", engine="here")
    settings = {"round": 40, "scales": "first", "engine": "here", "checkpoint": path}
    with pytest.raises(KeyboardInterrupt):
        learn(shards, CLASSIFIER, **settings, watch=News(until))
    again = learn(shards, CLASSIFIER, **settings)
    assert again.learner.to_bytes() == whole.learner.to_bytes()
    with pytest.raises(ValueError, match="it has scales 'first' and this one 'running'"):
        learn(shards, CLASSIFIER, **{**settings, "scales": "running"})


def test_what_was_not_agreed_is_not_merged():
    models = [
        learn(shards_of((90, 90))[k : k + 1], CLASSIFIER, scales="first", engine="here").learner
        for k in range(2)
    ]
    with pytest.raises(ValueError, match="model 1 has other given scales of 'x' than model 0"):
        streamk.merge(models)
    running = learn(shards_of((90,)), CLASSIFIER, engine="here").learner
    with pytest.raises(ValueError, match="model 1 has other given scales of 'x' than model 0"):
        streamk.merge([models[0], running])


def test_bad_requests_are_refused():
    known = CLASSIFIER.clone()
    known.learn_one({"x": 1.0}, True)
    with pytest.raises(ValueError, match="this one has learned 1 events"):
        learn(shards_of((10,)), known, scales="first")
    with pytest.raises(ValueError, match="scales is 'soon'; use running or first"):
        learn(shards_of((10,)), CLASSIFIER, scales="soon")


def test_an_absurd_value_stays_out_of_the_scales():
    shards = shards_of((200, 200))
    shards[1].rows[7]["x"] = 1e12
    trained = learn(shards, CLASSIFIER, round=50, scales="first", engine="here").learner
    statistics = trained._codec.inputs.statistics[0]
    assert statistics[SQUARES] / statistics[COUNT] < 10.0
