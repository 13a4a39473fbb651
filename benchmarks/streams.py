"""Every streaming learner and its peers on the same streams, in one process: test, then train.

    python benchmarks/streams.py [--data DIRECTORY] [--only Elec2 CoverType Adult] [--events N] [--json]

Elec2, the first 100,000 rows of CoverType and the training rows of Adult, in the order of the files. Each
subject predicts every event before learning it: accuracy, kappa, events a second (predict and learn; rows
are made before the clock starts, and what has to be compiled is compiled before), and the bytes of the
model (pickled, for the peers in Python; saved, for Vowpal Wabbit). Five minutes, most of them river's
forest's. Vowpal Wabbit takes part if it is installed (``pip install -e '.[bench]'``).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from river import forest, linear_model, metrics, multiclass
from run import STREAMS

import streamk
from connectors.replay.contenders import LinearClassifier, linear_inputs, present

ROOT = Path(__file__).resolve().parent.parent
LOGS = {
    "Elec2": STREAMS["Elec2"],
    "CoverType": STREAMS["CoverType, first 100,000"],
    "Adult": STREAMS["Adult"],
}
SCALES = (4.0, 2.0, 1.0)
OURS: dict[str, dict[str, dict[str, Any]]] = {
    "KaczmarzClassifier": {name: log["parameters"] for name, log in LOGS.items()},
    "KaczmarzPursuitClassifier": {
        "Elec2": {
            "memory": 0, "regularization": 3.0, "scales": SCALES, "features": 128, "period": 100,
            "max_features": 512,
        },
        "CoverType": {"memory": 0},
        "Adult": {},
    },
    "MatchingPursuitClassifier": {
        "Elec2": {"scales": SCALES, "features": 128, "period": 50, "max_features": 128},
        "CoverType": {"period": 100, "max_features": 256},
        "Adult": {},
    },
    "DoublyStochasticClassifier": {
        "Elec2": {
            "loss": "hinge", "precondition": False, "batch_size": 4, "features": 256, "growth": "fixed",
            "regularization": 0.001,
        },
        "CoverType": {"batch_size": 128, "revisits": 7, "regularization": 0.01, "max_features": 1024},
        "Adult": {"batch_size": 1024, "features": 128, "regularization": 0.01, "loss": "hinge"},
    },
}  # fmt: skip
WABBIT = {"Elec2": "--nn 20", "CoverType": "-q ::", "Adult": "-q ::"}
Answers = Sequence[Any]
Subject = Callable[[pd.DataFrame, pd.Series], tuple[Answers, float, int]]


def kernel_learner(name: str, parameters: dict[str, Any], seed: int) -> Subject:
    """Return a streamk learner as a subject, through its compiled pass."""

    def follow(X: pd.DataFrame, y: pd.Series) -> tuple[Answers, float, int]:
        make = getattr(streamk, name)
        warm = make(**parameters, seed=seed)
        warm.predict_learn_many(X[:300], y[:300])
        warm.flush()
        learner = make(**parameters, seed=seed)
        began = time.perf_counter()
        answers = learner.predict_learn_many(X, y)
        seconds = time.perf_counter() - began
        return list(answers), seconds, len(learner.to_bytes())

    return follow


def river_model(make: Callable[[int], Any]) -> Subject:
    """Return a river classifier as a subject; ``make`` is told the number of classes."""

    def follow(X: pd.DataFrame, y: pd.Series) -> tuple[Answers, float, int]:
        model, labels = make(y.nunique()), y.unique().tolist()
        events, answers = [present(x) for x in X.to_dict("records")], []
        truth = (y == labels[0]).tolist() if len(labels) == 2 else y.tolist()
        began = time.perf_counter()
        for x, label in zip(events, truth, strict=True):
            answers.append(model.predict_one(x))
            model.learn_one(x, label)
        seconds = time.perf_counter() - began
        if len(labels) == 2:
            answers = [labels[0] if answer else labels[1] for answer in answers]
        return answers, seconds, len(pickle.dumps(model))

    return follow


def linear(X: pd.DataFrame, y: pd.Series) -> tuple[Answers, float, int]:
    """Follow a stream with river's logistic regression, softmax regression if there are several classes."""
    model = LinearClassifier()
    model.expect(y.nunique())
    events, labels = X.to_dict("records"), y.tolist()
    began = time.perf_counter()
    found = model.answer(events, labels)
    seconds = time.perf_counter() - began
    return [max(p, key=p.get, default=None) for p in found], seconds, len(pickle.dumps(model._model))


def passive_aggressive(classes: int) -> Any:
    """Return river's passive-aggressive classifier, one against the rest if there are several classes."""
    model: Any = linear_model.PAClassifier()
    if classes > 2:
        model = multiclass.OneVsRestClassifier(model)
    return linear_inputs() | model


def wabbit(name: str) -> Subject:
    """Return Vowpal Wabbit as a subject."""

    def follow(X: pd.DataFrame, y: pd.Series) -> tuple[Answers, float, int]:
        import vowpalwabbit as vw

        labels = y.unique().tolist()
        codes = {label: k + 1 for k, label in enumerate(labels)}
        two = len(labels) == 2
        kind = "--loss_function logistic --link logistic" if two else f"--oaa {len(labels)}"
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model"
            machine = vw.Workspace(f"{kind} {WABBIT[name]} -b 18 --random_seed 1 --quiet -f {path}")
            kept = vw.LabelType.SIMPLE if two else vw.LabelType.MULTICLASS
            names = [str(c).replace(":", "_").replace(" ", "_") for c in X.columns]
            lines = []
            for row, label in zip(X.itertuples(index=False), y.tolist(), strict=True):
                fields = " ".join(
                    f"{n}={str(v).strip().replace(':', '_').replace(' ', '_')}"
                    if isinstance(v, str)
                    else f"{n}:{v}"
                    for n, v in zip(names, row, strict=True)
                )
                code = codes[label] if not two else (1 if codes[label] == 1 else -1)
                lines.append(f"{code} |f {fields}")
            answers: list[Any] = []
            began = time.perf_counter()
            for line in lines:
                example = machine.parse(line, kept)
                machine.learn(example)  # its prediction is the one made before
                if two:
                    answers.append(labels[0] if example.get_simplelabel_prediction() > 0.5 else labels[1])
                else:
                    answers.append(labels[example.get_multiclass_prediction() - 1])
                machine.finish_example(example)
            seconds = time.perf_counter() - began
            machine.finish()
            return answers, seconds, path.stat().st_size

    return follow


def subjects(stream: str, seed: int) -> Iterator[tuple[str, Subject]]:
    """Yield the name and the subject of every row of the table."""
    for name, parameters in OURS.items():
        yield f"streamk {name.removesuffix('Classifier')}", kernel_learner(name, parameters[stream], seed)
    yield "river LogisticRegression", linear
    yield "river PAClassifier", river_model(passive_aggressive)
    yield "river ARFClassifier(10)", river_model(lambda _: forest.ARFClassifier(seed=1))
    if importlib.util.find_spec("vowpalwabbit"):
        yield f"Vowpal Wabbit {WABBIT[stream]}", wabbit(stream)


def measure(stream: str, data: Path, events: int | None, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row of the table for each subject."""
    log = LOGS[stream]
    X = pd.read_csv(data / log["file"], nrows=min(filter(None, (log["limit"], events)), default=None))
    y = X.pop(log["target"])
    truth = y.tolist()
    for name, follow in subjects(stream, seed):
        answers, seconds, size = follow(X, y)
        matrix = metrics.ConfusionMatrix()
        for label, answer in zip(truth, answers, strict=True):
            matrix.update(label, answer)
        right = sum(a == b for a, b in zip(truth, answers, strict=True))
        yield {
            "stream": stream,
            "model": name,
            "accuracy": round(right / len(truth), 4),
            "kappa": round(metrics.CohenKappa(cm=matrix).get(), 4),
            "events_per_second": round(len(truth) / seconds),
            "bytes": size,
        }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", choices=LOGS, default=list(LOGS))
    parser.add_argument("--events", type=int, help="stop after so many events of each stream")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console, rows = Console(stderr=arguments.json), []
    if not importlib.util.find_spec("vowpalwabbit"):
        console.print("Vowpal Wabbit is not installed: pip install -e '.[bench]'", markup=False)
    for stream in arguments.only:
        table = Table(title=stream)
        for column in ("model", "accuracy", "kappa", "events/s", "bytes"):
            table.add_column(column, justify="left" if column == "model" else "right")
        with console.status(f"measuring {stream}") as status:
            for row in measure(stream, arguments.data, arguments.events, arguments.seed):
                rows.append(row)
                status.update(f"measuring {stream}: {row['model']} done")
                numbers = f"{row['accuracy']:.4f}", f"{row['kappa']:.3f}"
                table.add_row(row["model"], *numbers, f"{row['events_per_second']:,}", f"{row['bytes']:,}")
        console.print(table)
    if arguments.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
