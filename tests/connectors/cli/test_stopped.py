"""``streamk reset``, ``adopt`` and ``labels forget`` with damaged checkpoints: they do what a run does."""

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.state.checkpoint import Checkpoint
from connectors.state.disk import CheckpointStore

DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    ),
    "header": lambda data: b"\xff" * 40 + data[40:],
    "text": lambda data: b"not a checkpoint\n",
}
EDITS = {"reset": ("--to", "earliest"), "labels": ("up",), "adopt": ()}


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def edit(name, settings, *options):
    first = ("labels", "forget") if name == "labels" else (name,)
    return run(*first, settings, *EDITS[name], *options)


@pytest.fixture
def settings(tmp_path):
    """The settings of a daemon that has written several checkpoints and stopped."""
    log, path = tmp_path / "log.jsonl", tmp_path / "streamk.toml"
    path.write_text(
        f'[source]\nkind = "file"\npath = "{log}"\n[events]\ntarget = "y"\n'
        f'[learner]\nname = "kaczmarz"\nparameters = {{features = 16}}\n'
        f'[checkpoints]\ndirectory = "{tmp_path / "kept"}"\n\n'
    )
    for _ in range(2):
        with log.open("a") as file:
            file.writelines(f'{{"x": {i % 7}, "y": "up"}}\n' for i in range(30))
        assert run("run", path).exit_code == 0
    return path


@pytest.fixture
def store(settings):
    found = CheckpointStore(settings.parent / "kept")
    assert [Checkpoint.read(path).learner().events for path in found.paths()][-2:] == [30, 60]
    return found


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", EDITS)
def test_a_damaged_newest_checkpoint_is_set_aside(settings, store, name, damage):
    newest = store.paths()[-1]
    newest.write_bytes(DAMAGES[damage](newest.read_bytes()))
    done = edit(name, settings)
    assert done.exit_code == 0, done.output
    assert newest.with_name(f"{newest.name}.damaged").exists()
    assert Checkpoint.read(store.paths()[-1]).learner().events == (0 if name == "labels" else 30)
    assert run("run", settings).exit_code == 0


@pytest.mark.parametrize("name", ["reset", "adopt"])
def test_a_dry_run_sets_nothing_aside(settings, store, name):
    newest = store.paths()[-1]
    newest.write_bytes(b"")
    before = sorted(store.directory.iterdir())
    assert edit(name, settings, "--dry-run").exit_code == 0
    assert sorted(store.directory.iterdir()) == before


@pytest.mark.parametrize("name", EDITS)
def test_damaged_checkpoints_alone_are_named(settings, store, name):
    for path in store.paths():
        path.write_bytes(b"")
    done = edit(name, settings)
    assert done.exit_code == 4
    assert f"no checkpoint in {store.directory} can be used; put a copy back" in done.stderr
    assert "Traceback" not in done.output
