"""The files that a replay writes to a directory: results, curves, measurements, and the page."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import platform
from collections.abc import Sequence
from pathlib import Path

from connectors.contract.records import Log
from connectors.events.decoding import Rejected
from connectors.replay.page.build import page
from connectors.replay.progress import Replay
from connectors.replay.recommendation import recommendation
from connectors.replay.report import lateness, without_labels
from streamk.arrays import Json
from streamk.evaluation import Results
from streamk.evaluation.results import Windows, finite

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
    _write_curve(directory, results)
    advice = {"recommendation": recommendation(results)} if len(run.names) > 1 else {}  # of times, too
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
        "log": _files(log),
        "command": " ".join(command),
        "versions": {"python": platform.python_version(), **_versions()},
        **extra,
    }
    for contender in content["contenders"]:
        summary = getattr(run.contest.models[contender["name"]], "summary", None)
        if callable(summary):
            contender["summary"] = _plain(summary())
    content["interrupted"], content["stopped"] = run.interrupted, run.error
    content["without_labels"] = (
        "" if content["frozen"] is None else without_labels(content["frozen"], run.task)
    )
    return content


def _placed(sentence: str) -> Json:
    """Return file, line and reason of a skipped record."""
    place = sentence.place if isinstance(sentence, Rejected) else None
    if place is None or not isinstance(sentence, Rejected):
        return {"reason": sentence}
    return {"file": Path(place.file).name, "line": place.line, "reason": sentence.reason}


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in _LIBRARIES}


def _files(log: Log) -> list[Json]:
    """Return what identifies the files of a log."""
    return [{**file, "name": Path(file["name"]).name} for file in log.fingerprint()["files"]]


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


def _write_curve(directory: Path, results: Results) -> None:
    """Write the windows as Parquet, or as CSV where pyarrow is not installed."""
    columns: dict[str, list[object]] = {"contender": [], "events": []}
    for name, (metrics, rows, interval, cumulative) in _curves(results).items():
        columns["contender"] += [name] * len(rows)
        columns["events"] += [interval * (k + 1) for k in range(len(rows))]
        for k, metric in enumerate(metrics):
            columns.setdefault(metric, []).extend(rows[:, k].tolist())
        columns.setdefault(f"cumulative_{results.headline}", []).extend(cumulative.tolist())
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
