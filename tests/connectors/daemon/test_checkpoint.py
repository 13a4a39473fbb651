import json
import logging
import re

import numpy as np
import pytest

import streamk
from connectors.contract.errors import CHECKPOINT, Failure
from connectors.state.checkpoint import Checkpoint, Progress, lag
from streamk import model_file


def taught(events=20, cls=streamk.KaczmarzRegressor, **extra):
    learner = cls(**{"features": 32, "seed": 1, **extra})
    for i in range(events):
        learner.learn_one({"x": i % 7, "c": "ab"[i % 2]}, i % 5)
    return learner


def checkpoint(events=20, **named):
    partitions = {"clicks-0": Progress(events + 7, "c/t", events, 3, 4, 5), "clicks-1": Progress(0)}
    found = {"partitions": partitions, "sink_marks": {"predictions": 7}, **named}
    return Checkpoint("clicks", {"model": taught(events).to_bytes()}, **found)


def names(store):
    return sorted(path.name for path in store.directory.iterdir() if "checkpoint" in path.name)


def fill(store, count=3):
    for i in range(count):
        store.write(checkpoint(10 + i))
    return store.paths()


# ---- write and read


def test_round_trip(store):
    mark = {"head": 3, "sha256": "é"}
    written = checkpoint(source_mark=mark)
    size = store.write(written)
    (path,) = store.paths()
    assert path.name == "0000000001.checkpoint"
    assert path.stat().st_size == size
    for found in (store.newest(), Checkpoint.read(path)):
        assert found.learner().to_bytes() == written.learner().to_bytes()
        assert found.learner().events == 20
        assert (found.number, found.written, found.source) == (1, written.written, "clicks")
        assert found.partitions == {
            "clicks-0": Progress(27, "c/t", 20, 3, 4, 5),
            "clicks-1": Progress(0, "", 0, 0, 0, 0),
        }
        assert (found.source_mark, found.sink_marks) == (mark, {"predictions": 7})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", written.written)


def test_a_checkpoint_is_a_model_file(store):
    written = checkpoint()
    store.write(written)
    learner = streamk.load(store.paths()[0])
    assert learner.to_bytes() == written.learner().to_bytes()
    assert learner.predict_one({"x": 3}) == written.learner().predict_one({"x": 3})


def test_pending_events_are_stored(store):
    learner = taught(23, streamk.KaczmarzClassifier, block_size=7)
    assert learner.pending == 2
    store.write(Checkpoint("clicks", {"model": learner.to_bytes()}))
    found = store.newest().learner()
    for one in (learner, found):
        for i in range(40):
            one.learn_one({"x": i}, i % 3)
    assert found.to_bytes() == learner.to_bytes()


def test_nothing_was_ever_written(store):
    assert store.newest() is None
    assert store.paths() == []
    store.prune()


def test_numbers_only_grow(store):
    paths = fill(store)
    assert [int(path.name[:10]) for path in paths] == [1, 2, 3]
    paths[2].write_bytes(b"")
    assert store.newest().number == 2
    store.write(checkpoint())
    assert names(store)[-2:] == ["0000000003.checkpoint.damaged", "0000000004.checkpoint"]
    assert store.newest().number == 4


def test_lag():
    partitions = {"a-0": Progress(5), "a-1": Progress(9), "a-2": Progress(3)}
    assert lag({"a-0": 12, "a-1": 8, "a-3": 4}, partitions) == {"a-0": 7, "a-1": 0}


# ---- damage


def bad(data, how):
    header = 8 + int.from_bytes(data[:8], "little")
    return {
        "empty": b"",
        "cut in the header": data[: header // 2],
        "cut behind the header": data[:header],
        "last byte lost": data[:-1],
        "a byte more": data + b"\0",
        "zeros": bytes(len(data)),
        "zeros behind": data[:header] + bytes(len(data) - header),
        "garbage": bytes(range(256)) * 8,
        "text": b"not a checkpoint\n",
    }[how]


@pytest.mark.parametrize(
    "how",
    ["empty", "cut in the header", "cut behind the header", "last byte lost", "a byte more", "zeros",
     "zeros behind", "garbage", "text"],
)  # fmt: skip
def test_a_damaged_checkpoint_is_set_aside(store, caplog, how):
    paths = fill(store)
    damaged = bad(paths[2].read_bytes(), how)
    paths[2].write_bytes(damaged)
    assert store.newest().number == 2
    assert names(store) == ["0000000001.checkpoint", "0000000002.checkpoint", "0000000003.checkpoint.damaged"]
    assert paths[2].with_name("0000000003.checkpoint.damaged").read_bytes() == damaged
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert str(paths[2]) in record.getMessage()
    caplog.clear()
    assert store.newest().learner().events == 11
    assert not caplog.records


def test_no_bit_can_flip(store, tmp_path):
    """Every byte, a bit of each; and every length."""
    (path,) = fill(store, 1)
    data = path.read_bytes()
    for i in range(len(data)):
        changed = bytearray(data)
        changed[i] ^= 1 << i % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="checkpoint"):
            Checkpoint.read(path)
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="checkpoint"):
            Checkpoint.read(path)
    path.write_bytes(data)
    assert Checkpoint.read(path).learner().events == 10


EXTRA = {"version": 2, "source": "clicks", "partitions": {}, "source_mark": None, "sink_marks": {}}
EXTRA["written"] = "now"


@pytest.mark.parametrize(
    "extra",
    [
        None,
        [],
        3,
        "clicks",
        {},
        {**EXTRA, "partitions": [1]},
        {**EXTRA, "partitions": {"clicks-0": 3}},
        {**EXTRA, "partitions": {"clicks-0": {}}},
        {**EXTRA, "partitions": {"clicks-0": {"position": 1, "seen": 2}}},
        {key: value for key, value in EXTRA.items() if key != "written"},
    ],
)
def test_other_model_files_are_set_aside(store, caplog, extra):
    paths = fill(store, 2)
    model_file.write(paths[1], {"extra": extra}, {"model": np.frombuffer(taught().to_bytes(), np.uint8)})
    assert streamk.load(paths[1]).events == 20
    assert store.newest().number == 1
    assert names(store) == ["0000000001.checkpoint", "0000000002.checkpoint.damaged"]
    assert "is a model file, but not a checkpoint" in caplog.text


def test_a_model_is_no_checkpoint(store, caplog):
    paths = fill(store, 2)
    taught().save(paths[1], EXTRA)
    assert store.newest().number == 1
    assert "is a model file, but not a checkpoint" in caplog.text


def test_what_extra_is_needed(store):
    model_file.write(store.directory / "0000000001.checkpoint", {"extra": EXTRA}, {})
    assert store.newest().source == "clicks"
    with pytest.raises(ValueError, match="checkpoint 1 holds no model"):
        store.newest().learner()


def test_parts_of_any_name_and_length(store):
    parts = {"queue": b"", "model": b"\0\1", "é": bytes(range(256)) * 9}
    store.write(Checkpoint("clicks", parts))
    assert store.newest().parts == parts


def test_other_versions_are_left_as_they_are(store, monkeypatch):
    """An upgrade must not set every checkpoint aside, nor go on from an old one."""
    paths = fill(store, 1)
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "FORMAT", model_file.FORMAT + 1)
        store.write(checkpoint())
    for said in (f"has model format {model_file.FORMAT + 1} and", "has checkpoint version 1 and this"):
        with pytest.raises(Failure, match=said) as raised:
            store.newest()
        assert raised.value.code == CHECKPOINT
        assert names(store) == ["0000000001.checkpoint", "0000000002.checkpoint"]
        model_file.write(paths[0].with_name("0000000002.checkpoint"), {"extra": {**EXTRA, "version": 1}}, {})


def test_all_are_damaged(store, caplog):
    for path in fill(store, 2):
        path.write_bytes(b"lost")
    for _ in range(2):  # and when it is tried again
        with pytest.raises(
            Failure, match=r"no checkpoint in .*kept can be used; put a copy back, or"
        ) as raised:
            store.newest()
        assert raised.value.code == CHECKPOINT
    assert len(caplog.records) == 2
    assert names(store) == ["0000000001.checkpoint.damaged", "0000000002.checkpoint.damaged"]


def test_a_copy_is_put_back(store):
    (path,) = fill(store, 1)
    copy = path.read_bytes()
    path.write_bytes(copy[:-1])
    with pytest.raises(Failure):
        store.newest()
    path.write_bytes(copy)
    assert store.newest().number == 1


def test_those_that_are_not_granted(store, caplog):
    fill(store)
    caplog.set_level(logging.INFO)
    found = store.newest(lambda checkpoint: checkpoint.number < 2)
    assert found.number == 1
    assert names(store) == [
        "0000000001.checkpoint",
        "0000000002.checkpoint.not-granted",
        "0000000003.checkpoint.not-granted",
    ]
    assert ["does not count" in record.getMessage() for record in caplog.records] == [True] * 2
    with pytest.raises(Failure, match="no checkpoint") as raised:
        store.newest(lambda checkpoint: False)
    assert raised.value.code == CHECKPOINT
    store.write(checkpoint())
    assert store.newest().number == 4


def test_files_of_others_are_left_alone(store):
    for name in ("notes.txt", "x.checkpoint", "checkpoints", ".checkpoint", "model.streamk"):
        (store.directory / name).write_text("mine")
    assert store.newest() is None
    paths = fill(store)
    store.prune()
    assert store.paths() == paths
    assert (store.directory / "x.checkpoint").read_text() == "mine"


def test_a_checkpoint_that_cannot_be_read(store):
    paths = fill(store, 2)
    paths[1].unlink()
    paths[1].mkdir()
    with pytest.raises(Failure, match=r"0000000002\.checkpoint cannot be read: Is a directory") as raised:
        store.newest()
    assert raised.value.code == CHECKPOINT


def test_the_header_is_json(store):
    """Whatever opens safetensors files can read the positions."""
    store.write(checkpoint())
    data = store.paths()[0].read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    extra = json.loads(header["__metadata__"]["streamk"])["extra"]
    assert extra["partitions"]["clicks-0"] == {
        "position": 27,
        "identity": "c/t",
        "learned": 20,
        "predicted": 3,
        "refused": 4,
        "skipped": 5,
    }
