"""Published figures, and ours by the same protocol.

Tabular foundation models are scored in batches: 100 events are predicted, then learned. Their figures, and
those of the two forests in the same protocol, are of the repository ``amasawa/PFN-DataStream-Collections``;
the figures of boosted trees, event by event, are of ``nuwangunasekara/SGBR``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from contest import BATCH, BATCHES
from data_file import Result
from logs import CLASSES, NUMBERS, STREAMS
from ours import NAMES


class Published(NamedTuple):
    """Published figures of a stream; ``ours`` is its name here, None if it is not available."""

    name: str
    ours: str | None
    figures: tuple[float, ...]


OF_BATCHES = [  # accuracy of the best foundation model, ARF and SRP
    Published("Elec2", "Elec2", (0.812, 0.794, 0.784)),
    Published("CoverType", "CoverType", (0.951, 0.826, 0.919)),
    Published("INSECTS abrupt", None, (0.780, 0.734, 0.737)),
    Published("INSECTS gradual", None, (0.807, 0.765, 0.751)),
    Published("INSECTS incremental", None, (0.678, 0.632, 0.636)),
    Published("INSECTS reoccurring", None, (0.810, 0.770, 0.769)),
    Published("Poker", None, (0.930, 0.742, 0.783)),
    Published("Rialto", None, (0.822, 0.617, 0.586)),
    Published("Spam", None, (0.947, 0.867, 0.887)),
    Published("Airlines", None, (0.691, 0.674, 0.680)),
]
BOOSTED = [  # R² of the best of six methods, means of five runs
    Published("bike", "bike_hourly", (0.932,)),
    Published("elevators", "elevators", (0.715,)),
    Published("fried", "fried", (0.893,)),
    Published("demand", "demand", (0.662,)),
    Published("abalone", None, (0.579,)),
]
BATCH_TEXT = """\
## Batches: published figures of foundation models

Papers on tabular foundation models predict 100 events, then learn them (`--protocol {batches}`). The latest
labels are then missing, so figures of streams with autocorrelated labels are lower than those event by event.
The first batch is not scored. The published figures are accuracies of `MICE/results_paper` in
`amasawa/PFN-DataStream-Collections`: the best foundation model on a GPU, at 99 to 471 events per second, ARF
and SRP. INSECTS, Poker, Rialto, Spam and Airlines are not available here.
"""
BOOSTED_TEXT = """\
### Published figures of boosted trees

R², event by event with prompt labels, of the best of six methods in `exp/post_hoc_new` of
`nuwangunasekara/SGBR`, means of five runs. Their abalone is another file. They may compute R² differently: on
elevators, the last target alone has a higher one here.
"""


def wanted() -> dict[int, list[str]]:
    """Return the streams that have published figures, by the size of batches."""
    return {
        size: [line.ours for line in lines if line.ours is not None]
        for size, lines in ((BATCH, OF_BATCHES), (1, BOOSTED))
    }


def rows(lines: Iterable[Published], results: Iterable[Result], task: str) -> list[list[str]]:
    """Return the lines of a table: stream, events, published figures, ours without and with labels, speed."""
    several: dict[tuple[str, bool], list[Result]] = {}
    for result in results:
        if result["peer"] == NAMES[task] and "failed" not in result:
            several.setdefault((result["stream"], result["memory"]), []).append(result)
    metric, found = "accuracy" if task == CLASSES else "r2", []
    for name, ours, figures in lines:
        line = [name, "-" if ours is None else f"{STREAMS[ours].events:,}", *(f"{f:.3f}" for f in figures)]
        for memory in (False, True):
            known = several.get((ours or "", memory), [])
            whole = [r[metric] for r in known if r["done"] == r["events"]]
            missing = "not available" if ours is None else "not measured"
            line.append(f"{sum(whole) / len(whole):.3f}" if whole else missing)
        known = several.get((ours or "", False), [])
        speed = sum(r["events_per_second"] for r in known) / len(known) if known else 0.0
        found.append([*line, f"{round(speed):,}" if known else "-"])
    return found


def batch_rows(results: Iterable[Result]) -> tuple[str, list[str], list[list[str]]]:
    """Return introduction, header and lines of the table of batches."""
    header = ["stream", "events", "best foundation model", "ARF", "SRP"]
    header += ["streamk, without labels", "streamk, with labels", "events/s"]
    return BATCH_TEXT.format(batches=BATCHES), header, rows(OF_BATCHES, results, CLASSES)


def boosted_rows(results: Iterable[Result]) -> tuple[str, list[str], list[list[str]]]:
    """Return introduction, header and lines of the table of boosted trees."""
    header = [
        "stream",
        "events",
        "best of six",
        "streamk, without labels",
        "streamk, with labels",
        "events/s",
    ]
    return BOOSTED_TEXT, header, rows(BOOSTED, results, NUMBERS)
