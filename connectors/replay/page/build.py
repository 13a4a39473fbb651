"""The page of a replay: one HTML document without scripts, network access or other files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Protocol

import numpy as np

from connectors.replay.page import tables
from connectors.replay.page.charts import (
    BarRow,
    LatencyBars,
    Line,
    Reliability,
    bar_chart,
    drift_chart,
    histogram,
    legend,
    line_chart,
    readings,
    reliability_diagram,
    threshold_chart,
)
from connectors.replay.page.tables import Rows
from connectors.replay.page.words import (
    count,
    decimal,
    escape,
    metric_name,
    number_of,
    second,
    short,
    size,
)
from streamk.arrays import Array, Json
from streamk.evaluation.metric import HEADLINES, TASKS

_MOST_INPUTS = 20  # bars of relevance
__all__ = ["WindowedMetrics", "document", "page"]
_SIDE_BY_SIDE = 4  # classes, or contenders, up to which two tables fit next to each other


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


def section(title: str, *parts: str, place: int = 0) -> str:
    """Return a section with its heading, an empty text if there is nothing in it.

    ``place`` is where it comes in a single column, where a wide page has two.
    """
    body, order = "".join(parts), f' style="order:{place}"' if place else ""
    return f"<section{order}><h2>{escape(title)}</h2>{body}</section>" if body else ""


def figure(drawn: str, caption: str = "", before: str = "") -> str:
    """Return a picture with its caption, which must be escaped."""
    words = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure>{before}{drawn}{words}</figure>"


def curves_section(task: str, first: str, contenders: Rows, curves: Mapping[str, WindowedMetrics]) -> str:
    """Return the curves of the headline metric and of one more."""
    names = [c["name"] for c in contenders]
    more: Rows = [{"name": name} for name in curves if name not in names]  # a frozen copy
    drawn = [(k, c, curves[c["name"]]) for k, c in enumerate([*contenders, *more]) if c["name"] in curves]
    drawn = [(k, c, curve) for k, c, curve in drawn if len(curve.rows)]
    if not drawn:
        return ""
    known = [name for _, _, curve in drawn for name in curve.columns]
    parts = []
    for metric in (first, second(task, first, known)):
        lines = [_line(k, c, curve, metric, first) for k, c, curve in drawn if metric in curve.columns]
        if not lines:
            continue
        heading = metric_name(metric)[0].upper() + metric_name(metric)[1:]
        title = f"{heading} over events"
        picture, remark = line_chart(f"curve-{metric}", title, lines, task == TASKS[0])
        said = f"Solid: windows of {_intervals([curve.interval for _, _, curve in drawn])} events."
        if metric == first:
            said += " Dashed: from the start."
        if any(len(line.alarms) for line in lines):
            said += " A tick across a line: its contender noticed a drift."
        keys = legend([(line.name, line.place) for line in lines])
        caption = escape(f"{said} {remark}".strip())
        parts.append(figure(picture, caption, f"<h3>{escape(heading)}</h3>{keys}"))
        parts.append(
            tables.values_table(f"values-{metric}", heading, [line.name for line in lines], readings(lines))
        )
    return section("Metrics over events", *parts, place=2)


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
    keys = legend([(c.name, c.place) for c in curves])
    return section("Calibration", figure(drawn, caption, keys), place=4)


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
        relevance = _relevances(contender)
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


def _relevances(contender: Json) -> dict[str, Array]:
    """Return the relevance of every input to a contender, for each block of features; empty if unknown."""
    summary = contender.get("summary") or {}
    known = summary.get("fields") or summary.get("relevance") or {}
    return {str(key): _floats(np.atleast_1d(values)) for key, values in known.items()}


def _most(relevance: Mapping[str, Array], name: str) -> float:
    """Return the largest relevance of an input, 0 if it is unknown."""
    return float(np.nanmax(np.abs(relevance[name]), initial=0.0)) if name in relevance else 0.0


def _relevance(place: int, name: str, relevance: Mapping[str, Array]) -> str:
    order = sorted(relevance, key=lambda key: -_most(relevance, key))[:_MOST_INPUTS]
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


def thresholds_section(contender: Json) -> str:
    """Return precision and recall of two classes over the threshold, as a picture and as a table."""
    thresholds = contender.get("thresholds")
    if not thresholds:
        return ""
    curve, positive = thresholds["curve"], str(thresholds["positive"])
    title = f"Precision and recall of {positive} by {contender['name']}"
    names = [("precision", 1), ("recall", 2), (f"share called {short(positive)}", 3)]
    marked = [
        (row["threshold"], row["name"]) for row in thresholds["table"] if row.get("name") == "least cost"
    ]
    caption = "An event is called positive if its probability is above the threshold; the scale is of odds."
    drawn = figure(threshold_chart("thresholds", title, curve, marked), escape(caption), legend(names))
    shown = tables.thresholds_table("thresholds-table", short(positive), thresholds["table"])
    words = f"<h3>{escape(title)}</h3>"
    return section("Thresholds", words, f'<div class="pair">{drawn}<div class="cases">{shown}</div></div>')


def drift_section(drift: Json | None) -> str:
    """Return how the values of inputs moved: a picture of each that moved most, and a list of the others."""
    fields = (drift or {}).get("fields") or []
    pictures, others = [], []
    for k, field in enumerate(fields):
        name = short(field["field"])
        if "missing" not in field:
            others.append([field["field"], decimal(field["moved"], 2), field.get("remark", "")])
            continue
        first, last = (f"{100.0 * field['missing'][end]:.0f} %" for end in (0, -1))
        gaps = f"; missing {first} at first, {last} at the end" if any(field["missing"]) else ""
        said = escape(f"moved {decimal(field['moved'], 2)}{gaps}")
        keys = legend([(short(value, 16), at) for at, value in enumerate(field.get("values") or ())])
        drawn = drift_chart(f"drift-{k}", f"{name} over the log", field)
        keys = keys if field.get("values") else ""
        pictures.append(figure(drawn, said, f"<h3>{escape(name)}</h3>{keys}"))
    if not fields:
        return ""
    words = (
        "How far the values of a field moved between the first and the last fifth of the log: 0 is not at "
        "all, 1 is that no value is of both (the distance of Kolmogorov, of categories that of total "
        "variation). Lines are medians of windows, or shares of the most frequent values; a shade has eight "
        "of ten values."
    )
    listed = tables.plain_table("drift-others", "The other fields", ["field", "moved", ""], others)
    more = f'<details><summary>Other fields</summary><div class="left">{listed}</div></details>'
    return section(
        "Drift of inputs",
        f'<p class="remark">{escape(words)}</p>',
        f'<div class="multiples">{"".join(pictures)}</div>' if pictures else "",
        more if others else "",
    )


def worst_section(metric: str, contender: Json) -> str:
    """Return the events that a contender predicted worst, with the most relevant fields first."""
    worst = contender.get("worst")
    if not worst:
        return ""
    relevance = _relevances(contender)
    there = dict.fromkeys(
        name for event in worst for name, value in event["fields"].items() if value is not None
    )
    names = sorted(there, key=lambda name: -_most(relevance, name))
    loss = "log loss" if "probability" in worst[0] else "absolute error"
    loss = "squared error" if metric in ("rmse", "r2") else loss
    return section("Worst predictions", tables.worst_tables("worst", loss, contender, names))


def page(results: Json, curves: Mapping[str, WindowedMetrics], measured: Json) -> str:
    """Return the page that shows a replay.

    Parameters
    ----------
    results : mapping
        The results: ``task``, ``contenders`` with their metrics, and optionally ``verdict``,
        ``comparisons``, ``left_out``, ``log``, ``command``, ``versions``, ``seed`` and others. Missing ones
        are not shown. ``confusion[i][j]`` of a contender's ``classes`` counts events of label ``i`` that were
        predicted as ``j``.
    curves : mapping
        For contenders by name, their metrics over windows of events.
    measured : mapping
        For contenders by name: ``seconds``, ``events_per_second``, ``bytes`` and ``latency_us``, sorted
        microseconds to ``predict``, to ``learn``, and of both (``predict_learn``). They differ between runs,
        so they are not part of the results.

    Returns
    -------
    str
        HTML. Everything from the data is escaped.
    """
    task = str(results.get("task") or "classification")
    contenders = [{**c, "name": str(c.get("name", ""))} for c in results.get("contenders") or []]
    curves = {str(name): curve for name, curve in curves.items()}
    measured = {str(name): value for name, value in measured.items()}
    first = str(results.get("headline") or HEADLINES.get(task, "accuracy"))
    title = str(results.get("title") or results.get("name") or "Replay")
    advised = next((c for c in contenders if c["name"] == results.get("recommended")), Json())
    body = "".join(
        (
            _heading(title, first, results, contenders),
            f'<div class="{"columns" if len(contenders) <= _SIDE_BY_SIDE else "one"}"><div>',
            section("Results", *_metrics(first, contenders), place=1),
            _comparisons(results),
            "</div><div>",
            curves_section(task, first, contenders, curves),
            calibration_section(contenders),
            "</div></div>",
            _confusion(contenders),
            thresholds_section(advised),
            worst_section(first, advised),
            drift_section(results.get("drift")),
            _slices(str(results.get("by") or "slice"), first, contenders),
            costs_section(contenders, measured),
            summary_section(contenders),
            _left_out(results.get("left_out") or {}),
            _again(results),
        )
    )
    return document(f"{title}: replay", body)


def document(title: str, body: str) -> str:
    """Return a page with a title, which is escaped, and a body of HTML."""
    style = files("connectors.replay.page").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>\n{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _heading(title: str, first: str, results: Mapping[str, object], contenders: Rows) -> str:
    facts = [str(results.get("task") or TASKS[0]), f"ranked by {metric_name(first)}"]
    if results.get("target"):
        facts.append(f"target {results['target']}")
    if results.get("events") is not None:
        facts.append(f"{count(results['events'])} events, each predicted before it was learned")
    if results.get("delay"):
        facts.append(str(results["delay"]))
    verdict = str(_plain_verdict(first, contenders) or results.get("verdict") or "")
    said = f'<p class="verdict">{escape(verdict)}</p>' if verdict else ""
    if results.get("recommendation"):
        said += f'<p class="advice">{escape(results["recommendation"])}.</p>'
    if results.get("without_labels"):
        said += f'<p class="remark">{escape(results["without_labels"])}</p>'
    return f'<header><h1>{escape(title)}</h1><p class="kicker">{escape(" · ".join(facts))}</p>{said}</header>'


def _plain_verdict(first: str, contenders: Rows) -> str:
    """Return the headline metric of a single contender as a sentence; empty for several or a failed one."""
    if len(contenders) != 1 or contenders[0].get("failed"):
        return ""
    reached = (contenders[0].get("metrics") or {}).get(first)
    return "" if reached is None else f"{contenders[0]['name']}: {metric_name(first)} {decimal(reached)}."


def _metrics(first: str, contenders: Rows) -> list[str]:
    worked = [c for c in contenders if c.get("metrics") and not c.get("failed")]
    failed = [
        f'<p class="failed"><strong>{escape(c["name"])} failed</strong> {escape(c["error"])}</p>'
        for c in contenders
        if c.get("error")
    ]
    return [*failed, tables.metrics_table("metrics", first, worked)] if worked else failed


def _comparisons(results: Json) -> str:
    entries = results.get("comparisons") or []
    pairs = [each for each in entries if isinstance(each, dict)]
    sentences = [each for each in entries if not isinstance(each, dict)]
    if pairs:  # the sentences of the best; the table has all pairs
        sentences += [each["words"] for each in pairs if pairs[0]["first"] in (each["first"], each["second"])]
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    table = tables.pairs_table("pairs", pairs) if len(pairs) > 1 else ""
    return section("Pairwise comparison", f"<ul>{items}</ul>" if items else "", table, place=3)


def _confusion(contenders: Rows) -> str:
    drawn = [
        tables.confusion_table(f"confusion-{k}", c["name"], c["classes"])
        for k, c in enumerate(contenders)
        if c.get("classes") and c["classes"].get("labels")
    ]
    most = max((len(c["classes"].get("labels") or []) for c in contenders if c.get("classes")), default=0)
    wide = " wide" if most > _SIDE_BY_SIDE else ""
    shown = f'<div class="pair matrix{wide}">{"".join(drawn)}</div>' if drawn else ""
    return section("Confusion matrix", shown)


def _slices(by: str, first: str, contenders: Rows) -> str:
    if not any(c.get("slices") for c in contenders):
        return ""
    return section(f"Results by {by}", tables.slices_table("slices", by, first, contenders))


def _left_out(left: Json) -> str:
    known = {name: left.get(name) or 0 for name in ("unreadable", "unlabelled", "refused")}
    examples = left.get("examples") or []
    if not any(known.values()) and not examples:
        return section("Skipped rows", "<p>None.</p>") if left else ""
    said = ", ".join(f"{count(number)} {name}" for name, number in known.items() if number)
    rows = [[e.get("file", ""), e.get("line", ""), e.get("reason", "")] for e in examples]
    shown = (
        tables.plain_table("left-out", "The first of them", ["file", "line", "reason"], rows) if rows else ""
    )
    return section(
        "Skipped rows", f"<p>{escape(said)}.</p>" if said else "", f'<div class="left">{shown}</div>'
    )


def _again(results: Json) -> str:
    """Return what is needed to get the same page again: command, log, versions, seed."""
    parts = []
    if results.get("command"):
        # a browser may break a line after any hyphen, also within an option, unless each word is a box
        spoken = " ".join(f"<span>{escape(word)}</span>" for word in str(results["command"]).split(" "))
        parts.append(f"<pre><code>{spoken}</code></pre>")
    if results.get("log"):
        rows = [[f.get("name", ""), count(f.get("bytes")), f.get("sha256", "")] for f in results["log"]]
        shown = tables.plain_table("log", "The log", ["file", "bytes", "SHA-256"], rows)
        parts.append(f'<div class="left mono">{shown}</div>')
    facts = [[name, version] for name, version in (results.get("versions") or {}).items()]
    if results.get("seed") is not None:
        facts.append(["seed", results["seed"]])
    if results.get("interval") is not None:
        facts.append(["events of a window", count(results["interval"])])
    if facts:
        shown = tables.plain_table("versions", "Versions and settings", ["what", "which"], facts)
        parts.append(f'<div class="left">{shown}</div>')
    return section("Reproduce", *parts)
