"""Structured directions: random orthogonal frequencies by fast transforms (SORF, Yu et al. 2016).

A number has a *slot*, its position among the numbers learned. The frequencies of a block of ``n = 2^k``
slots are the rows of ``H D₁ H D₂ H D₃`` (:mod:`streamk.features.hadamard`): three random signs a slot where
a Gaussian matrix needs ``n`` normals, and ``3 log₂ n`` additions a projection where it needs ``n``
products. The rows have the length ``n^{3/2}``; times ``χ_n √a/n^{3/2}`` they have that of the kernel's own
frequencies, so only the angles between them differ from those of independent draws.

One projection serves several features: a cosine and a sine (a phase and the same less a quarter turn) at
every scale of the bandwidth. With ``C`` features a projection (*copies*), those of projection ``p`` are
``16 C ⌊p/16⌋ + 16 c + p mod 16``, so each group of sixteen is one vector, and every 32 features have a scale.

Slots come in *segments*. The first has as many as the numbers of the first event, rounded up to a power of
two, and when the names outgrow it, another as large as all before is added, with signs of its own. The old
slots keep their frequencies, so the features of an old event keep their values.

Categories have no slots: their frequencies are keyed (:mod:`streamk.features.keyed`) and added to the angles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from streamk.features.counter import fill_bits, mix64_int, uniforms
from streamk.features.hadamard import address, gap_of, groups_of, tile_size, transform
from streamk.features.lanes import LANES, aligned, empty_aligned
from streamk.features.tiles import emit_angles, emit_cosines, gather

LEAST_SLOTS = 64
FIRST, ROW_SIGNS, LANE_SIGNS, GROUPS = 0, 1, 2, 3
RADII = 2  # row of the waves where the radii of the first segment are
_MOST_GROUPS = 4


class Structured(NamedTuple):
    """What compiled code needs to know of the segments.

    ``segments`` (int64) has a row each: its first slot, where its signs begin in ``row_signs`` (flat, block
    after block) and in ``lane_signs`` ``(·, 16)`` (sixteen blocks side by side), and the groups of its
    transform.
    """

    segments: NDArray[np.int64]
    row_signs: NDArray[np.float32]
    lane_signs: NDArray[np.float32]
    copies: int


def chi(n: int, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantiles ``u`` of the length of a Gaussian vector of ``n ≥ 64`` numbers.

    ``√(2 γ⁻¹(n/2, u))`` is a smooth, almost linear function of the normal quantile of ``u``: a polynomial
    through 24 points of it is exact to 10⁻⁹ and fifty times faster.
    """
    from scipy.special import gammaincinv, ndtr, ndtri

    most = 6.5  # the normal quantile of 2⁻³³ is −6.4
    points = np.polynomial.chebyshev.chebpts1(24)
    exact = np.sqrt(2.0 * gammaincinv(n / 2, ndtr(most * points)))
    series = np.polynomial.chebyshev.chebfit(points, exact, 23)
    lengths: NDArray[np.float64] = np.polynomial.chebyshev.chebval(ndtri(u) / most, series)
    return lengths


def slots_of_first(slots: int) -> int:
    """Return the slots of a first segment that is to have at least so many."""
    return max(LEAST_SLOTS, 1 << (slots - 1).bit_length()) if slots > 0 else LEAST_SLOTS


class Segments:
    """The segments that are open, and the tables that follow from the seed.

    Parameters
    ----------
    seed
        The seed of the map.
    slots
        Slots of the first segment, at least.
    radii
        ``√a/2πℓ`` of every feature, ``(width,)`` float64.
    copies
        Features a projection.
    """

    def __init__(self, seed: int, slots: int, radii: NDArray[np.float64], copies: int) -> None:
        self._seed, self._base, self._copies = seed, radii, copies
        projections = -(-len(radii) // (LANES * copies)) * LANES
        self._projection = np.arange(len(radii)) // (LANES * copies) * LANES + np.arange(len(radii)) % LANES
        self._projections = projections
        self.slots = 0
        self.radii: list[NDArray[np.float32]] = []
        self._rows: list[list[int]] = []
        self._row_signs: list[NDArray[np.float32]] = []
        self._lane_signs: list[NDArray[np.float32]] = []
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
        self._rows.append([self.slots, *before, *groups, *[0] * (_MOST_GROUPS - len(groups))])
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


@njit(cache=True, error_model="numpy")
def groups_in(source, s):  # type: ignore[no-untyped-def]
    """Return the groups of levels of a segment."""
    count = 0
    for g in range(_MOST_GROUPS):
        count += source.segments[s, GROUPS + g] > 0
    return source.segments[s, GROUPS : GROUPS + count]


@njit(cache=True, error_model="numpy")
def _emit(tile, start, waves, radius, f, step, copies, begin, amplitude, out, to, across, count):  # type: ignore[no-untyped-def]
    if amplitude > 0.0:
        emit_cosines(tile, start, waves, radius, f, step, copies, begin, amplitude, out, to, across, count)
    else:
        emit_angles(tile, start, waves, radius, f, step, copies, begin, amplitude, out, to, across, count)


@njit(cache=True, error_model="numpy")
def project_tile(source, s, inputs, tile, waves, begin, amplitude, out, to, across, count):  # type: ignore[no-untyped-def]
    """Add the projections of sixteen rows on a segment to their angles.

    Parameters
    ----------
    source, s
        The tables, and the number of the segment.
    inputs, tile
        The rows as a tile, and a tile to work in.
    waves
        ``(2 + segments, features)`` float32: phases, keyed radii, radii of the segments.
    begin
        Whether angles begin at the phases here, instead of what is in ``out``.
    amplitude
        Of the cosines to write; 0 writes the angles.
    out, to, across, count
        The angles of row ``i < count`` of the tile are at ``out[to + i · across]`` (flat) and after.
    """
    groups, copies = groups_in(source, s), source.copies
    n, gap = np.int64(1) << groups.sum(), gap_of(groups)
    features = waves.shape[1]
    for block in range(-(-features // (n * copies))):
        transform(groups, inputs, source.row_signs, source.segments[s, ROW_SIGNS] + block * 3 * n, tile)
        for c in range(0, n, LANES):
            f = (block * n + c) * copies
            if f < features:
                _emit(
                    tile, address(c, gap), waves, RADII + s, f, 0, copies, begin, amplitude,
                    out, to + f, across, count,
                )  # fmt: skip


@njit(cache=True, error_model="numpy")
def project_row(source, s, inputs, tile, waves, begin, amplitude, out, to):  # type: ignore[no-untyped-def]
    """Add the projections of one row, ``inputs`` ``(n,)``, to its angles, as :func:`project_tile` does.

    The lanes are sixteen blocks of features, not rows; the operations on a number are the same.
    """
    groups, copies = groups_in(source, s), source.copies
    n, gap = np.int64(1) << groups.sum(), gap_of(groups)
    features, step = waves.shape[1], n * copies
    for first in range(0, features, step * LANES):
        sign = source.segments[s, LANE_SIGNS] + first // (step * LANES) * 3 * n
        transform(groups, inputs, source.lane_signs, sign, tile)
        for c in range(0, n, LANES):
            f = first + c * copies
            if f < features:
                _emit(
                    tile, address(c, gap), waves, RADII + s, f, step, copies, begin, amplitude,
                    out, to + f, step, LANES,
                )  # fmt: skip


@njit(cache=True, error_model="numpy")
def by_rows(source, s, features, rows):  # type: ignore[no-untyped-def]
    """Return whether so many rows are done sooner one by one than sixteen at once."""
    n = np.int64(1) << groups_in(source, s).sum()
    blocks = -(-features // (n * source.copies))
    return rows * (-(-blocks // LANES)) < blocks * (-(-rows // LANES))


@njit(cache=True, error_model="numpy")
def add_projections(source, inputs, found, counts, begin, waves, amplitude, phi):  # type: ignore[no-untyped-def]
    """Add the projections of rows of scaled inputs to their angles, and take the cosines.

    Parameters
    ----------
    source, waves, amplitude
        As for :func:`project_tile`.
    inputs, found, counts
        Inputs that are not 0, first in their row ``(n, w)``, their keys, and how many there are. A key up to
        the number of slots is a slot, counted from 1; others are not looked at.
    begin
        Whether angles begin at the phases, instead of what is in ``phi``.
    phi
        ``(≥ n, features)`` float32.

    Returns
    -------
    bool
        Whether there was any projection; if not, nothing was written.
    """
    rows, width = counts.shape[0], phi.shape[1]
    flat = phi.reshape(phi.size)
    count = source.segments.shape[0]
    last = -1
    for s in range(count):
        if _any_in(source, s, found, counts):
            last = s
    for s in range(last + 1):
        if s != last and not _any_in(source, s, found, counts):
            continue
        low = np.uint64(source.segments[s, FIRST] + 1)
        groups = groups_in(source, s)
        n, gap = np.int64(1) << groups.sum(), gap_of(groups)
        final = amplitude if s == last else np.float32(0.0)
        tile = empty_aligned(tile_size(groups))
        if by_rows(source, s, width, rows):
            row = empty_aligned(n)
            for i in range(rows):
                row[:] = np.float32(0.0)
                for j in range(counts[i]):
                    if found[i, j] - low < np.uint64(n):
                        row[found[i, j] - low] = inputs[i, j]
                project_row(source, s, row, tile, waves, begin, final, flat, i * width)
        else:
            spread = empty_aligned(tile_size(groups))
            for start in range(0, rows, LANES):
                spread[:] = np.float32(0.0)
                lanes = min(LANES, rows - start)
                _fill_tile(inputs, found, counts, start, lanes, low, np.uint64(n), np.uint64(gap), spread)
                project_tile(source, s, spread, tile, waves, begin, final, flat, start * width, width, lanes)
        begin = False
    return last >= 0


@njit(cache=True, error_model="numpy")
def _fill_tile(inputs, found, counts, start, lanes, low, n, gap, tile):  # type: ignore[no-untyped-def]
    """Write up to sixteen rows into a tile of zeros: the inputs whose keys are ``low … low + n − 1``."""
    fields = counts[start]
    alike = fields >= LANES
    for i in range(start + 1, start + lanes):
        alike &= counts[i] == fields
        if alike:
            for j in range(fields):
                alike &= found[i, j] == found[start, j]
    if alike:
        places = np.empty(fields, dtype=np.int64)
        for j in range(fields):
            slot = min(found[start, j] - low, n)  # n: the spare vector
            places[j] = address(np.int64(slot), np.int64(gap))
        for j in range(0, fields, LANES):
            column = min(j, fields - LANES)
            gather(inputs, start, start + lanes - 1, column, places, tile, np.float32(np.inf))
        return
    for lane in range(lanes):
        i = start + lane
        for j in range(counts[i]):
            slot = found[i, j] - low
            if slot < n:
                tile[(slot + (slot >> gap)) * np.uint64(LANES) + np.uint64(lane)] = inputs[i, j]


@njit(cache=True, error_model="numpy")
def _any_in(source, s, found, counts):  # type: ignore[no-untyped-def]
    low = np.uint64(source.segments[s, FIRST] + 1)
    n = np.uint64(1) << np.uint64(groups_in(source, s).sum())
    for i in range(counts.shape[0]):
        for j in range(counts[i]):
            if found[i, j] - low < n:
                return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def project_matrix(source, rows, start, stop, places, limit, waves, amplitude, out, to):  # type: ignore[no-untyped-def]
    """Write the features of some rows of a matrix whose slots are all in the first segment.

    Parameters
    ----------
    rows
        ``(n, d)`` float32 or float64; rows ``start … stop − 1`` are taken.
    places
        Slot of every column, ``(d,)``.
    limit
        The largest size a number may have.
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
    good = True
    if by_rows(source, 0, width, stop - start) or d < LANES:
        row = empty_aligned(n)
        row[:] = np.float32(0.0)
        for i in range(start, stop):
            for j in range(d):
                value = np.float32(rows[i, j])
                good &= abs(value) <= limit
                row[places[j]] = value
            project_row(source, 0, row, tile, waves, True, amplitude, flat, (to + i - start) * width)
        return good
    spread = empty_aligned(tile_size(groups))
    spread[:] = np.float32(0.0)
    addresses = np.empty(d, dtype=np.int64)
    for j in range(d):
        addresses[j] = address(places[j], gap)
    for i in range(start, stop, LANES):
        for j in range(0, d, LANES):
            good &= gather(rows, i, stop - 1, min(j, d - LANES), addresses, spread, limit)
        project_tile(
            source, 0, spread, tile, waves, True, amplitude, flat, (to + i - start) * width, width,
            min(LANES, stop - i),
        )  # fmt: skip
    return good


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def project_chunks(source, rows, size, places, limit, waves, amplitude, out):  # type: ignore[no-untyped-def]
    """Do :func:`project_matrix` for all rows, chunks of ``size`` rows at a time, on Numba's threads."""
    count = rows.shape[0]
    chunks = -(-count // size)
    good = np.zeros(chunks, dtype=np.bool_)
    for c in prange(chunks):
        start = c * size
        stop = min(count, start + size)
        good[c] = project_matrix(source, rows, start, stop, places, limit, waves, amplitude, out, start)
    return good.all()
