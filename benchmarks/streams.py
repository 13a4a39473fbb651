"""``Kernel…`` learners compared with other libraries, on many streams: test, then train.

    python benchmarks/streams.py [--data DIRECTORY] [--cache DIRECTORY] [--only STREAM …] [--peers NAME …]
                                 [--older] [--delay N] [--events N] [--budget SECONDS]
                                 [--cached] [--json] [--markdown FILE] [--picture FILE]

Every learner predicts each event before it learns it, with and without label memory: streamk's learners have
their own, and their peers get the same as inputs (``label_columns.py``). Results are stored in the cache, so
an interrupted run resumes, and the tables of a finished one take half a minute. All peers on all streams take
hours; ``--peers streamk`` measures streamk alone, and ``--cached`` prints the results in the cache. Vowpal
Wabbit is measured if it is installed (``pip install -e '.[bench]'``), and MOA if CapyMOA and Java 17 are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cache import Cache, Result
from logs import LONG, STREAMS
from measuring import LIBRARIES, Bench, Job, installed, jobs
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from sections import ROOT
from tables import document
from threadpoolctl import threadpool_limits


def run(bench: Bench, planned: list[Job], console: Console, cached: bool = False) -> list[Result]:
    """Return the results of all jobs, or of those in the cache; show a bar, or lines in a log."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    weights = [job.peer.cost * bench.events(job.stream) for job in planned]
    results = []
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar, threadpool_limits(1):
        task = bar.add_task("", total=sum(weights))
        for job, weight in zip(planned, weights, strict=True):
            name = f"{job.stream}: {job.peer.name}" + ", with labels" * job.setting.memory
            bar.update(task, description=name)
            result = bench.known(job)
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


def main() -> None:
    """Measure missing results, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--cache", type=Path, default=ROOT / "benchmarks" / ".cache")
    parser.add_argument("--only", nargs="+", metavar="STREAM", choices=STREAMS, help=", ".join(STREAMS))
    parser.add_argument("--peers", nargs="+", metavar="NAME", help="parts of the names of peers")
    parser.add_argument(
        "--older", action="store_true", help="also streamk's learners with settings, unranked"
    )
    parser.add_argument("--delay", type=int, default=0, help="how many events late labels arrive")
    parser.add_argument("--events", type=int, help="stop after so many events of each stream")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for a peer on a stream")
    parser.add_argument("--cached", action="store_true", help="measure nothing, show what is in the cache")
    parser.add_argument("--json", action="store_true", help="print every result")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--picture", type=Path, help="write the critical differences here")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    for library, how in LIBRARIES.items():
        if not installed(library):
            console.print(f"{library} is not installed, and does not take part: {how}", markup=False)
    bench = Bench(arguments.data, Cache(arguments.cache), arguments.events, arguments.budget)
    streams = arguments.only or [name for name in STREAMS if name not in LONG]
    results = run(
        bench, jobs(streams, arguments.peers, arguments.older, arguments.delay), console, arguments.cached
    )
    if arguments.json:
        print(json.dumps(results))
        return
    text = document(results, arguments.picture)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
