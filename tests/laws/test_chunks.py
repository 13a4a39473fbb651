"""Learning in chunks is the loop of ``learn_one``, whatever inputs and labels appear or vanish on the way."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamk

from .subjects import LEARNERS, build, subjects
from .test_same_model import agree, prequential

KERNEL = ["kernel-classifier", "kernel-regressor"]
MORE = [name for name in LEARNERS if name.startswith("kernel-") and name not in KERNEL]
OTHERS = [name for name in LEARNERS if name not in [*KERNEL, *MORE]]
DUE = [1, 64, 256, 512, 1000, 1024, 2000, 2048]  # events at which a kernel learner looks, copies or opens
KINDS = ["value", "field", "number", "gone", "missing", "target", "weight"]
SIZES = [1, 7, 100, 1000, None]


def changes_of(most):
    """Return a strategy of changes of a stream: what, from which event, how many events long, how often."""
    near = [due + off for due in DUE for off in (-1, 0, 1) if due < most]
    return st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.one_of(st.sampled_from(near), st.integers(0, most)),
            st.sampled_from([1, 2, 30, most]),
            st.sampled_from([1.0, 0.3]),
        ),
        min_size=1,
        max_size=8,
    )


def stream(count, changes, seed, classifies):
    """Return events with targets and weights: numbers and categories that change as they should."""
    rng = np.random.default_rng(seed)
    triples = []
    for i in range(count):
        a, b = rng.normal(size=2)
        x = {"a": float(a), "b": float(50 * b + 3), "colour": str(rng.choice(["red", "green", "blue"]))}
        x["on"] = bool(rng.random() < 0.5)
        score = a + np.sin(b) + (x["colour"] == "red")
        y = f"class {int(score > 0) + int(score > 1)}" if classifies else float(10 + 3 * score)
        w = 1.0
        for k, (kind, start, length, share) in enumerate(changes):
            often, value = rng.random(2)
            if not (start <= i < start + length and often < share):
                continue
            if kind == "value":
                x["colour"] = f"new {k}"
            elif kind == "field":
                x[f"field {k}"] = "high" if value > 0.5 else "low"
            elif kind == "number":
                x[f"number {k}"] = float(value)
            elif kind == "gone":
                x.pop(["a", "b", "colour"][k % 3], None)
            elif kind == "missing":
                x["ab"[k % 2]] = None
            elif kind == "target":
                y = f"new {k}" if classifies else 100.0 * y
            else:
                w = 0.0
        triples.append((x, y, w))
    return triples


def chunks(triples, sizes):
    """Yield lists of events, targets and weights, in turn of these sizes."""
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(triples):
            return
        yield tuple(map(list, zip(*triples[start : start + size], strict=True)))
        start += size


def check_chunks(name, triples, size):
    cls, extra = LEARNERS[name]
    one, silent, asked, restored = (build(cls, extra) for _ in range(4))
    answers, found = [], []
    for x, y, w in triples:
        answers.append(one.predict_proba_one(x) if hasattr(one, "labels") else one.predict_one(x))
        one.learn_one(x, y, w)
    size = size or len(triples)
    for xs, ys, ws in chunks(triples, [size]):
        silent.learn_many(xs, ys, ws)
        found += prequential(asked, xs, ys, ws)
    assert silent.to_bytes() == one.to_bytes()
    assert asked.to_bytes() == one.to_bytes()
    if not getattr(one, "_gathers", True):  # others predict by matrix products, which round otherwise
        agree(answers, found, exactly=True)
    for xs, ys, ws in chunks(triples, [1, 300, size]):
        if len(xs) == 1:
            restored.predict_one(xs[0])
            restored.learn_one(xs[0], ys[0], ws[0])
        else:
            restored.learn_many(xs, ys, ws)
            restored = streamk.loads(restored.to_bytes())
    assert restored.to_bytes() == one.to_bytes()


@pytest.mark.parametrize("name", [*KERNEL, *(pytest.param(name, marks=pytest.mark.long) for name in MORE)])
@settings(max_examples=3)
@given(changes_of(2200), st.integers(0, 9), st.sampled_from(SIZES))
@example([("value", 2000, 200, 1.0), ("number", 1000, 2200, 0.3)], 0, 100)
@example([("field", 1001, 2, 1.0), ("value", 1024, 2200, 0.3)], 1, None)
@example([("value", 523, 30, 1.0)], 8, 1000)  # copies of coefficients hold an input, which then is gone
def test_any_chunks_of_a_long_stream_give_the_loop_s_model(name, changes, seed, size):
    classifies = hasattr(LEARNERS[name][0], "labels")
    check_chunks(name, stream(2200, changes, seed, classifies), size)


@pytest.mark.parametrize("name", ["kernel-classifier", "kernel-regressor"])
def test_values_that_appear_after_4000_events_are_learned_as_in_the_loop(name):
    changes = [("value", start, 60, 0.5) for start in (3000, 3999, 4000, 4001, 4100)]
    changes += [("number", 3500, 4200, 0.5), ("gone", 4050, 20, 1.0)]
    check_chunks(name, stream(4200, changes, 5, hasattr(LEARNERS[name][0], "labels")), 1000)


@pytest.mark.parametrize("name", subjects(OTHERS))
@settings(max_examples=3)
@given(changes_of(200), st.integers(0, 9), st.sampled_from([1, 7, 100, None]))
@example([("number", 128, 30, 1.0)], 8, None)  # known to a batch before centers are made of the events
def test_any_chunks_give_the_loop_s_model(name, changes, seed, size):
    classifies = hasattr(LEARNERS[name][0], "labels")
    check_chunks(name, stream(200, changes, seed, classifies), size)
