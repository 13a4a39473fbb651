"""Drift alarms on losses: replay and the daemon report where the mean loss has risen (ADWIN of river)."""

from __future__ import annotations

import numpy as np

from streamk.arrays import Array

_TOGETHER = 10  # losses whose mean ADWIN takes


class Alarms:
    """Events after which a rise of the mean loss was detected.

    Losses of numbers become ``|e| / (|e| + s)``, ``s`` being the mean of the first ten that are not all 0:
    ADWIN takes values between 0 and 1.

    Attributes
    ----------
    events
        The number of events before each alarm.

    Examples
    --------
    >>> alarms = Alarms(bounded=True)
    >>> alarms.add(np.repeat([0.0, 1.0], 1000))
    >>> alarms.events
    [1280]
    """

    def __init__(self, bounded: bool) -> None:
        from river import drift  # takes a second, which other commands need not wait

        self.events: list[int] = []
        self._bounded, self._scale = bounded, 0.0
        self._seen = 0
        self._rest: Array = np.zeros(0)
        self._detector = drift.ADWIN()

    def add(self, losses: Array) -> None:
        """Add the losses of consecutive events; those that are no number count as the greatest."""
        losses = np.concatenate([self._rest, losses])
        whole = len(losses) // _TOGETHER * _TOGETHER
        self._rest = losses[whole:]
        means = self._means(losses[:whole].reshape(-1, _TOGETHER))
        detector = self._detector
        for mean in means.tolist():
            self._seen += _TOGETHER
            before = detector.estimation
            detector.update(mean)
            if detector.drift_detected and detector.estimation > before:
                self.events.append(self._seen)

    def _means(self, losses: Array) -> Array:
        """Return the means of rows of losses, each between 0 and 1."""
        if not self._bounded:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                for row in losses if not self._scale else ():
                    finite = row[np.isfinite(row)]
                    if finite.any():
                        self._scale = float(finite.mean())
                        break
                shares = losses / (losses + self._scale)
            losses = np.where(losses == 0.0, 0.0, np.where(np.isfinite(losses), shares, 1.0))
        means: Array = losses.mean(axis=1)
        return means
