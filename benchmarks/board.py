"""The board: ``Kernel…`` learners compared with other libraries on many streams, test, then train.

    python benchmarks/board.py [--data DIRECTORY] [--file FILE] [--docs DIRECTORY] [--only STREAM …]
                               [--peers NAME …] [--older] [--delay N] [--batch N] [--events N]
                               [--budget SECONDS] [--cached] [--json]

It measures the results that ``docs/board.jsonl`` does not have, adds them, and writes ``docs/streams.md`` and
its pictures. With a selection it prints the tables of that instead. Results of peers are reused as long as
their libraries have the same version, those of streamk as long as its sources are the same, so a new learner
or stream costs minutes; all peers on all streams take hours. An interrupted run resumes. ``--cached``
measures nothing. Long streams are measured only if ``--only`` names them.

Every learner predicts each event before it learns it, with and without label memory: streamk's learners have
their own, and their peers get the same as inputs (``label_columns.py``). Vowpal Wabbit is measured if it is
installed (``pip install -e '.[bench]'``), and MOA if CapyMOA and Java 17 are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from data_file import DataFile, Result
from logs import LONG, STREAMS
from measuring import LIBRARIES, Bench, Job, Selection, installed
from page import notes, sections, selections, write
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from sections import ROOT
from threadpoolctl import threadpool_limits


def run(bench: Bench, planned: list[Job], console: Console, cached: bool = False) -> list[Result]:
    """Return the results of all jobs, or of those in the file; show a bar, or lines in a log."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    weights = [job.peer.cost * bench.events(job.stream) for job in planned]
    results = []
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar, threadpool_limits(1):
        task = bar.add_task("", total=sum(weights))
        for job, weight in zip(planned, weights, strict=True):
            name = f"{job.stream}: {job.peer.name}" + ", with labels" * job.setting.memory
            bar.update(task, description=name)
            result = bench.known(job, cached)
            if result is None and not cached:
                result = bench.result(job)
                if not console.is_terminal:
                    console.print(name, shown(result), soft_wrap=True, markup=False, highlight=False)
            if result is not None:
                results.append(result)
            bar.advance(task, weight)
    return results


def shown(result: Result) -> str:
    """Return a result in a few words."""
    if "failed" in result:
        return f"failed: {result['failed']}"
    metric = "accuracy" if "accuracy" in result else "r2"
    share = result["done"] / result["events"]
    stopped = "" if share == 1.0 else f", stopped after {share:.0%}"
    return f"{metric} {result[metric]:.4f}, {result['events_per_second']:,} events/s{stopped}"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    found = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    found.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    found.add_argument("--docs", type=Path, default=ROOT / "docs", help="directory of page and pictures")
    found.add_argument("--file", type=Path, default=ROOT / "docs" / "board.jsonl", help="the data file")
    found.add_argument("--only", nargs="+", metavar="STREAM", choices=STREAMS, help=", ".join(STREAMS))
    found.add_argument("--peers", nargs="+", metavar="NAME", help="parts of the names of peers")
    found.add_argument("--older", action="store_true", help="also streamk's learners with settings, unranked")
    late = found.add_mutually_exclusive_group()
    late.add_argument("--delay", type=int, default=0, help="how many events late labels arrive")
    late.add_argument("--batch", type=int, default=1, help="how many events to predict, then learn")
    found.add_argument("--events", type=int, help="stop after so many events of each stream")
    found.add_argument("--budget", type=float, default=90.0, help="seconds for a peer on a stream")
    found.add_argument("--cached", action="store_true", help="measure nothing, show what the file has")
    found.add_argument("--json", action="store_true", help="print every result")
    return found


def main() -> None:
    """Measure missing results; write the page, or print the tables of a selection."""
    given = parser().parse_args()
    console, file = Console(stderr=True), DataFile(given.file)
    for library, how in LIBRARIES.items():
        if not given.cached and not installed(library):
            console.print(f"{library} is not installed, and does not take part: {how}", markup=False)
    streams = given.only or [name for name in STREAMS if name not in LONG]
    selection = Selection(streams, given.peers, given.older, given.cached, given.delay, given.batch)
    bench = Bench(given.data, file, given.events, given.budget)
    try:
        results = run(bench, selection.jobs(), console, given.cached)
    finally:
        if not given.cached:
            file.sort()
    if given.json:
        print(json.dumps(results))
    elif selected(given):
        print(sections(results))
    else:
        write_page(bench, given.docs, console)


def selected(given: argparse.Namespace) -> bool:
    """Return whether options select a part of what the page shows, or another protocol."""
    chosen = given.only, given.peers, given.events, given.delay, given.batch > 1
    return any(chosen)


def write_page(bench: Bench, docs: Path, console: Console) -> None:
    """Write the page from all results of the file, whether their libraries are installed or not."""
    ordinary = Selection([name for name in STREAMS if name not in LONG], older=True, every=True)
    shown = {"ordinary": ordinary, **selections()}
    known = {
        name: [r for job in selection.jobs() if (r := bench.known(job, cached=True)) is not None]
        for name, selection in shown.items()
    }
    for note in notes([r for found in known.values() for r in found]):
        console.print(note, markup=False)
    for path in write(known, ordinary.jobs(), docs):
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
