"""Write a checkpoint of every learner after 60 events, for ``earlier/``: run it with the code of a version.

``PYTHONPATH=TREE python tests/connectors/daemon/record_earlier.py FOLDER``, where ``TREE`` is a checkout of
that version.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

EVENTS, MORE = 60, 100
PARAMETERS = {
    "kernel": "features = 768",
    "kaczmarz": "features = 16",
    "matching-pursuit": "features = 64, period = 20, max_features = 128",
    "kaczmarz-pursuit": "features = 64, period = 20, max_features = 128",
    "doubly-stochastic": 'features = 8, batch_size = 16, growth = "fixed"',
    "subspace-pursuit": "features = 64, rank = 16",
    "low-rank": "columns = 20, rows = 40",
    "ls-svm": "block = 20, rows = 40",
    "eigenpro": "centers = 10",
}


def event(task, i):
    target = f'"{"pq"[i % 7 > 3]}"' if task == "classification" else (i % 7) ** 2 / 2
    return f'{{"a": {i % 7}, "b": "{"uv"[i % 2]}", "y": {target}}}\n'


def run(folder, name, task, count, more=""):
    """Run a daemon in a folder over so many events, and return what it printed and its exit code."""
    from connectors.cli import app

    log, kept, settings = folder / "log.jsonl", folder / "kept", folder / "streamk.toml"
    log.write_text("".join(event(task, i) for i in range(count)))
    settings.write_text(
        f'[source]\nkind = "file"\npath = "{log}"\n[events]\ntarget = "y"\n[learner]\nname = "{name}"\n'
        f'task = "{task}"\nparameters = {{{PARAMETERS[name]}{more}}}\n[checkpoints]\ndirectory = "{kept}"\n'
    )
    return CliRunner().invoke(app, ["run", str(settings)])


if __name__ == "__main__":
    from connectors.events.learners import LEARNERS

    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, classes in LEARNERS.items():
        for task in classes:
            with tempfile.TemporaryDirectory() as folder:
                done = run(Path(folder), name, task, EVENTS)
                assert done.exit_code == 0, done.output
                newest = sorted((Path(folder) / "kept").glob("*.checkpoint"))[-1]
                size = shutil.copy(newest, out / f"{name}-{task}.checkpoint").stat().st_size
                print(f"{name} {task}: {size:,} bytes")
