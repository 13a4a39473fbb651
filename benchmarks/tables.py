"""The Markdown tables of the board: the best peer on each stream, mean ranks, and all results."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ours
from contest import LATE, PROMPT
from data_file import Result
from logs import CLASSES, NUMBERS
from pareto import Point
from ranks import Ranking, Scores, place, rank

from streamk.evaluation.metric import METRICS as METRIC

METRICS = {CLASSES: ("accuracy", "log_loss"), NUMBERS: ("r2", "rmse")}  # the first ranks first
SHOWN = {"accuracy": "accuracy", "log_loss": "log loss", "r2": "R²", "rmse": "RMSE"}
HONEST = {CLASSES: ("calibration_error", "calibration error"), NUMBERS: ("coverage", "coverage")}
TITLES = {CLASSES: "Classes: accuracy", NUMBERS: "Numbers: R²"}
ALONE, GIVEN, BETTER = "without labels", "with labels", "the better of both"
BASELINES = {"last label", "last target", "majority class", "mean target"}  # have no model
Line = Sequence[Any]
Figures = dict[str, dict[str, Result]]  # by peer and stream
Settings = dict[str, Scores]  # without labels, with labels, and the better of both; only those with results


class Tables:
    """The results of one task and protocol, means over seeds.

    Parameters
    ----------
    orders
        Marks of streams, as :func:`order.order_of` returns them.

    Attributes
    ----------
    rankings
        Rankings by accuracy or R²: without labels, with labels, and of the better of both.
    """

    def __init__(self, results: Iterable[Result], task: str, orders: Mapping[str, str]) -> None:
        found = list(results)
        self._task, self._ours, self._orders = task, ours.NAMES[task], orders
        every = {ALONE: figures(found, task, False), GIVEN: figures(found, task, True)}
        self._figures = {name: by for name, by in every.items() if by}
        self._by_metric = {metric: settings_of(self._figures, metric) for metric in METRICS[task]}
        self._settings = self._by_metric[METRICS[task][0]]
        self.rankings: dict[str, Ranking] = {name: rank(found) for name, found in self._settings.items()}
        self._late = LATE[next((r["protocol"] for r in found), PROMPT)]
        self.streams = list(dict.fromkeys(r["stream"] for r in found if r["task"] == task))

    def sections(self) -> list[str]:
        """Return the tables of streams that are ranked."""
        shown = "Without labels, then with labels" if len(self._figures) > 1 else next(iter(self._figures))
        ranks = [
            part
            for metric in METRICS[self._task]
            for part in (f"### Mean ranks by {SHOWN[metric]}, {self._late}", self.mean_ranks(metric))
        ]
        return [
            f"## {TITLES[self._task]}, {self._late}",
            self.best(),
            *ranks,
            f"### Better, equal, worse, {self._late}",
            self.versus(),
            f"### All results, {self._late}",
            f"{shown.capitalize()}; in parentheses, results on a part of the stream.",
            self.everything(),
        ]

    def best(self) -> str:
        """Return the table of streamk and the best peer on every stream."""
        every = {name: by.get(self._ours, {}) for name, by in self._figures.items()}
        lines = []
        for stream in self.streams:
            known = [by[stream] for by in every.values() if stream in by]
            if not known:
                continue
            shown = known[-1]
            line: list[Any] = [stream, self._orders.get(stream, ""), f"{round(shown['events']):,}"]
            for setting, by in every.items():
                own = by.get(stream)
                peer, score, count = self._best_peer(setting, stream)
                line += [_cell(own, self._task), f"{peer}, {_number(score)}" if peer else "-"]
                done = own is not None and stream in self._settings[setting][self._ours]
                found = place(self._settings[setting], self._ours, stream) if done else 0.0
                line.append(f"{found:g} of {count + 1}" if done else "-")
            if self._task == CLASSES:
                line += [_number(shown.get("kappa_temporal")), _number(shown.get("log_loss"))]
                losses = [by[stream].get("log_loss") for peer, by in self._peers() if stream in by]
                line.append(_number(min((loss for loss in losses if loss is not None), default=None)))
            if self._is_honest:
                line.append(_number(shown.get(HONEST[self._task][0])))
            lines.append([*line, f"{round(shown.get('events_per_second', 0)):,}"])
        if not lines:
            return "streamk was not measured."
        header = ["stream", "order", "events"]
        for setting in every:
            header += [f"streamk, {setting}", "best peer", "place"]
        if self._task == CLASSES:
            header += ["temporal kappa", "log loss", "best peer's"]
        return table([*header, *[HONEST[self._task][1]] * self._is_honest, "events/s"], lines)

    @property
    def _is_honest(self) -> bool:
        """Whether any result has the calibration error, or the coverage."""
        every = (r for by in self._figures.values() for found in by.values() for r in found.values())
        return any(r.get(HONEST[self._task][0]) is not None for r in every)

    def _best_peer(self, setting: str, stream: str) -> tuple[str, float, int]:
        """Return the best finished peer and its score, and the number of peers that were measured."""
        found = {p: f[stream] for p, f in self._settings[setting].items() if p != self._ours and stream in f}
        peer = max(found, key=found.__getitem__, default="")
        finished = peer and found[peer] > -math.inf
        return (peer, found[peer], len(found)) if finished else ("", -math.inf, len(found))

    def _peers(self) -> list[tuple[str, dict[str, Result]]]:
        """Return the results of ranked peers that finished, with labels if there are any."""
        setting = list(self._figures)[-1]
        return [
            (peer, {s: r for s, r in by.items() if self._settings[setting][peer][s] > -math.inf})
            for peer, by in self._figures[setting].items()
            if peer != self._ours and peer in self._settings[setting]
        ]

    def mean_ranks(self, metric: str) -> str:
        """Return the table of mean ranks, by a metric, of peers that were measured on every stream."""
        ranked = {name: rank(found) for name, found in self._by_metric[metric].items()}
        names = sorted(
            {peer for ranking in ranked.values() for peer in ranking.means},
            key=lambda peer: [r.means.get(peer, math.inf) for r in ranked.values()][:2],
        )
        first = next(iter(ranked))
        columns = [*(ranking.means for ranking in ranked.values()), ranked[first].finished]
        lines = [[name, *(_number(means.get(name), 2) for means in columns)] for name in names]
        lines.append(["*critical difference*", *(_number(r.difference, 2) for r in ranked.values()), ""])
        lines.append(["*Friedman's p*", *(f"{r.p:.1g}" for r in ranked.values()), ""])
        lines.append(["*streams*", *(r.streams for r in ranked.values()), ""])
        text = "A run that the time limit stopped, or that failed, ranks last on its stream."
        if metric == "log_loss":
            text += " Learners without probabilities are not ranked."
        return f"{text}\n\n{table(['learner', *ranked, f'{first}, on finished streams'], lines)}"

    def versus(self) -> str:
        """Return how often streamk is better than, equal to and worse than each finished peer, and speeds."""
        lines = []
        for peer in next(iter(self._settings.values())):
            line: list[Any] = [peer]
            for found in self._settings.values():
                own, other = found.get(self._ours, {}), found.get(peer, {})
                both = [(own[s], v) for s, v in other.items() if s in own and v > -math.inf]
                counts = [sum(a > b for a, b in both), sum(a == b for a, b in both)]
                counts.append(len(both) - sum(counts))
                line.append("" if peer == self._ours else " / ".join(map(str, counts)))
            speed, size = self.costs(peer)
            stopped = sum(
                v == -math.inf for s in self._figures for v in self._settings[s].get(peer, {}).values()
            )
            lines.append([*line, f"{speed:,}", "-" if size is None else f"{size:,}", stopped])
        text = "Streams with streamk better / equal / worse, where the peer finished; median speed and size."
        header = ["learner", *self._settings, "events/s", "bytes", "stopped or failed"]
        return f"{text}\n\n{table(header, lines)}"

    def costs(self, peer: str) -> tuple[int, int | None]:
        """Return the medians over streams of events per second and of bytes, None if it cannot be saved."""
        known = [r for r in next(iter(self._figures.values())).get(peer, {}).values() if r["done"]]
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
        every = list(self._figures.values())
        lines = [
            [
                peer,
                *(" ".join(_cell(f.get(peer, {}).get(s), self._task) for f in every) for s in self.streams),
            ]
            for peer in dict.fromkeys(peer for by in every for peer in by)
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


def settings_of(found: Mapping[str, Figures], metric: str) -> Settings:
    """Return the scores by a metric, and the better one of each peer if there are both."""
    settings: Settings = {name: scores(by, metric) for name, by in found.items()}
    return settings | ({BETTER: better(*settings.values())} if len(settings) > 1 else {})


def scores(found: Figures, metric: str) -> Scores:
    """Return a metric, more being better, of finished runs; −∞ of others and for NaN.

    Peers without the metric on a stream that they finished have no score there.
    """
    unranked = {peer.name for peer in ours.OLDER}
    return {
        peer: {s: _score(r, metric) for s, r in by.items() if r["done"] < r["events"] or metric in r}
        for peer, by in found.items()
        if peer not in unranked and any(metric in r or "failed" in r for r in by.values())
    }


def _score(result: Result, metric: str) -> float:
    value = result.get(metric)
    if value is None or math.isnan(value) or result["done"] < result["events"]:
        return -math.inf
    return METRIC[metric].better * float(value)


def better(alone: Scores, given: Scores) -> Scores:
    """Return the better score of the two, of each peer on each stream, where both are known."""
    return {
        peer: {s: max(v, given[peer][s]) for s, v in by.items() if s in given.get(peer, {})}
        for peer, by in alone.items()
    }


def _cell(result: Result | None, task: str) -> str:
    if result is None or "failed" in result:
        return "-" if result is None else "failed"
    value = result.get(METRICS[task][0])
    shown = _number(-math.inf if value is None or math.isnan(value) else value)
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
