"""Values of categories that were never learned are left out, in bounded memory."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.rows import CATEGORY
from streamk.encoding.seen import SeenValues, is_seen, mark_seen

NUMBER = np.uint64(0x5A5A_5A5A_5A5A_5A5A)


@njit
def mark(bits, state, rows):
    for i in range(rows[2].shape[0]):
        mark_seen((bits, state), rows, i)


@njit
def held(bits, state, keys):
    found = np.zeros(keys.shape[0], dtype=np.bool_)
    for k in range(keys.shape[0]):
        found[k] = is_seen((bits, state), keys[k])
    return found


def learn(seen, keys):
    slots = np.full((len(keys), 2), CATEGORY - 1, dtype=np.int32)
    slots[:, 1] = 0  # a number
    both = np.column_stack([keys, keys ^ NUMBER])
    mark(seen.bits, seen.state, (slots, both, np.ones(both.shape)))


def keys_of(count, seed=0):
    return np.random.default_rng(seed).integers(2**20, 2**63, size=count, dtype=np.uint64)


def test_values_are_held_once_they_are_learned_and_few_others():
    seen, known, others = SeenValues(), keys_of(30_000), keys_of(30_000, 1)
    assert not held(seen.bits, seen.state, known).any()
    learn(seen, known)
    assert held(seen.bits, seen.state, known).all()
    assert held(seen.bits, seen.state, others).mean() < 0.05
    assert held(seen.bits, seen.state, known ^ NUMBER).mean() < 0.05  # numbers are no values


def test_values_that_recur_stay_while_a_million_others_pass():
    seen, regular = SeenValues(), keys_of(50, 2)
    for part in range(100):
        learn(seen, keys_of(10_000, 3 + part))
        learn(seen, regular)
    assert held(seen.bits, seen.state, regular).all()
    assert held(seen.bits, seen.state, keys_of(20_000, 3)).mean() < 0.1  # the first have made room
    assert held(seen.bits, seen.state, keys_of(20_000, 999)).mean() < 0.1
    assert 0 <= seen.state[1] < 2**15


def test_a_file_keeps_the_record_and_refuses_an_impossible_one():
    seen, again = SeenValues(), SeenValues()
    assert seen.state_dict() == {}
    learn(seen, keys_of(40_000))
    again.load_state_dict(seen.state_dict())
    np.testing.assert_array_equal(again.bits, seen.bits)
    np.testing.assert_array_equal(again.state, seen.state)
    for name, bad in (("seen.places", -1), ("seen.state", 2), ("seen.state", -1)):
        arrays = {k: v.copy() for k, v in seen.state_dict().items()}
        arrays[name][0] = bad
        with pytest.raises(ValueError, match="impossible"):
            SeenValues().load_state_dict(arrays)


def test_a_merge_holds_what_any_of_the_records_holds():
    parts, merged = [SeenValues() for _ in range(3)], SeenValues()
    for k, part in enumerate(parts):
        learn(part, keys_of(5000, k))
    merged.merge_from(parts)
    assert all(held(merged.bits, merged.state, keys_of(5000, k)).all() for k in range(3))
    assert merged.state.tolist() == [0, sum(int(part.state[1]) for part in parts)]


def test_a_new_value_changes_nothing_until_it_is_learned():
    rng = np.random.default_rng(0)
    xs = [{"a": float(v), "colour": str(rng.choice(["red", "blue"]))} for v in rng.normal(size=300)]
    y = [x["a"] + (x["colour"] == "red") for x in xs]
    learner = streamk.KernelRegressor(features=768, seed=1)
    learner.learn_many(xs, y)
    without = learner.predict_one({"a": 0.5})
    assert learner.predict_one({"a": 0.5, "colour": "green"}) == without
    assert learner.predict_one({"a": 0.5, "colour": "red"}) != without
    learner.learn_one({"a": 0.5, "colour": "green"}, 9.0)
    assert learner.predict_one({"a": 0.5, "colour": "green"}) != learner.predict_one({"a": 0.5})
    again = streamk.loads(learner.to_bytes())
    assert again.predict_one({"a": 0.5, "colour": "green"}) == learner.predict_one(
        {"a": 0.5, "colour": "green"}
    )


def test_a_value_without_weight_is_not_learned():
    learner = streamk.KernelRegressor(features=768, seed=1)
    for value in range(5):
        learner.learn_one({"a": float(value), "colour": "red"}, float(value))
    learner.learn_one({"a": 1.0, "colour": "green"}, 3.0, w=0.0)
    assert learner.predict_one({"a": 1.0, "colour": "green"}) == learner.predict_one({"a": 1.0})
