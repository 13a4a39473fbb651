"""Whatever the rows come in, they are the rows of the dicts."""

import datetime
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from streamk.encoding.frames import batch
from streamk.encoding.inputs import Inputs
from streamk.encoding.keys import DIRECTIONS, category_key
from streamk.encoding.rows import missing
from streamk.encoding.targets import check_target, check_targets, targets

ROWS = [
    {"b": 1.5, "a": 2, "colour": "red", "on": True},
    {"b": None, "a": 3, "colour": None, "on": False},
    {"b": -0.25, "a": 4, "colour": "blue", "on": None},
]
FRAMES = {
    "pandas-numpy": pd.DataFrame,
    "pandas": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "pandas-arrow": lambda rows: pd.DataFrame(rows).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "pyarrow": pa.Table.from_pylist,
    "dicts": list,
}


def learned(X, directions="keyed", names=None):
    """The rows and the names that a learner would take from ``X``."""
    inputs, rows = Inputs(directions), batch(X, names)
    rows.prepare(inputs, np.ones(len(rows), dtype=bool))
    return inputs, rows.rows(inputs, 0, len(rows))


def looped(rows, directions="keyed"):
    inputs = Inputs(directions)
    encoded = [inputs.encode(x, True).copy() for x in rows]
    return inputs, encoded


def content(rows, i):
    """What is present in row i, whatever the order: (key, slot, value)."""
    shared = min(i, len(rows.keys) - 1)
    found = zip(rows.slots[shared], rows.keys[shared], rows.values[i], strict=True)
    return sorted((int(k), int(s), float(v)) for s, k, v in found if k != 0)


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_its_dicts(kind, directions):
    inputs, rows = learned(FRAMES[kind](ROWS), directions)
    other, loop = looped(ROWS, directions)
    assert inputs.numbers == other.numbers
    for i, row in enumerate(loop):
        assert content(rows, i) == content(row, 0)


@pytest.mark.parametrize("rows", [ROWS, [{**ROWS[0], "a": "two"}, *ROWS[1:]]], ids=["typed", "mixed"])
@pytest.mark.parametrize("make", [pd.DataFrame, list])
def test_selected_rows_are_those_of_the_frame(make, rows):
    whole = batch(make(rows))
    assert batch(whole) is whole
    for part in (np.array([2, 0, 0]), slice(1, 3)):
        chosen = [rows[k] for k in np.arange(3)[part]]
        (_, ours), (_, theirs) = learned(whole.select(part)), learned(make(chosen))
        for i in range(len(chosen)):
            assert content(ours, i) == content(theirs, i)


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("first", [0, 1, 2])  # that is learned; statistics tell which numbers were known
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_names_that_come_later_are_not_missing_before(make, first, directions):
    rows = [{"a": 1.0, "b": None, "c": 5.0}, {"a": 2.0, "b": 3.0, "c": 4.0}, {"a": 3.0, "b": None, "c": None}]
    inputs, frame, other = Inputs(directions, first == 0), batch(make(rows)), Inputs(directions, first == 0)
    frame.prepare(inputs, np.arange(3) >= first)
    found = frame.rows(inputs, 0, 3)
    for i, x in enumerate(rows):
        assert content(found, i) == content(other.encode(x, i >= first), 0)


def test_names_register_in_the_order_a_loop_meets_them():
    rows = [{"z": 1.0, "a": None, "m": None}, {"z": 1.0, "a": None, "m": 2.0}, {"z": 1.0, "a": 1.0, "m": 1.0}]
    inputs, _ = learned(pl.DataFrame(rows))
    assert list(inputs.numbers) == ["z", "m", "a"] == list(looped(rows)[0].numbers)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("directions", DIRECTIONS)
def test_a_frame_with_new_names_is_predicted_as_its_dicts(directions, scaled):
    rows = [{"a": 1.0, "b": None, "c": 2.0}, {"a": None, "b": 3.0, "c": None}, {"a": 1.0, "b": 2.0, "c": 3.0}]
    inputs = Inputs(directions, scaled)
    inputs.encode({"b": 1.0}, True)
    frame = batch(pl.DataFrame(rows))
    frame.prepare(inputs, None)
    encoded = frame.rows(inputs, 0, 3)
    for i, x in enumerate(rows):
        assert content(encoded, i) == content(inputs.encode(x, False), 0)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64", "bool"])
def test_an_array_with_names(dtype):
    X = np.array([[1, 0], [0, 1]], dtype=dtype)
    _, rows = learned(X, names=["q", "p"])
    loop = looped([{"q": a, "p": b} for a, b in X.tolist()])[1]
    assert [content(rows, i) for i in range(2)] == [content(r, 0) for r in loop]


def test_an_array_of_objects():
    X = np.array([[1.5, "red"], [None, "blue"]], dtype=object)
    _, rows = learned(X, names=["n", "c"])
    loop = looped([{"n": 1.5, "c": "red"}, {"n": None, "c": "blue"}])[1]
    assert [content(rows, i) for i in range(2)] == [content(r, 0) for r in loop]


def test_a_column_of_mixed_types():
    frame = pd.DataFrame({"m": [1, "one", True, None]}, dtype=object)
    _, rows = learned(frame)
    loop = looped([{"m": v} for v in (1, "one", True, None)])[1]
    assert [content(rows, i) for i in range(4)] == [content(r, 0) for r in loop]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pydict])
def test_infinity_is_refused_with_field_and_row(make):
    with pytest.raises(ValueError, match="row 3: field 'x' is inf"):
        learned(make({"x": [1.0, 2.0, float("nan"), float("inf")]}))


@pytest.mark.parametrize("row", [0, 4096, 9_999])
def test_any_row_of_a_long_frame_is_checked(row):
    values = np.zeros(10_000)
    values[row] = math.nan
    _, rows = learned(values[:, None], names=["x"])
    assert [i for i in range(len(values)) if not content(rows, i) or content(rows, i)[0][1] != 0] == [row]
    values[row] = -math.inf
    for X, names in ((pd.DataFrame({"x": values}), None), (values[:, None], ["x"])):
        with pytest.raises(ValueError, match=f"row {row}: field 'x' is -inf"):
            learned(X, names=names)


def test_null_is_missing():
    table = {"x": [1.0, None], "y": [1.0, 2.0]}
    rows = learned(pl.DataFrame(table))[1]
    assert sorted(slot for _, slot, _ in content(rows, 1)) == [missing(0), 1]
    loop = looped([{"x": 1.0, "y": 1.0}, {"x": None, "y": 2.0}])[1]
    assert content(rows, 1) == content(loop[1], 0)
    late = batch(pl.DataFrame({"x": [None, 1.0]}))
    late.prepare(Inputs(), np.ones(2, dtype=bool))
    assert content(late.rows(Inputs(), 0, 2), 0) == []  # missing before it was known


TEXTS = {
    "pandas object": lambda v, o: pd.DataFrame({"s": pd.Series(v, dtype=object), "o": o}),
    "pandas NaN": lambda v, o: pd.DataFrame(
        {"s": pd.Series([math.nan if x is None else x for x in v], dtype=object), "o": o}
    ),
    "pandas string": lambda v, o: pd.DataFrame({"s": pd.Series(v, dtype="string"), "o": o}),
    "pandas categories": lambda v, o: pd.DataFrame({"s": pd.Series(v, dtype="category"), "o": o}),
    "pandas arrow": lambda v, o: pd.DataFrame({"s": pd.array(v, dtype="string[pyarrow]"), "o": o}),
    "polars": lambda v, o: pl.DataFrame({"s": v, "o": pl.Series(o, dtype=pl.Object if mixed(o) else None)}),
    "polars categories": lambda v, o: pl.DataFrame(
        {"s": pl.Series(v, dtype=pl.Categorical), "o": pl.Series(o, dtype=pl.Object if mixed(o) else None)}
    ),
}


def mixed(values):
    return len({type(v) for v in values}) > 1


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("other", [[1.0, 2.0, 3.0, 4.0], ["a", "b", "c", "d"], [1, "two", True, None]])
def test_strings_are_encoded_the_same_with_any_other_column(kind, other):
    texts = ["NaN", None, "nan", "x"]
    _, rows = learned(TEXTS[kind](texts, other))
    loop = looped([{"s": s, "o": o} for s, o in zip(texts, other, strict=True)])[1]
    for i in range(4):
        assert content(rows, i) == content(loop[i], 0)
    with_text, without = (dict.fromkeys(k for k, _, _ in content(rows, i)) for i in (0, 1))
    assert category_key("s", "NaN") in with_text
    assert not {category_key("s", text) for text in ("NaN", "nan", "None", "<NA>")} & without.keys()


@pytest.mark.parametrize(
    ("X", "names", "message"),
    [
        (np.zeros((2, 2)), None, "give names"),
        (np.zeros((2, 2)), ["a"], "2 columns and names has 1"),
        (np.zeros(3), ["a"], "1 dimensions"),
        (pl.DataFrame({"a": [1]}), ["a"], "names= goes with a NumPy array"),
        (np.zeros((1, 2)), ["a", "a"], "same name 'a'"),
        (np.zeros((1, 2), dtype=object), ["a", "a"], "same name 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "same name 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), None, "same name '1'"),
        (
            pd.DataFrame({("a", 1): [1], ("a", 2): [2]}),
            None,
            "several levels",
        ),
        (pl.LazyFrame({"a": [1]}), None, "eager data frame"),
        (3, None, "eager data frame"),
        (pl.DataFrame({"when": [datetime.timedelta(1)]}), None, "column 'when'"),
        (pl.DataFrame({"l": [[1, 2]]}), None, "column 'l'"),
        (pl.DataFrame({"s": [{"x": 1}]}), None, "column 's'"),
    ],
)
def test_what_is_not_a_batch_is_refused(X, names, message):
    with pytest.raises(ValueError, match=message):
        batch(X, names)


@pytest.mark.parametrize("y", [[1, 2], np.array([1, 2]), pd.Series([1, 2]), pl.Series([1, 2]), (1, 2)])
def test_targets(y):
    assert targets(y, 2) == [1, 2]


def test_targets_of_a_chunked_array():
    assert targets(pa.chunked_array([[1], [2]]), 2) == [1, 2]


def test_targets_of_another_length():
    with pytest.raises(ValueError, match="X has 3 rows and y has 2"):
        targets([1, 2], 3)


def test_a_target_that_is_a_single_value():
    with pytest.raises(ValueError, match="one value a row"):
        targets(np.array(3), 1)


def test_frames_whose_names_are_numbers():
    _, rows = learned(pd.DataFrame({0: [1.0], 1: [2.0]}))
    expected = content(looped([{0: 1.0, 1: 2.0}])[1][0], 0)
    assert content(rows, 0) == expected
    for names in ([0.0, 1.0], ["0", "1"], np.array([0.0, 1.0])):
        assert content(learned(pd.DataFrame([[1.0, 2.0]], columns=names))[1], 0) == expected
        assert content(learned(np.array([[1.0, 2.0]]), names=names)[1], 0) == expected
        assert content(learned(np.array([[1.0, 2.0]], dtype=object), names=names)[1], 0) == expected
    with pytest.raises(ValueError, match="same name '1'"):
        batch(pd.DataFrame([[1, 2]], columns=[1.0, "1"]))


def test_a_frame_whose_names_are_booleans():
    rows = [{True: 1.0, "colour": "red", False: 2.0}, {True: None, "colour": "blue", False: 3.0}]
    _, loop = looped(rows)
    _, found = learned(pd.DataFrame(rows))
    assert [content(found, i) for i in range(2)] == [content(row, 0) for row in loop]


@pytest.mark.parametrize("values", [[1, 2.5, -3], [2**60, 0.1], [1.0, np.float32(0.1)], [Fraction(1, 3), 1]])
def test_targets_are_checked_together_as_one_by_one(values):
    assert check_targets(values, [1.0] * len(values)) == [check_target(y) for y in values]
    for bad in (math.nan, math.inf, 10**400, True, "1", None):
        with pytest.raises(ValueError, match=f"row {len(values)}: the target is"):
            check_targets([*values, bad], [1.0] * (len(values) + 1))
    assert check_targets([None, *values], [0.0] + [1.0] * len(values))[0] == 0.0


def test_targets_that_are_none():
    with pytest.raises(ValueError, match="y must be a series"):
        targets(5, 1)


def test_answers_come_in_the_type_of_the_question():
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=[10, 20])
    series = batch(frame).series(["x", "y"])
    assert isinstance(series, pd.Series)
    assert series.index.tolist() == [10, 20]
    assert isinstance(batch(pl.DataFrame({"a": [1]})).series(["x"]), pl.Series)
    assert isinstance(batch(np.zeros((1, 1)), ["a"]).series(["x"]), np.ndarray)
    assert batch([{"a": 1}]).series(["x"]) == ["x"]
    table = batch(frame).table([False, True], np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert table.columns.tolist() == [False, True]
    assert table.loc[10, True] == 0.75
