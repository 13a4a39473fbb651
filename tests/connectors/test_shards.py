"""Shards of files together hold exactly the events of the files, however they are cut and read."""

import gzip
import json
import pickle
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from connectors.events.decoding import EventFormat
from connectors.events.targets import interpret
from connectors.files.log import ReplayLog, files_of
from connectors.shards import blocks, shards_of, skipped_of


def cut_into(paths, task, by, count, **more):
    log = ReplayLog(paths, "y")
    log.look()
    return shards_of(log.paths, log.format, task, by, count, **more)


CELLS = st.text(alphabet='ab1-. "\n\té', max_size=6)
ENDS = st.sampled_from(["\n", "\r\n"])


def replayed(path, task="classification"):
    """Line, fields and target of every event as replay reads them."""
    log = ReplayLog(path, "y")
    return [(record.line, *interpret(record, log, task)) for record in log]


def read(shard, count):
    """The events of a shard, each chunk from the pickled position after the one before."""
    found, position = [], None
    while True:
        chunk = pickle.loads(pickle.dumps(shard)).read(position, count)
        assert len(chunk.rows) == len(chunk.targets) == len(chunk.lines) <= count
        found += zip(chunk.lines, chunk.rows, chunk.targets, strict=True)
        position = json.loads(json.dumps(chunk.next))
        if chunk.ended:
            assert shard.done(position) <= 1.0
            return found


@st.composite
def csv_files(draw):
    end, quoted, last = draw(ENDS), draw(st.booleans()), draw(st.booleans())
    lines = ["a,y,b"]
    for a, b in draw(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12)):
        if quoted:
            cells = [f'"{v.replace(chr(34), chr(34) * 2)}"' for v in (a, "1", b)]
        else:
            # a quote that does not begin a field is a character like others
            cells = [v.replace("\n", " ").replace("\r", "").lstrip('"') for v in (a, "1", b)]
        lines.append(",".join(cells))
        lines += [""] * draw(st.integers(0, 1))
    return (end.join(lines) + (end if last else "")).encode()


@st.composite
def json_files(draw):
    end, mark = draw(ENDS), draw(st.sampled_from(["", "\ufeff"]))
    rows = draw(
        st.lists(st.dictionaries(st.sampled_from("abc"), CELLS | st.integers(), max_size=3), min_size=1)
    )
    rows = [{"a": 1}, *rows]  # a log without any input is no log
    texts = [json.dumps({**row, "y": k % 3}, ensure_ascii=draw(st.booleans())) for k, row in enumerate(rows)]
    return (mark + end.join(texts) + (end + end if draw(st.booleans()) else "")).encode()


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return str(tmp_path_factory.mktemp("logs") / "log")


def write(path, data):
    Path(path).write_bytes(data)
    return path


@given(data=csv_files() | json_files(), count=st.integers(1, 7), most=st.integers(1, 9))
def test_blocks_and_hashes_hold_the_whole_file(log, data, count, most):
    events = replayed(write(log, data))
    cut = cut_into([log], "classification", "blocks", count)
    assert [event for shard in cut for event in read(shard, most)] == events
    assert len({shard.name for shard in cut}) == len(cut) <= count
    hashed = [read(shard, most) for shard in cut_into([log], "classification", "hash", count)]
    assert sorted((event for part in hashed for event in part), key=lambda event: event[0]) == events


def test_blocks_of_lines_are_of_about_one_size(log):
    write(log, b"".join(b'{"y": %d, "x": %d}\n' % (k % 2, k) for k in range(1000)))
    sizes = [stop - start for start, stop, _ in blocks(log, 7, EventFormat("y"))]
    assert len(sizes) == 7
    assert max(sizes) - min(sizes) < 40
    assert sum(sizes) == Path(log).stat().st_size


def test_hashes_share_records_evenly(log):
    write(log, b"".join(b'{"y": %d, "x": 1}\n' % (k % 2) for k in range(4000)))
    counts = [len(read(shard, 10_000)) for shard in cut_into([log], "classification", "hash", 4)]
    assert sum(counts) == 4000
    assert max(counts) - min(counts) < 150


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_files_are_whole_shards(log, pack):
    write(log, pack(b"a,y\n" + b"1,0\n2,1\n" * 50))
    (shard,) = cut_into([log], "classification", "blocks", 8)
    assert (shard.path, shard.block, shard.part) == (log, None, None)
    assert read(shard, 7) == replayed(log)
    damaged = pack(b"a,y\n" + b"1,0\n2,1\n" * 50)[:-9]
    write(log, damaged)
    with pytest.raises(ValueError, match="cut short or damaged"):
        read(shard, 200)


def test_several_files_share_the_blocks_by_size(tmp_path):
    for name, rows in (("b.csv", 300), ("a.csv", 100), ("c.csv.gz", 10)):
        data = b"a,y\n" + b"1.5,2\n" * rows
        write(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)
    paths = files_of([str(tmp_path / "*.csv*"), str(tmp_path / "a.csv")])
    assert [path.rsplit("/", 1)[1] for path in paths] == ["a.csv", "b.csv", "c.csv.gz"]
    cut = cut_into(paths, "regression", "blocks", 8)
    assert Counter(shard.path.rsplit("/", 1)[1] for shard in cut) == {"a.csv": 2, "b.csv": 6, "c.csv.gz": 1}
    assert sum(len(read(shard, 11)) for shard in cut) == 410
    whole = cut_into(paths, "regression", "file", 8)
    assert [read(shard, 500) for shard in whole] == [replayed(path, "regression") for path in paths]


def test_lines_are_named_as_replay_names_them(log):
    write(log, b"a,y\n" + b'"1\n",0\n' * 40 + b"1,\n" + b"2,1\n" * 10)
    *_, bad, _ = cut_into([log], "classification", "blocks", 6)
    assert bad.block[2] > 0
    shard = cut_into([log], "classification", "blocks", 2)[1]
    count, example = skipped_of([shard.read(None, 1000).next])
    assert count == 1
    assert example.endswith("line 82: the target 'y' is missing; there are a")


def test_a_target_that_is_no_number_is_skipped(log):
    write(log, b"a,y\n" + b"1,2.5\n" * 30 + b"2,many\n" + b"3,4\n" * 5)
    (shard,) = cut_into([log], "regression", "file", 1)
    chunk = shard.read(None, 100)
    assert (len(chunk.rows), chunk.ended) == (35, True)
    assert skipped_of([chunk.next]) == (1, f"{log}, line 32: the target 'y' is 'many', not a number")
    with pytest.raises(ValueError, match="'many', not a number"):
        cut_into([log], "regression", "file", 1, strict=True)[0].read(None, 100)


def test_row_groups_of_parquet(tmp_path):
    path = str(tmp_path / "log.parquet")
    table = pa.table(
        {"a": [k / 2 for k in range(50)], "b": ["x", None] * 25, "y": [k % 2 for k in range(50)]}
    )
    parquet.write_table(table, path, row_group_size=8)
    cut = cut_into([path], "classification", "blocks", 3)
    assert [shard.block[:2] for shard in cut] == [(0, 16), (16, 32), (32, 50)]
    found = []
    for shard in cut:
        position, ended = None, False
        while not ended:
            rows, targets, position, ended, *_ = shard.read(json.loads(json.dumps(position)), 5)
            assert len(rows) <= 5
            found += [{**row, "y": y} for row, y in zip(rows, targets, strict=True)]
            assert 0.0 <= shard.done(position) <= 1.0
    assert found == table.to_pylist()
    assert len(cut_into([path], "classification", "blocks", 20)) == 7
    with pytest.raises(ValueError, match="no column 'z'; there are a, b, y"):
        ReplayLog(path, "z").look()


@pytest.mark.parametrize(
    ("patterns", "sentence"),
    [(["{}/*.nothing"], "no such file"), (["{}"], "is a directory")],
)
def test_files_that_are_none(tmp_path, patterns, sentence):
    with pytest.raises(ValueError, match=sentence):
        files_of([pattern.replace("{}", str(tmp_path)) for pattern in patterns])
