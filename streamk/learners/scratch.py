"""Scratch arrays of the compiled loop, kept for the next rows of the same width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Places
from streamk.combining.combiner import Combiner
from streamk.features.columns.plain import Keys
from streamk.features.map import FeatureMap
from streamk.features.relevance import BLOCKS
from streamk.handles import Handle, make_handle
from streamk.vector.lanes import LANES, aligned

_MOST_WIDTHS = 64


class Buffers(NamedTuple):
    """Scratch arrays for rows, of the experts' outputs, and of the combiner."""

    inputs: Floats
    keys: Keys
    slots: NDArray[np.int32]
    counts: Places
    units: Array
    raw: Floats
    columns: Floats
    outputs: Floats
    working: Handle
    residual: Array


class Scratch:
    """Scratch arrays for a map, so many experts and outputs, and a combiner."""

    def __init__(self, e: FeatureMap, experts: int, outputs: int, combiner: Combiner) -> None:
        self._map, self._experts, self._outputs, self._combiner = e, experts, outputs, combiner
        self._of_row: dict[int, Handle] = {}
        self._width, self._free = -1, list[Handle]()

    def of_row(self, width: int) -> Handle:
        """Return the arrays for single rows of so many inputs."""
        buffers = self._of_row.get(width)
        if buffers is None:
            if len(self._of_row) >= _MOST_WIDTHS:
                self._of_row.clear()
            buffers = self._of_row[width] = self._make(1, width)
        return buffers

    def take(self, width: int) -> Handle:
        """Return arrays for tiles of rows of so many inputs, which no other thread has."""
        if width != self._width:
            self._width, self._free = width, []
        try:
            return self._free.pop()
        except IndexError:
            return self._make(LANES, width)

    def put_back(self, width: int, handle: Handle) -> None:
        """Keep arrays for the next call."""
        if width == self._width:
            self._free.append(handle)

    def _make(self, rows: int, width: int) -> Handle:
        return make_handle((self.arrays(rows, width), self.arrays(1, width)))

    def arrays(self, rows: int, width: int) -> Handle:
        """Return new arrays for so many rows of so many inputs."""
        e = self._map
        kinds = len(e.exponents) * (1 if e.sections is None else 1 + BLOCKS)
        columns = 0 if e.sections is None else e.columns
        buffers = Buffers(
            np.empty((kinds, rows, width), dtype=np.float32),
            np.empty((rows, width), dtype=np.uint64),
            np.empty((rows, width), dtype=np.int32),
            np.empty(rows, dtype=np.int64),
            np.empty(rows),
            aligned(np.zeros((rows, e.width), dtype=np.float32)),
            aligned(np.zeros((rows, columns), dtype=np.float32)),
            np.empty((self._experts, 2, self._outputs), dtype=np.float32),
            self._combiner.scratch(self._outputs),
            np.empty(self._outputs, dtype=np.float64),
        )
        return make_handle(buffers)
