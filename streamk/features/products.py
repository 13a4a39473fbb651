"""Features of many rows by matrix products, tile by tile.

Features are computed in fixed tiles of columns, and threads take whole tiles, so no number depends on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Floats
from streamk.encoding.rows import slices
from streamk.features.activation import AMPLITUDE, activate
from streamk.features.map import FeatureMap
from streamk.threads import on_threads, one_blas_thread

_TILE = 2048  # features in one matrix product
_INPUTS = 4096  # inputs in one matrix product
_GRAM_TILE = 256  # columns of a Gram matrix in one matrix product
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def distinct_inputs(keys: NDArray[np.uint64], scaled: Floats) -> tuple[NDArray[np.uint64], Floats]:
    """Return the distinct keys of rows, ascending, and the rows by key, ``(families, n, keys)``.

    Key 0 is no input.
    """
    distinct, place = np.unique(keys, return_inverse=True)
    families, rows, _ = scaled.shape
    dense = np.zeros((families, rows, len(distinct)), dtype=np.float32)
    dense[:, np.arange(rows)[:, None], place.reshape(keys.shape)] = scaled
    present = slice(1 if len(distinct) and distinct[0] == 0 else 0, None)
    return distinct[present], np.ascontiguousarray(dense[:, :, present])


def features_of(e: FeatureMap, keys: NDArray[np.uint64], dense: Floats, tile: slice) -> Floats:
    """Return the features of one tile of columns, ``(rows, tile)``."""
    angles = np.zeros((dense.shape[1], tile.stop - tile.start), dtype=np.float32)
    for start in range(0, len(keys), _INPUTS):
        chunk = slice(start, start + _INPUTS)
        frequencies = e.frequencies(keys, chunk, tile)
        for inputs, columns in zip(dense, e.columns_by_inputs(tile), strict=True):
            angles[:, columns] += inputs[:, chunk] @ frequencies[:, columns]
    angles += e.phases[tile]
    activate(e.kind, AMPLITUDE, angles, len(angles), max(0, min(e.features, tile.stop) - tile.start))
    return angles


def tiles_of(start: int, stop: int) -> list[slice]:
    """Return the tiles of columns ``start … stop − 1``."""
    return [slice(start + tile.start, start + tile.stop) for tile in slices(stop - start, _TILE)]


def total(parts: Iterable[Floats]) -> Floats:
    """Return the sum of arrays, in their order."""
    first, *others = parts
    result = first
    for part in others:
        result = result + part
    return result


def products_on_threads(work: Callable[[_Job], _Result], jobs: Sequence[_Job]) -> list[_Result]:
    """Run :func:`on_threads` for work with matrix products, each on its calling thread."""
    with one_blas_thread():
        return on_threads(work, jobs)


def add_gram(out: Array, left: AnyArray, right: AnyArray) -> None:
    """Add ``leftᵀ right`` to the lower triangle of ``out`` (in whole tiles), on threads."""

    def work(columns: slice) -> None:
        out[columns.start :, columns] += left[:, columns.start :].T @ right[:, columns]

    products_on_threads(work, slices(len(out), _GRAM_TILE))
