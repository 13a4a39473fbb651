"""More names of numbers than a learner holds: rare ones leave, and nothing else shows."""

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import streamk
from streamk.encoding import names
from streamk.encoding.inputs import Inputs
from streamk.encoding.names import COLUMNS
from streamk.exact import LSSVMRegressor
from streamk.learners.few_events import FEW

MOST = 24
WORDS = [f"word{k}" for k in range(6)]
SUBJECTS = {
    "classifier": (streamk.KaczmarzClassifier, {"features": 64}),
    "memory": (streamk.KaczmarzRegressor, {"features": 64, "memory": 50}),
    "blocks": (streamk.KaczmarzRegressor, {"features": 64, "block_size": 7}),
    "waiting": (streamk.DoublyStochasticRegressor, {"features": 64, "batch_size": 128}),
    "kernel": (streamk.KernelClassifier, {"features": 768}),
    "kernel numbers": (streamk.KernelRegressor, {"features": 768}),
}


@pytest.fixture(autouse=True)
def _few_names(monkeypatch):
    monkeypatch.setattr(names, "MOST_NAMES", MOST)


@pytest.fixture(params=SUBJECTS)
def make(request):
    cls, settings = SUBJECTS[request.param]
    return lambda: cls(seed=3, **settings)


def stream(events=300, seed=0):
    """Bags of words: some common words, and two that are new in every third event."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(events):
        x = {word: float(rng.integers(1, 4)) for word in WORDS if rng.random() < 0.6}
        if i % 3 == 0:
            x |= {f"rare{seed}-{i}": 1.0, f"odd{seed}-{i}": 2.5}
        if i % 7 == 0:
            x["missing"], x[f"text{i}"] = None, "a"
        found.append((x, int(x.get("word0", 0.0) > 1.5)))
    return found


def loop(learner, events):
    for x, y in events:
        learner.learn_one(x, y)
    return learner


def test_rare_names_leave_and_common_ones_stay(make):
    learner = loop(make(), stream())
    assert len(learner.number_names) <= MOST
    assert set(WORDS) <= set(learner.number_names)
    inputs = learner._codec.inputs
    assert list(inputs.numbers.values()) == list(range(len(inputs.numbers)))
    assert len(inputs.statistics) <= 2 * MOST


@pytest.mark.parametrize("cuts", [(300,), (100, 200), (1, 9, 290)])
def test_batches_equal_a_loop(make, cuts):
    events = stream()
    one, many = loop(make(), events), make()
    for start, stop in zip((0, *cuts), (*cuts, len(events)), strict=True):
        if start < stop:
            xs, ys = zip(*events[start:stop], strict=True)
            many.learn_many(list(xs), list(ys))
    assert many.to_bytes() == one.to_bytes()


def test_predictions_on_the_way_equal_those_of_a_loop(make):
    one, many = make(), make()
    for learner in one, many:  # few events, from which learners predict, cannot have so many names
        loop(learner, stream(FEW, 1))
    events = stream(150)
    said = []
    for x, y in events:
        said.append(one.predict_one(x))
        one.learn_one(x, y)
    xs, ys = zip(*events, strict=True)
    found = many.predict_learn_many(list(xs), list(ys))
    assert many.to_bytes() == one.to_bytes()
    if not many._gathers:  # else to rounding
        assert found == said


def test_frames_equal_a_loop():
    """More columns than names, each with values in some rows only."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {f"n{k}": pd.array(np.where(rng.random(80) < 0.2, k + rng.random(80), np.nan)) for k in range(40)}
    )
    y = rng.random(80)
    one, many = (streamk.KaczmarzRegressor(features=64, seed=3) for _ in range(2))
    for record, target in zip(frame.to_dict("records"), y.tolist(), strict=True):
        one.learn_one({k: None if v is pd.NA or v != v else v for k, v in record.items()}, target)
    many.learn_many(frame, y)
    assert many.to_bytes() == one.to_bytes()
    assert len(many.number_names) <= MOST


@pytest.mark.parametrize("way", ["bytes", "pickle", "copy"])
def test_a_model_stored_midway_continues_identically(make, way):
    events = stream()
    whole, part = loop(make(), events), loop(make(), events[:153])
    assert len(part._codec.inputs.uses)
    again = {
        "bytes": lambda: streamk.loads(part.to_bytes()),
        "pickle": lambda: pickle.loads(pickle.dumps(part)),
        "copy": lambda: copy.deepcopy(part),
    }[way]()
    assert loop(again, events[153:]).to_bytes() == whole.to_bytes()
    assert loop(part, events[153:]).to_bytes() == whole.to_bytes()


def test_use_fades():
    """A word that was common long ago leaves before one that is rare and comes still."""
    learner = streamk.KaczmarzRegressor(features=64, seed=3)
    for i in range(64):
        learner.learn_one({"once": 1.0, "always": 2.0}, float(i % 3))
    for i in range(400):
        learner.learn_one({f"rare{i}": 1.0, "always": 2.0} | ({"still": 1.0} if i % 4 == 0 else {}), 1.0)
    assert {"always", "still"} <= set(learner.number_names)
    assert "once" not in learner.number_names


def test_of_names_used_alike_the_oldest_leave():
    inputs = Inputs(evicts=True)
    for i in range(MOST + 1):
        inputs.encode({f"n{i:02}": 1.0}, True)
    gone = MOST // 8
    assert list(inputs.numbers) == [f"n{i:02}" for i in range(gone, MOST + 1)]


def test_the_names_of_the_current_event_are_not_evicted():
    inputs = Inputs(evicts=True)
    for i in range(MOST):
        inputs.encode({f"n{i:02}": 1.0}, True)
    x = {f"n{i:02}": 1.0 for i in range(10)} | {f"new{i}": 1.0 for i in range(MOST - 10)}
    inputs.encode(x, True)
    assert set(inputs.numbers) == set(x)


def test_an_event_with_too_many_numbers_is_refused_and_nothing_changes(make):
    learner = loop(make(), stream(100))
    before = learner.to_bytes()
    wide = {f"w{k}": 1.0 for k in range(MOST + 1)}
    with pytest.raises(ValueError, match="the event has 25 numbers, and a learner holds the names of 24"):
        learner.learn_one(wide, 1)
    batch = [x for x, _ in stream(100, seed=5)]
    with pytest.raises(ValueError, match="row 50: the event has 25 numbers"):
        learner.learn_many([*batch[:50], wide, *batch[50:]], [1] * 101)
    with pytest.raises(ValueError, match="row 100: field 'a' is inf"):
        learner.learn_many([*batch, {"a": float("inf")}], [1] * 101)
    assert learner.to_bytes() == before


@pytest.mark.parametrize(
    ("learner", "remedy"),
    [
        (streamk.KaczmarzRegressor(directions="dense", features=64), 'Use directions="keyed", or put'),
        (streamk.KaczmarzRegressor(directions="structured", features=64), 'Use directions="keyed", or put'),
        (LSSVMRegressor(), "Use scale_inputs=False, which stores no names, or put"),
    ],
)
def test_advice_is_true_where_names_do_not_leave(learner, remedy):
    learner.learn_one({"a": 1.0}, 1.0)
    wide = {f"w{k}": 1.0 for k in range(MOST)}
    with pytest.raises(ValueError, match=f"among more than 24 names .*{remedy}"):
        learner.learn_one(wide, 1.0)
    keyed = learner.clone({"directions": "keyed"} if "keyed" in remedy else {"scale_inputs": False})
    keyed.learn_one({"a": 1.0}, 1.0)
    keyed.learn_one(wide, 1.0)


def test_merged_learners_hold_the_names_most_used():
    base = loop(streamk.KaczmarzClassifier(features=64, seed=3), stream(60))
    parts = [loop(copy.deepcopy(base), stream(120, seed=seed)) for seed in (1, 2, 3)]
    merged = streamk.merge(parts)
    assert len(merged.number_names) <= MOST
    assert set(WORDS) <= set(merged.number_names)
    assert streamk.loads(merged.to_bytes()).to_bytes() == merged.to_bytes()
    more = stream(60, seed=9)
    assert loop(streamk.loads(merged.to_bytes()), more).to_bytes() == loop(merged, more).to_bytes()
    fresh = [loop(streamk.KaczmarzClassifier(features=64, seed=3), stream(24, seed=s)) for s in (4, 5, 6)]
    assert not any(len(part._codec.inputs.uses) for part in fresh)
    assert len(streamk.merge(fresh).number_names) == MOST


@pytest.mark.parametrize(
    "wrong", [np.zeros((3, 2)), np.full((3, COLUMNS), -1.0), np.zeros((99, COLUMNS)), np.zeros((3, 3), "f4")]
)
def test_impossible_uses_are_refused(wrong):
    learner = loop(streamk.KaczmarzClassifier(features=64, seed=3), stream())
    header, arrays = learner._to_parts()
    with pytest.raises(ValueError, match="its uses"):
        type(learner)._from_parts(header, {**arrays, "codec.uses": wrong})


def test_the_caches_are_bounded(monkeypatch):
    """Names and strings that change with every event leave nothing behind."""
    monkeypatch.setattr(names, "_MOST_KEYS", 50)
    inputs = Inputs(evicts=True)
    sizes = []
    for i in range(3000):
        inputs.encode({f"n{i}": 1.0, "a": f"text {i}", f"m{i}": i % 2 == 0, "long": "x" * 300 + str(i)}, True)
        inputs.encode({f"n{i + 1}": 1.0, f"u{i}": 1.0, "a": None}, False)
        caches = (inputs._plans, inputs._sights, inputs._categories, inputs._buffers, inputs._entries)
        sizes.append(list(map(len, caches)))
    most = np.max(sizes, axis=0).tolist()
    assert most[0] <= 256
    assert most[1] <= 256
    assert most[2] <= 50
    assert most[3] <= 64
    assert most[4] <= MOST
    assert not any(len(value) > 256 for _, value in inputs._categories)


def test_names_that_are_not_known_leave_no_memory_behind():
    inputs = Inputs(evicts=True)
    inputs.encode({"a": 1.0}, True)
    for i in range(500):
        inputs.encode({f"n{i}": 1.0}, False)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for i in range(5000):
            inputs.encode({f"n{i}": 1.0}, False)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()


def test_stored_events_follow_names_that_leave(monkeypatch):
    """The events that a merge fits to: a learner whose names have left can be saved, loaded and merged."""
    monkeypatch.setattr(names, "MOST_NAMES", 40)
    models = []
    for part in range(2):
        model = streamk.KernelRegressor(features=768, seed=3)
        rng = np.random.default_rng(part)
        for k in range(1200):
            x = {"a": float(rng.normal()), f"w{k // 10}_{part}": float(rng.normal())}
            model.learn_one(x, x["a"])
        sample = model._map.sections.sample
        assert sample.record.slots[: len(sample)].max() < len(model._codec.inputs.numbers) <= 40
        assert streamk.loads(model.to_bytes()).to_bytes() == model.to_bytes()
        models.append(model)
    merged = streamk.merge(models)
    assert abs(merged.predict_one({"a": 1.0}) - 1.0) < 0.3
