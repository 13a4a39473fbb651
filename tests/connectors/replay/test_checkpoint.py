"""A replay that was interrupted goes on, and ends with the same bytes."""

import functools
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from river import datasets

from connectors.cli.demo import synthetic, write_log
from connectors.files.log import ReplayLog
from connectors.replay.progress import ReplayCheckpoint
from connectors.replay.run import replay_log
from tests import processes

LEARNERS = [
    "kaczmarz:features=128", "river.forest.ARFClassifier:n_models=2",
    "refit:sklearn.tree.DecisionTreeClassifier,every=600,max_depth=3",
]  # fmt: skip


@pytest.fixture
def bananas(tmp_path):
    path = tmp_path / "bananas.jsonl"
    path.write_text("\n".join(json.dumps({**x, "y": y}) for x, y in datasets.Bananas()))
    return path


class Stop:
    """It presses Ctrl-C after so many events."""

    def __init__(self, events):
        self.events = events

    def __call__(self, run):
        if run.events >= self.events:
            self.events = 10**9
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("delay", [0, 300])
def test_interrupted_again_and_again(bananas, tmp_path, delay):
    options = {"task": "classification", "delay": delay, "limit": 4000}
    whole = replay_log(ReplayLog(bananas, "y"), LEARNERS, **options)
    for stop in (0, 700, 1500, 3999, 10**9):
        checkpoint = ReplayCheckpoint(tmp_path / "kept", {"log": "bananas"})
        run = replay_log(
            ReplayLog(bananas, "y"), LEARNERS, **options, checkpoint=checkpoint, watch=Stop(stop)
        )
        assert run.interrupted == (stop < 10**9)
    assert run.results().to_dict() == whole.results().to_dict()
    assert run.learner.to_bytes() == whole.learner.to_bytes()
    assert run.doublings == whole.doublings
    again = replay_log(
        ReplayLog(bananas, "y"),
        LEARNERS,
        **options,
        checkpoint=ReplayCheckpoint(tmp_path / "kept", {"log": "bananas"}),
    )
    assert again.results().to_dict() == whole.results().to_dict()


def test_of_another_replay_or_damaged(bananas, tmp_path):
    replay_log(
        ReplayLog(bananas, "y"), limit=100, checkpoint=ReplayCheckpoint(tmp_path / "kept", {"delay": 0})
    )
    with pytest.raises(ValueError, match="of another replay: its delay is 0, not 5"):
        replay_log(
            ReplayLog(bananas, "y"), limit=100, checkpoint=ReplayCheckpoint(tmp_path / "kept", {"delay": 5})
        )
    for content, message in (
        (b"?", "is damaged"),
        (b"cstreamk.gone\nThing\n.", "of another version"),
        (b"cstreamk.state\nGone\n.", "of another version"),
    ):
        (tmp_path / "kept" / "replay.checkpoint").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            replay_log(
                ReplayLog(bananas, "y"),
                limit=100,
                checkpoint=ReplayCheckpoint(tmp_path / "kept", {"delay": 0}),
            )


command = functools.partial(processes.run, "replay")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (["--decimal", ","], "its decimal is None, not ','"),
        (["--delimiter", ","], "its delimiter is None"),
        (["--strict"], "its strict is False"),
        ("log", "log.csv is 'a file of"),
        ("labels", "labels.csv is 'a file of"),
        ("settings", "streamk.toml is 'a file of"),
    ],
)
def test_a_checkpoint_is_of_one_way_to_read_the_same_files(tmp_path, changed, named):
    log, labels, config = (tmp_path / name for name in ("log.csv", "labels.csv", "streamk.toml"))
    rows = [f"{k},{k % 7}.5,{k % 2}" for k in range(300)]
    log.write_text("\n".join(["id,a,y", *rows]))
    labels.write_text("\n".join(["id,y", *(f"{k},{k % 2}" for k in range(300))]))
    source = f'[source]\nkind = "file"\npath = "{log}"\n[events]\nformat = "csv"\ntarget = "y"\n'
    config.write_text(source + '[learner]\nname = "kaczmarz"\n[checkpoints]\ndirectory = "kept"\n')
    begun = [log, "--target", "y", "--learner", "kaczmarz"]
    begun += ["--labels", labels, "--key", "id"] if changed == "labels" else []
    begun = [config] if changed == "settings" else begun
    begun += ["--checkpoint", tmp_path / "kept"]
    done = command(*begun)
    assert done.returncode == 0, done.stderr
    assert command(*begun).returncode == 0
    if changed == "log":
        log.write_text(log.read_text().replace("0,0.5,0", "0,9.5,0", 1))
    if changed == "labels":
        labels.write_text(labels.read_text().replace("0,0", "0,1", 1))
    if changed == "settings":
        config.write_text(config.read_text().replace("kept", "other"))
    done = command(*begun, *(changed if isinstance(changed, list) else []))
    assert done.returncode == 2
    assert "is of another replay" in done.stderr
    assert named in done.stderr


def test_a_replay_of_a_pipe_cannot_be_resumed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "log.csv").write_text("id,a,y\n1,2,3\n")
    for log, more in (
        ("-", []),
        (tmp_path / "pipe", []),
        (tmp_path / "log.csv", ["--labels", tmp_path / "pipe", "--key", "id"]),
    ):
        done = command(log, "--target", "y", "--checkpoint", tmp_path / "kept", *more, input="")
        assert done.returncode == 2
        assert "is a pipe, which cannot be read again; write it to a file first" in done.stderr
        assert not (tmp_path / "kept").exists()


def killed(log: Path, directory: Path, kills: int, seed: int = 1) -> tuple[bytes, int]:
    """Return the results of a command that is killed at random moments, and of how many kills it went on."""
    chance = random.Random(seed)
    command = ["replay", log, "--target", "label", "--learner", "kernel", "--learner", LEARNERS[1]]
    command += ["--checkpoint", directory / "kept", "--report", directory / "report"]
    kept = directory / "kept" / "replay.checkpoint"
    done = went_on = 0
    while True:
        before = kept.stat().st_mtime_ns if kept.exists() else 0
        with processes.Command(*command) as process:
            deadline = time.monotonic() + 120.0
            while process.poll() is None and time.monotonic() < deadline:
                written = kept.stat().st_mtime_ns if kept.exists() else 0
                if done < kills and written > before and deadline - time.monotonic() > 10.0:
                    deadline = time.monotonic() + chance.uniform(0.0, 1.0)  # somewhere between two of them
                    before = 2**63
                time.sleep(0.01)
            if process.poll() is None:
                process.kill()
                done, went_on = done + 1, went_on + 1
                continue
        if done < kills:  # it was faster
            kept.unlink()
            done += 1
            continue
        assert process.returncode == 0
        return (directory / "report" / "results.json").read_bytes(), went_on


def disturbed_and_not(path: Path, events: int, kills: int) -> None:
    log = path / "log.csv.gz"
    write_log(log, synthetic(events))
    for name in ("killed", "whole"):
        (path / name).mkdir()
    found, went_on = killed(log, path / "killed", kills)
    whole, _ = killed(log, path / "whole", 0)
    assert went_on >= kills // 2
    assert strip(found) == strip(whole)


def test_killed(tmp_path):
    disturbed_and_not(tmp_path, 12_000, 3)


def strip(results: bytes) -> bytes:
    """The command names the directory."""
    return b"\n".join(row for row in results.splitlines() if b'"command"' not in row)
