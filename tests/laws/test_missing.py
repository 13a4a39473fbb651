"""NaN means what None does: a missing value, for every learner, in every type of input."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streamk

from .subjects import COMMON, events

NOTHING = {
    "float": math.nan,
    "numpy": np.float64("nan"),
    "single": np.float32("nan"),
    "decimal": Decimal("NaN"),
    "NA": pd.NA,
    "NaT": pd.NaT,
}
FRAMES = {
    "pandas": lambda columns: pd.DataFrame({k: np.array(v, dtype=float) for k, v in columns.items()}),
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "polars NaN": lambda columns: pl.DataFrame({k: np.array(v, dtype=float) for k, v in columns.items()}),
    "polars null": pl.DataFrame,
    "arrow NaN": lambda columns: pa.table({k: np.array(v, dtype=float) for k, v in columns.items()}),
    "arrow null": pa.table,
    "array": lambda columns: np.array(list(columns.values()), dtype=float).T,
    "objects": lambda columns: np.array(list(columns.values()), dtype=object).T,
}


def holes(nothing, count=40, classifies=True):
    """The stream of all laws, with a missing number in every other event, the first among them."""
    found = []
    for i, (x, y) in enumerate(events(count, classifies=classifies)):
        x = dict(x)
        for k, name in enumerate([n for n, v in x.items() if isinstance(v, float)]):
            if (i + k) % 4 == 0:
                x[name] = nothing
        found.append((x | ({"never": nothing} if i % 5 == 0 else {}), y))
    return found


@pytest.mark.parametrize("many", [False, True])
def test_nan_is_none(make, many):
    learners = []
    for nothing in (None, math.nan):
        learner, stream = make(), holes(nothing, classifies=make.classifies)
        said = []
        if many:
            xs, ys = map(list, zip(*stream, strict=True))
            learner.learn_many(xs[:20], ys[:20])
            learner.learn_many(xs[20:], ys[20:])
            said = learner.predict_many(xs)
        else:
            for x, y in stream:
                said.append(learner.predict_one(x))
                learner.learn_one(x, y)
        learners.append((learner.to_bytes(), said))
    assert learners[0] == learners[1]


@pytest.mark.parametrize("kind", NOTHING)
def test_every_missing_value_is_none(kind):
    one, other = (streamk.KaczmarzRegressor(**COMMON) for _ in range(2))
    for learner, nothing in ((one, None), (other, NOTHING[kind])):
        for x, y in holes(nothing, 60, classifies=False):
            learner.predict_one(x)
            learner.learn_one(x, y)
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("directions", ["keyed", "dense", "structured"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("kind", FRAMES)
def test_frames_equal_a_loop(kind, scaled, directions):
    rng = np.random.default_rng(2)
    columns = {
        name: [None if rng.random() < 0.3 else float(v) for v in rng.normal(size=50)]
        for name in ("a", "b", "c")
    }
    columns["a"][:3] = [None] * 3
    y = rng.normal(size=50)
    settings = {"scale_inputs": scaled, "directions": directions, **COMMON}
    one, many = (streamk.KaczmarzRegressor(**settings) for _ in range(2))
    for i in range(50):
        one.learn_one({name: values[i] for name, values in columns.items()}, y[i])
    X = FRAMES[kind](columns)
    names = list(columns) if isinstance(X, np.ndarray) else None
    many.learn_many(X, y, names=names)
    assert many.to_bytes() == one.to_bytes()
    said = [one.predict_one({name: values[i] for name, values in columns.items()}) for i in range(50)]
    found = many.predict_many(X, names=names)
    assert (found.to_pylist() if kind.startswith("arrow") else list(found)) == said


@pytest.mark.parametrize("kind", ["pandas", "polars NaN", "arrow NaN", "array"])
def test_infinity_is_rejected_next_to_nan(kind):
    X = FRAMES[kind]({"a": [1.0, None, 2.0, math.inf], "b": [1.0] * 4})
    learner = streamk.KaczmarzRegressor(**COMMON)
    with pytest.raises(ValueError, match="row 3: field 'a' is inf"):
        learner.learn_many(X, [1.0] * 4, names=["a", "b"] if isinstance(X, np.ndarray) else None)
    with pytest.raises(ValueError, match="field 'a' is -inf"):
        learner.learn_one({"b": math.nan, "a": -math.inf}, 1.0)
    assert learner.events == 0


def test_targets_and_labels_are_never_missing():
    with pytest.raises(ValueError, match="the target is nan"):
        streamk.KaczmarzRegressor(**COMMON).learn_one({"a": 1.0}, math.nan)
    with pytest.raises(ValueError, match="the label is NaN"):
        streamk.KaczmarzClassifier(**COMMON).learn_one({"a": 1.0}, math.nan)
    assert streamk.RandomFeatures(features=64, seed=1).transform_one({"a": math.nan}) == (
        streamk.RandomFeatures(features=64, seed=1).transform_one({})
    )


def test_a_duration_is_refused():
    with pytest.raises(ValueError, match="field 'a' is a timedelta"):
        streamk.KaczmarzRegressor(**COMMON).learn_one({"a": datetime.timedelta(1)}, 1.0)
