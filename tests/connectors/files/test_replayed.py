"""The log of a replay: every format and packing, pipes, what is broken."""

import csv
import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import msgspec
import psutil
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from tests.connectors.reading import log_of

PACK = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
ROWS = [
    {"a": k / 4, "b": None if k % 5 == 0 else f"t{k % 3}", "y": "up" if k % 3 else "down"}
    for k in range(2500)
]
EVENTS = [({"a": row["a"], "b": row["b"]}, row["y"]) for row in ROWS]


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(rows):
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file, row_group_size=700)
    return file.getvalue()


FORMS = {
    "csv": as_csv,
    "json": lambda rows: b"".join(json.dumps(row).encode() + b"\n" for row in rows),
    "msgpack": lambda rows: b"".join(map(msgspec.msgpack.encode, rows)),
    "parquet": as_parquet,
}


def write(path, data):
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(files, target="y", **given):
    log = log_of(files, target, **given)
    found = [(x, y) for batch in log.batches() for x, y in zip(batch.events, batch.targets, strict=True)]
    return log, found


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "streamk prefetch"]


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("form", FORMS)
def test_every_format_and_packing_gives_the_same_events(tmp_path, form, pack):
    path = write(tmp_path / "log", PACK[pack](FORMS[form](ROWS)))
    log, found = read(path)
    assert found == EVENTS
    assert (log.events, log.broken.count, log.done, log.size) == (2500, 0, log.size, path.stat().st_size)
    assert log.fingerprint()["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert not threads()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_are_the_events(tmp_path, form):
    rows = [{"a": k / 4, "b": k, "y": k % 2} for k in range(1500)]
    for batch in log_of(write(tmp_path / "log", FORMS[form](rows)), "y").batches():
        assert batch.names == ["a", "b"]
        assert [dict(zip(batch.names, row, strict=True)) for row in batch.matrix.tolist()] == batch.events
        assert batch.numbers.tolist() == [float(y) for y in batch.targets]
        assert {type(x["b"]) for x in batch.events} == {float if form == "csv" else int}


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("form", FORMS)
def test_a_pipe_is_read_as_a_file_is(tmp_path, form, pack):
    code = (
        "from tests.connectors.reading import log_of; log = log_of('-', 'y');"
        "print(sum(len(b) for b in log.batches()), log.fingerprint()['sha256'])"
    )
    if pack != "plain" and form in ("json", "msgpack"):
        pytest.skip("as the others")
    data = PACK[pack](FORMS[form](ROWS))
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().split() == ["2500", hashlib.sha256(data).hexdigest()]


@pytest.mark.parametrize("form", FORMS)
def test_a_named_pipe_is_read_once(tmp_path, form):
    data, pipe = FORMS[form](ROWS * 40), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    log = log_of(pipe, "y")
    before = log.fingerprint()
    writer.start()
    found = [x for batch in log.batches() for x in batch.events]
    writer.join()
    assert found == [x for x, _ in EVENTS] * 40
    assert before["sha256"] is None
    assert log.fingerprint()["sha256"] == hashlib.sha256(data).hexdigest()
    assert log.size == 0


def test_a_substituted_process_after_a_file(tmp_path):
    path = write(tmp_path / "a.csv", FORMS["csv"](ROWS * 40))
    code = (
        "import sys; from tests.connectors.files.test_replayed import read; print(len(read(sys.argv[1:])[1]))"
    )
    shell = f"{sys.executable} -c '{code}' {path} <(cat {path})"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=True)
    assert done.stdout == b"200000\n"


def test_ctrl_c_ends_a_wait_for_a_pipe():
    code = (
        "import threading\nfrom tests.connectors.reading import log_of\n"
        "try:\n    for batch in log_of('-', 'y').batches(): print(len(batch), flush=True)\n"
        "except KeyboardInterrupt: print('ended', threading.active_count())"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b"a,y\n" + b"1,2\n" * 800_000)
    process.stdin.flush()
    assert process.stdout.readline() == b"1000\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=10)  # while the pipe is open
    assert process.communicate(timeout=10)[0].splitlines()[-1] == b"ended 1"


def test_closing_early_ends_the_thread_and_closes_the_files(tmp_path):
    path = write(tmp_path / "log", FORMS["json"](ROWS * 20))
    batches = log_of(path, "y").batches()
    next(batches)
    assert threads()
    assert open_files(tmp_path) == [path.name]
    batches.close()
    assert not threads()
    assert open_files(tmp_path) == []


def open_files(directory):
    """Return the names of files in a directory that this process has open."""
    return [
        Path(each.path).name for each in psutil.Process().open_files() if each.path.startswith(str(directory))
    ]


# What makes lines hard to count: quotes with line ends, blank and broken lines, no end of the last one
MANY = {
    "a.csv": 'a,y\n1,u\n\n"x\ny",v\n' + "2,u\n" * 1500 + "1,2,3\n" + '"p\r\nq",u\n' * 700 + "5,",
    "b.csv": "y;a\n" + "".join(f"v;{k},5\n" for k in range(2300)),
    "c.json": '{"a": 1, "y": "w"}\n\n{"a": \n' + '{"y": "w", "a": "é"}\r\n' * 1200,
}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for name, text in MANY.items():
        write(folder / name, gzip.compress(text.encode()) if name.startswith("b") else text)
    write(folder / "d.parquet", as_parquet([{"a": float(k), "y": "u"} for k in range(2500)]))
    write(folder / "e.mp", b"".join(msgspec.msgpack.encode({"a": k, "y": "z"}) for k in range(1700)))
    log = log_of(str(folder / "*"), "y")
    batches = [(b.events, list(b.targets), list(b.lines)) for b in log.batches()]
    return folder, batches, log


def test_the_log_of_many_files_is_whole(many):
    folder, batches, log = many
    assert log.events == sum(len(events) for events, *_ in batches) == 2202 + 2300 + 1201 + 2500 + 1700
    assert (log.broken.count, log.broken.unlabelled) == (2, 1)
    place = folder / "a.csv"
    assert log.broken.examples[0] == f"{place}, line 1506: cannot be decoded: 3 values for 2 columns"
    assert log.broken.bare[0].startswith(f"{place}, line 2907: the target 'y' is missing")
    assert log.notes == [
        f"read as CSV with {both}; --delimiter and --decimal change that"
        for both in (
            "commas between values and decimal points",
            "semicolons between values and decimal commas",
        )
    ]
    assert batches[0][2][:3] == [2, 5, 6]
    # as sha256sum prints them
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())]
    assert (
        log.fingerprint()["sha256"] == hashlib.sha256("".join(h + "\n" for h in hashes).encode()).hexdigest()
    )


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("again", ["a,b,y", '"a","b","y"', "\ufeffa,b,y"])
def test_a_header_that_comes_again_is_no_event(tmp_path, again, slowly):
    rows = "1,2,u\n" * 1500
    path = write(tmp_path / "all.csv", f"a,b,y\n{rows}{again}\r\n{rows}{again}\n1,a,y\n")
    given = {}
    if slowly:
        given["features"] = {"a": "a", "b": "b"}
    log, found = read(path, types={"b": "category"}, **given)
    assert found == [({"a": 1.0, "b": "2"}, "u")] * 3000 + [({"a": 1.0, "b": "a"}, "y")]
    assert log.broken.count == 2
    assert log.broken.examples[0] == f"{path}, line 1502: the header again"


RECORDS = msgspec.msgpack.encode({"a": 1, "y": 1}) * 3
BROKEN = [
    ("a,y\n1,2\n1\n3,4\n", "line 3: cannot be decoded: 1 values for 2 columns", 2),
    ("a,y\n1,2\n1,2,3\n3,4\n", "line 3: cannot be decoded: 3 values", 2),
    ('a,y\n1,2\n"x,3\n3,4\n5,6\n', "line 3: a quote opens and never closes", 3),
    (b"a,y\n" + b"1,2\n" * 2000 + b"\xff,3\n3,4\n", "line 2002: cannot be decoded: 'utf-8'", 2001),
    ('{"a": 1, "y": 2}\n{"a": 01, "y": 2}\n[1]\n{"a": 1, "y": 3}\n', "line 2: cannot be decoded: ", 2),
    (RECORDS + b"\x07\xc1", "record 4: an event must be an object of fields", 3),
    (RECORDS + b"\x82\xa1", "after record 3: from here on nothing can be", 3),
]


@pytest.mark.parametrize(("data", "reason", "whole"), BROKEN)
def test_broken_records_are_counted_or_end_it(tmp_path, data, reason, whole):
    path = write(tmp_path / "log", data)
    log, found = read(path)
    assert len(found) == whole
    assert log.broken.count >= 1
    assert log.broken.examples[0].startswith(f"{path}, {reason}")
    with pytest.raises(ValueError, match="log, ") as raised:
        read(path, strict=True)
    assert reason in str(raised.value)


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
@pytest.mark.parametrize("form", ["csv", "json", "msgpack"])
def test_what_is_whole_of_a_file_cut_short_is_read(tmp_path, form, pack):
    rows = [{"a": hashlib.md5(str(k).encode()).hexdigest(), "y": "u"} for k in range(20_000)]
    data = PACK[pack](FORMS[form](rows))
    path = write(tmp_path / "log", data[: len(data) * 2 // 3])
    log, found = read(path, types={"a": "category"})
    assert 3000 < len(found) < 20_000
    assert found == [({"a": row["a"]}, "u") for row in rows[: len(found)]]
    assert log.broken.count == 1
    assert "cut short or damaged" in log.broken.examples[0]
    with pytest.raises(ValueError, match="cut short"):
        read(path, types={"a": "category"}, strict=True)


@pytest.mark.parametrize("form", ["json", "msgpack", "csv"])
@pytest.mark.parametrize("at", [(), (0,), (3, 7), range(10)])
def test_records_with_a_target_and_no_input_are_skipped(tmp_path, form, at):
    """As the daemon makes dead letters of them; labels in records of their own are no events."""
    rows = [{"id": f"n{k}"} | ({} if k in at else {"a": k % 3}) | {"y": "u"} for k in range(10)]
    if form == "csv":  # has all columns in every row, so either none is an input or all rows have one
        rows = [{**row, "a": row.get("a", 0)} for row in rows] if at != range(10) else rows
        at = () if at != range(10) else at
    path = write(tmp_path / "log", FORMS[form](rows))
    log, found = read(path, ignore=["id"])
    assert len(found) == 10 - len(at)
    assert log.broken.count == len(at)
    for example in log.broken.examples:
        assert example.endswith("it has a target and no input")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        ("1,2\n3,4\n", r"holds only numbers \(1, 2\); name the 2 columns with --columns a,b,…"),
        ("a,b\n1,2\n", "there is no column 'y'; use a or b"),
        ("[1, 2]", "is a JSON array without objects"),
        ('{"a": 1}\n', "the target 'y' is missing; there are a"),
        (as_parquet([{"a": 1}]), "there is no column 'y'; there are a"),
        (b"PAR1 and no more", "it is no Parquet file"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, data, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "log", data))


def test_the_targets_of_all_files_are_of_one_kind(tmp_path):
    write(tmp_path / "a.csv", "a,y\n1,2\n")
    write(tmp_path / "b.json", '{"a": 1, "y": 2}\n')
    with pytest.raises(
        ValueError, match=r"b.json: the target 'y' is a number, and a number in CSV in .*a.csv"
    ):
        read(str(tmp_path / "*"))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_byte_order_marks(tmp_path, form, encoding):
    path = write(tmp_path / "log", FORMS[form](ROWS).decode().replace("t1", "é").encode(encoding))
    log = log_of(path, "y")
    expected = [({"a": x["a"], "b": "é" if x["b"] == "t1" else x["b"]}, y) for x, y in EVENTS]
    assert [row for b in log.batches() for row in zip(b.events, b.targets, strict=True)] == expected


def test_memory_does_not_grow_with_the_log(tmp_path):
    with gzip.open(tmp_path / "big.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"a,b,y\n")
        for k in range(400):
            file.write(b"".join(b"%d,%d,%d\n" % (k * i, i, i % 2) for i in range(1000)))
    batches = log_of(tmp_path / "big.csv.gz", "y").batches()
    assert len(next(batches)) == 1000  # what is made once is made
    tracemalloc.start()
    assert sum(map(len, batches)) == 399_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6


def test_a_column_of_times_and_ignored_ones(tmp_path):
    for form in FORMS:
        rows = [{"t": "2024-01-01", "id": 3, "a": 0.5, "y": "u"}] * 3
        (batch,) = log_of(write(tmp_path / form, FORMS[form](rows)), "y", time="t", ignore=["id"]).batches()
        assert (batch.events, batch.times) == ([{"a": 0.5}] * 3, ["2024-01-01"] * 3)
