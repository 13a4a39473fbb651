"""Learners of one class are one compiled loop, whatever their parameters."""

import pytest

import streamk
from streamk.learners.kernel_loop import process_rows

EVENTS = [{"a": i % 7 / 7, "b": i % 11 / 11, "c": "xyz"[i % 3]} for i in range(60)]
OTHERS = [
    {"label_memory": False}, {"relevance": False}, {"binning": False}, {"neighbours": False},
    {"retired": True}, {"features": 768},
    {"label_memory": False, "relevance": False, "binning": False, "neighbours": False},
]  # fmt: skip


def learned(cls, **parameters):
    learner = cls(seed=7, **parameters)
    ys = [x["a"] > 0.4 if learner.classifies else x["a"] - x["b"] for x in EVENTS]
    for x, y in zip(EVENTS[:30], ys[:30], strict=True):
        learner.predict_one(x)
        learner.learn_one(x, y)
    learner.predict_learn_many(EVENTS[30:], ys[30:])
    learner.predict_many(EVENTS)
    assert learner.frozen().predict_many(EVENTS)
    return learner


@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
def test_other_parameters_compile_nothing(cls):
    learned(cls)
    before = len(process_rows.overloads)
    for parameters in [*OTHERS, *([{"products": False}] if cls is streamk.KernelRegressor else [])]:
        learned(cls, **parameters)
        assert len(process_rows.overloads) == before, parameters


@pytest.mark.parametrize(
    ("cls", "others"),
    [
        (streamk.KaczmarzClassifier, [{"loss": "margin"}, {"scales": (1.0,)}, {"features": 128}]),
        (streamk.KaczmarzRegressor, [{"loss": "huber"}, {"scale_target": False}, {"kernel": "laplace"}]),
    ],
)
def test_other_parameters_of_one_expert_compile_nothing(cls, others):
    learned(cls, features=64)
    before = len(process_rows.overloads)
    for parameters in [{"memory": 100}, {"average": True}, {"scale_inputs": False}, *others]:
        learned(cls, **{"features": 64, **parameters})
        assert len(process_rows.overloads) == before, parameters
