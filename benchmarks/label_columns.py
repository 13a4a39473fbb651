"""Label history (:mod:`streamk.encoding.label_history`) as columns, for learners without one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from contest import Setting
from logs import CLASSES, Stream

KEPT, FAST, SLOW, CLIP = 0.9, 0.3, 0.03, 6.0


def with_labels(stream: Stream, setting: Setting) -> Stream:
    """Return a stream whose events contain the labels known at their prediction.

    Of classes: the last label, one-hot, and a histogram in which an event counts 0.9 times as much as the
    next. Of numbers: the last standardised target, the one before, and means that move by 0.3 and by 0.03.
    """
    columns = _of_classes(stream) if stream.task == CLASSES else _of_numbers(stream.targets)
    arrived = setting.arrived(len(stream.targets))
    late = {name: np.concatenate([[0.0], kept])[arrived] for name, kept in columns.items()}
    more = pd.DataFrame(late, index=stream.frame.index)
    return replace(stream, frame=pd.concat([stream.frame, more], axis=1))


def _of_classes(stream: Stream) -> dict[str, np.ndarray]:
    """Return the memory after each event."""
    codes = {label: k for k, label in enumerate(stream.labels)}
    last = np.zeros((len(stream.targets), len(codes)))
    last[np.arange(len(last)), [codes[y] for y in stream.targets]] = 1.0
    often, kept = np.zeros_like(last), np.zeros(len(codes))
    for t, row in enumerate(last):
        kept = KEPT * kept + (1.0 - KEPT) * row
        often[t] = kept
    names = range(len(codes))
    return {f"last_{k}": last[:, k] for k in names} | {f"often_{k}": often[:, k] for k in names}


def _of_numbers(targets: list[float]) -> dict[str, np.ndarray]:
    """Return the memory after each event; targets are standardised by those before, and clipped."""
    rows = np.zeros((len(targets), 4))
    last = before = fast = slow = mean = squares = 0.0
    for t, y in enumerate(targets):
        deviation = math.sqrt(squares / t) if t else 0.0
        z = min(max((y - mean) / deviation, -CLIP), CLIP) if deviation > 0.0 else 0.0
        last, before, fast, slow = z, last, fast + FAST * (z - fast), slow + SLOW * (z - slow)
        rows[t] = last, before, fast, slow
        step = y - mean
        mean += step / (t + 1)
        squares += step * (y - mean)
    names = "target_1", "target_2", "target_fast", "target_slow"
    return dict(zip(names, rows.T, strict=True))
