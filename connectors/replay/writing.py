"""The files that a replay writes: results, curves, measurements and the page, and every prediction.

From the file of predictions the figures can be computed again.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connectors.contract.records import Log
from connectors.events.decoding import Rejected
from connectors.replay.page.build import page
from connectors.replay.progress import Replay
from connectors.replay.report import lateness, recommendation, recommended, summary_metric, without_labels
from streamk.arrays import Array, Json
from streamk.evaluation import Results
from streamk.evaluation.adapters import Table
from streamk.evaluation.contest import Scored
from streamk.evaluation.metric import decide
from streamk.evaluation.results import Windows, finite, plain_label

_LIBRARIES = ("streamk", "river", "numpy", "numba")


def write(directory: Path, run: Replay, log: Log, command: Sequence[str], extra: Json) -> None:
    """Write ``results.json``, ``curve.parquet`` (or ``.csv``), ``measured.json`` and ``index.html``.

    The first two hold the results; the same events and settings give the same bytes. ``measured.json`` holds
    the measurements that differ between runs: times, and memory.

    Parameters
    ----------
    directory
        Created if it is missing.
    run, log
        The replay, and its log.
    command
        The words of the command.
    extra
        More values of the results, such as ``seed``.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    results = run.results()
    content = about(run, results, log, command, extra)
    _write(directory / "results.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    measured = results.measured()
    shown = {name: {**each, "latency_us": _quantiles(each["latency_us"])} for name, each in measured.items()}
    _write(directory / "measured.json", json.dumps(shown, indent=1, ensure_ascii=False) + "\n")
    curves = _curves(results)
    _write_curves(directory, curves, results.headline)
    advice = {"recommended": recommended(results)}  # of times, too
    advice |= {"recommendation": recommendation(results)} if len(run.names) > 1 else {}
    _write(directory / "index.html", page({**content, **advice}, curves, measured))


def _curves(results: Results) -> dict[str, Windows]:
    """Return the windows of all contenders, and of the frozen copy of the first one, if there is one."""
    windows = {name: results.windows(name) for name in results.names if not results.failed(name)}
    if (frozen := results.frozen_windows()) is not None:
        windows[f"{results.names[0]} (frozen)"] = frozen
    return windows


def _quantiles(latencies: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Return the median and the 99th percentile of latencies to predict, to learn, and of both."""
    return {
        what: {f"p{q}": round(times[min(len(times) - 1, len(times) * q // 100)], 2) for q in (50, 99)}
        for what, times in latencies.items()
        if times
    }


def about(run: Replay, results: Results, log: Log, command: Sequence[str], extra: Json) -> Json:
    """Return the results with the log and the command, as values that JSON takes."""
    content = results.to_dict()
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    content |= {
        "title": ", ".join(Path(name).name for name in log.paths),
        "target": log.target,
        "delay": lateness(run).removeprefix(", "),
        "left_out": {
            "unreadable": log.unreadable,
            "unlabelled": log.unlabelled,
            "refused": run.refused,
            "examples": [_placed(each) for each in [*log.examples, *run.examples]],
        },
        "log": [{**file, "name": Path(file["name"]).name} for file in log.fingerprint()["files"]],
        "command": " ".join(command),
        "drift": run.sample.drift(),
        "versions": {"python": platform.python_version(), **versions},
        **extra,
    }
    for contender in content["contenders"]:
        summary = getattr(run.contest.models[contender["name"]], "summary", None)
        if callable(summary):
            contender["summary"] = _plain(summary())
    content["interrupted"], content["stopped"] = run.interrupted, run.error
    content["without_labels"] = (
        "" if content["frozen"] is None else without_labels(content["frozen"], summary_metric(run))
    )
    return content


def _placed(sentence: str) -> Json:
    """Return file, line and reason of a skipped record."""
    place = sentence.place if isinstance(sentence, Rejected) else None
    if place is None or not isinstance(sentence, Rejected):
        return {"reason": sentence}
    return {"file": Path(place.file).name, "line": place.line, "reason": sentence.reason}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return finite(value) if isinstance(value, float) else value


def _write(path: Path, text: str) -> None:
    """Write a file in one step."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _write_curves(directory: Path, curves: Mapping[str, Windows], headline: str) -> None:
    """Write the windows as Parquet, or as CSV where pyarrow is not installed."""
    columns: dict[str, list[object]] = {"contender": [], "events": []}
    for name, (metrics, rows, interval, cumulative) in curves.items():
        columns["contender"] += [name] * len(rows)
        columns["events"] += [interval * (k + 1) for k in range(len(rows))]
        for k, metric in enumerate(metrics):
            columns.setdefault(metric, []).extend(rows[:, k].tolist())
        columns.setdefault(f"cumulative_{headline}", []).extend(cumulative.tolist())
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        _write(directory / "curve.csv", text.getvalue())
        return
    beside = directory / "curve.parquet.new"
    parquet.write_table(pa.table(columns), beside)
    beside.replace(directory / "curve.parquet")


class PredictionWriter:
    """A file of predictions: JSON lines, or CSV if its name ends so.

    A JSON line has ``event``, ``line``, ``target`` and ``predictions``: for each contender a number, or
    probabilities by label. ``intervals`` are the lower and the upper end of contenders that give any, ``by``
    is the value of the field of slices, and ``last`` the label that had come last when the event was
    predicted, if labels come late. CSV has the predicted label or number of each contender; for labels the
    probability of the true one, for numbers the ends of the interval.

    Parameters
    ----------
    path
        The file.
    names
        The contenders, and the frozen copy last if there will be one.
    classes
        Whether targets are labels.
    bounded
        The contenders that give intervals.
    by
        The field of slices, None without one.
    length
        Bytes that were written before an interruption, after which writing continues; 0 starts again.

    Raises
    ------
    ValueError
        If the file is shorter than that.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        classes: bool,
        bounded: Sequence[str] = (),
        by: str | None = None,
        length: int = 0,
    ) -> None:
        self._names, self._classes, self._table = list(names), classes, path.suffix == ".csv"
        self._bounded, self._by = set(bounded), by
        path.touch()
        if path.stat().st_size < length:
            raise ValueError(f"{path} is shorter than when the replay was interrupted; remove the checkpoint")
        self._file = path.open("r+b")
        self._file.truncate(length)
        self._file.seek(length)
        if self._table and not length:
            shown = [column for name in names for column in self._columns(name)]
            self._write([["event", "line", *([] if by is None else [f"by: {by}"]), "target", *shown]])

    def _columns(self, name: str) -> list[str]:
        """Return the columns of a contender in CSV."""
        if self._classes:
            return [name, f"{name}: p"]
        return [name, f"{name}: lower", f"{name}: upper"] if name in self._bounded else [name]

    def add(self, scored: Scored) -> None:
        """Write the predictions of consecutive events."""
        count = len(scored.targets)
        places = scored.places or [None] * count
        columns = {name: _rows(answers, count) for name, answers in scored.answers.items()}
        ends = {name: _pairs(*both) for name, both in scored.intervals.items()}
        rows: list[object] = []
        for k, (target, place) in enumerate(zip(scored.targets, places, strict=True)):
            predicted = {name: columns[name][k] for name in self._names if name in columns}
            within = {name: pairs[k] for name, pairs in ends.items()}
            row: Json = {"event": scored.first + k, "line": None if place is None else place[1]}
            if scored.slices is not None:
                row["by"] = _value(scored.slices[k])
            row["target"] = plain_label(target)
            if self._table:
                rows.append([*row.values(), *self._cells(predicted, within, target)])
                continue
            if scored.last is not None and self._classes:
                row["last"] = None if scored.last[k] is None else plain_label(scored.last[k])
            row["predictions"] = {
                name: _labelled(value) for name, value in predicted.items() if value is not None
            }
            if self._bounded:
                row["intervals"] = {name: pair for name, pair in within.items() if pair is not None}
            rows.append(row)
        self._write(rows)

    def _cells(self, predicted: Json, within: Json, target: object) -> list[object]:
        cells: list[object] = []
        for name in self._names:
            value = predicted.get(name)
            if not self._classes:
                cells.append(value)
                if name in self._bounded:
                    cells += within.get(name) or [None, None]
            elif value is None:
                cells += [None, None]
            else:
                cells += [plain_label(decide(value)) if value else None, value.get(target, 0.0)]
        return cells

    def _write(self, rows: list[Any]) -> None:
        if self._table:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows)
            self._file.write(text.getvalue().encode())
        else:
            self._file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())

    def length(self) -> int:
        """Hand everything to the file, and return how many bytes it has."""
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _rows(answers: Table | Array, count: int) -> list[object]:
    """Return predictions as dicts of probabilities or as numbers; None for events before the first one."""
    if isinstance(answers, Table):
        rows = [
            {label: p for label, p in zip(answers.labels, row, strict=True) if p}
            for row in answers.rows.tolist()
        ]
    else:
        rows = list(answers.tolist())
    return [*[None] * (count - len(rows)), *rows]


def _pairs(lower: Array, upper: Array) -> list[list[float] | None]:
    """Return both ends of the interval of each event, None where one is not finite."""
    pairs = zip(lower.tolist(), upper.tolist(), strict=True)
    return [[low, high] if math.isfinite(low) and math.isfinite(high) else None for low, high in pairs]


def _value(value: object) -> object:
    """Return a value of the field of slices as JSON has it, None where it is missing."""
    return None if value is None or value != value else plain_label(value)


def _labelled(value: object) -> object:
    return {str(plain_label(label)): p for label, p in value.items()} if isinstance(value, dict) else value
