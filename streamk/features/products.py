"""Features of many rows by matrix products, tile by tile.

Features are worked on in fixed tiles of columns, and threads take whole tiles, so no number depends on
how many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from streamk.features.activation import AMPLITUDE, activate
from streamk.features.feature_map import FeatureMap
from streamk.rows import slices
from streamk.threads import on_threads

Floats = NDArray[np.float32]
_TILE = 2048  # features in one matrix product
_INPUTS = 4096  # inputs in one matrix product
_GRAM_TILE = 256  # columns of a Gram matrix in one matrix product
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def distinct_inputs(found: NDArray[np.uint64], scaled: Floats) -> tuple[NDArray[np.uint64], Floats]:
    """Return the distinct keys of some rows, ascending, and the rows over them, ``(n, keys)``.

    The order is that of the keys and not of the fields, so a frame and the same rows given as dicts
    make the same product. Key 0 is no input.
    """
    distinct, place = np.unique(found, return_inverse=True)
    dense = np.zeros((len(scaled), len(distinct)), dtype=np.float32)
    dense[np.arange(len(scaled))[:, None], place.reshape(scaled.shape)] = scaled
    present = slice(1 if len(distinct) and distinct[0] == 0 else 0, None)
    return distinct[present], np.ascontiguousarray(dense[:, present])


def features_of(e: FeatureMap, keys: NDArray[np.uint64], dense: Floats, tile: slice) -> Floats:
    """Return the features of one tile of columns, ``(rows, tile)``."""
    angles = np.zeros((len(dense), tile.stop - tile.start), dtype=np.float32)
    for start in range(0, len(keys), _INPUTS):
        chunk = slice(start, start + _INPUTS)
        angles += dense[:, chunk] @ e.frequencies(keys, chunk, tile)
    angles += e.phases[tile]
    activate(e.kind, AMPLITUDE, angles, len(angles), max(0, min(e.features, tile.stop) - tile.start))
    return angles


def tiles_of(width: int) -> list[slice]:
    """Return the tiles of so many columns."""
    return slices(width, _TILE)


def products_on_threads(work: Callable[[_Job], _Result], jobs: Sequence[_Job]) -> list[_Result]:
    """Do :func:`on_threads` for work with matrix products, each of them on the thread that asks for it."""
    with one_blas_thread():
        return on_threads(work, jobs)


def add_gram(out: NDArray[np.float64], left: NDArray[Any], right: NDArray[Any]) -> None:
    """Add ``leftᵀ right`` to ``out``, its lower triangle alone (whole tiles of it), on threads."""

    def work(columns: slice) -> None:
        out[columns.start :, columns] += left[:, columns.start :].T @ right[:, columns]

    products_on_threads(work, slices(len(out), _GRAM_TILE))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on the thread that asks for them, so that their sums have one order."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
