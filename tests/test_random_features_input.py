"""What a feature map takes and refuses, and what it calls its features."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import linear_model

import streamk

DIRECTIONS = ["keyed", "dense", "structured"]


def points(n=50, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_bad_input():
    made = streamk.RandomFeatures(features=64, seed=1)
    with pytest.raises(ValueError, match="field 'a' is -inf"):
        made.transform_one({"a": float("-inf")})
    with pytest.raises(ValueError, match="field 'a' is inf"):
        made.learn_one({"a": float("inf")})
    with pytest.raises(ValueError, match="row 1: field '2' is inf"):
        made.transform(np.array([[0.0, 0, 0], [0, np.nan, np.inf]]))
    for bad in ({"bandwidth": None}, {"bandwidth": 0}, {"features": 0}, {"scales": ()}, {"directions": "x"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            streamk.RandomFeatures(**bad)


def test_the_polynomial_kernel_says_how_many_features_it_takes():
    with pytest.raises(ValueError, match="features=100: the polynomial kernel needs a power of two"):
        streamk.RandomFeatures("polynomial", features=100)
    with pytest.raises(ValueError, match="features=384"):
        streamk.RandomFeatures("polynomial", features=300, scales=(1.0, 2.0, 4.0))
    with pytest.raises(ValueError, match=r"features=99999999999: features must be .* to 16,777,216"):
        streamk.RandomFeatures(features=99_999_999_999)


def test_more_numbers_than_slots_are_refused_by_every_way():
    X = np.ones((2, 65_537))
    made = streamk.RandomFeatures(features=64, directions="structured", seed=3)
    for call in (
        lambda: made.transform(X),
        lambda: made.transform_one({str(j): 1.0 for j in range(65_537)}),
        lambda: made.learn_many(X),
    ):
        with pytest.raises(ValueError, match=r"would be among more than 65,536 names of numbers"):
            call()
    assert made.transform(X[:, :65_536]).shape == (2, 64)


def test_names_that_are_equal_and_not_the_same():
    A = points(3, 2)
    made = streamk.RandomFeatures(features=64, directions="structured", seed=3)
    made.learn_one({"1": 1.0, "True": 1.0, "0": 1.0})
    numbers = made.transform(A, names=[1, 0])
    assert numbers.tobytes() == made.transform([{"1": a, "0": b} for a, b in A.tolist()]).tobytes()
    truths = made.transform(A, names=[True, 0])
    assert truths.tobytes() == made.transform([{"True": a, "0": b} for a, b in A.tolist()]).tobytes()


LARGE = [
    ("gaussian", 1.0, (1.0,), 1e5),
    ("laplacian", 3.0, (2.0, 0.5), 1.5e5),
    ("arc-cosine", 1.0, (1.0,), 1e15),
]


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize(("name", "bandwidth", "scales", "largest"), LARGE)
def test_the_largest_number_is_the_same_for_arrays(name, bandwidth, scales, largest, directions):
    if (name, directions) == ("laplacian", "structured"):
        directions = "auto"
    made = streamk.RandomFeatures(name, bandwidth, scales, 64, directions, seed=3)
    for learned in (False, True):
        most, more = np.array([[largest]]), np.array([[largest * (1 + 1e-8)]])
        assert made.transform(most).tobytes() == made.transform([{"0": largest}]).tobytes()
        for refused in (more, -more, [{"0": more[0, 0]}]):
            with pytest.raises(ValueError, match=r"row 0: field '0' is -?1"):
                made.transform(refused)
        if not learned:
            made.learn_one({"0": largest})


NOW = {"price": 2.0, "when": 1.7e9, "kind": "sale"}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("directions", [*DIRECTIONS, "auto"])
@pytest.mark.parametrize("name", ["gaussian", "matern:2.5", ("laplace", "gaussian")])
def test_a_time_that_float32_cannot_distinguish_is_rejected(name, directions, learned):
    made = streamk.RandomFeatures(name, features=64, directions=directions, seed=1)
    if learned:
        made.learn_one({"price": 1.0, "when": 0.0, "kind": "sale"})
    fine = {"price": 1.0, "when": 5.0, "kind": "sale"}
    message = (
        r"field 'when' is 1.7e\+09; numbers must be finite and at most 100000 .* scale the field, or subtract"
    )
    for one in (made.transform_one, made.learn_one):
        with pytest.raises(ValueError, match=message):
            one(NOW)
    numbers = np.array([[1.0, 5.0], [2.0, 1.7e9]])
    for many in (
        [fine, NOW],
        pd.DataFrame([fine, NOW]),
        pl.DataFrame([fine, NOW]),
        pd.DataFrame(numbers, columns=["price", "when"]),
    ):
        with pytest.raises(ValueError, match="row 1: " + message):
            made.transform(many)
    for array in (numbers, numbers.astype(np.float32), numbers.astype(int), numbers.astype(object)):
        with pytest.raises(ValueError, match="row 1: " + message):
            made.transform(array, names=["price", "when"])
    assert np.isfinite(made.transform([fine])).all()


OTHERS = [
    {"seed": 2}, {"kernel": "laplace"}, {"kernel": ("gaussian", "laplace")}, {"bandwidth": 2.0},
    {"scales": (2.0,)}, {"directions": "dense"}, {"features": 128},
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_features_of_two_maps_stand_side_by_side(other):
    one = streamk.RandomFeatures(features=64, seed=1)
    two = streamk.RandomFeatures(**{"features": 64, "seed": 1, **other})
    x = {"a": 1.0, "b": -0.5}
    union = one + two
    found = union.transform_one(x)
    assert len(found) == one.features + two.features
    assert found == {**one.transform_one(x), **two.transform_one(x)}
    frame = pd.DataFrame([x, {"a": 0.0, "b": 2.0}])
    many = union.transform_many(frame)
    assert sorted(many.columns) == sorted(found)
    np.testing.assert_array_equal(many.iloc[0][list(found)].to_numpy(float), list(found.values()))
    model = (one + two) | linear_model.LinearRegression()
    model.learn_one(x, 3.0)
    assert model.predict_one(x) > 0.0


def test_names_are_those_of_the_parameters_and_the_seed():
    one, again = (streamk.RandomFeatures(features=64, seed=1) for _ in range(2))
    assert one.transform_one({"a": 1.0}) == again.transform_one({"a": 2.0 - 1.0})
    assert one.transform_one({"a": 1.0}) == one.clone().transform_one({"a": 1.0})
    assert list(one.transform_many(pd.DataFrame({"a": [1.0]})).columns) == list(one.transform_one({}))


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("directions", DIRECTIONS)
def test_a_whole_number_is_one_name(directions, learned):
    made = streamk.RandomFeatures(features=64, directions=directions, seed=1)
    if learned:
        made.learn_one({1: 0.0, "0": 0.0, "zero": 1.0})
    expected = list(made.transform_one({"1": 2.0, "0": 3.0}).values())
    for names in ([1, 0], [1.0, 0.0], np.array([1.0, 0.0]), ["1", "0"]):
        assert list(made.transform_one(dict(zip(names, (2.0, 3.0), strict=True))).values()) == expected
        assert made.transform(np.array([[2.0, 3.0]]), names=names)[0].tolist() == expected
        assert made.transform(pd.DataFrame([[2.0, 3.0]], columns=names))[0].tolist() == expected
