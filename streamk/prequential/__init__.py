"""Prequential evaluation: every event is first predicted, then scored, then learned.

:func:`replay` compares models on a stream and returns :class:`Results`. A streamk learner works through its
own compiled pass, whose predictions are those of a loop over events; other models are asked event by event.
:mod:`streamk.metrics` holds the metrics.
"""

from streamk.prequential.adapters import (
    Frozen,
    LearnerSubject,
    RiverSubject,
    Subject,
    Table,
    subject_of,
    tabled,
)
from streamk.prequential.contest import CHUNK, Contest
from streamk.prequential.label_delay import ByCount, ByTime
from streamk.prequential.replaying import replay
from streamk.prequential.results import Results

__all__ = [
    "CHUNK",
    "ByCount",
    "ByTime",
    "Contest",
    "Frozen",
    "LearnerSubject",
    "Results",
    "RiverSubject",
    "Subject",
    "Table",
    "replay",
    "subject_of",
    "tabled",
]
