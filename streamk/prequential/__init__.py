"""Prequential evaluation: every event is first predicted, then scored, then learned.

:func:`replay` compares models on a stream and returns :class:`Results`. A streamk learner works through its
own compiled pass, whose predictions are those of a loop over events; other models are asked event by event.
:mod:`streamk.metrics` holds the metrics.
"""

from streamk.prequential.adapters import (
    Frozen,
    LearnerAdapter,
    ModelAdapter,
    RiverAdapter,
    Table,
    adapter_of,
    tabled,
)
from streamk.prequential.contest import CHUNK, Contest
from streamk.prequential.label_delay import DelayByCount, DelayByTime
from streamk.prequential.replaying import replay
from streamk.prequential.results import Results

__all__ = [
    "CHUNK",
    "Contest",
    "DelayByCount",
    "DelayByTime",
    "Frozen",
    "LearnerAdapter",
    "ModelAdapter",
    "Results",
    "RiverAdapter",
    "Table",
    "adapter_of",
    "replay",
    "tabled",
]
