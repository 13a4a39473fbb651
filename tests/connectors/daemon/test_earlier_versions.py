"""Checkpoints of earlier versions continue as docs/limits.md says: with the parameters that they name.

``earlier/`` holds those of version 0.5, and of the last one with model format 9, after 60 events
(``record_earlier.py``).
"""

import shutil
from pathlib import Path

import pytest

from connectors.events.learners import LEARNERS
from connectors.state.checkpoint import Checkpoint
from connectors.state.training import changes
from streamk.learners.learner import Learner
from streamk.learners.loading import loads

from .record_earlier import EVENTS, MORE, run

FOLDER = Path(__file__).parent / "earlier"
EARLIER = sorted(FOLDER.rglob("*.checkpoint"))


def learned(path):
    learner = Checkpoint.read(path).learner()
    return learner.events + getattr(learner, "pending", 0)


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_checkpoint_of_an_earlier_version_continues(tmp_path, path):
    name, _, task = path.stem.rpartition("-")
    kept = tmp_path / "kept"
    kept.mkdir()
    first = shutil.copy(path, kept / "0000000001.checkpoint")
    assert learned(first) == EVENTS
    done = run(tmp_path, name, task, MORE)
    if name == "kernel":
        assert done.exit_code == 4
        retired = path.parent.name == "format-9"
        assert "with budget='small', and the settings ask for 'default'" in done.stderr
        assert ("with retired=True, and the settings ask for False" in done.stderr) == retired
        done = run(tmp_path, name, task, MORE, ', budget = "small"' + ", retired = true" * retired)
    assert done.exit_code == 0, done.output
    newest = sorted(kept.glob("*.checkpoint"))[-1]
    assert learned(newest) == MORE
    learner = Checkpoint.read(newest).learner()
    assert isinstance(learner, Learner)
    assert loads(learner.to_bytes()).to_bytes() == learner.to_bytes()


def test_there_is_a_checkpoint_of_every_learner():
    stored = {path.stem for path in (FOLDER / "0.5").glob("*.checkpoint")}
    assert stored == {f"{name}-{task}" for name, classes in LEARNERS.items() for task in classes}


def test_parameters_that_one_of_two_versions_does_not_have_are_no_change():
    before = {"events.target": "y", "learner.parameters.features": 768}
    now = {**before, "learner.parameters.retired": True}
    assert changes(before, now) == []
    assert [change.key for change in changes(before, {**now, "events.weight": "w"})] == ["events.weight"]
    assert changes(now, before) == []
    now["learner.parameters.features"] = 64
    assert [change.key for change in changes(before, now)] == ["learner.parameters.features"]
