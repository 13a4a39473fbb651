"""The page of a replay: one HTML document without scripts, network access or other files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from connectors.replay.page import tables
from connectors.replay.page.sections import (
    Rows,
    WindowedMetrics,
    calibration_section,
    costs_section,
    curves_section,
    section,
    summary_section,
)
from connectors.replay.page.words import count, decimal, escape, headline, metric_name
from streamk.arrays import Json

__all__ = ["WindowedMetrics", "page"]
_SIDE_BY_SIDE = 4  # classes up to which two confusion matrices fit next to each other


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
    title = str(results.get("title") or results.get("name") or "Replay")
    body = "".join(
        (
            _heading(title, task, results, contenders),
            section("Results", *_metrics(task, contenders)),
            _comparisons(results),
            curves_section(task, contenders, curves),
            calibration_section(contenders),
            _confusion(contenders),
            _slices(str(results.get("by") or "slice"), task, contenders),
            costs_section(contenders, measured),
            summary_section(contenders),
            _left_out(results.get("left_out") or {}),
            _again(results),
        )
    )
    style = files("connectors.replay.page").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}: replay</title><style>\n{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _heading(title: str, task: str, results: Mapping[str, object], contenders: Rows) -> str:
    facts = [task]
    if results.get("target"):
        facts.append(f"target {results['target']}")
    if results.get("events") is not None:
        facts.append(f"{count(results['events'])} events, each predicted before it was learned")
    if results.get("delay"):
        facts.append(str(results["delay"]))
    verdict = str(_plain_verdict(task, contenders) or results.get("verdict") or "")
    said = f'<p class="verdict">{escape(verdict)}</p>' if verdict else ""
    if results.get("recommendation"):
        said += f'<p class="advice">{escape(results["recommendation"])}.</p>'
    if results.get("without_labels"):
        said += f'<p class="remark">{escape(results["without_labels"])}</p>'
    return f'<header><h1>{escape(title)}</h1><p class="kicker">{escape(" · ".join(facts))}</p>{said}</header>'


def _plain_verdict(task: str, contenders: Rows) -> str:
    """Return the headline metric of a single contender as a sentence; empty for several or a failed one."""
    if len(contenders) != 1 or contenders[0].get("failed"):
        return ""
    reached = (contenders[0].get("metrics") or {}).get(headline(task))
    return (
        f"{contenders[0]['name']}: {metric_name(headline(task))} {decimal(reached)}."
        if reached is not None
        else ""
    )


def _metrics(task: str, contenders: Rows) -> list[str]:
    worked = [c for c in contenders if c.get("metrics") and not c.get("failed")]
    failed = [
        f'<p class="failed"><strong>{escape(c["name"])} failed</strong> {escape(c["error"])}</p>'
        for c in contenders
        if c.get("error")
    ]
    return [*failed, tables.metrics_table("metrics", task, worked)] if worked else failed


def _comparisons(results: Json) -> str:
    entries = results.get("comparisons") or []
    pairs = [each for each in entries if isinstance(each, dict)]
    sentences = [each for each in entries if not isinstance(each, dict)]
    if pairs:  # the sentences of the best; the table has all pairs
        sentences += [each["words"] for each in pairs if pairs[0]["first"] in (each["first"], each["second"])]
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    table = tables.pairs_table("pairs", pairs) if len(pairs) > 1 else ""
    return section("Pairwise comparison", f"<ul>{items}</ul>" if items else "", table)


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


def _slices(by: str, task: str, contenders: Rows) -> str:
    if not any(c.get("slices") for c in contenders):
        return ""
    return section(f"Results by {by}", tables.slices_table("slices", by, task, contenders))


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
