"""Rows of a kernel matrix ``K(X, Z)`` that are wanted again: made once, as far as they can be held."""

from __future__ import annotations

import numpy as np

from streamk.arrays import Floats, Places
from streamk.kernels import Kernel

HELD = 2**28  # numbers of a matrix, in single precision: a gibibyte


class Similarities:
    """``K(X, Z)`` by rows; those of the first rows of ``X`` are stored, the others computed at every request.

    Parameters
    ----------
    kernel, bandwidth
        The kernel.
    X, Z
        Dense rows ``(n, d)`` and ``(p, d)``.
    held
        How many numbers are held at most.
    """

    def __init__(self, kernel: Kernel, bandwidth: float, X: Floats, Z: Floats, held: int = HELD) -> None:
        self._kernel, self._bandwidth, self._X, self._Z = kernel, bandwidth, X, Z
        self._known = np.zeros(min(len(X), held // max(1, len(Z))), dtype=bool)
        self._held = np.empty((len(self._known), len(Z)), dtype=np.float32)

    def rows(self, places: Places) -> Floats:
        """Return the rows at different places, ``(m, p)``."""
        here = places < len(self._known)
        here[here] = self._known[places[here]]
        out = np.empty((len(places), len(self._Z)), dtype=np.float32)
        out[here] = self._held[places[here]]
        made = places[~here]
        if len(made):
            out[~here] = self._kernel.block(self._X[made], self._Z, self._bandwidth)
            kept = ~here & (places < len(self._known))
            self._held[places[kept]] = out[kept]
            self._known[places[kept]] = True
        return out

    def part(self, part: slice) -> Floats:
        """Return consecutive rows, not to be written to."""
        if part.stop <= len(self._known) and self._known[part].all():
            return self._held[part]
        return self.rows(np.arange(part.start, part.stop))
