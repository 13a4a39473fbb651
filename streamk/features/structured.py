"""Structured directions: random orthogonal frequencies by fast transforms (SORF, Yu et al. 2016).

A number has a *slot*, its position among the numbers learned. The frequencies of a block of ``n = 2^k`` slots
are the rows of ``H D₁ H D₂ H D₃``: three random signs a slot where a Gaussian matrix needs ``n`` normals, and
``3 log₂ n`` additions a projection where it needs ``n`` products. The rows have the length ``n^{3/2}``; times
``χ_n √a/n^{3/2}`` they have that of the kernel's frequencies, so only the angles between them differ from
those of independent draws.

One projection serves several features: a cosine and a sine (a phase and the same less a quarter turn) at
every scale of the bandwidth. With ``C`` features a projection (*copies*), those of projection ``p`` are
``16 C ⌊p/16⌋ + 16 c + p mod 16``, so each group of sixteen is one vector, and every 32 features have a scale.

Slots are in *segments*. The first has as many slots as the first event has numbers, rounded up to a power of
two. When there are more names, another segment as large as all before is added, with separate signs. Existing
slots keep their frequencies, so the features of earlier events do not change.

Categories have no slots: their frequencies are keyed (:mod:`streamk.vector.angles`) and added to the angles.

``H`` is the Walsh–Hadamard matrix of ``n = 2^k`` rows without normalisation (entries ±1), ``D`` a diagonal
of random signs. A transform is ``k`` levels of additions, computed in *groups* of three to five levels on 8
to 32 registers, so numbers are loaded and stored once per group, or once for two groups of the same levels
with signs between them. The order of levels is fixed (upwards, downwards, upwards), so every result is the
same sum of float32 numbers.

Sixteen vectors are transformed at once: a *tile* holds ``n`` vectors of 16 lanes. The lanes are rows with
common signs (a flat array of signs), or copies of one row with different signs, for sixteen blocks of
features (an array with sixteen columns). The faster variant depends on the shape; both do the same operations
on each number. After every 16 or 32 coordinates (the lowest group) one vector is unused, so that strides of
whole kilobytes do not map a group to two sets of the cache; a tile of 64 is small enough without.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.polynomial.chebyshev import chebfit, chebpts1, chebval

from streamk.arrays import Array, Floats, Integers
from streamk.compiling import ENTRY, INNER, both
from streamk.features.counter import fill_bits, mix64_int, uniforms
from streamk.vector.lanes import HERE, LANES, aligned, empty_aligned
from streamk.vector.sweeps import Finish, Target, emit_angles, emit_cosines, gather, opening, plain, turning

MOST_BITS = 16
LEAST_SLOTS = 64
FIRST, ROW_SIGNS, LANE_SIGNS, GROUPS = 0, 1, 2, 3
RADII = 2  # row of the waves with the radii of the first segment
MOST_GROUPS = 4
_FARTHEST = 6.5  # the normal quantile of 2⁻³³, the smallest drawn number, is −6.4


def groups_of(bits: int) -> Integers:
    """Return the groups of levels of a transform of ``2**bits``, lowest first."""
    count = max(2, -(-bits // 5))
    return np.array([bits // count + (i < bits % count) for i in range(count)], dtype=np.int64)


@njit(cache=True, inline="always", error_model="numpy")
def gap_of(groups):
    """Return the ``gap`` of a tile: one vector is unused after every ``2**gap`` coordinates."""
    return groups[0] if groups[0] > 3 else np.int64(MOST_BITS)


@njit(cache=True, inline="always", error_model="numpy")
def address(coordinate, gap):
    """Return the offset of the vector of a coordinate in a tile."""
    return (coordinate + (coordinate >> gap)) * LANES


@both()
def tile_size(groups):
    """Return the numbers in a tile, with one spare vector after the coordinates."""
    return address(np.int64(1) << groups.sum(), gap_of(groups)) + LANES


@both(nogil=True)
def transform(groups, inputs, signs, first, tile):
    """Fill ``tile`` with ``H D₁ H D₂ H D₃ x``.

    Parameters
    ----------
    groups
        See :func:`groups_of`.
    inputs
        ``x``: a tile like the result, or ``n`` numbers common to all lanes.
    signs
        ±1 (float32): ``D₃``, ``D₂`` and ``D₁``, consecutive from ``first`` on; ``(≥ first + 3n,)`` if common
        to all lanes, otherwise ``(≥ first + 3n, 16)``.
    """
    last = groups.shape[0] - 1
    bits, low, gap = groups.sum(), groups[0], gap_of(groups)
    n = np.int64(1) << bits
    for c in range(0, n, np.int64(1) << low):
        _open(low, inputs, c, gap, signs, first + c, tile)
    level = low
    for g in range(1, last):
        _each(groups[g], level, bits, gap, tile)
        level += groups[g]
    _each_turn(groups[last], level, bits, gap, signs, first + n, tile)
    for g in range(last - 1, 0, -1):
        level -= groups[g]
        _each(groups[g], level, bits, gap, tile)
    _each_turn(low, np.int64(0), bits, gap, signs, first + 2 * n, tile)
    level = low
    for g in range(1, last + 1):
        _each(groups[g], level, bits, gap, tile)
        level += groups[g]


@njit(**INNER)
def _open(size, inputs, c, gap, signs, sign, tile):
    if size == 3:
        _open3(inputs, c, gap, signs, sign, tile)
    elif size == 4:
        _open4(inputs, c, gap, signs, sign, tile)
    else:
        _open5(inputs, c, gap, signs, sign, tile)


@njit(**INNER)
def _each(size, level, bits, gap, tile):
    """Apply the levels ``level … level + size − 1``."""
    step = np.int64(1) << level
    stride = address(step, gap)
    for block in range(0, np.int64(1) << bits, step << size):
        for c in range(block, block + step):
            if size == 3:
                _plain3(tile, address(c, gap), stride)
            elif size == 4:
                _plain4(tile, address(c, gap), stride)
            else:
                _plain5(tile, address(c, gap), stride)


@njit(**INNER)
def _each_turn(size, level, bits, gap, signs, sign, tile):
    """Apply levels, then signs, then the same levels."""
    step = np.int64(1) << level
    stride = address(step, gap) if level > 0 else np.int64(LANES)
    for block in range(0, np.int64(1) << bits, step << size):
        for c in range(block, block + step):
            if size == 3:
                _turn3(tile, address(c, gap), stride, signs, sign + c, step)
            elif size == 4:
                _turn4(tile, address(c, gap), stride, signs, sign + c, step)
            else:
                _turn5(tile, address(c, gap), stride, signs, sign + c, step)


_open3, _open4, _open5 = (opening(size, HERE) for size in (3, 4, 5))
_plain3, _plain4, _plain5 = (plain(size, HERE) for size in (3, 4, 5))
_turn3, _turn4, _turn5 = (turning(size, HERE) for size in (3, 4, 5))


class Structured(NamedTuple):
    """The segments for compiled code.

    ``segments`` (int64) has one row per segment: its first slot, the start of its signs in ``row_signs``
    (flat, block after block) and in ``lane_signs`` ``(·, 16)`` (sixteen blocks in lanes), and the groups of
    its transform.
    """

    segments: Integers
    row_signs: Floats
    lane_signs: Floats
    copies: int


def chi(n: int, u: Array) -> Array:
    """Return the quantiles ``u`` of the length of a Gaussian vector of ``n ≥ 64`` numbers.

    ``√(2 γ⁻¹(n/2, u))`` is a smooth, almost linear function of the normal quantile of ``u``: a polynomial
    through 24 points of it is exact to 10⁻⁹ and fifty times faster.
    """
    from scipy.special import ndtri

    lengths: Array = chebval(ndtri(u) / _FARTHEST, _chi_series(n))
    return lengths


@cache
def _chi_series(n: int) -> Array:
    from scipy.special import gammaincinv, ndtr

    points = chebpts1(24)
    lengths = np.sqrt(2.0 * gammaincinv(n / 2, ndtr(_FARTHEST * points)))
    return chebfit(points, lengths, 23)


def slots_of_first(slots: int) -> int:
    """Return the slots of a first segment with at least so many."""
    return max(LEAST_SLOTS, 1 << (slots - 1).bit_length()) if slots > 0 else LEAST_SLOTS


class Segments:
    """The open segments, and the tables derived from the seed.

    Parameters
    ----------
    seed
        The seed of the map.
    slots
        Slots of the first segment, at least.
    radii
        ``√a/2πℓ`` of every feature, ``(width,)`` float64.
    copies
        Features per projection.
    """

    def __init__(self, seed: int, slots: int, radii: Array, copies: int) -> None:
        self._seed, self._base, self._copies = seed, radii, copies
        projections = -(-len(radii) // (LANES * copies)) * LANES
        self._projection = np.arange(len(radii)) // (LANES * copies) * LANES + np.arange(len(radii)) % LANES
        self._projections = projections
        self.slots = 0
        self.radii: list[Floats] = []
        self._rows: list[list[int]] = []
        self._row_signs: list[Floats] = []
        self._lane_signs: list[Floats] = []
        self.cover(slots)

    def cover(self, slots: int) -> None:
        """Open segments until there are ``slots`` slots."""
        while self.slots < max(slots, LEAST_SLOTS):
            size = self.slots or slots_of_first(slots)
            self._open(size)
            self.slots += size

    def _open(self, n: int) -> None:
        key = mix64_int(self._seed ^ mix64_int(0x7365676D656E7473 + len(self._rows)))
        blocks = -(-self._projections // n)
        words = np.empty(3 * n * blocks // 32, dtype=np.uint32)
        fill_bits(np.uint64(key), words)
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
        signs = (1.0 - 2.0 * bits).astype(np.float32)
        lanes = -blocks % LANES
        side_by_side = np.concatenate([signs, np.ones(lanes * 3 * n, np.float32)]).reshape(-1, LANES, 3 * n)
        groups = groups_of(n.bit_length() - 1)
        before = sum(map(len, self._row_signs)), sum(map(len, self._lane_signs))
        self._rows.append([self.slots, *before, *groups, *[0] * (MOST_GROUPS - len(groups))])
        self._row_signs.append(signs)
        self._lane_signs.append(side_by_side.transpose(0, 2, 1).reshape(-1, LANES))
        lengths = chi(n, uniforms(mix64_int(key + 1), self._projections))
        self.radii.append((self._base * lengths[self._projection] / n**1.5).astype(np.float32))

    def compiled(self) -> Structured:
        """Return the tables for compiled code."""
        return Structured(
            np.array(self._rows, dtype=np.int64),
            aligned(np.concatenate(self._row_signs)),
            aligned(np.concatenate(self._lane_signs)),
            self._copies,
        )


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
        Conversion of projections to features, and their destination (:mod:`streamk.vector.sweeps`).
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
        See :class:`streamk.vector.sweeps.Finish`.
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
