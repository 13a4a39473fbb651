"""Arguments of the compiled loop stay the same from event to event, until an array of them is replaced."""

import numpy as np
import pytest

import streamk

COUNT = 150


def event(i, numbers, texts):
    return {f"n{j}": float((i * j) % 7) for j in range(numbers)} | {f"c{j}": str(j % 3) for j in range(texts)}


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("texts", [lambda i: i, lambda i: 2 * COUNT - i], ids=["more texts", "fewer texts"])
def test_arrays_that_grow_with_the_names_are_replaced(texts, scaled):
    one, many = (streamk.KaczmarzClassifier(features=64, scale_inputs=scaled, seed=3) for _ in range(2))
    xs = [event(i, i, texts(i)) for i in range(COUNT)]
    ys = [i % 3 > 0 for i in range(COUNT)]
    for x, y in zip(xs, ys, strict=True):
        one.predict_one(x)
        one.learn_one(x, y)
    many.learn_many(xs, ys)
    assert one.to_bytes() == many.to_bytes()


def test_scratch_arrays_of_the_last_row_stay():
    learner = streamk.KaczmarzClassifier(features=64, seed=3)
    usual = {"a": 1.0}
    learner.learn_one(usual, True)
    for width in range(200):
        learner.predict_one(usual)
        learner.predict_many([{f"c{j}": "v" for j in range(width)}])
        handles = learner._handles
        assert handles.buffers.referred[0].referred.inputs.shape[2] == handles.rows.values.shape[1]


def test_arrays_of_another_layout_are_not_read_as_before():
    one, other = (streamk.KaczmarzRegressor(features=64, seed=3) for _ in range(2))
    for learner in (one, other):
        learner.learn_many([event(i, 3, 1) for i in range(20)], [float(i % 3) for i in range(20)])
    other._codec.target = np.repeat(other._codec.target, 2, axis=1)[:, ::2]
    other._renew_arguments()
    for i in range(20, 40):
        assert one.predict_one(event(i, 3, 1)) == other.predict_one(event(i, 3, 1))
        for learner in (one, other):
            learner.learn_one(event(i, 3, 1), float(i % 3))
    assert one.to_bytes() == other.to_bytes()
