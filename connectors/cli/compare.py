"""``streamk compare``: the figures of two reports of ``streamk replay``, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import AsJson
from connectors.cli.exits import exits, usage
from connectors.replay.page import words
from streamk.arrays import Json
from streamk.evaluation.metric import METRICS

_SAME = {"target": "targets", "delay": "times of labels", "events": "numbers of events"}  # else a remark


def compare_command(
    first: Annotated[Path, typer.Argument(help="A report: the directory of --report, or its results.json.")],
    second: Annotated[Path, typer.Argument(help="The report to compare with it.")],
    as_json: AsJson = False,
) -> None:
    """Compare two reports of streamk replay: the metrics of every contender, and how they differ.

    A report has no predictions, so events are not compared one by one: replay both models together for that.
    """
    with exits(), usage():
        reports = [_read(first), _read(second)]
        if reports[0]["task"] != reports[1]["task"]:
            raise ValueError(
                f"{first} is of {reports[0]['task']}, and {second} of {reports[1]['task']}; compare reports "
                "of one task"
            )
        rows, remarks = _rows(*reports), _remarks(*reports)
        if as_json:
            typer.echo(json.dumps({"rows": rows, "remarks": remarks}))
            return
        table = Table("contender", "metric", *(str(path) for path in (first, second)), "change")
        for row in rows:
            figures = [words.decimal(row[key]) for key in ("first", "second", "difference")]
            mark = {True: " better", False: " worse", None: ""}[row["better"]]
            table.add_row(row["contender"], words.metric_name(row["metric"]), *figures[:2], figures[2] + mark)
        console = Console()
        console.print(table)
        for sentence in remarks:
            console.print(sentence, soft_wrap=True, highlight=False, markup=False)


def _read(path: Path) -> Json:
    file = path / "results.json" if path.is_dir() else path
    try:
        report: Json = json.loads(file.read_text())
        report["contenders"], report["task"]
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}; give what streamk replay --report wrote") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{file} is no report of streamk replay; give what --report wrote") from None
    return report


def _rows(first: Json, second: Json) -> list[Json]:
    """Return a row for every metric that a contender has in both reports, the headline metric first."""
    after = {each["name"]: each["metrics"] for each in second["contenders"]}
    rows: list[Json] = []
    for contender in first["contenders"]:
        name, before = contender["name"], contender["metrics"] or {}
        there = after.get(name) or {}
        for metric in sorted(set(before) & set(there) & set(METRICS), key=lambda m: m != first["headline"]):
            a, b = before[metric], there[metric]
            change = None if a is None or b is None else b - a
            better = None if not change else change * METRICS[metric].better > 0
            figures = {"first": a, "second": b, "difference": change, "better": better}
            rows.append({"contender": name, "metric": metric, **figures})
    if not rows:
        raise ValueError("the reports have no contender of the same name")
    return rows


def _remarks(first: Json, second: Json) -> list[str]:
    """Return what else differs, and which contenders only one report has."""
    logs = [[each.get("sha256") for each in report.get("log") or []] for report in (first, second)]
    remarks = ["The logs differ: the figures are of other events."] if logs[0] != logs[1] else []
    for key, what in _SAME.items():
        if first.get(key) != second.get(key):
            remarks.append(f"The {what} differ: {first.get(key)} and {second.get(key)}.")
    names = [{each["name"] for each in report["contenders"]} for report in (first, second)]
    for which, alone in (("first", names[0] - names[1]), ("second", names[1] - names[0])):
        remarks += [f"Only the {which} report has {', '.join(sorted(alone))}."] if alone else []
    intervals = {each["name"]: each.get("interval") for each in second["contenders"]}
    for each in first["contenders"]:
        a, b = each.get("interval"), intervals.get(each["name"])
        if a and b and a != b:
            apart = a["high"] < b["low"] or b["high"] < a["low"]
            verb = "do not overlap" if apart else "overlap"
            percent = f"{100 * a['level']:g} %"
            remarks.append(
                f"{each['name']}: the {percent} intervals of {words.metric_name(first['headline'])} {verb}."
            )
    return remarks
