import errno
import json
import logging
import os
import re
import subprocess
import sys

import pytest

import streamk
from connectors.checkpoint import Checkpoint, Progress, Store, lag
from connectors.stream import CHECKPOINT, Failure
from streamk import model_file

HOLD = """
import sys, time
from pathlib import Path
from connectors.checkpoint import Store
with Store(Path(sys.argv[1])).locked() as store:
    print(store.model, flush=True)
    time.sleep(60)
"""


def taught(events=20, cls=streamk.KaczmarzRegressor, **extra):
    learner = cls(**{"features": 32, "seed": 1, **extra})
    for i in range(events):
        learner.learn_one({"x": i % 7, "c": "ab"[i % 2]}, i % 5)
    return learner


def checkpoint(events=20, **named):
    partitions = {"clicks-0": Progress(events + 7, events, 3, 4), "clicks-1": Progress(0)}
    return Checkpoint(
        taught(events), "clicks", **{"partitions": partitions, "sink_marks": {"predictions": 7}, **named}
    )


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "kept").locked() as store:
        yield store


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
        assert found.learner.to_bytes() == written.learner.to_bytes()
        assert found.learner.events == 20
        assert (found.number, found.written, found.source) == (1, written.written, "clicks")
        assert found.partitions == {"clicks-0": Progress(27, 20, 3, 4), "clicks-1": Progress(0, 0, 0, 0)}
        assert (found.source_mark, found.sink_marks) == (mark, {"predictions": 7})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", written.written)


def test_a_checkpoint_is_a_model_file(store):
    written = checkpoint()
    store.write(written)
    learner = streamk.load(store.paths()[0])
    assert learner.to_bytes() == written.learner.to_bytes()
    assert learner.predict_one({"x": 3}) == written.learner.predict_one({"x": 3})


def test_events_that_wait_for_their_block_are_kept(store):
    learner = taught(23, streamk.KaczmarzClassifier, block_size=7)
    assert learner.pending == 2
    store.write(Checkpoint(learner, "clicks"))
    found = store.newest().learner
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
    assert store.newest().learner.events == 11
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
    assert Checkpoint.read(path).learner.events == 10


EXTRA = {"version": 1, "source": "clicks", "partitions": {}, "source_mark": None, "sink_marks": None}
EXTRA["written"] = "now"


@pytest.mark.parametrize(
    "extra",
    [
        None,
        [],
        3,
        "clicks",
        {},
        {**EXTRA, "version": 2},
        {**EXTRA, "partitions": [1]},
        {**EXTRA, "partitions": {"clicks-0": 3}},
        {**EXTRA, "partitions": {"clicks-0": {}}},
        {**EXTRA, "partitions": {"clicks-0": {"position": 1, "seen": 2}}},
        {key: value for key, value in EXTRA.items() if key != "written"},
    ],
)
def test_other_model_files_are_set_aside(store, caplog, extra):
    paths = fill(store, 2)
    taught().save(paths[1], extra)
    assert streamk.load(paths[1]).events == 20
    assert store.newest().number == 1
    assert names(store) == ["0000000001.checkpoint", "0000000002.checkpoint.damaged"]
    assert (
        "checkpoint version 2, not 1" in caplog.text or "is a model file, but not a checkpoint" in caplog.text
    )


def test_what_extra_is_needed(store):
    taught().save(store.directory / "0000000001.checkpoint", EXTRA)
    assert store.newest().source == "clicks"


def test_a_model_of_another_format_is_set_aside(store, caplog, monkeypatch):
    fill(store, 1)
    monkeypatch.setattr(model_file, "FORMAT", model_file.FORMAT + 1)
    store.write(checkpoint())
    monkeypatch.undo()
    assert store.newest().number == 1
    assert f"model format {model_file.FORMAT + 1}" in caplog.text


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


# ---- the directory


@pytest.mark.parametrize(("keep", "left"), [(2, 2), (3, 3), (5, 5), (1, 2), (0, 2), (-4, 2)])
def test_how_many_stay(tmp_path, keep, left):
    store = Store(tmp_path, keep)
    paths = fill(store, 6)
    store.prune()
    assert store.paths() == paths[-left:]
    store.prune()
    assert store.paths() == paths[-left:]


def test_pruning_spares_what_was_set_aside(tmp_path):
    store = Store(tmp_path, 2)
    paths = fill(store, 3)
    paths[2].write_bytes(b"")
    store.newest()
    fill(store, 3)
    store.prune()
    assert names(store) == ["0000000003.checkpoint.damaged", "0000000005.checkpoint", "0000000006.checkpoint"]


def test_the_directory_is_made(tmp_path):
    with Store(tmp_path / "a" / "b").locked() as store:
        store.write(checkpoint())
    assert (tmp_path / "a" / "b" / "0000000001.checkpoint").exists()


def test_identity(tmp_path):
    found = []
    for directory in ("one", "one", "two"):
        with Store(tmp_path / directory).locked() as store:
            fill(store, 1)
            found.append(store.model)
    assert found[0] == found[1] != found[2]
    assert all(re.fullmatch("[0-9a-f]{12}", name) for name in found)
    assert (tmp_path / "one" / "identity").read_text() == found[0]


def test_the_lock(tmp_path):
    busy = "another process uses the checkpoints in .*kept; give each its own"
    with Store(tmp_path / "kept").locked():
        with pytest.raises(Failure, match=busy) as raised, Store(tmp_path / "kept").locked():
            pass
        assert raised.value.code == CHECKPOINT
        with Store(tmp_path / "other").locked():
            pass
    with Store(tmp_path / "kept").locked():
        pass


def test_the_lock_of_a_process_that_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            model = holder.stdout.readline().strip()
            assert model
            with pytest.raises(Failure, match="another process"), Store(tmp_path).locked():
                pass
        finally:
            holder.kill()
    with Store(tmp_path).locked() as store:
        assert store.model == model


def test_what_a_killed_write_left_is_removed(tmp_path, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    (tmp_path / ".hidden").write_bytes(b"mine")
    with Store(tmp_path).locked() as store:
        fill(store, 2)
        with monkeypatch.context() as patch:
            patch.setattr(model_file.Path, "replace", die)
            patch.setattr(model_file.Path, "unlink", lambda *_, **__: None)
            with pytest.raises(KeyboardInterrupt):
                store.write(checkpoint())
        assert store.newest().number == 2
    assert any(name.startswith(".0000000003.checkpoint.") for name in names(store))
    with Store(tmp_path).locked() as store:
        assert names(store) == ["0000000001.checkpoint", "0000000002.checkpoint"]
    assert (tmp_path / ".hidden").read_bytes() == b"mine"


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("how", ["full", "gone"])
def test_a_checkpoint_that_cannot_be_written(store, monkeypatch, how):
    paths = fill(store, 2)
    before = [path.read_bytes() for path in paths]
    if how == "full":
        monkeypatch.setattr(os, "fsync", full)
    else:
        store.directory.rename(store.directory.with_name("moved"))
    with pytest.raises(
        Failure, match=r"checkpoints in .*kept cannot be written: .*.* there are intact"
    ) as raised:
        store.write(checkpoint())
    assert raised.value.code == CHECKPOINT
    if how == "gone":
        store.directory.with_name("moved").rename(store.directory)
    assert [path.read_bytes() for path in paths] == before
    assert names(store) == [path.name for path in paths]
    monkeypatch.undo()
    assert store.newest().number == 2
    store.write(checkpoint())
    assert store.newest().number == 3


def test_a_directory_that_cannot_be_opened(tmp_path):
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Failure, match="cannot be opened: ") as raised, Store(directory).locked():
            pass
        assert raised.value.code == CHECKPOINT


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission(tmp_path):
    with Store(tmp_path / "kept").locked() as store:
        paths = fill(store, 2)
    store.directory.chmod(0o555)
    try:
        with pytest.raises(Failure, match="Permission denied"):
            store.write(checkpoint())
        assert store.newest().number == 2
        assert store.paths() == paths
    finally:
        store.directory.chmod(0o755)


def test_an_identity_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Failure, match="cannot be written: No space left") as raised, Store(tmp_path).locked():
        pass
    assert raised.value.code == CHECKPOINT
    monkeypatch.undo()
    with Store(tmp_path).locked() as store:
        assert len(store.model) == 12


# ---- whose it is


def required(have, want, source="clicks", directory="kept"):
    found = Checkpoint(have, "clicks", number=4)
    with pytest.raises(Failure) as raised:
        found.require(want, source, directory)
    assert raised.value.code == CHECKPOINT
    return str(raised.value)


def test_require(store):
    store.write(checkpoint())
    for same in (taught(0), taught(5), taught(0, bandwidth=None), taught(0, features=32)):
        store.newest().require(same, "clicks", store.directory)


def test_require_names_what_differs():
    learner = taught()
    end = "; use another checkpoints.directory"
    assert required(learner, taught(0), "views") == (
        f"checkpoint 4 in kept belongs to 'clicks', and the source is 'views'{end}"
    )
    assert required(learner, taught(0, streamk.KaczmarzClassifier)) == (
        f"checkpoint 4 in kept holds a KaczmarzRegressor, and the settings ask for a KaczmarzClassifier{end}"
    )
    for name, value in {"features": 33, "seed": 2, "scales": (1.0,), "average": True, "memory": 9}.items():
        said = required(learner, taught(0, **{name: value}))
        assert said.startswith(f"checkpoint 4 in kept holds a learner with {name}=")
        assert said.endswith(f", and the settings ask for {value!r}{end}")


def test_the_header_is_json(store):
    """Whatever opens safetensors files can read the positions."""
    store.write(checkpoint())
    data = store.paths()[0].read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    extra = json.loads(header["__metadata__"]["streamk"])["extra"]
    assert extra["partitions"]["clicks-0"] == {"position": 27, "learned": 20, "predicted": 3, "refused": 4}
