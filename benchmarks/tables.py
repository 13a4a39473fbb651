"""The Markdown tables of the comparison: the best peer on each stream, mean ranks, and all results."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cache import Result
from logs import CLASSES, NUMBERS
from ours import NAMES, OLDER
from page import introduction
from ranks import Ranking, Scores, picture, place, rank

METRIC = {CLASSES: "accuracy", NUMBERS: "r2"}
TITLES = {CLASSES: "Classes: accuracy", NUMBERS: "Numbers: R²"}
ALONE, GIVEN, BETTER = "without labels", "with labels", "the better of both"
Line = Sequence[Any]
Figures = dict[str, dict[str, Result]]  # by peer and stream


def document(results: list[Result], path: Path | None) -> str:
    """Return the tables of all results, and draw the critical differences into ``path``."""
    parts = [introduction(results)]
    rankings: dict[str, Ranking] = {}
    for task in METRIC:
        alone, given = (figures(results, task, memory) for memory in (False, True))
        if not alone:
            continue
        settings = {ALONE: scores(alone, task), GIVEN: scores(given, task)}
        settings[BETTER] = better(settings[ALONE], settings[GIVEN])
        ranked = {setting: rank(found) for setting, found in settings.items()}
        rankings |= {f"{TITLES[task]}, {setting}": found for setting, found in ranked.items() if found.means}
        parts += [
            f"## {TITLES[task]}",
            best(alone, given, settings, task),
            "### Mean ranks",
            mean_ranks(ranked),
            versus(settings, alone, given, task),
            "### All results",
            "Without labels, then with labels; in parentheses, results on a part of the stream.",
            everything(alone, given, task),
        ]
    if path is not None and rankings:
        picture(rankings, path)
        parts.insert(1, f"![Mean ranks, and critical differences]({path.name})")
    return "\n\n".join(parts) + "\n"


def figures(results: Iterable[Result], task: str, memory: bool) -> Figures:
    """Return results by peer and stream, means over seeds."""
    several: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result["task"] == task and result["memory"] == memory:
            several[result["peer"]][result["stream"]].append(result)
    return {p: {s: _mean(found) for s, found in by.items()} for p, by in several.items()}


def _mean(results: list[Result]) -> Result:
    first: Result = next((r for r in results if "failed" in r), results[0])
    if "failed" in first:
        return first
    found: Result = {}
    for name, value in first.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        found[name] = statistics.mean(r[name] for r in results) if number and len(results) > 1 else value
    return found


def scores(found: Figures, task: str) -> Scores:
    """Return the metric of finished runs; −∞ for NaN."""
    unranked = {peer.name for peer in OLDER}
    return {
        peer: {stream: _value(r, task) for stream, r in by.items() if r["done"] == r["events"]}
        for peer, by in found.items()
        if peer not in unranked
    }


def _value(result: Result, task: str) -> float:
    value = result.get(METRIC[task])
    return -math.inf if value is None or math.isnan(value) else float(value)


def better(alone: Scores, given: Scores) -> Scores:
    """Return the better score of the two, of each peer on each stream, where both are known."""
    return {
        peer: {s: max(v, given[peer][s]) for s, v in by.items() if s in given.get(peer, {})}
        for peer, by in alone.items()
    }


def best(alone: Figures, given: Figures, settings: dict[str, Scores], task: str) -> str:
    """Return the table of streamk and the best peer on every stream."""
    ours, lines = NAMES[task], []
    if ours not in alone:
        return "streamk was not measured."
    for stream in alone[ours]:
        line: list[Any] = [stream, f"{round(alone[ours][stream]['events']):,}"]
        for figure, setting in ((alone, ALONE), (given, GIVEN)):
            own = figure[ours][stream]
            rest = {p: f[stream] for p, f in settings[setting].items() if p != ours and stream in f}
            peer = max(rest, key=rest.__getitem__, default=None)
            line += [_number(_value(own, task)), "-" if peer is None else f"{peer}, {_number(rest[peer])}"]
            done = own["done"] == own["events"]
            line.append(f"{place(settings[setting], ours, stream):g} of {1 + len(rest)}" if done else "-")
        if task == CLASSES:
            losses = [given[p][stream].get("log_loss") for p in rest]
            known = [loss for loss in losses if loss is not None]
            line += [_number(own.get("kappa_temporal")), _number(own.get("log_loss"))]
            line.append(_number(min(known, default=None)))
        line.append(f"{round(own.get('events_per_second', 0)):,}")
        lines.append(line)
    header = ["stream", "events"]
    for setting in (ALONE, GIVEN):
        header += [f"streamk, {setting}", "best peer", "place"]
    if task == CLASSES:
        header += ["temporal kappa", "log loss", "best peer's"]
    return table([*header, "events/s"], lines)


def mean_ranks(ranked: dict[str, Ranking]) -> str:
    """Return the table of mean ranks of peers that finished every stream."""
    names = sorted(
        {peer for ranking in ranked.values() for peer in ranking.means},
        key=lambda peer: ranked[GIVEN].means.get(peer, math.inf),
    )
    lines = [[name, *(_number(ranking.means.get(name), 2) for ranking in ranked.values())] for name in names]
    lines.append(["*critical difference*", *(_number(r.difference, 2) for r in ranked.values())])
    lines.append(["*Friedman's p*", *(f"{r.p:.1g}" for r in ranked.values())])
    lines.append(["*streams*", *(r.streams for r in ranked.values())])
    return table(["learner", *ranked], lines)


def versus(settings: dict[str, Scores], alone: Figures, given: Figures, task: str) -> str:
    """Return how often streamk is better than, equal to and worse than each finished peer, and speeds."""
    ours, lines = NAMES[task], []
    for peer in settings[ALONE]:
        line: list[Any] = [peer]
        for found in settings.values():
            own, other = found.get(ours, {}), found.get(peer, {})
            both = [(own[s], other[s]) for s in other if s in own]
            counts = (sum(a > b for a, b in both), sum(a == b for a, b in both), sum(a < b for a, b in both))
            line.append("" if peer == ours else " / ".join(map(str, counts)))
        known = [r for r in (alone[peer] | given.get(peer, {})).values() if r["done"]]
        speed = round(statistics.median(r["events_per_second"] for r in known)) if known else 0
        sizes = [r["bytes"] for r in known if r.get("bytes") is not None]
        size = f"{round(statistics.median(sizes)):,}" if sizes else "-"
        unfinished = sum(r["done"] < r["events"] for f in (alone, given) for r in f.get(peer, {}).values())
        lines.append([*line, f"{speed:,}", size, unfinished])
    text = "Streams with streamk better / equal / worse, where the peer finished; median speed and size."
    header = ["learner", *settings, "events/s", "bytes", "not finished"]
    return f"{text}\n\n{table(header, lines)}"


def everything(alone: Figures, given: Figures, task: str) -> str:
    """Return the metric of every peer on every stream, without and with labels."""
    streams = list(dict.fromkeys(stream for by in alone.values() for stream in by))
    lines = [
        [peer, *(" ".join(_cell(f.get(peer, {}).get(s), task) for f in (alone, given)) for s in streams)]
        for peer in alone
    ]
    return table(["learner", *streams], lines)


def _cell(result: Result | None, task: str) -> str:
    if result is None or "failed" in result:
        return "-" if result is None else "failed"
    shown = _number(_value(result, task))
    return (
        shown if result["done"] == result["events"] else f"({shown}, {result['done'] / result['events']:.0%})"
    )


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if abs(value) < 1000 else "< −1000" if value < 0 else "> 1000"


def table(header: Line, lines: Iterable[Line]) -> str:
    """Return a Markdown table, numbers to the right."""
    rows = [header, ["---", *("---:" for _ in header[1:])], *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
