"""The law of equal events: every verb reads the same events from the same bytes, and skips the same lines."""

import csv
import gzip
import io
import json
import math
from functools import partial
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.errors import Failure
from connectors.events.decoding import EventFormat
from connectors.events.targets import LOOK, decide_task
from connectors.files.log import ReplayLog
from connectors.files.source import FileSource
from connectors.replay.labels import KeyedLog
from connectors.shards import shards_of

DATA = Path(__file__).parents[3] / "shared" / "data"
REAL = {
    "abalone.csv": "rings", "adult_test.csv.gz": "income", "bike_hourly.csv.gz": "cnt",
    "boston.csv": "MEDV", "demand.csv.gz": "units_sold", "elec2.csv.gz": "class",
    "elevators.csv.gz": "target", "fried.csv.gz": "target", "gmsc.csv.gz": "is_fraud",
    "kin40k.csv.gz": "target", "nyc_taxi.csv.gz": "value", "phishing.csv.gz": "is_phishing",
}  # fmt: skip
MOST = 3000  # lines of a real file

CELLS = st.text(alphabet='ab1-.,"\n\r\t {}[]:é\0$%', max_size=6) | st.sampled_from(
    ["1", "2.5", "-3e2", "1,5", "NA", "nan", "", "null", "?", "yes", "no", "$1,200.50", "12.3 %",
     "2024-01-31", "31.12.2024 10:30", "007", "1700000000", "a longer text of words", "inf", "1_000", "  4 "]
)  # fmt: skip
KEYS = ("y", "a", "b c", "é", "", "ts", "x.y")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | CELLS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELLS, inner, max_size=2),
    max_leaves=4,
)


def csv_of(draw):
    delimiter = draw(st.sampled_from(",;\t|"))
    header = ["a", "y", "when"]
    rows = draw(st.lists(st.lists(CELLS, min_size=2, max_size=4), max_size=30))
    same = draw(st.booleans())  # most files have as many values in every row
    rows = [[*row, "", ""][:3] if same else row for row in rows]
    if draw(st.booleans()):
        rows.insert(draw(st.integers(0, len(rows))), header)
    if draw(st.booleans()):  # quoted as a library does
        text = io.StringIO(newline="")
        ends = draw(st.sampled_from(["\n", "\r\n"]))
        csv.writer(text, delimiter=delimiter, lineterminator=ends).writerows([header, *rows])
        return text.getvalue()
    return "\n".join(delimiter.join(row) for row in [header, *rows])


def json_of(draw):
    rows = draw(st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4), max_size=20))
    ascii_only = draw(st.booleans())
    texts = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    return "\n".join([*texts, *draw(st.lists(CELLS, max_size=2))])


@st.composite
def files(draw):
    form = draw(st.sampled_from(["json", "csv"]))
    text = (json_of if form == "json" else csv_of)(draw) + draw(st.sampled_from(["", "\n"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    data = text.encode(encoding, "replace")
    compress = draw(st.sampled_from([bytes, gzip.compress, zstandard.ZstdCompressor().compress]))
    return form, compress(data)


def plain(value):
    """Values that compare equal where they are, NaN included."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def comparable(found):
    return [({k: plain(v) for k, v in fields.items()}, plain(target)) for fields, target in found]


def of_replay(path, form, target="y"):
    """Events and skipped records of a replay, or why there are none."""
    log = ReplayLog(path, EventFormat(target), form)
    found = [(fields, y) for _, fields, y in log]
    return found, log.broken.count + log.broken.unlabelled


def of_predict(path, form, target="y"):
    """The same of a log whose records need no target, those without one left out."""
    log = ReplayLog(path, EventFormat(target, labelled=False), form)
    rows = [(fields, y) for _, fields, y in log]
    found = [(fields, y) for fields, y in rows if y is not None]
    return found, log.broken.count + len(rows) - len(found)


def of_train(path, form, target="y", by="blocks", count=3, step=7):
    """The same of shards that are read a few events at a time, from where the last read ended."""
    log = ReplayLog(path, EventFormat(target), form)
    log.look()
    found, skipped = [], 0
    for shard in shards_of([str(path)], log.format, "classification", by, count):
        position, ended = None, False
        while not ended:
            chunk = shard.read(position, step)
            found += zip(chunk.rows, chunk.targets, strict=True)
            position, ended = chunk.next, chunk.ended
        skipped += position[3]
    return found, skipped


def require_bulk_equal(decode, values):
    """Decoding many records at once gives what decoding each gives, or leaves it to that."""
    try:
        expected = [decode(value) for value in values]
    except ValueError:
        return
    found = decode.plain(values)
    if found is not None:
        assert comparable(zip(*found, strict=True)) == comparable((e.fields, e.target) for e in expected)


def of_daemon(path, form, target="y"):
    source = FileSource(Path(path), form, False, EventFormat(target))
    decode = source.decoder
    source.poll(0)
    source.begin(source.name, source.begins)
    found, skipped = [], 0
    while not (polled := source.poll(0, 5)).finished:
        for batch in polled.batches.values():
            require_bulk_equal(decode, [record.value for record in batch.records])
            for record in batch.records:
                try:
                    event = decode(record.value)
                except ValueError:
                    skipped += 1
                    continue
                if event.target is None:
                    skipped += 1
                else:
                    found.append((event.fields, event.target))
    source.close(True)
    return found, skipped


def of_labels(path, form, target="y"):
    """The events of a log that another one labels: a key that is no field of it changes nothing."""
    format = EventFormat(target, labelled=False)
    rows = [(fields, y) for _, fields, y in KeyedLog(str(path), format_with_key(format))]
    found = [(fields, y) for fields, y in rows if y is not None]
    return found, None


def format_with_key(format):
    from dataclasses import replace

    return replace(format, verbatim=("no such key",))


def attempt(read, *arguments):
    try:
        return read(*arguments)
    except (ValueError, Failure):
        return None


def require_equal(path, form, target="y", step=7):
    expected = attempt(of_replay, path, form, target)
    if expected is None or not expected[0]:
        return expected
    events, skipped = comparable(expected[0]), expected[1]
    for read in (of_predict, of_daemon, partial(of_train, step=step)):
        found = read(path, form, target)
        assert comparable(found[0]) == events, read
        assert found[1] == skipped, read
    for by, count in (("hash", 2), ("file", 1)):
        found = of_train(path, form, target, by, count, step)
        assert sorted(map(str, comparable(found[0]))) == sorted(map(str, events))
        assert found[1] == skipped
    if form == "json":
        assert comparable(of_labels(path, form, target)[0]) == events
    return expected


@given(files())
def test_every_verb_reads_the_same_events(tmp_path_factory, file):
    form, data = file
    path = tmp_path_factory.mktemp("equal") / "log"
    path.write_bytes(data)
    require_equal(path, form)


@pytest.mark.parametrize("name", REAL)
def test_real_files(name, tmp_path):
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in shared/data")
    raw = (DATA / name).read_bytes()
    text = gzip.decompress(raw) if name.endswith(".gz") else raw
    path = tmp_path / name.removesuffix(".gz")
    path.write_bytes(b"".join(text.splitlines(keepends=True)[: MOST + 1]))
    found = require_equal(path, "csv", REAL[name], step=97)
    assert len(found[0]) + found[1] == min(MOST, text.count(b"\n") - 1)


def made(count=120):
    """A table as people have it: one row a dict."""
    return [
        {
            "id": f"A-{k:05}", "when": f"2024-{k % 12 + 1:02}-{k % 28 + 1:02} 10:{k % 60:02}:00",
            "price": f"${1000 + 13 * k:,}.50", "share": f"{k % 100}.5 %", "ok": ("yes", "no")[k % 2],
            "note": f"the {('quick', 'slow')[k % 2]} brown fox number {k} runs", "plz": f"0{k % 10}12",
            "n": "NA" if k % 7 == 0 else str(k / 8), "y": ("up", "down")[k % 3 == 0],
        }
        for k in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_made_tables(delimiter, encoding, tmp_path):
    rows = made()
    rows[50]["note"] = "a café for öld friends, 50 of them"
    rows[60]["price"] = "unknown"
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    path = tmp_path / "made.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    found, skipped = require_equal(path, "csv")
    assert len(found) == 120
    assert skipped == 0
    fields = found[1][0]
    assert fields["price"] == 1013.5
    assert fields["share"] == 1.5
    assert fields["ok"] is False
    assert fields["plz"] == "0112"
    assert fields["when"].isoformat() == "2024-02-02T10:01:00"
    assert "id" not in fields
    assert "note" not in fields
    assert found[0][0]["n"] is None
    assert found[60][0]["price"] is None


def test_decimal_commas_reach_every_verb(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a;y\n" + "".join(f"{k},5;{k % 2}\n" for k in range(40)))
    found, _ = require_equal(path, "csv")
    assert found[3] == ({"a": 3.5}, "1")


@pytest.mark.parametrize("form", ["json", "msgpack", "parquet"])
def test_other_forms_are_the_same_events(form, tmp_path):
    rows = [{**row, "n": None if row["n"] == "NA" else float(row["n"]), "deep": {"a": k, "tags": ["x", "y"]}}
            for k, row in enumerate(made())]  # fmt: skip
    path = tmp_path / f"log.{form}"
    if form == "parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=50)
    else:
        pack = msgspec.json.encode if form == "json" else msgspec.msgpack.encode
        path.write_bytes((b"\n" if form == "json" else b"").join(map(pack, rows)))
    found, skipped = of_replay(path, None)
    assert skipped == 0
    for read in (of_predict, of_train):
        assert comparable(read(path, None)[0]) == comparable(found)
    if form != "parquet":
        assert comparable(of_daemon(path, form)[0]) == comparable(found)
    assert found[1][0]["deep.a"] == 1
    assert found[1][0]["deep.tags.x"] == 1.0
    assert found[1][0]["price"] == 1013.5


def test_types_stay_those_of_the_first_records(tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{k},{k % 2}\n" for k in range(LOOK)] + ["many,1\n", "7,0\n"]
    path.write_text("a,y\n" + "".join(rows))
    log = ReplayLog(path, "y")
    found = [fields for _, fields, _ in log]
    assert found[-2:] == [{"a": None}, {"a": 7.0}]
    assert log.misfits["a"].count == 1
    assert log.misfits["a"].example == "many"


def test_the_task_is_that_of_the_log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "".join(f"{k},{k / 4} %\n" for k in range(40)))
    log = ReplayLog(path, "y")
    assert decide_task(log.look(), "y").task == "regression"
