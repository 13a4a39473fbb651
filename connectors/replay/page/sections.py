"""The sections of the page with pictures: curves, calibration, costs, summaries of learners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from connectors.replay.page import tables
from connectors.replay.page.bars import BarRow, LatencyBars, bar_chart, histogram
from connectors.replay.page.charts import Line, Reliability, legend, line_chart, reliability_diagram
from connectors.replay.page.words import (
    count,
    decimal,
    escape,
    headline,
    metric_name,
    number_of,
    second,
    size,
)
from streamk.arrays import Array, Json
from streamk.evaluation.metric import TASKS

_MOST_INPUTS = 20  # bars of relevance
Rows = Sequence[Json]


class WindowedMetrics(Protocol):
    """The metrics of a contender over windows of events, as ``streamk.evaluation`` records them."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The metrics of ``rows``."""

    @property
    def rows(self) -> Array:
        """A row for every window, NaN where a metric is unknown."""

    @property
    def interval(self) -> int:
        """The events of a window."""

    @property
    def cumulative(self) -> Array:
        """The headline metric from the start to the end of every window."""


def section(title: str, *parts: str) -> str:
    """Return a section with its heading, an empty text if there is nothing in it."""
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def figure(drawn: str, caption: str = "", before: str = "") -> str:
    """Return a picture with its caption, which must be escaped."""
    words = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure>{before}{drawn}{words}</figure>"


def curves_section(task: str, contenders: Rows, curves: Mapping[str, WindowedMetrics]) -> str:
    """Return the curves of the headline metric and of one more."""
    names = [c["name"] for c in contenders]
    more: Rows = [{"name": name} for name in curves if name not in names]  # a frozen copy
    drawn = [(k, c, curves[c["name"]]) for k, c in enumerate([*contenders, *more]) if c["name"] in curves]
    drawn = [(k, c, curve) for k, c, curve in drawn if len(curve.rows)]
    if not drawn:
        return ""
    first = headline(task)
    known = [name for _, _, curve in drawn for name in curve.columns]
    parts = []
    for metric in (first, second(task, known)):
        lines = [_line(k, c, curve, metric, first) for k, c, curve in drawn if metric in curve.columns]
        if not lines:
            continue
        title = f"{metric_name(metric)} over events"
        heading = title[0].upper() + title[1:]
        picture, remark = line_chart(f"curve-{metric}", heading, lines, task == TASKS[0])
        said = f"Solid: windows of {_intervals([curve.interval for _, _, curve in drawn])} events."
        if metric == first:
            said += " Dashed: from the start."
        if any(len(line.alarms) for line in lines):
            said += " A tick across a line: its contender noticed a drift."
        over = f"<h3>{escape(metric_name(metric)[0].upper() + metric_name(metric)[1:])}</h3>"
        keys = legend([(line.name, line.place) for line in lines])
        parts.append(figure(picture, escape(f"{said} {remark}".strip()), over + keys))
    return section("Metrics over events", *parts)


def _line(place: int, contender: Json, curve: WindowedMetrics, metric: str, first: str) -> Line:
    windows = np.asarray(curve.rows, dtype=float)[:, curve.columns.index(metric)]
    events = np.arange(1, len(windows) + 1, dtype=float) * curve.interval
    total = number_of(contender.get("events"))
    if total >= events[-1] - curve.interval:
        events[-1] = min(events[-1], total)  # the last window need not be full
    cumulative = np.asarray(curve.cumulative, dtype=float) if metric == first else None
    if cumulative is not None and len(cumulative) != len(windows):
        cumulative = None
    alarms = tuple(contender.get("alarms") or ())
    return Line(str(contender["name"]), place, events, windows, cumulative, alarms)


def _intervals(intervals: Sequence[int]) -> str:
    low, high = min(intervals), max(intervals)
    return count(low) if low == high else f"{count(low)} to {count(high)}"


def calibration_section(contenders: Rows) -> str:
    """Return the reliability diagrams: confidence of contenders versus accuracy."""
    curves = []
    for place, contender in enumerate(contenders):
        bins = contender.get("calibration")
        if bins:
            parts = [_floats(bins.get(name)) for name in ("events", "confidence", "accuracy")]
            curves.append(Reliability(str(contender["name"]), place, *parts))
    if not curves:
        return ""
    drawn = reliability_diagram("reliability", "Confidence and accuracy", curves)
    caption = (
        "Upwards: accuracy on the events predicted with about this confidence. On the dotted line both are "
        "equal; below it a contender is overconfident. Larger marks stand for more events."
    )
    return section("Calibration", figure(drawn, caption, legend([(c.name, c.place) for c in curves])))


def _floats(values: Iterable[object] | None) -> Array:
    return np.array([number_of(value) for value in ([] if values is None else values)], dtype=float)


def costs_section(contenders: Rows, measured: Json) -> str:
    """Return speed, memory and latency, as a table and as pictures."""
    measurements = [
        (k, str(contender["name"]), measured.get(str(contender["name"])) or {})
        for k, contender in enumerate(contenders)
        if not contender.get("failed")
    ]
    table = tables.costs_table("costs", [name for _, name, _ in measurements], measured)
    pictures = []
    for field, title, written in (
        ("events_per_second", "Events a second", count),
        ("bytes", "Size of the model", size),
    ):
        known = [
            (k, name, number_of(m[field]))
            for k, name, m in measurements
            if np.isfinite(number_of(m.get(field)))
        ]
        if len(known) > 1:
            bars = [BarRow(name, [value], written(value), k) for k, name, value in known]
            pictures.append(figure(bar_chart(f"bars-{field}", title, bars), before=f"<h3>{title}</h3>"))
    samples = [
        LatencyBars(name, k, _floats((m.get("latency_us") or {}).get("predict_learn")))
        for k, name, m in measurements
    ]
    samples = [sample for sample in samples if len(sample.microseconds)]
    pairs = f'<div class="pair">{"".join(pictures)}</div>' if pictures else ""
    spread = ""
    if samples:
        caption = (
            "To predict and then to learn one event, as a loop does, on the same sample of events for all. "
            "Solid: the median; dashed: 99% are faster. Events a second are of passes over many events."
        )
        drawn = histogram("latencies", "How latencies per event are spread", samples)
        spread = figure(drawn, caption, "<h3>Latency per event</h3>")
    return section("Speed and memory", table, pairs, spread)


def summary_section(contenders: Rows) -> str:
    """Return the summaries of learners: the weights of their experts and the relevance of inputs."""
    parts = []
    for place, contender in enumerate(contenders):
        summary = contender.get("summary") or {}
        name = str(contender["name"])
        drawn = []
        experts = [_expert(expert, place) for expert in summary.get("experts") or []]
        if experts:
            title = f"Weights of the experts of {name}"
            drawn.append(
                figure(bar_chart(f"experts-{place}", title, experts), before=f"<h3>{escape(title)}</h3>")
            )
        relevance = {
            key: _floats(np.atleast_1d(values)) for key, values in (summary.get("relevance") or {}).items()
        }
        if relevance:
            drawn.append(_relevance(place, name, relevance))
        if drawn:
            parts.append(f'<div class="pair">{"".join(drawn)}</div>')
    return section("Experts and relevance of inputs", *parts)


def _expert(expert: Json, place: int) -> BarRow:
    weight = number_of(expert.get("weight"))
    note = decimal(weight, 3)
    if expert.get("error") is not None:
        note += f", error {decimal(expert['error'])}"
    return BarRow(str(expert.get("expert", "")), [weight], note, place)


def _relevance(place: int, name: str, relevance: Mapping[str, Array]) -> str:
    most = {key: float(np.nanmax(np.abs(values), initial=0.0)) for key, values in relevance.items()}
    order = sorted(relevance, key=lambda key: -most[key])[:_MOST_INPUTS]
    bars = [
        BarRow(str(k), relevance[k].tolist(), ", ".join(decimal(v, 3) for v in relevance[k]), place)
        for k in order
    ]
    captions = []
    if any(len(bar.values) > 1 for bar in bars):
        captions.append("A bar for every block of features, later ones paler.")
    if len(order) < len(relevance):
        captions.append(f"The {len(order)} most relevant of {len(relevance):,} inputs.")
    title = f"Relevance of the inputs to {name}"
    drawn = bar_chart(f"relevance-{place}", title, bars)
    return figure(drawn, escape(" ".join(captions)), f"<h3>{escape(title)}</h3>")
