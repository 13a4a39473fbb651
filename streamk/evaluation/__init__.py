"""Prequential evaluation and metrics: every event is first predicted, then scored, then learned.

:func:`replay` compares models on a stream and returns :class:`Results`. A streamk learner uses its
compiled pass, whose predictions are those of a loop over events; other models predict event by event. A
metric is a formula over running sums (:mod:`streamk.evaluation.metric`); others are windows, slices,
confidence intervals, comparisons of contenders and drift alarms.
"""

from streamk.evaluation.adapters import (
    Frozen,
    LearnerAdapter,
    ModelAdapter,
    RiverAdapter,
    Table,
    adapter_of,
    tabled,
)
from streamk.evaluation.contest import CHUNK, Contest
from streamk.evaluation.costs import Costs
from streamk.evaluation.label_delay import DelayByChunks, DelayByCount, DelayByTime
from streamk.evaluation.refitted import Refitted
from streamk.evaluation.replaying import replay
from streamk.evaluation.results import Results

__all__ = [
    "CHUNK",
    "Contest",
    "Costs",
    "DelayByChunks",
    "DelayByCount",
    "DelayByTime",
    "Frozen",
    "LearnerAdapter",
    "ModelAdapter",
    "Refitted",
    "Results",
    "RiverAdapter",
    "Table",
    "adapter_of",
    "replay",
    "tabled",
]
