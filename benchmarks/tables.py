"""The Markdown tables of the board: the best peer on each stream, mean ranks, and all results."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import ours
from data_file import Result
from logs import CLASSES, NUMBERS
from pareto import Point
from ranks import Ranking, Scores, place, rank

METRIC = {CLASSES: "accuracy", NUMBERS: "r2"}
TITLES = {CLASSES: "Classes: accuracy", NUMBERS: "Numbers: R²"}
ALONE, GIVEN, BETTER = "without labels", "with labels", "the better of both"
BASELINES = {"last label", "last target"}  # have no model
Line = Sequence[Any]
Figures = dict[str, dict[str, Result]]  # by peer and stream


class Tables:
    """The results of one task, means over seeds.

    Attributes
    ----------
    rankings
        Rankings without labels, with labels, and of the better of both.
    """

    def __init__(self, results: Iterable[Result], task: str) -> None:
        found = list(results)
        self._task, self._ours = task, ours.NAMES[task]
        self._figures = {ALONE: figures(found, task, False), GIVEN: figures(found, task, True)}
        self._settings = {name: scores(found, task) for name, found in self._figures.items()}
        self._settings[BETTER] = better(self._settings[ALONE], self._settings[GIVEN])
        self.rankings: dict[str, Ranking] = {name: rank(found) for name, found in self._settings.items()}
        self.streams = list(dict.fromkeys(r["stream"] for r in found if r["task"] == task))

    def sections(self) -> list[str]:
        """Return the tables of streams that are ranked."""
        return [
            f"## {TITLES[self._task]}",
            self.best(),
            "### Mean ranks",
            "A run that the time limit stopped, or that failed, ranks last on its stream.",
            self.mean_ranks(),
            self.versus(),
            "### All results",
            "Without labels, then with labels; in parentheses, results on a part of the stream.",
            self.everything(),
        ]

    def best(self) -> str:
        """Return the table of streamk and the best peer on every stream."""
        alone, given = self._figures[ALONE].get(self._ours, {}), self._figures[GIVEN].get(self._ours, {})
        streams = [stream for stream in self.streams if stream in alone or stream in given]
        if not streams:
            return "streamk was not measured."
        lines = []
        for stream in streams:
            line: list[Any] = [stream, f"{round((alone | given)[stream]['events']):,}"]
            for setting, own in ((ALONE, alone.get(stream)), (GIVEN, given.get(stream))):
                peer, score, count = self._best_peer(setting, stream)
                line += [_cell(own, self._task), f"{peer}, {_number(score)}" if peer else "-"]
                done = own is not None and stream in self._settings[setting][self._ours]
                found = place(self._settings[setting], self._ours, stream) if done else 0.0
                line.append(f"{found:g} of {count + 1}" if done else "-")
            shown = given.get(stream) or alone[stream]
            if self._task == CLASSES:
                line += [_number(shown.get("kappa_temporal")), _number(shown.get("log_loss"))]
                losses = [by[stream].get("log_loss") for peer, by in self._peers() if stream in by]
                line.append(_number(min((loss for loss in losses if loss is not None), default=None)))
            lines.append([*line, f"{round(shown.get('events_per_second', 0)):,}"])
        header = ["stream", "events"]
        for setting in (ALONE, GIVEN):
            header += [f"streamk, {setting}", "best peer", "place"]
        if self._task == CLASSES:
            header += ["temporal kappa", "log loss", "best peer's"]
        return table([*header, "events/s"], lines)

    def _best_peer(self, setting: str, stream: str) -> tuple[str, float, int]:
        """Return the best finished peer and its score, and the number of peers that were measured."""
        found = {p: f[stream] for p, f in self._settings[setting].items() if p != self._ours and stream in f}
        peer = max(found, key=found.__getitem__, default="")
        finished = peer and found[peer] > -math.inf
        return (peer, found[peer], len(found)) if finished else ("", -math.inf, len(found))

    def _peers(self) -> list[tuple[str, dict[str, Result]]]:
        """Return the results of ranked peers with labels that finished."""
        return [
            (peer, {s: r for s, r in by.items() if self._settings[GIVEN][peer][s] > -math.inf})
            for peer, by in self._figures[GIVEN].items()
            if peer != self._ours and peer in self._settings[GIVEN]
        ]

    def mean_ranks(self) -> str:
        """Return the table of mean ranks of peers that were measured on every stream."""
        ranked = self.rankings
        names = sorted(
            {peer for ranking in ranked.values() for peer in ranking.means},
            key=lambda peer: [r.means.get(peer, math.inf) for r in (ranked[ALONE], ranked[GIVEN])],
        )
        columns = [*(ranking.means for ranking in ranked.values()), ranked[ALONE].finished]
        lines = [[name, *(_number(means.get(name), 2) for means in columns)] for name in names]
        lines.append(["*critical difference*", *(_number(r.difference, 2) for r in ranked.values()), ""])
        lines.append(["*Friedman's p*", *(f"{r.p:.1g}" for r in ranked.values()), ""])
        lines.append(["*streams*", *(r.streams for r in ranked.values()), ""])
        return table(["learner", *ranked, f"{ALONE}, on finished streams"], lines)

    def versus(self) -> str:
        """Return how often streamk is better than, equal to and worse than each finished peer, and speeds."""
        lines = []
        for peer in self._settings[ALONE]:
            line: list[Any] = [peer]
            for found in self._settings.values():
                own, other = found.get(self._ours, {}), found.get(peer, {})
                both = [(own[s], v) for s, v in other.items() if s in own and v > -math.inf]
                counts = [sum(a > b for a, b in both), sum(a == b for a, b in both)]
                counts.append(len(both) - sum(counts))
                line.append("" if peer == self._ours else " / ".join(map(str, counts)))
            speed, size = self.costs(peer)
            stopped = sum(
                v == -math.inf for s in (ALONE, GIVEN) for v in self._settings[s].get(peer, {}).values()
            )
            lines.append([*line, f"{speed:,}", "-" if size is None else f"{size:,}", stopped])
        text = "Streams with streamk better / equal / worse, where the peer finished; median speed and size."
        header = ["learner", *self._settings, "events/s", "bytes", "stopped or failed"]
        return f"{text}\n\n{table(header, lines)}"

    def costs(self, peer: str) -> tuple[int, int | None]:
        """Return the medians over streams of events per second and of bytes, None if it cannot be saved."""
        known = [r for r in self._figures[ALONE].get(peer, {}).values() if r["done"]]
        sizes = [r["bytes"] for r in known if r.get("bytes") is not None]
        speed = round(statistics.median(r["events_per_second"] for r in known)) if known else 0
        return speed, round(statistics.median(sizes)) if sizes else None

    def points(self) -> tuple[list[Point], list[Point]]:
        """Return the ranked learners by events per second and by bytes, without labels."""
        speeds, sizes = [], []
        for peer, mean in self.rankings[ALONE].means.items():
            if peer in BASELINES:
                continue
            stopped = -math.inf in self._settings[ALONE][peer].values()
            speed, size = self.costs(peer)
            speeds.append(Point(peer, speed, mean, stopped))
            if size is not None:
                sizes.append(Point(peer, size, mean, stopped))
        return speeds, sizes

    def everything(self) -> str:
        """Return the metric of every peer on every stream, without and with labels."""
        alone, given = self._figures[ALONE], self._figures[GIVEN]
        lines = [
            [peer]
            + [
                " ".join(_cell(f.get(peer, {}).get(s), self._task) for f in (alone, given))
                for s in self.streams
            ]
            for peer in {**alone, **given}
        ]
        return table(["learner", *self.streams], lines)


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
    """Return the metric of finished runs, −∞ of others and for NaN."""
    unranked = {peer.name for peer in ours.OLDER}
    return {
        peer: {s: _value(r, task) if r["done"] == r["events"] else -math.inf for s, r in by.items()}
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
