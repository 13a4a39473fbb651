"""Drift alarms of a contender: where its losses have risen (river's ADWIN, Bifet and Gavaldà 2007)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from river.drift import ADWIN

_TOGETHER = 10  # losses whose mean ADWIN is given


class Alarms:
    """Events after which the mean loss was found to have risen.

    Losses of numbers become ``|e| / (|e| + s)``, ``s`` being the mean of the first ten that are not all 0:
    ADWIN takes values between 0 and 1.

    Attributes
    ----------
    events
        Where there were alarms: events until then.

    Examples
    --------
    >>> alarms = Alarms(bounded=True)
    >>> alarms.add(np.repeat([0.0, 1.0], 1000))
    >>> alarms.events
    [1010]
    """

    def __init__(self, bounded: bool) -> None:
        self.events: list[int] = []
        self._bounded, self._scale = bounded, 0.0
        self._seen = 0
        self._rest: NDArray[np.float64] = np.zeros(0)
        self._detector = ADWIN()

    def add(self, losses: NDArray[np.float64]) -> None:
        """Add the losses of consecutive events; those that are no number count as the greatest."""
        losses = np.concatenate([self._rest, losses])
        whole = len(losses) // _TOGETHER * _TOGETHER
        self._rest = losses[whole:]
        for part in losses[:whole].reshape(-1, _TOGETHER):
            self._seen += _TOGETHER
            before = self._detector.estimation
            self._detector.update(self._mean(part))
            if self._detector.drift_detected and self._detector.estimation > before:
                self.events.append(self._seen)

    def _mean(self, losses: NDArray[np.float64]) -> float:
        if not self._bounded:
            finite = losses[np.isfinite(losses)]
            if not self._scale and finite.any():
                self._scale = float(finite.mean())
            losses = np.nan_to_num(losses, nan=np.inf)
            with np.errstate(invalid="ignore", divide="ignore"):
                losses = np.where(np.isinf(losses), 1.0, losses / (losses + self._scale))
        return float(np.nan_to_num(losses).mean())
