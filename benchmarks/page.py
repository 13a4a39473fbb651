"""The page of the board, ``docs/streams.md``: introduction, pictures, tables, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import ours
import pareto
import published
import ranks
from contest import BATCHES, LATE, PROMPT
from data_file import Result
from logs import CLASSES, LONG, NUMBERS
from measuring import Job, Selection
from tables import ALONE, BASELINES, TITLES, Tables, table

from connectors.replay.logs import CHUNKS

TEXT = """\
# Comparison on streams

`KernelClassifier` and `KernelRegressor` with their defaults, means of three seeds, compared with learners
of river, Vowpal Wabbit, scikit-learn and MOA, on the same events in the same order and in one process.
Every learner predicts an event before it learns the event. {late}

```sh
{command}
```

The command measures the results that [board.jsonl](board.jsonl) does not have, adds them, and writes this
page and its pictures. With `--cached` it measures nothing.

- **Label memory**: *without labels*, streamk runs with `label_memory=False`. *With labels*, streamk has its
  label memory, and every peer gets the same columns as inputs: for classification, the last label one-hot
  and a decaying histogram; for regression, the last two standardised targets and two running means. *The
  better of both* is the better result of each learner on each stream.
- **Fairness**: no peer gets the target of an event before it predicts the event. (MOA's SOKNL reads it
  where it can.)
- **Inputs of peers**: standardised numbers and one-hot strings for linear models, neighbours and random
  features; standardised targets for regressions other than MOA's. A missing value is 0, or an empty string.
- **Settings of peers**: the defaults, with the number of trees in parentheses; one run, with seed 1.
- **Time limit**: a peer stops after {budget} seconds on a stream. Its result is then in parentheses, with
  the share of the stream, and ranks last there; its point in the pictures is hollow. The last column of the
  table of mean ranks counts only the streams that a learner finished.
- **Ranks**: mean ranks are those of learners that were measured on every stream, by accuracy and log loss, or
  by R² and RMSE. A difference larger than the critical difference is significant at a level of 5 % (Nemenyi).
- **Order** marks streams whose order has no meaning or gives labels away, as measured on the data
  (`benchmarks/order.py`). *Static* is a table: no row resembles the one before, and boosted trees cannot
  infer from which half or quarter of the stream a row is (the drift of *Hyperplane* is too slow for them).
  *Long runs*: the label is nearly always the last one (kappa of 0.9 and more). *In turn*: labels repeat after
  so many events. *Sorted*: a number only rises or only falls.
- **Temporal kappa** is `(p - q) / (1 - q)`: `p` is the accuracy, and `q` that of predicting the last label.
- **Streams with drift** are river's generators. *Digits that turn* are the first 10,000 images of MNIST on
  40 principal axes, rotated by up to 180 degrees and back. *Poker hands* are drawn at random, and their
  class is their rank. *Cover anomalies* and *Shuttle anomalies* are those of ADBench. The inputs of
  *nyc_taxi* are the time and the passengers up to two hours, a day and a week ago.
- **Speed** is that of predicting and learning, after compilation, with other work on the machine. **Size**
  is that of the saved or pickled model.

Versions: {versions}."""
WHEN = {  # sentences about protocols
    PROMPT: "Its label comes before the next event.",
    CHUNKS: """\
Labels come {}:
a twentieth of the stream is predicted, then learned; the first does not count. Models called *refitted* are
then fitted again to all events so far; *coverage* is that of intervals of level 0.9.""",
    BATCHES: "Labels come {}, each predicted, then learned; the first does not count.",
    "": "Labels come {}; predictions before the first label do not count.",
}
PICTURES = """\
![Mean rank against speed](rank-and-speed.png)

![Mean rank against size](rank-and-size.png)

![Mean ranks, and critical differences](streams.png)"""
LONG_TEXT = """\
## Long streams

Measured only if `--only` names them; streamk with one seed, and a peer until {budget} seconds have passed.
`LED`, `SEA`, `AGR`, `RBF` and `HYPER` are the generators of the paper on adaptive random forests (Gomes et
al., 2017), with 1,000,000 events: abrupt (`_a`) or gradual (`_g`) drifts after every 250,000 events, or
centers (`RBF_m`, `RBF_f`) and a plane (`HYPER`) that move all the time."""
OTHER_SOURCES = "The following results of streamk are of other sources than those in this directory."
NO_LIBRARY = {baseline.split(" ")[0] for baseline in BASELINES}
NAMES = {"Vowpal": "Vowpal Wabbit", "MOA": "CapyMOA", "streamk": "streamk's sources"}


def of_other_sources(results: Iterable[Result]) -> bool:
    """Return whether any result of streamk is of other sources than the present ones."""
    present = ours.sources()
    return any(r["peer"].startswith("streamk ") and r["version"] != present for r in results)


def versions(results: Iterable[Result]) -> str:
    """Return the libraries and their versions."""
    peers = {(r["peer"].split(" ")[0], r["version"]) for r in results}
    return ", ".join(f"{NAMES.get(n, n)} {v}" for n, v in sorted(peers) if n not in NO_LIBRARY) or "-"


def limit(results: Iterable[Result]) -> str:
    """Return the seconds after which peers were stopped, of all peers if none was."""
    peers = [r for r in results if not r["peer"].startswith("streamk")]
    found = {r["budget"] for r in peers if 0 < r["done"] < r["events"]} or {r["budget"] for r in peers}
    return " to ".join(f"{b:g}" for b in sorted({min(found), max(found)})) if found else "-"


def introduction(results: list[Result]) -> str:
    """Return the introduction of the page for these results."""
    protocol = results[0]["protocol"] if results else PROMPT
    option = "" if protocol == PROMPT else f" --protocol {protocol}"
    return TEXT.format(
        command="python benchmarks/board.py --older" + option,
        late=WHEN.get(protocol, WHEN[""]).format(LATE[protocol].removeprefix("labels ")),
        budget=limit(results), versions=versions(results),
    )  # fmt: skip


def notes(results: list[Result]) -> list[str]:
    """Return the sentence on results of other sources, if there are any."""
    return [OTHER_SOURCES] if of_other_sources(results) else []


def sections(results: list[Result], orders: Mapping[str, str]) -> str:
    """Return the tables of a selection."""
    tables = [Tables(results, task, orders) for task in TITLES]
    parts = [introduction(results), *notes(results)]
    return "\n\n".join(parts + [s for found in tables if found.streams for s in found.sections()]) + "\n"


def missing(planned: list[Job], results: list[Result]) -> str:
    """Return which peers were not measured, on all streams or on some."""
    wanted: dict[str, set[tuple[str, bool]]] = {}
    for job in planned:
        wanted.setdefault(job.peer.name, set()).add((job.stream, job.setting.memory))
    found: dict[str, set[tuple[str, bool]]] = {}
    for r in results:
        found.setdefault(r["peer"], set()).add((r["stream"], r["memory"]))
    lines = [
        [peer, f"{len(pairs & found.get(peer, set()))} of {len(pairs)}"]
        for peer, pairs in wanted.items()
        if pairs - found.get(peer, set())
    ]
    if not lines:
        return "Every peer was measured on every stream, with and without labels."
    text = (
        "Peers without some or all results; a result is a stream without or with labels. They are not ranked."
    )
    return f"{text}\n\n{table(['learner', 'measured'], lines)}"


def write(
    known: dict[str, list[Result]], planned: list[Job], orders: Mapping[str, str], docs: Path
) -> list[Path]:
    """Write the page and its pictures; return their paths.

    Parameters
    ----------
    known
        Results of ``ordinary`` streams, of ``long`` ones, of ``batches``, and of streams with figures that
        are ``published``.
    planned
        Jobs of ordinary streams.
    orders
        Marks of streams (:mod:`order`).
    """
    results = known["ordinary"]
    tables = {task: Tables(results, task, orders) for task in TITLES}
    parts = [introduction(results), *notes(results), PICTURES]
    parts += [section for task in TITLES if tables[task].streams for section in tables[task].sections()]
    for name, rows in (("batches", published.batch_rows), ("published", published.boosted_rows)):
        text, header, lines = rows(known[name])
        parts += [text.rstrip(), *notes(known[name]), table(header, lines)]
    long = [Tables(known["long"], task, orders) for task in TITLES]
    if any(found.streams for found in long):
        parts += [LONG_TEXT.format(budget=limit(known["long"])), *notes(known["long"])]
    for task, found in zip(TITLES, long, strict=True):
        if found.streams:
            title = f"### {TITLES[task]}, long streams, {LATE[PROMPT]}"
            parts += [title, found.best(), found.everything()]
    parts += ["## Not measured", missing(planned, results)]
    page = docs / "streams.md"
    page.write_text("\n\n".join(parts) + "\n")
    return [page, *draw(tables, docs)]


def draw(tables: dict[str, Tables], docs: Path) -> list[Path]:
    """Draw the pictures of the page."""
    ranked = {
        f"{TITLES[task]}, {setting}": ranking
        for task, found in tables.items()
        for setting, ranking in found.rankings.items()
        if ranking.means
    }
    if not ranked:
        return []
    kinds = {CLASSES: "classes", NUMBERS: "numbers"}
    points = {
        f"{tables[task].rankings[ALONE].streams} streams of {kind}": tables[task].points()
        for task, kind in kinds.items()
        if tables[task].rankings[ALONE].means
    }
    paths = docs / "rank-and-speed.png", docs / "rank-and-size.png", docs / "streams.png"
    pareto.draw(paths[0], {t: speeds for t, (speeds, _) in points.items()}, "events per second", True)
    pareto.draw(paths[1], {t: sizes for t, (_, sizes) in points.items()}, "bytes of the saved model", False)
    ranks.picture(ranked, paths[2])
    return list(paths)


def selections() -> dict[str, Selection]:
    """Return what the page shows besides ordinary streams."""
    by_size = published.wanted()
    return {
        "long": Selection(list(LONG), older=True, every=True),
        "batches": Selection(by_size[published.BATCH], every=True, protocol=BATCHES),
        "published": Selection(by_size[1], every=True),
    }
