"""Compiled decoding decides nothing but speed: numbers, dialects, and events against the slow decoder."""

import csv
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from connectors.events.values import MISSING, read_label
from connectors.files.log import Prefetcher
from connectors.formats.cells import number, short
from connectors.formats.dialect import Dialect, sniff
from streamk.compiling import ENTRY
from tests.connectors.reading import log_of

UNCACHED = ENTRY | {"cache": False}  # Numba would not notice an edit in the functions they call


@njit(**UNCACHED)
def compiled(data, point):
    return number(data, 0, len(data), point)


@njit(**UNCACHED)
def compiled_short(data, point):
    return short(data, 0, len(data), point)


def decimals(draw):
    """Texts of all sorts; whole numbers of 54 bits lie between two doubles, or next to that."""
    double = struct.unpack("d", draw.randbytes(8))[0]
    digits = str(draw.randrange(10 ** draw.randint(1, 19)))
    middle = 2 * draw.randrange(2**52, 2**53) + draw.randint(-1, 1)
    yield from (repr(double), repr(draw.gauss(0, 1)), f"{digits}e{draw.randint(-30, 60)}", str(middle))
    yield from (f"{middle // 2}.5", f"{draw.random():.{draw.randint(0, 20)}f}", str(draw.getrandbits(64)))
    yield from (f"{draw.choice(['', '-', '+'])}{digits[:5]}.{digits[5:]}", f"{middle * 5}e-1")
    yield "".join(draw.choices("0123456789.,eE+-_ naif", k=draw.randint(1, 6)))


def test_a_number_is_what_python_reads():
    draw = random.Random(7)
    for text in (text for _ in range(4000) for text in decimals(draw)):
        known, value = compiled(np.frombuffer(text.encode(), np.uint8), 46)
        assert not known or struct.pack("d", value) == struct.pack("d", float(text)), text
        end, value = compiled_short(np.frombuffer(text.encode(), np.uint8), 46)
        assert end == 0 or struct.pack("d", value) == struct.pack("d", float(text[:end])), text


@pytest.mark.parametrize(
    "text", ["1", "-2.5", "0.1234567890123456", "1e22", "17.25e-3", "9999999999999999999.", "+.5"]
)
def test_what_is_plain_is_not_left_to_python(text):
    assert compiled(np.frombuffer(text.encode(), np.uint8), 46)[0]


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        [
            *MISSING,
            "None",
            "?",
            " NA ",
            "-nan",
            "inf",
            "01",
            "-0",
            "1\r2",
            "-.5",
            "5.",
            "1_0",
            "3,14",
            "1.234,5",
            " 7",
            "é",
            "\ud800",
        ]
    ),
    st.text(alphabet='ab1-.,;"\n\r\t é\v', max_size=5),
)


def outcome(decode, line):
    try:
        event = decode(line)
    except ValueError:
        return "broken"
    if event.target is None:
        return "unlabelled"
    return (event.fields, event.target, event.time) if event.fields else "broken"


def found(path, **given):
    log = log_of(path, "y", **given)
    rows = []
    try:
        rows = [
            row
            for b in log.batches()
            for row in zip(b.events, b.targets, b.times or [None] * len(b), strict=True)
        ]
    except ValueError as error:
        if "is missing" not in str(error):
            raise
    return log, rows, log.broken.count, log.broken.unlabelled


def tally(outcomes):
    kept = [one for one in outcomes if not isinstance(one, str)]
    return [kept, outcomes.count("broken"), outcomes.count("unlabelled")]


@settings(max_examples=150)
@given(st.data(), st.sampled_from(";,"), st.sampled_from(".,"), st.sampled_from([MISSING, ()]), st.booleans())
def test_csv_is_read_as_line_by_line(tmp_path_factory, data, delimiter, decimal, missing, timed):
    # a comma may be both, where values stand in quotes
    width = data.draw(st.sampled_from([4, 4, 4, 3]))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=4), max_size=8))
    quoting = data.draw(st.booleans())
    lines = []
    for row in rows:
        if len(row) < len("aybt"):  # of a row of several lines that is none, each line is read again
            row = [cell.replace("\n", " ") for cell in row]
        cells = [
            '"' + cell.replace('"', '""') + '"' if quoting else "".join(c for c in cell if c not in '"\n\r')
            for cell in row
        ]
        lines.append(delimiter.join(cells).encode("utf-8", "surrogatepass"))
    end = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    names = ["a", "y", "b", "t"]
    text = delimiter.join(names).encode() + end + end.join(lines)
    path = tmp_path_factory.getbasetemp() / "line.csv"
    path.write_bytes(text)
    time = "t" if timed else None
    given = {"time": time, "delimiter": delimiter, "decimal": decimal, "missing": missing}
    log, *given = found(path, encoding="utf-8", **given)
    decode = log.format.decoder("csv", names)
    expected = tally([outcome(decode, line) for line in lines if line])
    assert repr(given) == repr(expected)


VALUES = (
    "1 -0 0 -0.0 01 1. .5 +1 1e3 1E+2 1.5e 1e400 true false null nul -1 -01 1x 00 -1.0 123456789012345.6 1.- "
    '{} [1,2] "a" "" "\\u00e9" "é" "a\tb" NaN -'
)
WORDS = st.one_of(
    st.sampled_from(VALUES.split(" ")),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**65), 2**65).map(str),
)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from([0] * 8 + [1, 2, 3, 4]), WORDS, WORDS), min_size=1, max_size=8),
    st.booleans(),
)
def test_json_lines_are_read_as_line_by_line(tmp_path_factory, rows, timed):
    shapes = [
        '{"a": %s, "y": %s, "t": 1}',
        '{"y":%s,"a":%s}',
        '  { "a" : %s , "y":%s,"t":1 } \r',
        '{"a": %s, "y": %s',
        "",
    ]
    lines = [(shapes[k] % (a, y) if k < 4 else " ").encode() for k, a, y in rows]
    lines = [b'{"a": 1, "y": 2, "t": 1}', *lines]
    path = tmp_path_factory.getbasetemp() / "line.json"
    path.write_bytes(b"\n".join(lines))
    log, *given = found(path, time="t" if timed else None)
    decode = log.format.decoder("json")
    expected = tally([outcome(decode, line) for line in lines if line.strip()])
    assert repr(given) == repr(expected)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("a,b,y\n1.5,2,3\n", ",."),
        ("a;b;y\n1,5;2;3\n", ";,"),
        ("a;b;y\n1.5;2;3\n", ";."),
        ("a\tb\ty\n1,5\t2\tx\n", "\t,"),
        ("a|b|y\n1|2|3\n", "|."),
        ('"a,b";y\n"1,2";3\n', ";,"),
        ('a,y\n"1,234",5\n"2,000",6\n', ",."),
        ('a,y\n"1,23",5\n"2,5",6\n', ",,"),
        ("a;y\n1,234;5\n", ";,"),
        ("name, full;y\nSmith, J;3\nJones, K;4\n", ";."),
        ("y\n1\n2\n", ",."),
        ("a;y\n01.02.2024;5\n1,5;6\n", ";,"),
        ('a;y\n"x\n,,,,";5\n', ";."),
    ],
)
def test_dialects(text, dialect):
    assert sniff(text, "y") == Dialect(*dialect)


PRICES = [f"{k % 30},{k % 10}0" for k in range(300)]  # decimal commas alone
THREE = [f"{k % 9 + 1}.{k * 37 % 900 + 100}" for k in range(300)]  # thousands, or fractions
OTHERS = {
    "times": [f"{k % 24}.{k % 6}{k % 10}" for k in range(300)],
    "versions": [f"{k % 3}.{k % 12}" for k in range(300)],
    "latitudes": [f"52.{5000 + k * 7}" for k in range(300)],
    "dates": [f"{k % 28 + 1}.{k % 12 + 1}.2024" for k in range(300)],
    "three digits": THREE,
    "words": [f"Nr. {k}" for k in range(300)],
}
RATIOS = [f"0.{k % 90 + 10}" for k in range(300)]  # decimal points alone


def table_of(delimiter, *columns):
    rows = ["\t".join(cells).replace("\t", delimiter) for cells in zip(*columns, strict=True)]
    return "\n".join([delimiter.join(f"c{k}" for k in range(len(columns))), *rows, ""])


@pytest.mark.parametrize("delimiter", ";\t|")
@pytest.mark.parametrize("other", OTHERS)
def test_one_column_of_prices_decides_next_to_others(delimiter, other):
    """Each column has one vote, and those whose points are no fractions, or may be thousands, have none."""
    for columns in ([OTHERS[other], PRICES], [PRICES, OTHERS[other]]):
        assert sniff(table_of(delimiter, *columns)) == Dialect(delimiter, ",")
    assert sniff(table_of(delimiter, OTHERS[other], RATIOS)) == Dialect(delimiter, ".")


def test_ties_of_columns_go_to_commas_between_semicolons():
    floats = [f"{k}.{k % 10}5" for k in range(300)]
    assert sniff(table_of(";", floats, PRICES)).decimal == ","
    assert sniff(table_of("\t", floats, PRICES)).decimal == "."
    assert sniff(table_of(";", floats, floats, floats, floats, PRICES)).decimal == "."


def test_thousands_alone_are_read_as_in_the_file_before():
    assert sniff(table_of(";", THREE), before=",").decimal == ","
    assert sniff(table_of(";", THREE)).decimal == "."
    commas = [cell.replace(".", ",") for cell in THREE]
    assert sniff(table_of(";", commas), before=".").decimal == "."
    assert sniff(table_of(";", commas)).decimal == ","
    assert sniff(table_of("\t", commas, RATIOS)).decimal == "."


def test_the_dialect_has_as_many_rows_as_types():
    """Values that decide may come after the first hundreds."""
    assert sniff(table_of(";", [*THREE, *THREE, *PRICES])).decimal == ","


def test_what_is_given_is_taken():
    assert sniff("a;y\n1,5;2\n", "y", decimal=".") == Dialect(";", ".")
    assert sniff("a;y,z\n", "y", delimiter=",") == Dialect(",", ".")
    assert sniff("a;y\n1;2\n", "y", before=",") == Dialect(";", ",")
    with pytest.raises(ValueError, match="--delimiter"):
        sniff("", delimiter="ab")
    with pytest.raises(ValueError, match="--decimal"):
        sniff("", decimal="x")


THOUSANDS = [
    ('900,"1,100.25",-7,"12,345,678"', ",", [900.0, 1100.25, -7.0, 12345678.0]),
    ("900;1.100,25;-7,5;12.345.678", ";", [900.0, 1100.25, -7.5, 12345678.0]),
    ("900;1,100.25;-7.5;12,345,678", ";", [900.0, 1100.25, -7.5, 12345678.0]),
]


@pytest.mark.parametrize(("cells", "delimiter", "values"), THOUSANDS)
@pytest.mark.parametrize("seen", [True, False])
def test_signs_between_thousands(tmp_path, cells, delimiter, values, seen):
    """They are there in the first rows, or come only after many others."""
    decimal = "," if "-7,5" in cells else "."
    cells = next(csv.reader([cells], delimiter=delimiter))
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["price", "ids", "y"])
        if not seen:
            writer.writerows([["1", "x1", "2"]] * 1500)
        for cell in cells:
            writer.writerow([cell, cell, cell])
        writer.writerow(["?", "", "5"])
        if seen:
            writer.writerows([["3", "x2", "2"]] * 250)
    log = log_of(path, "y", decimal=None if seen else decimal)
    rows = [row for batch in log.batches() for row in zip(batch.events, batch.targets, strict=True)]
    found = rows[:5] if seen else rows[-5:]
    assert [x["price"] for x, _ in found] == [*values, None]
    assert log.misfits["price"].example == "?"
    assert [float(y) for _, y in found] == [*values, 5.0]
    if not seen:  # a column of names keeps its names
        texts = list(map(read_label, cells))
        assert [x["ids"] for x, _ in found][:4] == texts


def test_a_column_of_numbers_may_lack_some(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('a,y\nNA,1\n,1\n"1,100.5",2\n')
    (batch,) = log_of(path, "y").batches()
    assert [x["a"] for x in batch.events] == [None, None, 1100.5]


def test_thousands_of_columns(tmp_path):
    names = [f"c{k}" for k in range(3000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join([*names, "y"])] + [",".join(["1.5"] * 3000 + ["u"])] * 500))
    batches = list(log_of(path, "y").batches())
    assert sum(map(len, batches)) == 500
    assert len(batches) > 1
    assert batches[0].matrix.shape[1] == 3000


def test_reading_ahead_has_bounds_and_order():
    made = []

    def items():
        for k in range(100):
            made.append(k)
            yield k
        raise KeyError("at the end")

    with Prefetcher(items(), lambda item: 10, depth=50, most=30) as ahead:
        assert next(ahead) == 0
        while len(made) < 5:
            pass
        assert len(made) <= 5
        assert [next(ahead) for _ in range(99)] == list(range(1, 100))
        with pytest.raises(KeyError, match="at the end"):
            next(ahead)
