import base64
import contextlib
import json
import logging
import os
import resource
from itertools import accumulate

import pytest

from connectors.contract.errors import SINK, Failure
from connectors.contract.records import DEAD_LETTERS, PREDICTIONS, Committed, Output, Raw
from connectors.files.sink import FileSink


def prediction(offset, partition="p-0"):
    body = json.dumps({"partition": partition, "offset": offset, "prediction": f"é{offset * 7919 % 97}"})
    return Output(PREDICTIONS, partition, Raw(offset, b"{}"), body.encode())


def letter(offset, partition="p-0", raw=b"\xff"):
    return Output(DEAD_LETTERS, partition, Raw(offset, raw, b"k", 12), b"cannot be decoded")


def marked(length):
    """Return the mark of a file of this length, of which nothing more is known."""
    return length if length is None or isinstance(length, dict) else {"length": length, "written": {}}


@pytest.fixture
def sinks():
    """Open sinks, and close them at the end."""
    made = []

    def make(path, dead=False, mark=None):
        made.append(FileSink(path, DEAD_LETTERS if dead else PREDICTIONS))
        made[-1].restore(marked(mark))
        return made[-1]

    yield make
    for sink in made:
        sink.close()


def emit(sink, outputs, each=1):
    """Write outputs as a run does, and return the marks."""
    marks = []
    for start in range(0, len(outputs), each):
        sink.write(outputs[start : start + each])
        sink.commit({})
        marks.append(sink.mark()["length"])
    return marks


OUTPUTS = [prediction(offset, f"p-{offset % 3 % 2}") for offset in range(12)]
LINES = [output.body + b"\n" for output in OUTPUTS]
WHOLE = b"".join(LINES)


def test_lines(tmp_path, sinks):
    path = tmp_path / "out"
    sink = sinks(path)
    sink.begin("p-0", 0)
    sink.write(OUTPUTS[:2])
    assert path.read_bytes() == b""
    sink.commit({"p-0": Committed(2)})
    assert path.read_bytes() == WHOLE[: sink.mark()["length"]] == b"".join(LINES[:2])
    assert emit(sink, OUTPUTS[2:]) == list(accumulate(map(len, LINES)))[2:]
    assert path.read_bytes() == WHOLE
    sink.commit({})
    assert sink.mark()["length"] == len(WHOLE)


def test_each_takes_its_own(tmp_path, sinks):
    predictions, letters = sinks(tmp_path / "out"), sinks(tmp_path / "dead", dead=True)
    for sink in (predictions, letters):
        emit(sink, [prediction(0), letter(1), prediction(2)], 3)
    assert (tmp_path / "out").read_bytes() == prediction(0).body + b"\n" + prediction(2).body + b"\n"
    assert json.loads((tmp_path / "dead").read_bytes()) == {
        "partition": "p-0", "offset": 1, "reason": "cannot be decoded", "time": 12,
        "key": base64.b64encode(b"k").decode(), "value": base64.b64encode(b"\xff").decode(),
    }  # fmt: skip


def test_dead_letters_without_key_and_value(tmp_path, sinks):
    outputs = [
        Output(DEAD_LETTERS, "p", Raw(3, None), "é\n".encode()),
        Output(DEAD_LETTERS, "p", Raw(4, b"a" * 100), b"so"),
    ]
    emit(sinks(tmp_path / "dead", dead=True), outputs)
    first, second = map(json.loads, (tmp_path / "dead").read_text().splitlines())
    assert first == {"partition": "p", "offset": 3, "reason": "é\n", "time": None, "key": None, "value": ""}
    assert base64.b64decode(second["value"]) == b"a" * 100


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("saved", [0, 4, 11, 12])
def test_a_crash_at_any_byte(tmp_path, sinks, dead, saved):
    """From a checkpoint after ``saved`` outputs on, everything is written again, and is there once."""
    path = tmp_path / "out"
    outputs = [letter(o.raw.offset, o.partition) for o in OUTPUTS] if dead else OUTPUTS
    marks = [0, *emit(sinks(path, dead), outputs)]
    whole = path.read_bytes()
    for length in range(marks[saved], len(whole) + 1):
        path.write_bytes(whole[:length])
        sink = FileSink(path, DEAD_LETTERS if dead else PREDICTIONS)
        sink.restore(marked(marks[saved]))
        assert path.read_bytes() == whole[: max(mark for mark in marks if mark <= length)]
        assert emit(sink, outputs[saved:], 5)[-1:] in ([len(whole)], [])
        sink.close()
        assert path.read_bytes() == whole


def test_an_incomplete_last_line_is_logged(tmp_path, sinks, caplog):
    path = tmp_path / "out"
    path.write_bytes(WHOLE[:-1])
    sinks(path, mark=0)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{path}: the last line is incomplete and is cut off" in record.getMessage()
    caplog.clear()
    sinks(path, mark=0)
    assert not caplog.records


def test_partitions_are_distinguished(tmp_path, sinks):
    path = tmp_path / "out"
    emit(sinks(path), [prediction(5, "a"), prediction(2, "b")])
    before = path.read_bytes()
    sink = sinks(path, mark=0)
    emit(sink, [prediction(5, "a"), prediction(1, "b"), prediction(2, "b")])
    assert path.read_bytes() == before
    emit(sink, [prediction(6, "a"), prediction(3, "b"), prediction(0, "c")])
    assert path.read_bytes() == before + b"".join(
        output.body + b"\n" for output in (prediction(6, "a"), prediction(3, "b"), prediction(0, "c"))
    )


def test_what_was_there_before_stays(tmp_path, sinks):
    path = tmp_path / "out"
    path.write_bytes(b"somebody else's\n")
    sink = sinks(path)
    assert sink.mark() == marked(16)
    marks = emit(sink, OUTPUTS)
    assert path.read_bytes() == b"somebody else's\n" + WHOLE
    emit(sinks(path, mark=marks[3]), OUTPUTS[4:])
    assert path.read_bytes() == b"somebody else's\n" + WHOLE


def test_what_was_there_before_has_no_last_line_end(tmp_path, sinks):
    path = tmp_path / "out"
    path.write_bytes(b"somebody else's")
    emit(sinks(path), OUTPUTS[:1])
    assert LINES[0] in path.read_bytes().splitlines(keepends=True)


def test_a_file_that_is_shorter_than_its_mark(tmp_path, sinks, caplog):
    path = tmp_path / "out"
    marks = emit(sinks(path), OUTPUTS)
    for content in (b"", b"".join(LINES[7:10])):
        caplog.clear()
        path.write_bytes(content)  # moved away, and begun anew
        sink = sinks(path, mark=marks[9])
        assert "is shorter than at the checkpoint (moved away?): what it held is unknown" in caplog.text
        emit(sink, OUTPUTS[9:])
        assert path.read_bytes() == content + b"".join(LINES[10 if content else 9 :])
    path.unlink()
    emit(sinks(path, mark=marks[9]), OUTPUTS[10:])
    assert path.read_bytes() == b"".join(LINES[10:])


@pytest.mark.parametrize(
    "line",
    [b"\n", b"text\n", b"[1]\n", b"3\n", b"{}\n", b"\xff\n", b"\0\0\0\n", b'{"partition": "p"}\n',
     b'{"partition": [], "offset": 1}\n', b'{"partition": "p", "offset": 1}{}\n'],
)  # fmt: skip
def test_lines_of_other_programs(tmp_path, line):
    path = tmp_path / "out"
    path.write_bytes(WHOLE + line + LINES[0])
    sink = FileSink(path, PREDICTIONS)
    with pytest.raises(Failure) as raised:
        sink.restore(marked(0))
    sink.close()
    assert raised.value.code == SINK
    assert str(raised.value).startswith(f"{path}, byte {len(WHOLE)}: ")
    assert "use another file" in str(raised.value)
    assert path.read_bytes() == WHOLE + line + LINES[0]


@pytest.mark.parametrize(
    "line", ['{"partition": "p", "offset": "5"}', '{"partition": "p", "offset": 1.5}', "[" * 9999]
)
def test_unusual_lines_of_other_programs(tmp_path, line):
    path = tmp_path / "out"
    path.write_text(f"{line}\n")
    sink = FileSink(path, PREDICTIONS)
    try:
        with pytest.raises(Failure, match="use another file"):
            sink.restore(marked(0))
    finally:
        sink.close()


def test_what_was_not_committed_is_forgotten(tmp_path, sinks):
    path = tmp_path / "out"
    sink = sinks(path)
    emit(sink, OUTPUTS[:3])
    sink.write(OUTPUTS[3:])
    sink.close()
    assert path.read_bytes() == b"".join(LINES[:3])
    sink.close()


def test_places_that_cannot_be_written(tmp_path):
    for path in (tmp_path / "no" / "out", tmp_path):
        with pytest.raises(Failure, match=r"cannot be written: .*; the checkpoint is intact") as raised:
            FileSink(path, PREDICTIONS)
        assert raised.value.code == SINK
        assert str(path) in str(raised.value)


@contextlib.contextmanager
def full(size):
    """Let no file grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full(tmp_path, sinks):
    path = tmp_path / "out"
    sink = sinks(path)
    marks = emit(sink, OUTPUTS[:5])
    sink.write(OUTPUTS[5:])
    with (
        full(marks[-1] + 40),
        pytest.raises(Failure, match="out cannot be written: File too large") as raised,
    ):
        sink.commit({})
    assert raised.value.code == SINK
    emit(sinks(path, mark=marks[-1]), OUTPUTS[5:])
    assert path.read_bytes() == WHOLE


def test_closing_while_a_disk_is_full(tmp_path):
    sink = FileSink(tmp_path / "out", PREDICTIONS)
    sink.write(OUTPUTS)
    with full(40):
        with pytest.raises(Failure):
            sink.commit({})
        sink.close()


def test_a_mark_that_is_not_safe(tmp_path, sinks, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    sink = sinks(tmp_path / "out")
    emit(sink, OUTPUTS)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Failure, match="Input/output error") as raised:
        sink.mark()
    assert raised.value.code == SINK


def test_a_crash_while_records_are_learned_again(tmp_path, sinks):
    """A checkpoint of that time is behind what is in the file: the next start must not write it again."""
    path = tmp_path / "out"
    marks = emit(sinks(path), OUTPUTS)
    again = sinks(path, mark=marks[3])  # a crash, and the checkpoint was of then
    again.write(OUTPUTS[4:6])  # silently
    again.commit({})
    mark = again.mark()
    once_more = sinks(path, mark=json.loads(json.dumps(mark)))
    emit(once_more, OUTPUTS[6:])
    assert path.read_bytes() == WHOLE


def test_a_partition_that_is_another_one_now(tmp_path, sinks):
    """Offsets of a topic that was made anew begin again, and its outputs are new ones."""
    path = tmp_path / "out"
    marks = emit(sinks(path), OUTPUTS)
    for anew in (False, True):
        sink = sinks(path, mark=marks[0])
        for partition in {output.partition for output in OUTPUTS}:
            sink.begin(partition, 0, anew)
        emit(sink, OUTPUTS)
        assert len(path.read_bytes().splitlines()) == len(OUTPUTS) * (1 + anew)
