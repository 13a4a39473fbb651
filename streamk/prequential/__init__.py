"""Prequential evaluation: every event is first predicted, then scored, then learned.

:func:`replay` compares models on a stream and returns :class:`Results`. A streamk learner uses its own
compiled pass, whose predictions are those of a loop over events; other models predict event by event.
:mod:`streamk.metrics` holds the metrics.
"""

import warnings
from typing import Any

from streamk.arrays import Json
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

_RENAMED: Json = {
    "ByCount": DelayByCount,
    "ByTime": DelayByTime,
    "LearnerSubject": LearnerAdapter,
    "RiverSubject": RiverAdapter,
    "Subject": ModelAdapter,
    "subject_of": adapter_of,
}


def __getattr__(name: str) -> Any:
    """Return what an old name stands for, with a warning; the next release removes the old names."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _RENAMED[name]
    warnings.warn(
        f"{name} is now {new.__name__}; the next release removes the old name", DeprecationWarning, 2
    )
    return new
