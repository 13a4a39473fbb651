"""Events that wait for labels: memory, time and checkpoints of the operator of a daemon.

A million events of ten numbers come, and no label; then labels of a random tenth of them.
"""

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path

from connectors.contract.records import Raw
from connectors.daemon.telemetry import Telemetry
from connectors.operators.late_labels import late_labels
from connectors.operators.learning import SingleLearning
from connectors.settings.tables import Settings
from connectors.state.aside import FILE, AsideStore
from connectors.state.disk import CheckpointStore

EVERY = 100_000  # events after which a checkpoint is written, as by a daemon


def memory():
    """Return the most memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def records(rows, start):
    return [Raw(start + i, json.dumps(row).encode()) for i, row in enumerate(rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--learner", default="kernel")
    options = parser.parse_args()
    settings = Settings.model_validate(
        {
            "source": {"kind": "file", "path": "events"},
            "labels": {"kind": "file", "path": "labels", "time": "at"},
            "events": {"target": "y", "key": "id", "time": "at"},
            "learner": {"name": options.learner},
            "dead_letters": {"kind": "file", "path": "dead"},
        }
    )
    rng = random.Random(1)

    def event(i):
        return {"id": i, "at": i, **{f"f{j}": rng.gauss(0, 1) for j in range(10)}}

    with tempfile.TemporaryDirectory() as directory:
        store = CheckpointStore(Path(directory), 3)
        late = late_labels(settings, aside=AsideStore(store))
        operator = SingleLearning(settings, settings.decoder(), Telemetry(), late=late)
        operator.process("events", records([{**event(-i), "y": i % 2 == 0} for i in range(1, 2001)], 0))
        print(
            f"{'waiting':>10} {'µs/event':>9} {'MB':>6} {'checkpoint, s':>14} {'MB':>5} {'on disk, MB':>12}"
        )
        for start in range(0, options.events, EVERY):
            done = 0.0
            for part in range(start, min(start + EVERY, options.events), 1000):
                rows = records([event(i) for i in range(part, part + 1000)], part)
                before = time.perf_counter()
                operator.process("events", rows)
                done += time.perf_counter() - before
            began = time.perf_counter()
            size = sum(map(len, operator.snapshot().values()))
            seconds, path = time.perf_counter() - began, Path(directory) / FILE
            disk = path.stat().st_size / 1e6 if path.exists() else 0.0
            print(
                f"{late.waiting:10,} {1e6 * done / EVERY:9.0f} {memory():6,} {seconds:14.2f} "
                f"{size / 1e6:5.0f} {disk:12.0f}",
                flush=True,
            )
        labels = [
            {"id": i, "at": options.events, "y": i % 2 == 0}
            for i in rng.sample(range(options.events), options.events // 10)
        ]
        began = time.perf_counter()
        processed = operator.process("labels", records(labels, 0))
        seconds = time.perf_counter() - began
        print(f"{processed.fates}: {1e6 * seconds / len(labels):.0f} µs a label, {memory():,} MB")


if __name__ == "__main__":
    main()
