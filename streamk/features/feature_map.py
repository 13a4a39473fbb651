"""The random feature map ``φ`` of a kernel: what a seed stands for.

For a radial kernel, feature ``f`` of a row ``z`` of scaled inputs is ``φ_f = √2 cos 2π(p_f + Σ_j z_j
W_jf)``: phases ``p`` and frequencies ``W`` are regenerated from the seed, never stored, and ``φ(x)ᵀφ(z)/F ≈
k(x, z)`` (Rahimi and Recht 2007). Arc-cosine kernels take ramps instead of cosines
(:mod:`streamk.features.activation`), and the polynomial kernel a tensor sketch
(:mod:`streamk.features.sketch`). A block is 64 features, one group of normals; every 32 features the next
of the scales is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.features.activation import COSINE
from streamk.features.counter import block_keys, mix64_int, uniforms
from streamk.features.frequencies import CACHE_BYTES, FrequencyCache, frequency_matrix
from streamk.features.lanes import LANES, aligned
from streamk.features.normal import GROUP
from streamk.features.segments import Segments, Structured
from streamk.features.sketch import Sketch, sketch_of
from streamk.kernels import Kernel, Polynomial
from streamk.rows import MOST_SLOTS, Rows

BLOCK = GROUP
SPAN = 2 * LANES  # features in a row that share a scale
_LARGEST_RADIUS = 1e15  # keeps the angle of the largest input finite in float32
_PHASES, _RADII = 0, 1
_REGENERATED = ("block_keys", "waves", "cache", "source", "_segments", "_held")


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
        Number of features ``F`` to begin with; :meth:`extend` adds more.
    seed
        The only source of randomness.
    slots
        Slots of the first segment of structured directions; None for keyed and dense ones.
    """

    def __init__(
        self,
        kernel: Kernel,
        bandwidth: float,
        scales: tuple[float, ...],
        features: int,
        seed: int,
        slots: int | None = None,
    ) -> None:
        self.kernel, self.bandwidth, self.scales = kernel, bandwidth, scales
        self.block = self.features = features
        self.width, self.seed = width_of(features), seed
        self.kind = kernel.activation
        self._covered = self.slots = slots
        self.regenerate()

    def regenerate(self) -> None:
        """Make everything that follows from the seed: keys, phases, radii and an empty cache."""
        width = self.width
        self.block_keys = block_keys(self.seed, width // BLOCK)
        self.cache = FrequencyCache(width)
        self.source: Structured | Sketch | None = None
        self._segments: Segments | None = None
        self._held: tuple[NDArray[np.uint64], NDArray[np.float32]] | None = None
        if isinstance(self.kernel, Polynomial):
            kernel, bandwidths = self.kernel, self.bandwidth * np.asarray(self.scales, dtype=np.float64)
            blocks = self.features // self.block
            self.source = sketch_of(self.seed, kernel.degree, kernel.constant, bandwidths, self.block, blocks)
            self.waves: NDArray[np.float32] = np.zeros((2, width), dtype=np.float32)
            return
        phases, radii = self._phases_and_radii()
        self.waves = aligned(np.array([phases, radii], dtype=np.float32))
        if self.slots is not None:
            self._segments = Segments(self.seed, self.slots, radii, 2 * len(self.scales))
            self.cover(self._covered or 0)
            self._compile_segments()

    def _phases_and_radii(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return phases (0 unless angles are of cosines) and ``√a/ℓ``, for cosines in turns.

        With structured directions the second sixteen features of a span repeat the first, a quarter of a turn
        later; a ramp's second is that of the opposite direction.
        """
        width, half = self.width, self.width // 2
        scale = np.resize(np.asarray(self.scales, dtype=np.float64), width // SPAN)
        bandwidths = self.bandwidth * np.repeat(scale, SPAN)
        pair, second = np.arange(width), np.zeros(width, dtype=bool)
        if self.slots is not None:
            pair, second = pair // SPAN * LANES + pair % LANES, pair % SPAN >= LANES
        count = width if self.slots is None else half
        lengths = self.kernel.radii(mix64_int(self.seed ^ 0x7261646969), count)[pair]
        turn = 2.0 * np.pi if self.kind == COSINE else 1.0
        with np.errstate(over="ignore", divide="ignore"):
            radii = np.minimum(lengths / (turn * bandwidths), _LARGEST_RADIUS)
        if self.kind != COSINE:
            return np.zeros(width), np.where(second, -radii, radii)
        phases = uniforms(mix64_int(self.seed ^ 0x706861736573), count)[pair]
        return np.where(second, (phases + 0.75) % 1.0, phases), radii

    def extend(self, features: int) -> None:
        """Make more features; the old ones stay the same. Of sketches there are whole multiples."""
        if features > self.features:
            self.features, self.width = features, width_of(features)
            self.regenerate()

    def cover(self, slots: int) -> None:
        """Open segments until there are so many slots; the features of old slots stay the same."""
        if self._segments is not None and slots > self._segments.slots:
            self._segments.cover(slots)
            self._covered = slots
            self._compile_segments()

    def _compile_segments(self) -> None:
        assert self._segments is not None
        self.waves = aligned(np.concatenate([self.waves[:2], self._segments.radii]))
        self.source = self._segments.compiled()

    def needs_cache(self, rows: Rows) -> bool:
        """Return whether features of these rows need frequencies, whose cache is for one thread at a time."""
        return self.source is None or (self.slots is not None and bool((rows.keys > MOST_SLOTS).any()))

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
