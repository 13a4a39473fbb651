"""The features of many rows as one matrix, and its products; each row has the bytes of a single row.

Fast transforms and sketches process sixteen rows at a time; with frequencies in a table, rows with the same
fields are processed in panels of four, others one by one. Threads take whole chunks of rows or whole tiles of
columns. For matrix products, tiles of columns are fixed, so no number depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Floats, Integers
from streamk.compiling import ENTRY
from streamk.encoding.rows import ABSENT, UNSCALED, EncodedRows, slices
from streamk.encoding.scaling import scale_of, scale_rows
from streamk.features.frequencies import CACHE_BYTES
from streamk.features.map import BLOCK, FeatureMap
from streamk.features.sources import featurize, room_for_row, rows_at_once
from streamk.features.spectra import AMPLITUDE, COSINE, activate
from streamk.features.structured import Structured, project_chunks, project_matrix
from streamk.threads import compiled_threads, on_threads, one_blas_thread
from streamk.vector.angles import ROWS, fill_angles, fill_panel_angles, pack
from streamk.vector.lanes import LANES

_ROWS = 64  # rows per chunk of a thread, a multiple of sixteen
_SHARES = 8  # of a matrix, if they are not too large
_TILE = 2048  # features in one matrix product
_INPUTS = 4096  # inputs in one matrix product
_GRAM_TILE = 256  # columns of a Gram matrix in one matrix product
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def fill(e: FeatureMap, rows: EncodedRows, statistics: Array, amplitude: np.float32, out: Floats) -> None:
    """Fill ``out`` (n, ≥ features) with the features of rows; surplus columns become 0.

    Parameters
    ----------
    e
        The map, with the slots of the rows.
    rows, statistics
        Encoded rows, and the statistics for scaling.
    amplitude
        See :func:`streamk.features.spectra.activate`.
    out
        Float32.
    """
    if e.source is not None:
        _fill_by_rows(e, rows, statistics, amplitude, out)
    elif (
        len(rows.keys) == 1 and len(out) >= ROWS and (rows.slots == UNSCALED).all() and len(e.exponents) == 1
    ):
        _fill_alike(e, rows, amplitude, out)
    else:
        _fill_by_columns(e, rows, statistics, amplitude, out)
    out[:, e.features :] = 0.0


@njit(nogil=True, **ENTRY)
def _featurize_tiles(source, features, inputs, keys, counts, amplitude, phi):
    """Run ``featurize`` on as many rows at once as the cache can hold.

    Returns 0, or the number of frequencies of a row that does not fit the cache.
    """
    room = room_for_row(source, keys)
    if room > features.frequencies.shape[0]:
        return room
    rows, tile = keys.shape[0], rows_at_once(room, keys, features.frequencies)
    for start in range(0, rows, tile):
        stop = min(rows, start + tile)
        featurize(
            source, features, inputs[:, start:stop], keys[start:stop], counts[start:stop], amplitude,
            phi[start:stop],
        )  # fmt: skip
    return 0


def fill_here(
    e: FeatureMap, rows: EncodedRows, statistics: Array, amplitude: np.float32, phi: Floats
) -> None:
    """Fill ``phi`` (n, width) with the features of rows, on this thread with the map's cache."""
    scaled, keys, counts = scale_rows(rows, statistics, e.exponents)
    while room := _featurize_tiles(e.source, e.record, scaled, keys, counts, amplitude, phi):
        e.make_room(room)
    if e.cache.counts[1]:
        e.make_room()


def project(e: FeatureMap, X: AnyArray, places: Integers, amplitude: np.float32, out: Floats) -> bool:
    """Fill ``out`` (n, features) with features of a matrix of numbers; column ``j`` has slot ``places[j]``.

    Returns False, with ``out`` undefined, if rows need encoding: several segments, a kernel without cosines,
    a number too large or NaN, features that do not fill vectors.
    """
    source = e.source
    if not isinstance(source, Structured) or e.kind != COSINE or len(source.segments) > 1:
        return False
    if e.features % LANES:
        return False
    X = X if X.flags.c_contiguous else np.ascontiguousarray(X)
    waves = e.waves if e.features == e.width else np.ascontiguousarray(e.waves[:, : e.features])
    # rounding must not accept a larger number
    count, limit = len(X), np.nextafter(np.float32(e.largest), np.float32(0.0))
    size = min(max(1, count // _SHARES // LANES) * LANES, 2 * _ROWS)
    if count <= LANES:
        return bool(project_matrix(source, X, 0, count, places, limit, waves, amplitude, out, 0))
    if compiled_threads():
        return bool(project_chunks(source, X, size, places, limit, waves, amplitude, out))

    def work(rows: slice) -> bool:
        return bool(
            project_matrix(source, X, rows.start, rows.stop, places, limit, waves, amplitude, out, rows.start)
        )

    return all(on_threads(work, slices(count, size)))


def empty(rows: int, columns: int) -> Floats:
    """Return an array from NumPy's allocator, which uses large pages; aligned if that pays."""
    if rows <= LANES:
        return np.empty((rows, columns), dtype=np.float32)
    buffer = np.empty(rows * columns + LANES, dtype=np.float32)
    skip = -(buffer.ctypes.data // 4) % LANES
    return buffer[skip : skip + rows * columns].reshape(rows, columns)


def _fill_by_rows(
    e: FeatureMap, rows: EncodedRows, statistics: Array, amplitude: np.float32, out: Floats
) -> None:
    whole = out.shape[1] == e.width

    def work(chunk: slice) -> None:
        phi = out[chunk] if whole else np.empty((chunk.stop - chunk.start, e.width), dtype=np.float32)
        fill_here(e, rows.select(chunk), statistics, amplitude, phi)
        if not whole:
            out[chunk] = phi[:, : out.shape[1]]

    if e.needs_cache(rows):
        for chunk in slices(len(out), _ROWS):
            work(chunk)
    else:
        on_threads(work, slices(len(out), _ROWS))


def _fill_by_columns(
    e: FeatureMap, rows: EncodedRows, statistics: Array, amplitude: np.float32, out: Floats
) -> None:
    scaled, keys, counts = scale_rows(rows, statistics, e.exponents)
    distinct, place = np.unique(keys, return_inverse=True)
    where = place.reshape(keys.shape).astype(np.int32)
    e.hold_frequencies(distinct)

    def fill(tile: slice) -> None:
        frequencies = np.ascontiguousarray(e.frequencies(distinct, slice(None), tile))
        waves = np.ascontiguousarray(e.waves[:, tile])
        runs = e.runs_in(tile)
        used = min(e.features, tile.stop) - tile.start

        def work(chunk: slice) -> None:
            phi = np.empty((chunk.stop - chunk.start, waves.shape[1]), dtype=np.float32)
            fill_angles(scaled[:, chunk], where[chunk], counts[chunk], frequencies, waves, runs, phi)
            activate(e.kind, amplitude, phi, len(phi), used)
            out[chunk, tile.start : tile.start + used] = phi[:, :used]

        on_threads(work, slices(len(out), _ROWS))

    for tile in _tiles(e.width, len(distinct)):
        fill(tile)


def _fill_alike(e: FeatureMap, rows: EncodedRows, amplitude: np.float32, out: Floats) -> None:
    order = np.argsort(rows.keys[0], kind="stable")
    order = order[rows.keys[0][order] != ABSENT]
    keys = rows.keys[0][order]
    inputs = np.zeros((len(out) + -len(out) % ROWS, len(keys)), dtype=np.float32)
    factor = np.float64(scale_of(len(keys), e.exponents[0]))
    inputs[: len(out)] = rows.values[:, order].astype(np.float32) * factor
    e.hold_frequencies(keys)

    def fill(tile: slice) -> None:
        panels = pack(e.frequencies(keys, slice(None), tile))
        phases = np.ascontiguousarray(e.phases[tile])
        used = min(e.features, tile.stop) - tile.start

        def work(chunk: slice) -> None:
            count = chunk.stop - chunk.start
            phi = np.empty((count + -count % ROWS, len(phases)), dtype=np.float32)
            fill_panel_angles(inputs, chunk.start, chunk.stop, panels, phases, phi)
            activate(e.kind, amplitude, phi, count, used)
            out[chunk, tile.start : tile.start + used] = phi[:count, :used]

        on_threads(work, slices(len(out), _ROWS))

    for tile in _tiles(e.width, len(keys)):
        fill(tile)


def _tiles(width: int, inputs: int) -> list[slice]:
    """Return tiles of whole blocks, with as many columns as 64 MiB of frequencies allow, at most 1,024."""
    columns = min(1024, max(1, CACHE_BYTES // (4 * BLOCK * max(inputs, 1))) * BLOCK)
    return slices(width, columns)


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
