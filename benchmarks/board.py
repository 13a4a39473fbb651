"""The board: ``Kernel…`` learners compared with other libraries on many streams, test, then train.

    python benchmarks/board.py [--data DIRECTORY] [--file FILE] [--docs DIRECTORY] [--only STREAM …]
                               [--peers NAME …] [--older] [--protocol PROTOCOL] [--events N]
                               [--budget SECONDS] [--cached] [--json] [--arena DIRECTORY]

It measures the results that ``docs/board.jsonl`` does not have, adds them, and writes ``docs/streams.md`` and
its pictures. With a selection it prints the tables of that instead. Results of peers are reused as long as
their libraries have the same version, those of streamk as long as its sources are the same, so a new learner
or stream costs minutes; all peers on all streams take hours. An interrupted run resumes. ``--cached``
measures nothing. Long streams are measured only if ``--only`` names them.

``--protocol`` is when labels come, as in ``streamk replay``: ``prompt``, ``100`` or ``1000`` events late, or
``chunks``: a twentieth of the stream is predicted, then learned, and the first is not scored. In chunks,
boosted trees that are fitted again to all events so far take part, and other streams are measured
(``CHUNKED`` of ``logs.py``). ``batches`` are of 100 events, as in papers on foundation models.

``--arena`` writes the submission files of StreamArena instead (``arena.py``), for those of its streams that
are here; all of them take an hour.

Every learner predicts each event before it learns it, with and without label memory: streamk's learners have
their own, and their peers get the same as inputs (``label_columns.py``). Vowpal Wabbit is measured if it is
installed (``pip install -e '.[bench]'``), and MOA if CapyMOA and Java 17 are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import arena
from contest import LATE, PROMPT
from data_file import DataFile, Result
from logs import CHUNKED, LONG, STREAMS
from measuring import LIBRARIES, Bench, Job, Selection, installed
from order import Orders
from page import notes, sections, selections, write
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from sections import ROOT
from threadpoolctl import threadpool_limits

from connectors.replay.logs import CHUNKS


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
    either = found.add_mutually_exclusive_group()
    either.add_argument("--protocol", choices=LATE, default=PROMPT, help="when labels come")
    found.add_argument("--events", type=int, help="stop after so many events of each stream")
    found.add_argument("--budget", type=float, default=90.0, help="seconds for a peer on a stream")
    found.add_argument("--cached", action="store_true", help="measure nothing, show what the file has")
    either.add_argument("--arena", type=Path, metavar="DIRECTORY", help="write submissions to StreamArena")
    found.add_argument("--json", action="store_true", help="print every result")
    return found


def main() -> None:
    """Measure missing results; write the page, or print the tables of a selection."""
    given = parser().parse_args()
    console, file = Console(stderr=True), DataFile(given.file)
    if given.arena:
        submit(given, console)
        return
    for library, how in LIBRARIES.items():
        needed = library != "lightgbm" or given.protocol == CHUNKS
        if needed and not given.cached and not installed(library):
            console.print(f"{library} is not installed, and does not take part: {how}", markup=False)
    streams = given.only or [
        name for name in STREAMS if (name in CHUNKED if given.protocol == CHUNKS else name not in LONG)
    ]
    selection = Selection(streams, given.peers, given.older, given.cached, given.protocol)
    orders = Orders(given.file.with_name("orders.json"))
    bench = Bench(given.data, file, orders, given.events, given.budget)
    try:
        results = run(bench, selection.jobs(), console, given.cached)
    finally:
        if not given.cached:
            file.sort()
    if given.json:
        print(json.dumps(results))
    elif selected(given):
        print(sections(results, orders.marks))
    else:
        write_page(bench, orders.marks, given.docs, console)


def submit(given: argparse.Namespace, console: Console) -> None:
    """Write the submission files of StreamArena, and name the streams that it does not have."""
    names = given.only or list(arena.STREAMS)
    if other := [name for name in names if name not in arena.STREAMS]:
        console.print(f"no streams of StreamArena: {', '.join(other)}", markup=False, soft_wrap=True)
    with threadpool_limits(1):
        for path in arena.write([n for n in names if n not in other], given.data, given.arena, given.events):
            console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    console.print("before you submit: set contact_or_repo in all files", soft_wrap=True)


def selected(given: argparse.Namespace) -> bool:
    """Return whether options select a part of what the page shows, or another protocol."""
    chosen = given.only, given.peers, given.events, given.protocol != PROMPT
    return any(chosen)


def write_page(bench: Bench, orders: dict[str, str], docs: Path, console: Console) -> None:
    """Write the page from all results of the file, whether their libraries are installed or not."""
    ordinary = Selection([name for name in STREAMS if name not in LONG], older=True, every=True)
    shown = {"ordinary": ordinary, **selections()}
    known = {
        name: [r for job in selection.jobs() if (r := bench.known(job, cached=True)) is not None]
        for name, selection in shown.items()
    }
    for note in notes([r for found in known.values() for r in found]):
        console.print(note, markup=False)
    for path in write(known, ordinary.jobs(), orders, docs):
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
