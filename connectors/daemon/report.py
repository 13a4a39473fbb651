"""The page of a running model, ``/report``: metrics over the last windows, alarms, fields, refused events."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import islice
from math import nan

import numpy as np
from numpy.typing import NDArray

from connectors.operators.stream_watch import (
    LABELS,
    MOST,
    PREDICTIONS,
    QUANTILES,
    WINDOW,
    ColumnWindow,
    percent,
)
from connectors.replay.page import build, tables, words
from streamk.arrays import Json
from streamk.evaluation.metric import HEADLINES, TASKS
from streamk.evaluation.sequential import BLOCK, FEWEST, SequentialComparison

_WINDOWS, _ALARMS, _VALUES = 200, 50, 5  # windows, alarms and values of a field that are shown
_COMPARED = ("", "error", "loss", "verdict")
_HEAD = ("", "missing", "least", "25 %", "median", "75 %", "greatest", "moved", "new values", "most frequent")


class RecentWindows:
    """The mean loss and error of each of the last windows of 1,000 events.

    Attributes
    ----------
    columns, interval, rows, cumulative
        As of :class:`connectors.replay.page.build.WindowedMetrics`.
    """

    interval = WINDOW

    def __init__(self, classes: bool) -> None:
        self._classes = classes
        self.columns = ("log_loss", "accuracy") if classes else ("mae",)
        self.rows = np.empty((0, len(self.columns)))
        self._open = np.empty((2, 0))  # losses and errors of a window that is not whole

    def add(self, losses: NDArray[np.float64]) -> None:
        """Add losses and errors, two rows."""
        losses = np.concatenate([self._open, losses], axis=1)
        whole = losses.shape[1] // WINDOW * WINDOW
        self._open = losses[:, whole:]
        if whole:
            loss, error = losses[:, :whole].reshape(2, -1, WINDOW).mean(axis=2)
            new = np.stack([loss, 1.0 - error] if self._classes else [loss], axis=1)
            self.rows = np.concatenate([self.rows, new])[-_WINDOWS:]

    @property
    def cumulative(self) -> NDArray[np.float64]:
        """The headline metric from the first window that is shown to the end of each."""
        return np.cumsum(self.rows[:, -1]) / np.arange(1, len(self.rows) + 1)


class RunReport:
    """What the page shows; the loop writes it, and a request reads it on another thread.

    Parameters
    ----------
    classes
        Whether targets are labels.

    Attributes
    ----------
    title
        The name of the model.
    alarms
        The last ones: Unix time, kind, sentence.
    columns
        What fields, predictions and labels were in the last window.
    misfits, refused
        Counts by field and by cause.
    windows
        Metrics over events.
    challengers
        Their comparisons with the model, and means of their losses and errors in the last window.
    """

    def __init__(self, classes: bool) -> None:
        self.title = "model"
        self._task = TASKS[not classes]
        self.alarms: tuple[tuple[float, str, str], ...] = ()
        self.columns: Mapping[str, ColumnWindow] = {}
        self.misfits: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.windows = RecentWindows(classes)
        self.challengers: dict[str, tuple[SequentialComparison, Sequence[float]]] = {}

    def alarm(self, kind: str, sentence: str) -> None:
        """Add an alarm."""
        self.alarms = (*self.alarms, (time.time(), kind, sentence))[-_ALARMS:]

    def page(self, facts: Sequence[str], summary: Json) -> str:
        """Return the page as HTML, with these facts in its heading and the summary of a model."""

        def listed(key: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
            return f'<div class="left">{tables.plain_table(key, caption, head, rows)}</div>' if rows else ""

        model: Json = {"name": "model", "events": len(self.windows.rows) * WINDOW, "summary": summary}
        alarms = [
            [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)), kind, sentence]
            for at, kind, sentence in reversed(self.alarms)
        ]
        # copies, since the loop adds to them meanwhile
        compared = [_compared(name, *each) for name, each in dict(self.challengers).items()]
        counts = [[name, words.count(n)] for name, n in dict(self.refused).items() if n]
        misfits = [[name, words.count(n)] for name, n in islice(dict(self.misfits).items(), MOST)]
        fields = [_row(name, column) for name, column in self.columns.items()]
        watched = tables.table("fields", f"In the last {WINDOW:,} events", _HEAD, fields) if fields else ""
        kicker = words.escape(" · ".join([self._task, *facts]))
        named = listed("alarms", "Latest first, UTC", ["time", "kind", "what"], alarms) or "<p>None.</p>"
        curves = build.curves_section(self._task, HEADLINES[self._task], [model], {"model": self.windows})
        body = [
            f'<header><h1>{words.escape(self.title)}</h1><p class="kicker">{kicker}</p></header>',
            build.section("Alarms", named),
            build.section("Challengers", listed("challengers", "Against the model", _COMPARED, compared)),
            curves,
            build.section("Fields, predictions and labels", watched),
            build.section(
                "Misfits and refused events",
                listed("misfits", "By field", ["field", "misfits"], misfits),
                listed("refused", "By cause", ["cause", "refused"], counts),
            ),
            build.summary_section([model]),
        ]
        return build.document(f"{self.title}: report", "".join(body))


def verdict(name: str, comparison: SequentialComparison) -> str:
    """Return how a challenger compares with the model, and what to do, as a sentence."""
    interval = comparison.interval()
    if interval is None:
        return f"{name}: too few events to compare ({BLOCK * FEWEST:,} are needed)"
    low, high = sorted(abs(end) for end in (interval.low, interval.high))
    by = f"by {abs(interval.mean):.4g} ({low:.4g} to {high:.4g}) over {BLOCK * comparison.blocks:,} events"
    if comparison.leads > 0:
        return f"{name} is better: its error is smaller {by}. It is safe to run `streamk promote`"
    if comparison.leads < 0:
        return f"{name} is worse: its error is larger {by}"
    ends = f"{interval.low:.4g} to {interval.high:.4g}"
    return f"{name}: no winner yet; its error is smaller by {interval.mean:.4g} ({ends})"


def _compared(name: str, comparison: SequentialComparison, means: Sequence[float]) -> list[str]:
    loss, error = map(words.decimal, means or [nan, nan])
    return [name, error, loss, verdict(name, comparison)]


def _row(name: str, column: ColumnWindow) -> tuple[str, list[tables.Cell]]:
    quantiles = map(words.decimal, column.quantiles or [nan] * len(QUANTILES))
    numbers = [_share(column.missing), *quantiles, _share(column.moved), _share(column.unseen)]
    frequent = [
        f"{words.short(value)} {percent(share)}" for value, share in islice(column.values.items(), _VALUES)
    ]
    shown = name[1:-1] if name in (PREDICTIONS, LABELS) else name
    cells = [tables.Cell(words.escape(text)) for text in numbers]
    return words.escape(shown), [*cells, tables.Cell(words.escape(", ".join(frequent)), "text")]


def _share(share: float | None) -> str:
    return words.MISSING if share is None else percent(share)
