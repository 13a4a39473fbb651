"""Types of public functions, for type checkers and at run time; ``make type`` checks this file, too."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import streamk
from streamk.encoding.labels import Label
from streamk.learners.summary import Summary

ROOT = Path(__file__).parent.parent
NAMES = ["a", "b"]
EVENTS = [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 0.0}]
FRAME = pl.DataFrame(EVENTS)
MATRIX = np.array([[1.0, 2.0], [2.0, 0.0]])


def test_types_of_a_classifier() -> None:
    learner = streamk.KernelClassifier(features=768, seed=1)
    series = assert_type(learner.predict_learn_many(FRAME, ["x", "y"]), pl.Series)
    assert isinstance(series, pl.Series)
    labels = assert_type(learner.predict_many(EVENTS), list[Label | None])
    assert isinstance(labels, list)
    assert isinstance(assert_type(learner.predict_many(FRAME), pl.Series), pl.Series)
    assert isinstance(assert_type(learner.predict_proba_many(FRAME), pl.DataFrame), pl.DataFrame)
    rows = assert_type(learner.predict_proba_many(EVENTS), list[dict[str, float]])
    assert rows[0].keys() == {"x", "y"}
    assert_type(learner.predict_one(EVENTS[0]), Label | None)
    assert_type(learner.summary(), Summary)


def test_types_of_a_regressor() -> None:
    learner = streamk.KernelRegressor(features=768, seed=1)
    learner.learn_many(MATRIX, [1.0, 2.0], names=NAMES)
    array = assert_type(learner.predict_many(MATRIX, names=NAMES), NDArray[np.float64])
    assert isinstance(array, np.ndarray)
    assert isinstance(assert_type(learner.predict_many(EVENTS), list[float]), list)
    assert isinstance(assert_type(learner.predict_many(FRAME), pl.Series), pl.Series)
    ends = assert_type(learner.predict_interval_many(FRAME), pl.DataFrame)
    assert ends.columns == ["lower", "upper"]
    features = streamk.RandomFeatures(features=64, seed=1)
    assert isinstance(assert_type(features.transform_many(FRAME), pl.DataFrame), pl.DataFrame)


def public_functions() -> Iterator[tuple[str, object]]:
    """Return every function and method of the API reference."""
    module = "streamk"
    for line in (ROOT / "docs/api.md").read_text().splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif re.fullmatch(r"   [\w.]+", line):
            path, _, name = f"{module}.{line.strip()}".rpartition(".")
            thing = getattr(importlib.import_module(path), name)
            yield f"{path}.{name}", thing
            for key in dir(thing) if inspect.isclass(thing) else ():
                member = getattr(thing, key)
                if not key.startswith("_") and str(getattr(member, "__module__", "")).startswith("streamk"):
                    yield f"{path}.{name}.{key}", member


def test_the_reference_has_functions() -> None:
    found = dict(public_functions())
    assert {
        "streamk.KernelClassifier.predict_many",
        "streamk.merge",
        "streamk.evaluation.Results.plot",
    } <= set(found)


@pytest.mark.parametrize("thing", [pytest.param(thing, id=name) for name, thing in public_functions()])
def test_public_functions_have_types_without_any(thing: object) -> None:
    target = thing.__init__ if inspect.isclass(thing) else thing
    annotations = getattr(target, "__annotations__", {})
    assert not [key for key, kind in annotations.items() if re.search(r"\bAny\b", str(kind))]


def test_the_package_lists_public_names_only() -> None:
    import streamk

    assert {*dir(streamk)} == {*streamk.__all__, "__doc__", "__version__"}
