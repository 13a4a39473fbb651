import hashlib
import itertools
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import checks, datasets, evaluate, linear_model, metrics, preprocessing

import streamk
from streamk.features import map as feature_map
from streamk.features import matrix
from streamk.kernels import kernel

KERNELS = [
    "gaussian",
    "laplace",
    "laplacian",
    "matern:2.5",
    "rational-quadratic:0.7",
    "exponential-power:1.3",
]
DIRECTIONS = ["keyed", "dense", "structured"]
NAMES = [f"x{j}" for j in range(6)]


def points(n=50, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize(
    ("name", "directions"),
    [(k, d) for k in KERNELS for d in DIRECTIONS if (k, d) != ("laplacian", "structured")],
)
def test_products_estimate_the_kernel_matrix(name, directions):
    """Mean and variance over seeds: unbiased, and no noisier than ``1.5/F`` a product."""
    X, F, seeds = points(12) * 0.7, 1024, 60
    exact = kernel(name)(X, X, 1.4)
    error = []
    for seed in range(seeds):
        Z = streamk.RandomFeatures(name, 1.4, features=F, directions=directions, seed=seed).transform(X)
        error.append(Z.astype(np.float64) @ Z.T - exact)
    off = ~np.eye(len(X), dtype=bool)
    error = np.array(error)[:, off]
    assert np.abs(error.mean(axis=0)).max() < 4.5 * np.sqrt(1.5 / F / seeds)
    assert error.var(axis=0).mean() < 1.5 / F
    wrong = kernel(name)(X, X, 1.4 * np.sqrt(2))
    assert np.abs(wrong - exact)[off].max() > 2 * 4.5 * np.sqrt(1.5 / F / seeds)


def test_several_scales_estimate_their_mean():
    X = points(20)
    Z = streamk.RandomFeatures(bandwidth=2.0, scales=(2.0, 0.5), features=2**16, seed=1).transform(X)
    mean = (kernel("gaussian")(X, X, 4.0) + kernel("gaussian")(X, X, 1.0)) / 2
    np.testing.assert_allclose(Z @ Z.T, mean, atol=0.03)


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_one_row_and_many_rows_are_the_same_bytes(directions):
    X = points(150)
    made = streamk.RandomFeatures(features=100, directions=directions, seed=3)
    whole = made.transform(X, NAMES)
    ones = [made.transform_one(dict(zip(NAMES, row, strict=True))) for row in X.tolist()]
    assert np.array([list(z.values()) for z in ones], dtype=np.float32).tobytes() == whole.tobytes()
    assert made.transform(X[40:41], NAMES).tobytes() == whole[40:41].tobytes()
    tags, numbers = zip(*(name.split("_") for name in ones[0]), strict=True)
    assert len(set(tags)) == 1
    assert tags[0][0] == "z"
    assert list(map(int, numbers)) == list(range(100))


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 63, 64, 65, 150])
@pytest.mark.parametrize("d", [1, 7, 130])
def test_rows_that_share_their_fields_take_a_faster_way_to_the_same_bytes(rows, d):
    X = points(rows, d)
    X[:, 0] = 0.0
    X[0] = 0.0
    made = streamk.RandomFeatures(features=200, bandwidth=3.0, seed=3)
    names = [f"x{j}" for j in range(d)]
    events = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    mixed = [*events, {"other": 1.0}]  # one row with another field: the rows no longer share them
    assert made.transform(X, names).tobytes() == made.transform(mixed)[:rows].tobytes()


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_tiles_do_not_show(monkeypatch, directions):
    X = points(150)
    made = streamk.RandomFeatures(features=400, directions=directions, seed=3)
    whole = made.transform(X)
    monkeypatch.setattr(matrix, "CACHE_BYTES", 4 * 64 * 6)
    monkeypatch.setattr(matrix, "_ROWS", 12)
    monkeypatch.setattr(feature_map, "CACHE_BYTES", 0)
    again = streamk.RandomFeatures(features=400, directions=directions, seed=3)
    assert again.transform(X).tobytes() == whole.tobytes()


THREADS = """
import hashlib, numpy as np, streamk
X = np.random.default_rng(0).normal(size=(700, 30))
for directions in "keyed", "structured":
    Z = streamk.RandomFeatures(features=512, directions=directions, seed=5).transform(X)
    print(hashlib.sha256(Z.tobytes()).hexdigest())
"""


def test_threads_do_not_show():
    X = np.random.default_rng(0).normal(size=(700, 30))
    made = [streamk.RandomFeatures(features=512, directions=d, seed=5) for d in ("keyed", "structured")]
    here = [hashlib.sha256(each.transform(X).tobytes()).hexdigest() for each in made]
    for threads in "12":
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads}
        command = [sys.executable, "-c", THREADS]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        assert done.stdout.split() == here
    assert matrix.tiles_of(0, 5000)[-1] == slice(4096, 5000)


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("name", ["gaussian", "arc-cosine", "polynomial"])
def test_rows_of_every_kind(name, directions):
    rows = [{"a": 1.0, "c": "red", "on": True, "m": None}, {"a": 2.0, "c": "blue", "on": False, "m": 3.0}]
    made = streamk.RandomFeatures(name, features=64, directions=directions, seed=1)
    made.learn_many(rows)
    expected = made.transform(rows)
    assert made.transform(pl.DataFrame(rows)).tobytes() == expected.tobytes()
    frame = made.transform_many(pd.DataFrame(rows, index=[5, 6]).convert_dtypes())
    assert frame.index.tolist() == [5, 6]
    assert frame.to_numpy().tobytes() == expected.tobytes()
    assert made.transform([{}]).shape == (1, 64)
    assert made.transform([]).shape == (0, 64)


BATTERY = [
    streamk.RandomFeatures(**parameters)
    for parameters in (
        *streamk.RandomFeatures._unit_test_params(),
        # wide, for data with dates counted from year 1
        {"bandwidth": 100.0, "features": 64, "directions": "structured", "seed": 7},
        {
            "bandwidth": 100.0,
            "features": 64,
            "directions": "auto",
            "kernel": ("matern", "gaussian"),
            "seed": 7,
        },
        {"bandwidth": 100.0, "features": 64, "kernel": "arc-cosine", "directions": "dense", "seed": 7},
        {"bandwidth": 100.0, "features": 64, "kernel": "polynomial", "seed": 7},
    )
]


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(model, check, id=f"{model.kernel}-{model.directions}-{check.__name__}-{i}")
        for model in BATTERY
        for i, check in enumerate(checks.yield_checks(model))
    ],
)
def test_rivers_battery(model, check):
    check(model.clone())


def test_no_check_of_river_is_skipped():
    assert not any(model._unit_test_skips() for model in BATTERY)


def test_a_linear_model_becomes_a_kernel_machine():
    linear = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    kernelised = (
        preprocessing.StandardScaler()
        | streamk.RandomFeatures(bandwidth=0.5, features=200, seed=7)
        | linear_model.LogisticRegression()
    )
    scores = [
        evaluate.progressive_val_score(datasets.Bananas().take(3000), model, metrics.Accuracy()).get()
        for model in (linear, kernelised)
    ]
    assert scores[1] > scores[0] + 0.2


def test_a_map_mapped_by_joblib_continues_identically(tmp_path):
    one = streamk.RandomFeatures(features=64, directions="dense", seed=1)
    one.learn_one({"a": 1.0})
    joblib.dump(one, tmp_path / "map")
    other = joblib.load(tmp_path / "map", mmap_mode="r")
    for made in (one, other):
        made.learn_one({"a": 2.0, "b": 3.0})
    assert one.transform_one({"a": 2.5, "b": 1.0}) == other.transform_one({"a": 2.5, "b": 1.0})


def test_copies():
    X = points(10)
    made = streamk.RandomFeatures(features=64)
    again = pickle.loads(pickle.dumps(made))
    assert again.transform(X).tobytes() == made.transform(X).tobytes()
    assert made.clone().transform(X).tobytes() != made.transform(X).tobytes()
    assert len(pickle.dumps(streamk.RandomFeatures(features=2**16, seed=1))) < 2_000_000


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_products_estimate_arc_cosine_kernels(order, directions):
    X, F, seeds = points(12) * 0.7, 1024, 60
    name = f"arc-cosine:{order}"
    exact = kernel(name)(X, X, 1.4)
    error = []
    for seed in range(seeds):
        Z = streamk.RandomFeatures(name, 1.4, features=F, directions=directions, seed=seed).transform(X)
        error.append(Z.astype(np.float64) @ Z.T - exact)
    error = np.array(error)
    assert (np.abs(error.mean(axis=0)) < 5 * error.std(axis=0) / np.sqrt(seeds) + 1e-6).all()
    if order:
        wrong = kernel(name)(X, X, 1.4 * np.sqrt(2))
        assert np.abs((wrong - exact) / error.std(axis=0)).max() * np.sqrt(seeds) > 10


ROWS, WIDTHS = [1, 2, 5, 16, 17, 64, 150], [3, 15, 16, 17, 64, 65, 130]


def shapes():
    """Every number of rows and of columns in both types; `make long` takes all pairs of them."""
    for (i, rows), (j, d) in itertools.product(enumerate(ROWS), enumerate(WIDTHS)):
        for k, dtype in enumerate((np.float32, np.float64)):
            marks = [] if (i + j) % 7 == 3 * k else [pytest.mark.long]
            yield pytest.param(rows, d, dtype, marks=marks)


@pytest.mark.parametrize(("rows", "d", "dtype"), list(shapes()))
def test_an_array_skips_encoding_and_gives_the_same_bytes(rows, d, dtype):
    """Arrays are read sixteen rows and columns at a time; dicts one field at a time."""
    X = points(rows, d).astype(dtype)
    X[0] = 0.0
    names = [f"x{j}" for j in range(d)]
    made = streamk.RandomFeatures(features=192, bandwidth=3.0, directions="structured", seed=3)
    made.learn_one(dict.fromkeys(names, 0.0))
    events = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    assert made.transform(X, names).tobytes() == made.transform(events).tobytes()
    back = np.ascontiguousarray(X[:, ::-1])
    assert made.transform(back, names[::-1]).tobytes() == made.transform(events).tobytes()
    assert made.transform(X[:, ::-1], names[::-1]).tobytes() == made.transform(events).tobytes()


def test_new_names_leave_old_features_as_they_were():
    old = [f"a{j:02d}" for j in range(60)]
    made = streamk.RandomFeatures(features=128, bandwidth=5.0, directions="structured", seed=3)
    x = dict(zip(old, points(1, 60)[0].tolist(), strict=True))
    made.learn_one(x)
    before = made.transform_one(x)
    for count in (65, 200, 700):
        made.learn_one({f"b{j:03d}": 1.0 for j in range(count)})
        assert made.transform_one(x) == before
        new = {**x, f"b{count - 1:03d}": 1.0}
        assert made.transform_one(new) != before
    X = np.concatenate([points(30, 60), np.zeros((30, 700))], axis=1)
    names = old + [f"b{j:03d}" for j in range(700)]
    late = made.transform(X, names)
    first = streamk.RandomFeatures(features=128, bandwidth=5.0, directions="structured", seed=3)
    first.learn_one(x)
    assert first.transform(X[:, :60], old).tobytes() == late.tobytes()


def test_a_call_before_any_learning_has_one_map(monkeypatch):
    rows = [{"a": 1.0}, {"a": 2.0}, {f"b{j:03d}": 1.0 for j in range(100)}, {"a": 1.0}]
    whole = streamk.RandomFeatures(features=64, directions="structured", seed=3).transform(rows)
    monkeypatch.setattr(streamk.random_features, "_PIECE", 2)
    parts = streamk.RandomFeatures(features=64, directions="structured", seed=3).transform(rows)
    assert parts.tobytes() == whole.tobytes()
    assert whole[0].tobytes() == whole[3].tobytes()


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_an_array_may_be_filled_again(directions):
    X = points(40)
    made = streamk.RandomFeatures(features=64, directions=directions, seed=3)
    out = np.full((40, 64), np.nan, dtype=np.float32)
    assert made.transform(X, out=out) is out
    assert out.tobytes() == made.transform(X).tobytes()
    with pytest.raises(ValueError, match="out is a list; it must be an array"):
        made.transform(X, out=[1])
    locked = np.frombuffer(bytes(40 * 64 * 4), dtype=np.float32).reshape(40, 64)
    for wrong in (out[:20], out.astype(float), np.asfortranarray(out), locked):
        with pytest.raises(
            ValueError, match=r"out is float.* must be writeable, contiguous float32 of shape \(40, 64\)"
        ):
            made.transform(X, out=wrong)


FORK = """
import os, numpy as np, streamk
X = np.random.default_rng(0).normal(size=(200, 30))
made = streamk.RandomFeatures(features=512, directions="structured", seed=5)
before = made.transform(X).tobytes()
child = os.fork()
if not child:
    os._exit(0 if made.transform(X).tobytes() == before else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_can_continue():
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    command = [sys.executable, "-c", FORK]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True, timeout=120)
    assert done.stdout.strip() == "0"


def test_a_structured_map_reads_an_array_that_it_has_not_learned():
    X = points(40, 100)
    made = streamk.RandomFeatures(features=128, directions="structured", seed=3)
    unlearned = made.transform(X)
    made.learn_many(X, names=[str(j) for j in range(100)])
    assert made.transform(X).tobytes() == unlearned.tobytes()


def test_a_wide_map_holds_no_table_of_frequencies():
    made = streamk.RandomFeatures(features=4096, directions="structured", seed=3)
    made.transform([dict.fromkeys(map(str, range(20_000)), 1.0)])
    assert made._map.cache.rows.nbytes < 2**20


@pytest.mark.parametrize("name", ["polynomial:8", "polynomial:1", "arc-cosine:2", "arc-cosine", "gaussian"])
@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("bandwidth", [1e-300, 1e-40, 1.0])
def test_features_are_finite(name, directions, bandwidth):
    made = streamk.RandomFeatures(name, bandwidth, features=64, directions=directions, seed=3)
    X = np.array([[1e15, -1e15, 1e15], [5e4, 0.0, 1.0], [1e-300, 0.0, 0.0]])
    X = np.clip(X, -made._inputs.largest, made._inputs.largest)
    assert np.isfinite(made.transform(X)).all()


WORKQUEUE = """
import threading, numpy as np, streamk
X = np.random.default_rng(0).normal(size=(2000, 30))
maps = [streamk.RandomFeatures(features=512, directions="structured", seed=5) for _ in range(4)]
expected = maps[0].transform(X[:16])
found = []
def work(made):
    for _ in range(20):
        found.append(made.transform(X)[:16].tobytes() == expected.tobytes())
threads = [threading.Thread(target=work, args=(made,)) for made in maps]
[t.start() for t in threads]; [t.join() for t in threads]
print(all(found), len(found))
"""


@pytest.mark.parametrize("layers", ["workqueue omp tbb", "tbb omp workqueue"])
def test_threads_of_the_user(layers):
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2", "NUMBA_THREADING_LAYER_PRIORITY": layers}
    command = [sys.executable, "-c", WORKQUEUE]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "80"]
