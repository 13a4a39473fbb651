"""The tables of the page, each with a caption, scopes of its headers, and a scroll area."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from connectors.replay.page.words import (
    MISSING,
    better,
    count,
    decimal,
    duration,
    escape,
    marked,
    metric_name,
    metric_order,
    number_of,
    short,
    size,
)
from streamk.arrays import Array, Json
from streamk.evaluation.metric import METRICS

_MOST_CLASSES = 12  # of a confusion matrix; the rarer ones beyond are one row and column
_MOST_ROWS = 100
_MOST_FIELDS, _MOST_OTHERS = 7, 600  # of an event: columns, and characters of all fields
_SHADE = 0.42  # of the deepest cell: text on it stays readable
Rows = Sequence[Json]


class Cell(NamedTuple):
    """A cell: HTML that was escaped, its class and its style."""

    html: str
    kind: str = ""
    style: str = ""


def table(key: str, caption: str, head: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]]) -> str:
    """Return a table of which every row begins with its header.

    Parameters
    ----------
    key : str
        The id of its caption; unique on the page.
    caption : str
        What it shows, as HTML that was escaped.
    head : sequence of str
        The columns' headers, escaped; that of the rows' headers first.
    rows : sequence
        Each row's header, escaped, and its cells.
    """
    first = f'<th scope="col">{head[0]}</th>' if head[0] else "<td></td>"
    columns = first + "".join(f'<th scope="col">{name}</th>' for name in head[1:])
    lines = []
    for name, cells in rows:
        drawn = "".join(
            f"<td{_attribute('class', cell.kind)}{_attribute('style', cell.style)}>{cell.html}</td>"
            for cell in cells
        )
        lines.append(f'<tr><th scope="row">{name}</th>{drawn}</tr>')
    return (
        f'<div class="scroll" role="region" aria-labelledby="{key}" tabindex="0"><table>'
        f'<caption><span id="{key}">{caption}</span></caption><thead><tr>{columns}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _attribute(name: str, value: str) -> str:
    return f' {name}="{value}"' if value else ""


def _figures(values: Sequence[float], texts: list[str], direction: int) -> list[Cell]:
    best = marked(values, texts, direction)
    return [
        Cell(f'<b>{words}</b><span class="sr"> (best)</span>', "best") if k in best else Cell(words)
        for k, words in enumerate(texts)
    ]


def metrics_table(key: str, first: str, contenders: Rows) -> str:
    """Return the metrics of all contenders, the headline metric first and with its interval."""
    metrics = [contender.get("metrics") or {} for contender in contenders]
    rows: list[tuple[str, Sequence[Cell]]] = []
    for metric in sorted(metric_order(metrics), key=lambda m: m != first):
        values = [number_of(by_metric.get(metric)) for by_metric in metrics]
        rows.append(
            (escape(metric_name(metric)), _figures(values, [decimal(v) for v in values], better(metric)))
        )
        if metric == first and any(contender.get("interval") for contender in contenders):
            rows.append(_interval_row(metric, contenders))
    if len({contender.get("events") for contender in contenders}) > 1:
        rows.append(("events", [Cell(count(contender.get("events"))) for contender in contenders]))
    names = [escape(contender.get("name", MISSING)) for contender in contenders]
    caption = "Metrics of all events" + (", the best of each row in bold" if len(names) > 1 else "")
    return table(key, caption, ["metric", *names], rows)


def _interval_row(metric: str, contenders: Rows) -> tuple[str, Sequence[Cell]]:
    intervals = [contender.get("interval") or {} for contender in contenders]
    level = next((number_of(i.get("level")) for i in intervals if i), math.nan)
    percent = f"{100 * level:g}%" if math.isfinite(level) else "an"
    cells = [
        Cell(f"{decimal(i.get('low'))}–<wbr>{decimal(i.get('high'))}" if i else MISSING, "faint ends")
        for i in intervals
    ]
    return f'<span class="sub">{escape(metric_name(metric))}, {percent} interval</span>', cells


def pairs_table(key: str, pairs: Rows) -> str:
    """Return by how much the contender of each row is ahead of that of each column."""
    names = list(dict.fromkeys(name for pair in pairs for name in (pair["first"], pair["second"])))
    signed = {(pair["first"], pair["second"]): (1.0, pair) for pair in pairs}
    signed |= {(pair["second"], pair["first"]): (-1.0, pair) for pair in pairs}
    rows: list[tuple[str, Sequence[Cell]]] = []
    for name in names:
        cells = [
            _pair(name, *signed[name, other]) if (name, other) in signed else Cell(MISSING, "faint")
            for other in names
        ]
        rows.append((escape(name), cells))
    unit = METRICS[pairs[0].get("measure", "accuracy")].unit.removeprefix("of ")
    caption = (
        f"How far the row is ahead of the column, in {unit}, ± half of the 95% interval; bold where it leads"
    )
    return table(key, caption, ["", *map(escape, names)], rows)


def _pair(name: str, sign: float, pair: Json) -> Cell:
    """Return one contender's advantage over another."""
    if pair.get("diverged"):
        return Cell("diverged" if pair["diverged"] == name else "<b>leads</b>")
    advantage = pair.get("advantage")
    if not advantage:
        return Cell(MISSING, "faint")
    scale = sign * METRICS[pair.get("measure", "accuracy")].scale
    mean, low, high = (number_of(advantage[part]) * scale for part in ("mean", "low", "high"))
    ends = f'<br><span class="sub">± {decimal(abs(high - low) / 2.0, 3)}</span>'
    if pair.get("leader") == name:
        return Cell(f'<b>{decimal(mean, 3)}</b><span class="sr"> (leads)</span>{ends}', "best")
    return Cell(decimal(mean, 3) + ends, "faint" if pair.get("leader") is None else "")


def confusion_table(key: str, name: str, classes: Json) -> str:
    """Return what was predicted for every label: rows are the labels, columns the predictions."""
    labels = [str(label) for label in classes.get("labels") or []]
    matrix = np.asarray(classes.get("confusion") or np.zeros((0, 0)), dtype=float)
    matrix = matrix.reshape(len(labels), -1)
    shown, folded = _rarer_as_one(labels, matrix, classes.get("targets") or matrix.sum(axis=1))
    grouped = len(labels) - len(shown) + 1 if len(shown) < len(labels) else 0
    right = float(matrix.trace() - folded[:-1, :-1].trace()) if grouped else 0.0  # of the grouped classes
    totals = folded.sum(axis=1)
    recalls, precisions, f1 = (
        _of_classes(classes, part, labels, shown) for part in ("recall", "precision", "f1")
    )
    rows: list[tuple[str, Sequence[Cell]]] = []
    for k, label in enumerate(shown):
        cells = []
        for j, events in enumerate(folded[k]):
            share = events / totals[k] if totals[k] else 0.0
            if grouped and j == k == len(shown) - 1:  # right and wrong ones: no shade says which
                cells.append(Cell(_both(right, float(events) - right), "cell both"))
                continue
            kind = "hit" if j == k else "miss"
            cells.append(Cell(count(events), f"cell {kind}", f"--s:{_SHADE * share:.3f}"))
        rows.append((escape(label), [*cells, Cell(recalls[k], "edge"), Cell(f1[k])]))
    rows.append(
        ("precision", [*(Cell(text, "under") for text in precisions), Cell("", "under"), Cell("", "under")])
    )
    caption = (
        f"<strong>{escape(name)}</strong>: labels in rows, predictions in columns, shaded by the row’s share"
    )
    if grouped:
        caption += (
            f"; the {count(grouped)} rarest classes are one group, whose own cell has right and wrong ones"
        )
    return table(key, caption, ["label", *map(escape, shown), "recall", "F1"], rows)


def _both(right: float, wrong: float) -> str:
    """Return how many events were predicted right and wrong within a group of classes."""
    return f'{count(right)} right<br><span class="sub">{count(wrong)} wrong</span>'


def _rarer_as_one(labels: list[str], matrix: Array, targets: ArrayLike) -> tuple[list[str], Array]:
    """Return the labels to show and their matrix; of many classes, all but the most frequent are one.

    How often a class was the target decides, so the classes shown are the same for all contenders.
    """
    if len(labels) <= _MOST_CLASSES:
        return labels, matrix
    often = np.argsort(-np.asarray(targets), kind="stable")[: _MOST_CLASSES - 1]
    kept = sorted(int(k) for k in often)
    group = np.full(len(labels), len(kept))
    group[kept] = np.arange(len(kept))
    folded = np.zeros((len(kept) + 1, len(kept) + 1))
    np.add.at(folded, (group[:, None], group[None, :]), matrix)
    return [*(labels[k] for k in kept), f"other ({count(len(labels) - len(kept))} classes)"], folded


def _of_classes(classes: Json, part: str, labels: list[str], shown: list[str]) -> list[str]:
    """Return a figure of the labels shown; of those that were put together there is none."""
    by_label = dict(zip(labels, classes.get(part) or [], strict=False))
    together = len(shown) < len(labels)
    return [
        MISSING if together and k == len(shown) - 1 else decimal(by_label.get(s), 3)
        for k, s in enumerate(shown)
    ]


def slices_table(key: str, by: str, metric: str, contenders: Rows) -> str:
    """Return the headline metric of every slice, with a column for each contender."""
    slices: dict[str, dict[int, Json]] = {}
    for place, contender in enumerate(contenders):
        for part in contender.get("slices") or []:
            slices.setdefault(str(part.get("value")), {})[place] = part
    sizes = {
        value: max(number_of(part.get("events")) for part in parts.values())
        for value, parts in slices.items()
    }
    largest = set(sorted(slices, key=lambda value: -sizes[value])[:_MOST_ROWS])
    places = [k for k, contender in enumerate(contenders) if contender.get("slices")]
    rows: list[tuple[str, Sequence[Cell]]] = []
    for value in (value for value in slices if value in largest):
        values = [number_of((slices[value].get(k, {}).get("metrics") or {}).get(metric)) for k in places]
        cells = _figures(values, [decimal(v) for v in values], better(metric))
        rows.append((escape(value), [Cell(count(sizes[value]), "faint"), *cells]))
    caption = f"{escape(metric_name(metric))[:1].upper()}{escape(metric_name(metric))[1:]} by {escape(by)}"
    if len(slices) > len(rows):
        caption += f": the {len(rows)} largest of {len(slices):,} slices"
    names = [escape(contenders[k].get("name", MISSING)) for k in places]
    return table(key, caption, [escape(by), "events", *names], rows)


def thresholds_table(key: str, positive: str, rows: Rows) -> str:
    """Return precision, recall, and how many of a thousand events are called positive."""
    shown = []
    for row in rows:
        name = f' <span class="sub">{escape(row["name"])}</span>' if row.get("name") else ""
        alarms = 1000.0 * number_of(row.get("called"))
        cells = [Cell(decimal(row.get(part), 3)) for part in ("precision", "recall")]
        shown.append((f"{number_of(row['threshold']):.3g}{name}", [*cells, Cell(decimal(alarms, 1))]))
    caption = f"Called {escape(positive)} above a threshold of its probability"
    return table(key, caption, ["threshold", "precision", "recall", "called of 1,000"], shown)


def worst_tables(key: str, loss: str, contender: Json, names: Sequence[str]) -> str:
    """Return the events that a contender predicted worst with a few fields, and all their fields.

    Parameters
    ----------
    key, loss
        The id of the caption, and the name of the loss.
    contender
        With ``worst``, as :meth:`streamk.evaluation.Results.worst` returns it.
    names
        The fields, the first of which are shown as columns.
    """
    events = contender["worst"]
    several = len({event.get("file") for event in events}) > 1
    titles = {"at": "time", "target": "target", "prediction": "prediction", "probability": "p of target"}
    titles["loss"] = loss
    head = {column: title for column, title in titles.items() if any(column in event for event in events)}
    rows, others = [], []
    for event in events:
        where = f"event {count(event['event'])}" if "line" not in event else f"line {count(event['line'])}"
        place = f"{short(event['file'])}, {where}" if several else where
        fields = event["fields"]
        cells = [_case(column, event.get(column)) for column in head]
        cells += [Cell(escape(_value(fields.get(name))), "faint") for name in names[:_MOST_FIELDS]]
        rows.append((escape(place), cells))
        every = [f"{name} = {_value(fields[name], 60)}" for name in names if fields.get(name) is not None]
        others.append([place, short(", ".join(every), _MOST_OTHERS)])
    columns = ["", *map(escape, [*head.values(), *(short(name, 14) for name in names[:_MOST_FIELDS])])]
    caption = (
        f"<strong>{escape(contender['name'])}</strong>: the largest {escape(loss)} of an event, without the "
        "first tenth of the log, and its fields"
    )
    drawn = f'<div class="cases">{table(key, caption, columns, rows)}</div>'
    more = plain_table(f"{key}-fields", "All fields of these events", ["", "fields"], others)
    return f'{drawn}<details><summary>All fields</summary><div class="left">{more}</div></details>'


def _case(column: str, value: object) -> Cell:
    if column == "at":
        return Cell("" if value is None else str(np.datetime64(int(number_of(value)), "s")).replace("T", " "))
    if column in ("loss", "probability"):
        return Cell(decimal(value))
    return Cell(f"{value:,.6g}".replace("-", "−") if isinstance(value, float) else escape(_value(value)))


def _value(value: object, most: int = 12) -> str:
    """Return the value of a field, cut, not yet escaped; a dash for a missing one."""
    if value is None:
        return MISSING
    return f"{value:.6g}".replace("-", "−") if isinstance(value, float) else short(value, most)


def costs_table(key: str, contenders: Sequence[str], measured: Json) -> str:
    """Return how fast contenders were and how much they keep."""
    costs = [measured.get(name) or {} for name in contenders]
    rows: list[tuple[str, Sequence[Cell]]] = []

    def row(name: str, values: Sequence[float], texts: list[str], direction: int) -> None:
        if any(math.isfinite(value) for value in values):
            rows.append((name, _figures(values, texts, direction)))

    speeds = [number_of(m.get("events_per_second")) for m in costs]
    row("events a second", speeds, [count(v) for v in speeds], 1)
    seconds = [number_of(m.get("seconds")) for m in costs]
    row("time of all events", seconds, [duration(1e6 * v) for v in seconds], -1)
    kept = [number_of(m.get("bytes")) for m in costs]
    row("model", kept, [size(v) for v in kept], -1)
    for what, words in (("predict", "predict"), ("learn", "learn"), ("predict_learn", "predict and learn")):
        samples = [np.asarray((m.get("latency_us") or {}).get(what, ()), dtype=float) for m in costs]
        for name, share in (("median", 0.5), ("99% are faster", 0.99)):
            times = [float(np.quantile(s, share)) if len(s) else math.nan for s in samples]
            row(f"{words}, {name}", times, [duration(t) for t in times], -1)
    alone = any(name.endswith("median") for name, _ in rows)
    caption = "Speed, size, and the time of one event alone" if alone else "Speed and size"
    return table(key, caption, ["", *map(escape, contenders)], rows) if rows else ""


def values_table(
    key: str, metric: str, names: Sequence[str], shown: Sequence[tuple[float, Sequence[float]]]
) -> str:
    """Return the values of a chart as a table that can be opened."""
    rows = [(count(event), [Cell(decimal(value)) for value in values]) for event, values in shown]
    drawn = table(key, f"{escape(metric)} of windows", ["event", *map(escape, names)], rows)
    return f"<details><summary>Values</summary>{drawn}</details>" if rows else ""


def plain_table(key: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table of strings that are not yet escaped; the first of every row is its header."""
    drawn = [(escape(first), [Cell(escape(value), "text") for value in others]) for first, *others in rows]
    return table(key, escape(caption), [escape(name) for name in head], drawn)
