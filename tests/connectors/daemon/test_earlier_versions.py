"""Checkpoints of earlier versions continue as docs/limits.md says: with the parameters that they name.

``earlier/`` holds checkpoints that the version before model format 10 wrote, after 60 events.
"""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.daemon.checkpoint import Checkpoint
from connectors.daemon.training import changes

EARLIER = sorted((Path(__file__).parent / "earlier").glob("*.checkpoint"))


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def event(task, i):
    target = f'"{"pq"[i % 7 > 3]}"' if task == "classification" else (i % 7) ** 2 / 2
    return f'{{"a": {i % 7}, "b": "{"uv"[i % 2]}", "y": {target}}}\n'


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_a_checkpoint_of_the_version_before_continues(tmp_path, path):
    name, _, task = path.stem.rpartition("-")
    log, kept, settings = tmp_path / "log.jsonl", tmp_path / "kept", tmp_path / "streamk.toml"
    log.write_text("".join(event(task, i) for i in range(100)))
    kept.mkdir()
    shutil.copy(path, kept / "0000000001.checkpoint")
    before = Checkpoint.read(kept / "0000000001.checkpoint").learner()
    assert before.events + before.pending == 60

    def started(*more):
        parameters = ", ".join(["features = 768" if name == "kernel" else "features = 16", *more])
        settings.write_text(
            f'[source]\nkind = "file"\npath = "{log}"\n[events]\ntarget = "y"\n[learner]\n'
            f'name = "{name}"\ntask = "{task}"\nparameters = {{{parameters}}}\n'
            f'[checkpoints]\ndirectory = "{kept}"\n'
        )
        return run("run", settings)

    done = started()
    if name == "kernel":
        assert done.exit_code == 4
        assert "holds a learner with retired=True, and the settings ask for False" in done.stderr
        done = started("retired = true")
    assert done.exit_code == 0, done.output
    after = Checkpoint.read(sorted(kept.glob("*.checkpoint"))[-1]).learner()
    assert after.events + after.pending == 100


def test_parameters_that_an_earlier_version_did_not_have_are_no_change():
    before = {"events.target": "y", "learner.parameters.features": 768}
    now = {**before, "learner.parameters.retired": True}
    assert changes(before, now) == []
    assert [change.key for change in changes(before, {**now, "events.weight": "w"})] == ["events.weight"]
    assert [change.key for change in changes(now, before)] == ["learner.parameters.retired"]
    now["learner.parameters.features"] = 64
    assert [change.key for change in changes(before, now)] == ["learner.parameters.features"]
