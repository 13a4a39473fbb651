"""The random feature map ``φ`` of a kernel: what a seed stands for.

A block is 64 features, one group of normals; every 32 features the next of the scales is taken.
Feature ``f`` of a row ``z`` of scaled inputs is ``φ_f = √2 cos 2π(p_f + Σ_j z_j W_jf)``: phases ``p``
and frequencies ``W`` are regenerated from the seed, never stored, and ``φ(x)ᵀφ(z)/F ≈ k(x, z)``
(Rahimi and Recht 2007).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.features.cosine import cosine_turns
from streamk.features.counter import block_keys, mix64_int, uniforms
from streamk.features.frequencies import CACHE_BYTES, FrequencyCache, frequency_matrix
from streamk.features.fused import fma
from streamk.features.normal import GROUP
from streamk.kernels import Kernel

BLOCK = GROUP
SPAN = 32  # features in a row that share a scale
_TILE = 256  # features worked on at once: their frequencies stay in the first cache
_SQRT2 = np.float32(np.sqrt(2.0))
_LARGEST_RADIUS = 1e15  # keeps the angle of the largest input finite in float32
_PHASES, _RADII = 0, 1
_REGENERATED = ("block_keys", "waves", "cache", "_held")


@njit(cache=True, nogil=True, error_model="numpy")
def wave(angles, rows, features):  # type: ignore[no-untyped-def]
    """Turn the angles of some rows (in turns) into features ``√2 cos``, in place.

    Columns from ``features`` on are surplus and become 0.
    """
    for i in range(rows):
        for f in range(angles.shape[1]):
            angles[i, f] = _SQRT2 * cosine_turns(angles[i, f])
        for f in range(features, angles.shape[1]):
            angles[i, f] = np.float32(0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def featurize(inputs, where, counts, frequencies, waves, features, phi):  # type: ignore[no-untyped-def]
    """Fill ``phi`` with the features of rows of scaled inputs.

    Parameters
    ----------
    inputs
        Scaled inputs, ``(n, w)`` float32, those that are not 0 first.
    where
        Row of ``frequencies`` of each input, ``(n, w)`` int32.
    counts
        Inputs of each row, ``(n,)``.
    frequencies
        ``(rows, width)`` float32, in turns per unit of input.
    waves
        ``(2, width)`` float32, the first row the phases in turns.
    features
        Features in use, at most ``width``.
    phi
        ``(≥ n, width)`` float32. Angles add inputs in order, one rounding each, so the result
        depends neither on the tile nor on how inputs are taken in fours. Rows are indexed
        and never sliced (a slice costs two atomic operations), by unsigned numbers (a signed one may
        count from the end, and then the loop is not vectorised).
    """
    width = phi.shape[1]
    for start in range(0, width, _TILE):
        first, tile = np.uint64(start), min(_TILE, width - start)
        for i in range(counts.shape[0]):
            for t in range(tile):
                f = first + np.uint64(t)
                phi[i, f] = waves[_PHASES, f]
            fours = counts[i] - counts[i] % 4
            for j in range(0, fours, 4):
                za, zb, zc, zd = inputs[i, j], inputs[i, j + 1], inputs[i, j + 2], inputs[i, j + 3]
                a, b = np.uint64(where[i, j]), np.uint64(where[i, j + 1])
                c, d = np.uint64(where[i, j + 2]), np.uint64(where[i, j + 3])
                for t in range(tile):
                    f = first + np.uint64(t)
                    angle = fma(zb, frequencies[b, f], fma(za, frequencies[a, f], phi[i, f]))
                    phi[i, f] = fma(zd, frequencies[d, f], fma(zc, frequencies[c, f], angle))
            for j in range(fours, counts[i]):
                z, a = inputs[i, j], np.uint64(where[i, j])
                for t in range(tile):
                    f = first + np.uint64(t)
                    phi[i, f] = fma(z, frequencies[a, f], phi[i, f])
    wave(phi, counts.shape[0], features)


def width_of(features: int) -> int:
    """Return a number of features rounded up to whole blocks."""
    return -(-features // BLOCK) * BLOCK


class FeatureMap:
    """Random features of one kernel at several scales.

    Parameters
    ----------
    kernel
        The kernel of every block.
    bandwidth
        ``ℓ``, in units of the scaled inputs; features ``32s … 32s + 31`` have
        ``ℓ · scales[s mod len(scales)]``.
    scales
        Multipliers of the bandwidth.
    features
        Number of features ``F``.
    seed
        The only source of randomness.
    """

    def __init__(
        self, kernel: Kernel, bandwidth: float, scales: tuple[float, ...], features: int, seed: int
    ) -> None:
        self.kernel, self.bandwidth, self.scales = kernel, bandwidth, scales
        self.features, self.seed = features, seed
        self.width = width_of(features)
        self.regenerate()

    def regenerate(self) -> None:
        """Make everything that follows from the seed: keys, phases, radii and an empty cache."""
        width = self.width
        self.block_keys = block_keys(self.seed, width // BLOCK)
        scale = np.resize(np.asarray(self.scales, dtype=np.float64), width // SPAN)
        bandwidths = self.bandwidth * np.repeat(scale, SPAN)
        radii = self.kernel.radii(mix64_int(self.seed ^ 0x7261646969), width)
        waves = np.empty((2, width), dtype=np.float32)
        waves[_PHASES] = uniforms(mix64_int(self.seed ^ 0x706861736573), width)
        with np.errstate(over="ignore", divide="ignore"):
            waves[_RADII] = np.minimum(radii / (2.0 * np.pi * bandwidths), _LARGEST_RADIUS)
        self.waves: NDArray[np.float32] = waves
        self.cache = FrequencyCache(width)
        self._held: tuple[NDArray[np.uint64], NDArray[np.float32]] | None = None

    def frequencies(self, keys: NDArray[np.uint64], inputs: slice, tile: slice) -> NDArray[np.float32]:
        """Return the frequencies of some inputs (a slice of ``keys``) in one tile of whole blocks."""
        if self._held is not None and np.array_equal(self._held[0], keys):
            return self._held[1][inputs, tile]
        return self._generate(keys[inputs], tile)

    def hold_frequencies(self, keys: NDArray[np.uint64]) -> None:
        """Keep the frequencies of these inputs for the next calls, if they take at most 64 MiB."""
        if self._held is not None and np.array_equal(self._held[0], keys):
            return
        self._held = None
        if 4 * len(keys) * self.width <= CACHE_BYTES:
            self._held = keys, self._generate(keys, slice(0, self.width))

    def _generate(self, keys: NDArray[np.uint64], tile: slice) -> NDArray[np.float32]:
        matrix = np.empty((len(keys), tile.stop - tile.start), dtype=np.float32)
        blocks = self.block_keys[tile.start // BLOCK : tile.stop // BLOCK]
        frequency_matrix(blocks, self.radii[tile], keys, matrix)
        return matrix

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _REGENERATED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.regenerate()

    @property
    def phases(self) -> NDArray[np.float32]:
        """Phases of the features in turns, ``(width,)``."""
        phases: NDArray[np.float32] = self.waves[_PHASES]
        return phases

    @property
    def radii(self) -> NDArray[np.float32]:
        """Radial parts of the frequencies in turns per unit of input, ``(width,)``."""
        radii: NDArray[np.float32] = self.waves[_RADII]
        return radii
