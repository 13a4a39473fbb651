"""A log that grows while it is read, and is rotated."""

import gzip
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.contract.errors import POSITION, Failure
from connectors.files import source as module

from .test_source import (
    EVENTS,
    JSON,
    ROWS,
    TEXT,
    made,
    opened,
    sources,  # noqa: F401 (a fixture that closes what was opened)
    write,
)


def followed(path, form="json"):
    source, assigned = opened(path, form, follow=True)
    source.begin(source.name, assigned.first)
    return source


def came(source):
    """Return what a poll brings."""
    polled = source.poll(0)
    assert not polled.finished
    return [record.value for batch in polled.batches.values() for record in batch.records]


def add(path, data):
    with path.open("ab") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def test_following(tmp_path):
    path = write(tmp_path, '{"a": 1}\n{"a"')
    source = followed(path)
    assert came(source) == [b'{"a": 1}']
    assert came(source) == came(source) == []
    assert source.mark({"log": 9})["head"] == 9
    add(path, ": 2")
    assert came(source) == []
    add(path, '}\r\n\n{"a": 3}\n{')
    assert came(source) == [b'{"a": 2}', b'{"a": 3}']
    assert came(source) == []
    source.begin("log", 9)
    assert came(source) == [b'{"a": 2}', b'{"a": 3}']


def test_following_byte_by_byte(tmp_path):
    for form in TEXT:
        text = TEXT[form].encode()
        first = text.index(b"\n") + 1 if form == "csv" else 0
        path = write(tmp_path, text[:first])
        source = followed(path, form)
        found = []
        for i in range(first, len(text)):
            add(path, text[i : i + 1])
            found += came(source)
            assert b"\n".join(found) in text.replace(b"\r\n", b"\n") or b'"' in b"".join(found)
        decode = source.decoder
        assert [decode(value).fields for value in found] == EVENTS[form]
        source.close(True)


def test_following_waits(tmp_path):
    source = followed(write(tmp_path, ""))
    polled = source.poll(0.05)
    assert (polled.batches, polled.assigned, polled.finished) == ({}, (), False)


def test_a_followed_log_that_is_shortened(tmp_path):
    path = write(tmp_path, JSON)
    source = followed(path)
    assert len(came(source)) == len(ROWS)
    path.write_text(JSON[:30])
    with pytest.raises(Failure, match="log has become shorter than what was read of it") as raised:
        source.poll(0)
    assert raised.value.code == POSITION


# ---- rotation


@pytest.fixture
def quick(monkeypatch):
    """Wait less for what a writer still has to do."""
    monkeypatch.setattr(module, "_GRACE", 0.0)
    monkeypatch.setattr(module, "_ABSENT", 0.05)


def offsets(source):
    return [record.offset for batch in source.poll(0.3).batches.values() for record in batch.records]


@pytest.mark.usefixtures("quick")
def test_a_log_that_is_renamed_and_created_again(tmp_path):
    path = write(tmp_path, '{"a": 1}\n{"a": 2')
    source = followed(path)
    assert came(source) == [b'{"a": 1}']
    path.rename(tmp_path / "log.1")
    add(tmp_path / "log.1", "0}\n")  # the writer has not noticed yet
    assert came(source) == [b'{"a": 20}']
    assert came(source) == []
    write(tmp_path, '{"a": 3}\n')
    assert came(source) == [b'{"a": 3}']
    add(path, '{"a": 4}\n')
    polled = source.poll(0)
    (batch,) = polled.batches.values()
    assert [(record.offset, record.value) for record in batch.records] == [(28, b'{"a": 4}')]
    assert batch.next == 37
    assert source.ends() == {"log": 37}


@pytest.mark.usefixtures("quick")
def test_the_last_line_of_a_renamed_log_may_have_no_end(tmp_path):
    path = write(tmp_path, '{"a": 1}\n{"a": 2}')
    source = followed(path)
    assert came(source) == [b'{"a": 1}']
    path.rename(tmp_path / "log.1")
    write(tmp_path, '{"a": 3}\n')
    assert came(source) == [b'{"a": 2}']
    assert came(source) == [b'{"a": 3}']


class Writer:
    """Writes lines to a log and rotates it, by numbers that shift or by names that stay."""

    def __init__(self, path, shifts):
        self.path, self._shifts, self.lines, self._turn, self._tick = path, shifts, [], 0, 10**18
        path.touch()
        self._stamp()

    def _stamp(self):
        self._tick += 10**7  # times on disk are those of ticks, which tests outrun
        os.utime(self.path, ns=(self._tick, self._tick))

    def write(self, count):
        for _ in range(count):
            self.lines.append(b'{"a": %d}' % len(self.lines))
            add(self.path, self.lines[-1] + b"\n")
        self._stamp()

    def rotate(self):
        self._turn += 1
        if self._shifts:
            for k in range(self._turn, 1, -1):
                self.path.with_name(f"log.{k - 1}").rename(self.path.with_name(f"log.{k}"))
        self.path.rename(self.path.with_name("log.1" if self._shifts else f"log.{self._turn:03d}"))
        self.path.touch()
        self._stamp()


OVERTAKEN = ["write", "poll", *["rotate", "write"] * 2, "poll", *["rotate", "write"] * 3]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["write", "rotate", "rotate", "poll", "poll", "restart"]), max_size=40),
    st.booleans(),
)
@example(OVERTAKEN, False)
@example(OVERTAKEN, True)
def test_every_line_is_read_once_however_often_the_log_is_rotated(story, shifts):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_GRACE", 0.0)
        writer, found = Writer(Path(directory) / "log", shifts), []
        source, position = followed(writer.path), 0
        writer.write(1)

        for what in [*story, *["poll"] * 200]:
            if what == "write":
                writer.write(2)
            elif what == "rotate":
                writer.rotate()
            elif what == "poll":
                polled = source.poll(0, most=3)
                for batch in polled.batches.values():
                    assert [raw.offset for raw in batch.records] == sorted(
                        raw.offset for raw in batch.records
                    )
                    found += [raw.value for raw in batch.records]
                    position = batch.next

            elif found:  # with nothing read, there is nothing by which the file is known
                mark = source.mark({"log": position})
                source.close(False)
                source, _ = opened(writer.path, follow=True)
                source.recognise(mark)
                source.begin("log", position)
        source.close(True)
        assert found == writer.lines


@pytest.mark.usefixtures("quick")
def test_a_log_that_is_rotated_faster_than_it_is_read(tmp_path):
    """What is between the file at hand and the newest one is read, packed or not; other files are not."""
    path = write(tmp_path, '{"a": 0}\n')
    source = followed(path)
    for k in range(1, 5):
        renamed = path.rename(tmp_path / f"log.{k}")
        os.utime(renamed, ns=(k * 10**9, k * 10**9))
        write(tmp_path, f'{{"a": {k}}}\n')
    packed = tmp_path / "log.3.gz"
    packed.write_bytes(gzip.compress((tmp_path / "log.3").read_bytes()))
    os.utime(packed, ns=(3 * 10**9, 3 * 10**9))
    (tmp_path / "log.3").unlink()
    (tmp_path / "log.4.gz").write_bytes(gzip.compress(b'{"a": 4}\n'))  # of one that is still there
    for other in ("log.bak", "log.1.copy", "logs", "log.txt"):
        (tmp_path / other).write_text('{"a": "other"}\n')
    found = []
    for _ in range(12):
        found += came(source)
    assert [json.loads(value)["a"] for value in found] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("quick")
def test_a_renamed_log_of_csv(tmp_path):
    path = write(tmp_path, "a,c\n1,x\n")
    source = followed(path, "csv")
    assert came(source) == [b"1,x"]
    path.rename(tmp_path / "log.1")
    write(tmp_path, "a,")  # the header is still being written
    assert came(source) == came(source) == []
    add(path, "c\n2,y\n")
    assert came(source) == [b"2,y"]
    path.rename(tmp_path / "log.2")
    write(tmp_path, "a,d\n3,z\n")
    with pytest.raises(Failure, match="has other columns than the file before it") as raised:
        source.poll(0.5)
    assert raised.value.code == POSITION


def test_a_writer_is_given_time(tmp_path):
    path = write(tmp_path, '{"a": 1}\n')
    source = followed(path)
    assert len(came(source)) == 1
    path.rename(tmp_path / "log.1")
    write(tmp_path, '{"a": 3}\n')
    assert came(source) == []
    add(tmp_path / "log.1", '{"a": 2}\n')
    assert came(source) == [b'{"a": 2}']


@pytest.mark.usefixtures("quick")
def test_a_followed_log_that_goes_away(tmp_path):
    path = write(tmp_path, JSON)
    source = followed(path)
    assert len(came(source)) == len(ROWS)
    path.unlink()
    assert source.ends() == {"log": len(JSON.encode())}
    with pytest.raises(Failure, match="log was renamed or removed, and not created again") as raised:
        source.poll(0.5)
    assert raised.value.code == POSITION


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("read", [0, 2, 5])
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_is_rotated_between_runs(tmp_path, times, read, packed):
    """What was not read of the renamed files comes first, the oldest before the newer ones."""
    path = write(tmp_path, "".join(f'{{"a": {i}}}\n' for i in range(5)))
    source = followed(path)
    records = next(iter(source.poll(0).batches.values())).records
    position = records[read].offset if read < 5 else records[-1].offset + 9
    mark = source.mark({"log": position})
    source.close(True)
    for k in range(times):
        renamed = path.rename(tmp_path / f"log.{k + 1}")
        if packed and read:
            (tmp_path / f"log.{k + 1}.gz").write_bytes(gzip.compress(renamed.read_bytes()))
            renamed.unlink()
            renamed = tmp_path / f"log.{k + 1}.gz"
        os.utime(renamed, (1000 + k, 1000 + k))
        write(tmp_path, "".join(f'{{"a": {i}}}\n' for i in range(5 + 3 * k, 8 + 3 * k)))
    source = made(path, follow=True)
    source.poll(0)
    source.recognise(mark)
    source.begin("log", position)
    found, last = [], -1
    for _ in range(12):
        for batch in source.poll(0).batches.values():
            found += [json.loads(record.value)["a"] for record in batch.records]
            assert batch.records[0].offset > last
            last = batch.records[-1].offset
    assert found == list(range(read, 5 + 3 * times))


def test_another_log_in_the_place_of_the_one_that_was_read(tmp_path):
    path = write(tmp_path, JSON)
    source = followed(path)
    mark = source.mark({"log": 20})
    path.unlink()
    write(tmp_path, '{"b": 1}\n' * 9)
    (tmp_path / "log.1").write_text('{"c": 1}\n' * 9)
    again = made(path, follow=True)
    with pytest.raises(Failure, match=r"is another log than the one of the checkpoint.* `streamk reset"):
        again.recognise(mark)


@pytest.mark.parametrize("row", ['5" pipe,x', '"5,x'])
def test_following_past_a_quote(tmp_path, row):
    path = write(tmp_path, f"a,c\n1,x\n{row}\n")
    source = followed(path, "csv")
    found = came(source)
    for _ in range(3):
        add(path, "".join(f"{i},{'y' * 400}\n" for i in range(1000)))
        found += came(source)
    assert len(found) > 1500
    assert found[0] == b"1,x"
