"""A directory of checkpoints: what stays, who holds it, and disks that refuse."""

import errno
import os
import re
import subprocess
import sys

import pytest

from connectors.contract.errors import CHECKPOINT, Failure
from connectors.state.aside import AsideStore, Row
from connectors.state.disk import CheckpointStore
from streamk import model_file

from .test_checkpoint import checkpoint, fill, names

HOLD = """
import sys, time
from pathlib import Path
from connectors.state.disk import CheckpointStore
with CheckpointStore(Path(sys.argv[1])).locked() as store:
    print(store.model, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(("keep", "left"), [(2, 2), (3, 3), (5, 5), (1, 2), (0, 2), (-4, 2)])
def test_how_many_stay(tmp_path, keep, left):
    store = CheckpointStore(tmp_path, keep)
    paths = fill(store, 6)
    store.prune()
    assert store.paths() == paths[-left:]
    store.prune()
    assert store.paths() == paths[-left:]


@pytest.mark.parametrize(
    ("hours", "days", "left"),
    [
        (0, 0, [9, 10]),
        (2, 0, [8, 9, 10]),
        (4, 0, [4, 6, 8, 9, 10]),
        (0, 2, [6, 9, 10]),
        (3, 9, [1, 3, 6, 8, 9, 10]),
        (99, 99, [1, 3, 4, 6, 8, 9, 10]),
    ],
)
def test_hours_and_days_stay(tmp_path, hours, days, left):
    store = CheckpointStore(tmp_path, 2, hours, days)
    day, hour = 86_400, 3600
    # one on the first day, two on the second, three of two hours on the third, four of two on the fourth
    times = [5, day + 5, day + 9, 2 * day + 5, 2 * day + hour, 2 * day + hour + 5]
    times += [3 * day + 5, 3 * day + 9, 3 * day + hour, 3 * day + hour + 9]
    for path, moment in zip(fill(store, 10), times, strict=True):
        os.utime(path, (moment, moment))
    for _ in range(2):
        store.prune()
        assert [int(path.stem) for path in store.paths()] == left


def test_what_was_set_aside_goes_when_it_is_older_than_all(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    paths = fill(store, 3)
    paths[2].write_bytes(b"")
    store.newest()
    fill(store, 3)
    store.prune()
    assert names(store) == ["0000000005.checkpoint", "0000000006.checkpoint"]


def test_what_was_set_aside_lately_stays(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    paths = fill(store, 3)
    paths[1].write_bytes(b"")
    paths[2].write_bytes(b"")
    assert store.newest().number == 1
    fill(store, 1)
    store.prune()
    assert names(store) == [
        "0000000001.checkpoint", "0000000002.checkpoint.damaged", "0000000003.checkpoint.damaged",
        "0000000004.checkpoint",
    ]  # fmt: skip
    for path in store.directory.glob("000000000[14]*"):
        path.write_bytes(b"")
    with pytest.raises(Failure):
        store.newest()
    store.prune()
    assert len(names(store)) == 4


def test_the_directory_is_made(tmp_path):
    with CheckpointStore(tmp_path / "a" / "b").locked() as store:
        store.write(checkpoint())
    assert (tmp_path / "a" / "b" / "0000000001.checkpoint").exists()


def test_identity(tmp_path):
    found = []
    for directory in ("one", "one", "two"):
        with CheckpointStore(tmp_path / directory).locked() as store:
            fill(store, 1)
            found.append(store.model)
    assert found[0] == found[1] != found[2]
    assert all(re.fullmatch("[0-9a-f]{12}", name) for name in found)
    assert (tmp_path / "one" / "identity").read_text() == found[0]


def test_the_lock(tmp_path):
    busy = "another process uses the checkpoints in .*kept; give each its own"
    with CheckpointStore(tmp_path / "kept").locked():
        with pytest.raises(Failure, match=busy) as raised, CheckpointStore(tmp_path / "kept").locked():
            pass
        assert raised.value.code == CHECKPOINT
        with CheckpointStore(tmp_path / "other").locked():
            pass
    with CheckpointStore(tmp_path / "kept").locked():
        pass


def test_the_lock_of_a_process_that_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            model = holder.stdout.readline().strip()
            assert model
            with pytest.raises(Failure, match="another process"), CheckpointStore(tmp_path).locked():
                pass
        finally:
            holder.kill()
    with CheckpointStore(tmp_path).locked() as store:
        assert store.model == model


def test_what_a_killed_write_left_is_removed(tmp_path, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    (tmp_path / ".hidden").write_bytes(b"mine")
    with CheckpointStore(tmp_path).locked() as store:
        fill(store, 2)
        with monkeypatch.context() as patch:
            patch.setattr(model_file.Path, "replace", die)
            patch.setattr(model_file.Path, "unlink", lambda *_, **__: None)
            with pytest.raises(KeyboardInterrupt):
                store.write(checkpoint())
        assert store.newest().number == 2
    assert any(name.startswith(".0000000003.checkpoint.") for name in names(store))
    with CheckpointStore(tmp_path).locked() as store:
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
        with (
            pytest.raises(Failure, match="cannot be opened: ") as raised,
            CheckpointStore(directory).locked(),
        ):
            pass
        assert raised.value.code == CHECKPOINT


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission(tmp_path):
    with CheckpointStore(tmp_path / "kept").locked() as store:
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
    with (
        pytest.raises(Failure, match="cannot be written: No space left") as raised,
        CheckpointStore(tmp_path).locked(),
    ):
        pass
    assert raised.value.code == CHECKPOINT
    monkeypatch.undo()
    with CheckpointStore(tmp_path).locked() as store:
        assert len(store.model) == 12


def test_events_that_wait_on_disk_stay_as_long_as_the_oldest_checkpoint(tmp_path):
    store = CheckpointStore(tmp_path, 2, days=9)
    aside = AsideStore(store)
    aside.restore(0, 0)
    aside.put([Row("a", 0.0, b"", b"event")])
    number, count = aside.save()
    (first,) = fill(store, 1)
    os.utime(first, (5, 5))
    assert aside.take("a").event == b"event"
    for _ in range(5):
        aside.put([Row("b", 0.0, b"", b"")])
        aside.save()
        fill(store, 1)
        store.prune()
    assert store.paths()[0] == first
    aside.restore(number, count)
    assert aside.take("a").event == b"event"
