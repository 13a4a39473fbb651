"""Structured directions: random orthogonal frequencies by fast transforms (SORF, Yu et al. 2016).

A number has a *slot*, its position among the numbers learned. The frequencies of a block of ``n = 2^k``
slots are the rows of ``H D₁ H D₂ H D₃`` (:mod:`streamk.features.hadamard`): three random signs a slot where
a Gaussian matrix needs ``n`` normals, and ``3 log₂ n`` additions a projection where it needs ``n``
products. The rows have the length ``n^{3/2}``; times ``χ_n √a/n^{3/2}`` they have that of the kernel's
frequencies, so only the angles between them differ from those of independent draws.

One projection serves several features: a cosine and a sine (a phase and the same less a quarter turn) at
every scale of the bandwidth. With ``C`` features a projection (*copies*), those of projection ``p`` are
``16 C ⌊p/16⌋ + 16 c + p mod 16``, so each group of sixteen is one vector, and every 32 features have a scale.

Slots are in *segments*. The first has as many slots as the first event has numbers, rounded up to a power of
two. When there are more names, another segment as large as all before is added, with separate signs. Existing
slots keep their frequencies, so the features of earlier events do not change.

Categories have no slots: their frequencies are keyed (:mod:`streamk.vector.angles`) and added to the angles.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebfit, chebpts1, chebval

from streamk.arrays import Array, Floats, Integers
from streamk.features.counter import fill_bits, mix64_int, uniforms
from streamk.features.hadamard import groups_of
from streamk.vector.lanes import LANES, aligned

LEAST_SLOTS = 64
FIRST, ROW_SIGNS, LANE_SIGNS, GROUPS = 0, 1, 2, 3
RADII = 2  # row of the waves with the radii of the first segment
MOST_GROUPS = 4
_FARTHEST = 6.5  # the normal quantile of 2⁻³³, the smallest drawn number, is −6.4


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
