"""The calls that users make first. A wheel ships the code that they compile (``benchmarks/release.py``).

    python benchmarks/first_calls.py [--time]

Every public learner, with default parameters, learns and predicts one event and many, and is saved; logs of
CSV and JSON lines are replayed and predicted, and a daemon learns a file. With ``--time``, only the start of
``KernelClassifier`` is measured: the seconds by the clock and of the processor, compiled functions, and the
hash of its model are printed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = """
[source]
kind = "file"
path = "log.jsonl"

[predictions]
kind = "file"
path = "predictions.jsonl"

[events]
target = "label"
"""


def start() -> None:
    """Print what the first event and prediction cost."""
    began = time.perf_counter()
    from numba.core.caching import FunctionCache

    import streamk

    compiled: list[str] = []
    save = FunctionCache.save_overload

    def save_and_count(self: FunctionCache, signature: object, data: object) -> None:
        compiled.append(repr(self))
        save(self, signature, data)

    FunctionCache.save_overload = save_and_count  # called for what was compiled, and not for what was loaded
    learner = streamk.KernelClassifier(seed=7)
    learner.learn_one({"x": 0.0, "colour": "blue"}, False)
    learner.predict_one({"x": 6.0, "colour": "red"})
    seconds, processor = time.perf_counter() - began, time.process_time()
    for k in range(300):
        learner.learn_one({"x": k % 7, "colour": "red" if k % 3 else "blue"}, k % 7 > 3)
    digest = hashlib.sha256(learner.to_bytes()).hexdigest()
    print(
        json.dumps({"seconds": seconds, "processor": processor, "compiled": len(compiled), "model": digest})
    )


def learn_all() -> None:
    """Let every learner learn and predict in every way."""
    import numpy as np

    import streamk
    from streamk.learners import LEARNERS

    events = [{"x": 0.1 * k, "colour": "red" if k % 3 else "blue"} for k in range(40)]
    rows, names = np.random.default_rng(0).normal(size=(40, 3)), ["a", "b", "c"]
    for name, cls in LEARNERS.items():
        targets = [k % 3 > 1 if name.endswith("Classifier") else 0.5 * k for k in range(40)]
        learner, of_rows = cls(), cls()
        for x, y in zip(events, targets, strict=True):
            learner.predict_one(x)
            learner.learn_one(x, y)
        of_rows.learn_many(rows, targets, names=names)
        of_rows.predict_many(rows, names=names)
        for each in (learner, of_rows, streamk.loads(learner.to_bytes())):
            frozen = each.frozen()
            frozen.predict_one(events[0])
            if name.endswith("Classifier"):
                each.predict_proba_one(events[0])
        print(name, flush=True)


def run_commands(directory: Path) -> None:
    """Let commands read a log of each format, and a daemon learn from a file."""
    rows = [(k % 7, k % 5, "uv"[k % 2], "yes" if k % 7 > 3 else "no", 0.5 * k) for k in range(400)]
    lines = [json.dumps(dict(zip("abc", row, strict=False)) | {"label": row[3]}) for row in rows]
    table = [",".join(map(str, row)) for row in [("a", "b", "c", "label", "number"), *rows]]
    (directory / "log.csv").write_text("\n".join(table) + "\n")
    (directory / "log.jsonl").write_text("\n".join(lines) + "\n")
    (directory / "streamk.toml").write_text(SETTINGS)
    for command in (
        "replay log.csv --target label --save label.streamk",
        "replay log.csv --target number --save number.streamk",
        "predict label.streamk log.csv --output label.csv",
        "predict number.streamk log.csv --output number.csv",
        "replay log.jsonl --target label",
        "run streamk.toml",
    ):
        print("streamk", command, flush=True)
        streamk = [sys.executable, "-m", "connectors.cli", *command.split()]
        subprocess.run(streamk, cwd=directory, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--time"]:
        start()
    else:
        learn_all()
        with tempfile.TemporaryDirectory() as name:
            run_commands(Path(name))
