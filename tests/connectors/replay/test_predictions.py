"""Every prediction of a replay in a file, from which an independent script computes the figures again."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from connectors.files.replayed import ReplayLog
from connectors.replay.progress import Checkpoint, Scoring
from connectors.replay.run import replay
from connectors.replay.writing import write

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from recompute import differences  # a script, which is no package

LEARNER = "kaczmarz:features=32,seed=1"


def log_of(path, task, classes=2, rows=4600):
    rng = np.random.default_rng(3)
    a = rng.normal(size=(rows, 2))
    if task == "classification":
        y = (np.digitize(a[:, 0], np.linspace(-1, 1, classes - 1)) + (rng.random(rows) < 0.1)) % classes
        target = [f"c{k}" for k in y]
    else:
        target = [repr(value) for value in (3 * a[:, 0] + rng.normal(size=rows)).tolist()]
    lines = [f"{x0!r},{x1!r},{y}" for (x0, x1), y in zip(a.tolist(), target, strict=True)]
    path.write_text("a,b,y\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("task", "classes"), [("classification", 2), ("classification", 4), ("regression", 0)]
)
@pytest.mark.parametrize("delay", [0, 3])
def test_figures_are_computed_again(tmp_path, task, classes, delay):
    log = ReplayLog(log_of(tmp_path / "log.csv", task, classes), "y")
    run = replay(
        log, LEARNER, delay=delay, scoring=Scoring(predictions=tmp_path / "p.jsonl"), baseline="full"
    )
    write(tmp_path, run, log, ["streamk"], {})
    assert differences(tmp_path / "p.jsonl", tmp_path / "results.json") == []
    found = json.loads((tmp_path / "results.json").read_text())
    assert (found["frozen"] is None) == (delay > 0)
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert (first["event"], first["line"]) == (1, 2)
    # the comparison can fail
    found["contenders"][0]["metrics"]["accuracy" if classes else "mae"] += 1e-6
    (tmp_path / "results.json").write_text(json.dumps(found))
    assert len(differences(tmp_path / "p.jsonl", tmp_path / "results.json")) == 1


class Stop:
    """Presses Ctrl-C after some events, once a checkpoint is due."""

    def __init__(self, after):
        self.after = after

    def __call__(self, run):
        if run.events >= self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_an_interrupted_file_ends_with_the_same_bytes(tmp_path, suffix):
    path = log_of(tmp_path / "log.csv", "classification")
    whole = tmp_path / f"whole{suffix}"
    replay(ReplayLog(path, "y"), LEARNER, scoring=Scoring(predictions=whole))
    for after in (1000, 3000, 10**9):
        keep = Checkpoint(tmp_path / "kept", {})
        keep.due = lambda: True
        parts = tmp_path / f"parts{suffix}"
        try:
            replay(
                ReplayLog(path, "y"),
                LEARNER,
                scoring=Scoring(predictions=parts),
                checkpoint=keep,
                watch=Stop(after),
            )
        except KeyboardInterrupt:
            with parts.open("ab") as file:
                file.write(b"what was written after the checkpoint")
    assert parts.read_bytes() == whole.read_bytes()
    assert len(whole.read_text().splitlines()) == 4600 + (suffix == ".csv")
    parts.write_bytes(b"")
    with pytest.raises(ValueError, match="is shorter than when the replay was interrupted"):
        replay(
            ReplayLog(path, "y"),
            LEARNER,
            scoring=Scoring(predictions=parts),
            checkpoint=Checkpoint(tmp_path / "kept", {}),
        )
