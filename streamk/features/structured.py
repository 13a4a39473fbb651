"""Projections by fast transforms, added to angles: the compiled way of structured directions.

The lanes of a tile hold sixteen rows, or sixteen blocks of features of one row. The faster variant depends on
the shape; both do the same operations on each number (:mod:`streamk.features.segments` has the definition).
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from streamk.compiling import ENTRY, INNER, both
from streamk.features.hadamard import address, gap_of, tile_size, transform
from streamk.features.segments import FIRST, GROUPS, LANE_SIGNS, MOST_GROUPS, RADII, ROW_SIGNS
from streamk.vector.lanes import LANES, empty_aligned
from streamk.vector.tiles import Finish, Target, emit_angles, emit_cosines, gather


@njit(**INNER)
def groups_in(source, s):
    """Return the groups of levels of a segment."""
    count = 0
    for g in range(MOST_GROUPS):
        count += source.segments[s, GROUPS + g] > 0
    return source.segments[s, GROUPS : GROUPS + count]


@njit(**INNER)
def _emit(tile, start, f, step, finish, target):
    if finish.amplitude > 0.0:
        emit_cosines(tile, start, f, step, finish, target)
    else:
        emit_angles(tile, start, f, step, finish, target)


@njit(**INNER)
def project_tile(source, s, inputs, tile, finish, target):
    """Add the projections of sixteen rows on a segment to their angles.

    Parameters
    ----------
    source, s
        The tables, and the number of the segment.
    inputs, tile
        The rows as a tile, and a scratch tile.
    finish, target
        Conversion of projections to features, and their destination (:mod:`streamk.vector.tiles`).
    """
    groups, copies = groups_in(source, s), source.copies
    n, gap = np.int64(1) << groups.sum(), gap_of(groups)
    features = finish.waves.shape[1]
    for block in range(-(-features // (n * copies))):
        transform(groups, inputs, source.row_signs, source.segments[s, ROW_SIGNS] + block * 3 * n, tile)
        for c in range(0, n, LANES):
            f = (block * n + c) * copies
            if f < features:
                _emit(tile, address(c, gap), f, 0, finish, target)


@njit(**INNER)
def project_row(source, s, inputs, tile, finish, out, to):
    """Add the projections of one row, ``inputs`` ``(n,)``, to its angles, ``out[to:]``.

    The lanes are sixteen blocks of features, not rows; the operations on each number are the same.
    """
    groups, copies = groups_in(source, s), source.copies
    n, gap = np.int64(1) << groups.sum(), gap_of(groups)
    features, step = finish.waves.shape[1], n * copies
    target = Target(out, to, step, np.int64(LANES))
    for first in range(0, features, step * LANES):
        sign = source.segments[s, LANE_SIGNS] + first // (step * LANES) * 3 * n
        transform(groups, inputs, source.lane_signs, sign, tile)
        for c in range(0, n, LANES):
            f = first + c * copies
            if f < features:
                _emit(tile, address(c, gap), f, step, finish, target)


@njit(**INNER)
def by_rows(source, s, features, rows):
    """Return whether so many rows are faster one by one than sixteen at once."""
    n = np.int64(1) << groups_in(source, s).sum()
    blocks = -(-features // (n * source.copies))
    return rows * (-(-blocks // LANES)) < blocks * (-(-rows // LANES))


@both()
def add_projections(source, inputs, keys, counts, begin, waves, amplitude, phi):
    """Add the projections of rows of scaled inputs to their angles, and take the cosines.

    Parameters
    ----------
    source
        The tables.
    inputs, keys, counts
        Nonzero inputs, first in their row ``(n, w)``, their keys, and their number. A key up to the number of
        slots is a slot, counted from 1; others are ignored.
    begin, waves, amplitude
        See :class:`streamk.vector.tiles.Finish`.
    phi
        ``(≥ n, features)`` float32.

    Returns
    -------
    bool
        Whether there were projections; if not, nothing was written.
    """
    rows, width = counts.shape[0], phi.shape[1]
    flat = phi.reshape(phi.size)
    count, sparse = source.segments.shape[0], (inputs, keys, counts)
    last = -1
    for s in range(count):
        if _any_in(source, s, keys, counts):
            last = s
    for s in range(last + 1):
        if s != last and not _any_in(source, s, keys, counts):
            continue
        low = np.uint64(source.segments[s, FIRST] + 1)
        groups = groups_in(source, s)
        n, gap = np.int64(1) << groups.sum(), gap_of(groups)
        final = amplitude if s == last else np.float32(0.0)
        finish = Finish(waves, RADII + s, source.copies, begin, final)
        tile = empty_aligned(tile_size(groups))
        if by_rows(source, s, width, rows):
            row = empty_aligned(n)
            for i in range(rows):
                row[:] = np.float32(0.0)
                for j in range(counts[i]):
                    if keys[i, j] - low < np.uint64(n):
                        row[keys[i, j] - low] = inputs[i, j]
                project_row(source, s, row, tile, finish, flat, i * width)
        else:
            spread = empty_aligned(tile_size(groups))
            for start in range(0, rows, LANES):
                spread[:] = np.float32(0.0)
                lanes = min(LANES, rows - start)
                _fill_tile(sparse, start, lanes, low, np.uint64(n), np.uint64(gap), spread)
                project_tile(source, s, spread, tile, finish, Target(flat, start * width, width, lanes))
        begin = False
    return last >= 0


@njit(**INNER)
def _fill_tile(sparse, start, lanes, low, n, gap, tile):
    """Write up to sixteen rows into a tile of zeros: the inputs with keys ``low … low + n − 1``.

    ``sparse`` are inputs, keys and counts as in :func:`add_projections`.
    """
    inputs, keys, counts = sparse
    fields = counts[start]
    alike = fields >= LANES
    for i in range(start + 1, start + lanes):
        alike &= counts[i] == fields
        if alike:
            for j in range(fields):
                alike &= keys[i, j] == keys[start, j]
    if alike:
        places = np.empty(fields, dtype=np.int64)
        for j in range(fields):
            slot = min(keys[start, j] - low, n)  # n: the spare vector
            places[j] = address(np.int64(slot), np.int64(gap))
        for j in range(0, fields, LANES):
            column = min(j, fields - LANES)
            gather(inputs, start, start + lanes - 1, column, places, tile, np.float32(np.inf))
        return
    for lane in range(lanes):
        i = start + lane
        for j in range(counts[i]):
            slot = keys[i, j] - low
            if slot < n:
                tile[(slot + (slot >> gap)) * np.uint64(LANES) + np.uint64(lane)] = inputs[i, j]


@njit(**INNER)
def _any_in(source, s, keys, counts):
    low = np.uint64(source.segments[s, FIRST] + 1)
    n = np.uint64(1) << np.uint64(groups_in(source, s).sum())
    for i in range(counts.shape[0]):
        for j in range(counts[i]):
            if keys[i, j] - low < n:
                return True
    return False


@both(nogil=True)
def project_matrix(source, rows, start, stop, places, limit, waves, amplitude, out, to):
    """Write the features of rows of a matrix, with all slots in the first segment.

    Parameters
    ----------
    rows
        ``(n, d)`` float32 or float64; rows ``start … stop − 1`` are used.
    places
        Slot of every column, ``(d,)``.
    limit
        Maximum absolute value of a number.
    out, to
        Row ``start`` is written to row ``to`` of ``out`` ``(n, features)`` float32.

    Returns
    -------
    bool
        Whether every number was within the limit.
    """
    d, width = rows.shape[1], out.shape[1]
    flat = out.reshape(out.size)
    groups = groups_in(source, 0)
    n, gap = np.int64(1) << groups.sum(), gap_of(groups)
    tile = empty_aligned(tile_size(groups))
    finish = Finish(waves, np.int64(RADII), source.copies, np.bool_(True), amplitude)
    good = True
    if by_rows(source, 0, width, stop - start) or d < LANES:
        row = empty_aligned(n)
        row[:] = np.float32(0.0)
        for i in range(start, stop):
            for j in range(d):
                value = np.float32(rows[i, j])
                good &= abs(value) <= limit
                row[places[j]] = value
            project_row(source, 0, row, tile, finish, flat, (to + i - start) * width)
        return good
    spread = empty_aligned(tile_size(groups))
    spread[:] = np.float32(0.0)
    addresses = np.empty(d, dtype=np.int64)
    for j in range(d):
        addresses[j] = address(places[j], gap)
    for i in range(start, stop, LANES):
        for j in range(0, d, LANES):
            good &= gather(rows, i, stop - 1, min(j, d - LANES), addresses, spread, limit)
        target = Target(flat, (to + i - start) * width, width, min(LANES, stop - i))
        project_tile(source, 0, spread, tile, finish, target)
    return good


@njit(nogil=True, parallel=True, **ENTRY)
def project_chunks(source, rows, size, places, limit, waves, amplitude, out):
    """Run :func:`project_matrix` on all rows, in chunks of ``size`` rows, on Numba's threads."""
    count = rows.shape[0]
    chunks = -(-count // size)
    good = np.zeros(chunks, dtype=np.bool_)
    for c in prange(chunks):
        start = c * size
        stop = min(count, start + size)
        good[c] = project_matrix(source, rows, start, stop, places, limit, waves, amplitude, out, start)
    return good.all()
