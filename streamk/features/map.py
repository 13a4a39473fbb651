"""The random feature map ``φ``, determined by a seed.

For a cosine kernel, feature ``f`` of a row ``z`` of scaled inputs is ``φ_f = √2 cos 2π(p_f + Σ_j z_j W_jf)``:
phases ``p`` and frequencies ``W`` are regenerated from the seed, never stored, and ``φ(x)ᵀφ(z)/F ≈ k(x, z)``
(Rahimi and Recht 2007). Arc-cosine kernels use ramps instead of cosines
(:mod:`streamk.features.spectra`), and the polynomial kernel a tensor sketch
(:mod:`streamk.features.sketch`). A block is 64 features, one group of random numbers. Blocks take the kernels
in turn; within the features of one kernel, every 32 have the next scale.

The cost of a feature decides whether ``directions="auto"`` are keyed or structured. Nanoseconds per feature
and event, fitted to ``benchmarks/regeneration.py`` on one thread of one machine; the constants are part of
the model's definition, so the choice is the same on every machine, and it is stored in the model file.
Without numbers, directions are keyed.

=========================  ===============================================================================
keyed, one event           ``0.12 + 0.06 k``, ``k`` the numbers in the event that are not 0; and ``0.4 k``
                           more if the frequencies of all ``d`` numbers do not fit the cache
keyed, blocks of 16 up     ``0.9 + 0.008 d`` (a matrix product; zeros cost as much as numbers)
structured                 ``0.17 + 0.05 log₂ n/c``, ``n ≥ d`` the slots and ``c`` the features that share a
                           projection; alone, an event fills its lanes with ``⌈F/nc⌉`` blocks of 16
=========================  ===============================================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Integers, Json, Places
from streamk.encoding.rows import ABSENT, LARGEST_UNSCALED, MOST_SLOTS, EncodedRows
from streamk.features import spectra
from streamk.features.counter import block_keys, mix64_int, uniforms
from streamk.features.frequencies import CACHE_BYTES, FrequencyCache, frequency_matrix
from streamk.features.sections import SectionRecord, Sections
from streamk.features.sketch import Sketch, sketch_of
from streamk.features.spectra import COSINE
from streamk.features.structured import Segments, Structured, slots_of_first
from streamk.kernels import Kernel, Polynomial
from streamk.vector.lanes import LANES, aligned
from streamk.vector.random_numbers import GROUP

STRUCTURED, KEYED = "structured", "keyed"
BLOCK = GROUP
SPAN = 2 * LANES  # consecutive features with one scale
# Limit of frequencies and inputs, in units of the bandwidth: float32 angles have lost a hundredth of a turn.
FARTHEST = 1e5
_LARGEST_RADIUS = 1e15  # keeps the angle of the largest input finite in float32
_PHASES, _RADII = 0, 1
_KEPT = (
    "kernels",
    "bandwidth",
    "scales",
    "block",
    "features",
    "width",
    "seed",
    "slots",
    "_covered",
    "sections",
)


def choose(numbers: int, nonzero: int, features: int, scales: int, block_size: int) -> str:
    """Return the cheaper directions.

    Parameters
    ----------
    numbers, nonzero
        Numbers in the first learned event, and the nonzero ones (0 costs nothing, unless it is scaled).
    features, scales, block_size
        Of the learner; blocks provide as many rows at once.

    Examples
    --------
    >>> choose(numbers=3, nonzero=3, features=512, scales=4, block_size=1)
    'keyed'
    >>> choose(numbers=54, nonzero=54, features=1024, scales=4, block_size=1)
    'structured'
    >>> choose(numbers=50_000, nonzero=20, features=512, scales=4, block_size=1)
    'keyed'
    """
    together = block_size >= LANES
    if together:
        keyed = 0.9 + 0.008 * numbers
    else:
        fits = 4 * numbers * features <= CACHE_BYTES
        keyed = 0.12 + (0.06 if fits else 0.46) * nonzero
    slots, copies = slots_of_first(numbers), 2 * scales
    blocks = -(-features // (slots * copies))
    lanes = blocks if together else -(-blocks // LANES) * LANES
    projections = lanes * slots / features
    structured = 0.17 + 0.05 * (slots.bit_length() - 1) * projections
    return KEYED if numbers == 0 or keyed <= structured else STRUCTURED


def choose_for(rows: EncodedRows, scaled: bool, features: int, scales: int, block_size: int) -> str:
    """Return the directions for a learner whose first event is the one row, encoded with slots."""
    keys = rows.keys[0]
    numbers = rows.values[0][(keys != ABSENT) & (keys <= MOST_SLOTS)]
    nonzero = len(numbers) if scaled else int((numbers != 0.0).sum())
    return choose(len(numbers), nonzero, features, scales, block_size)


def width_of(features: int) -> int:
    """Return a number of features rounded up to whole blocks."""
    return -(-features // BLOCK) * BLOCK


def exponents_of(kernels: tuple[Kernel, ...], bandwidth: float | None) -> tuple[float, ...]:
    """Return, for each family of directions in use, the power of the field count that scales its inputs.

    With a bandwidth, inputs are not divided; without, those of an event are divided by ``√d`` for
    normal directions and by ``d`` for Cauchy ones, with ``d`` the fields present in the event.

    Examples
    --------
    >>> from streamk.kernels import kernel
    >>> exponents_of((kernel("laplacian"), kernel("gaussian")), None)
    (-0.5, -1.0)
    """
    families = sorted({spectra.family(kernel) for kernel in kernels})
    return (0.0,) if bandwidth is not None else tuple(-1.0 if f == spectra.CAUCHY else -0.5 for f in families)


def largest_unscaled(
    kernels: tuple[Kernel, ...], bandwidth: float | None, scales: tuple[float, ...]
) -> float:
    """Return the largest unscaled number that features distinguish from its neighbours in float32."""
    if not all(map(spectra.mixable, kernels)):
        return LARGEST_UNSCALED
    return float(min(LARGEST_UNSCALED, FARTHEST * (1.0 if bandwidth is None else bandwidth) * min(scales)))


class MapRecord(NamedTuple):
    """A feature map for compiled code.

    ``block_keys`` and ``families`` of every block; ``runs`` ``(·, 3)``, see
    :func:`streamk.vector.angles.fill_angles`; ``waves``: phases, radii, radii of segments; the activation
    ``kind``; the number of features; ``sections``, None without sections; and the frequency cache:
    ``table``, ``counts``, ``frequencies``.
    """

    block_keys: NDArray[np.uint64]
    families: Integers
    runs: Integers
    waves: Floats
    kind: int
    features: int
    sections: SectionRecord | None
    table: NDArray[np.uint64]
    counts: Integers
    frequencies: Floats


class FeatureMap:
    """Random features of one or several kernels at several scales.

    Parameters
    ----------
    kernels
        Block ``b`` of 64 features has kernel ``b mod len(kernels)``; several kernels must all use cosines.
    bandwidth
        ``ℓ``, in units of the scaled inputs, times a scale; None for inputs scaled per event
        (:func:`exponents_of`).
    scales
        Multipliers of the bandwidth.
    features
        Initial number of features ``F``; :meth:`grow` adds more.
    seed
        The only source of randomness.
    slots
        Slots of the first segment of structured directions; None for keyed and dense ones.
    sections
        Parts with separate scales, inputs and growth; None for none.
    """

    def __init__(
        self,
        kernels: tuple[Kernel, ...],
        bandwidth: float | None,
        scales: tuple[float, ...],
        features: int,
        seed: int,
        slots: int | None = None,
        sections: Sections | None = None,
    ) -> None:
        self.kernels, self.bandwidth, self.scales = kernels, bandwidth, scales
        self.sections = sections
        self.block = self.features = features
        self.width, self.seed = width_of(features), seed
        self._covered = self.slots = slots
        self.regenerate()

    def regenerate(self) -> None:
        """Derive keys, phases, radii and an empty cache from the seed."""
        width, blocks = self.width, self.width // BLOCK
        self.kind = spectra.activation(self.kernels[0])
        self.exponents = exponents_of(self.kernels, self.bandwidth)
        if self.sections is not None:
            self.sections.draw(self.seed)
        self.largest = largest_unscaled(self.kernels, self.bandwidth, self.scales)
        self.cache = FrequencyCache(width)
        self.source: Structured | Sketch | None = None
        self._keys = block_keys(self.seed, blocks)
        self._families = np.resize([spectra.family(kernel) for kernel in self.kernels], blocks).astype(
            np.int64
        )
        self._segments: Segments | None = None
        self._held: tuple[NDArray[np.uint64], Floats] | None = None
        if isinstance(kernel := self.kernels[0], Polynomial):
            bandwidths = (self.bandwidth or 1.0) * np.asarray(self.scales, dtype=np.float64)
            copies = self.features // self.block
            self.source = sketch_of(self.seed, kernel.degree, kernel.constant, bandwidths, self.block, copies)
            self.waves: Floats = np.zeros((2, width), dtype=np.float32)
        else:
            phases, radii = self._phases_and_radii()
            self.waves = aligned(np.array([phases, radii], dtype=np.float32))
            if self.slots is not None:
                self._segments = Segments(self.seed, self.slots, radii, 2 * len(self.scales))
                self.cover(self._covered or 0)
                self._compile_segments()
        self.renew()

    def renew(self) -> None:
        """Make a new record for compiled code, after a change of the cache."""
        cache, ends = self.cache, np.arange(1, len(self._families) + 1) * BLOCK
        inputs = self._families if len(self.exponents) > 1 else np.zeros_like(self._families)
        if self.sections is not None:
            inputs = inputs + len(self.exponents) * self.sections.inputs_at(ends - BLOCK)
        runs = np.column_stack([ends - BLOCK, ends, inputs])
        if not inputs.any():
            runs = np.array([[0, self.width, 0]])
        self.record = MapRecord(
            self._keys, self._families, runs.astype(np.int64), self.waves, self.kind, self.features,
            None if self.sections is None else self.sections.record, cache.table, cache.counts, cache.rows,
        )  # fmt: skip

    def _phases_and_radii(self) -> tuple[Array, Array]:
        """Return phases (0 without cosines) and ``√a/ℓ``, for cosines in turns.

        With structured directions, the second sixteen features of a span repeat the first, a quarter of a
        turn later; for ramps, they have the opposite direction.
        """
        width, kernels = self.width, self.kernels
        spans = np.arange(width) // SPAN
        block, half = spans // 2, spans % 2
        indices = 2 * (block // len(kernels)) + half  # index of the span among those of its kernel
        scales = np.asarray(self.scales, dtype=np.float64)[indices % len(self.scales)]
        if self.sections is not None:
            scales = self.sections.scales_at(np.arange(width), indices)
        bandwidths = (self.bandwidth or 1.0) * scales
        pair, second = np.arange(width), np.zeros(width, dtype=bool)
        if self.slots is not None:
            pair, second = spans * LANES + pair % LANES, pair % SPAN >= LANES
        count = width if self.slots is None else width // 2
        lengths = np.ones(width)
        for k, kernel in enumerate(kernels):
            of_kernel = block % len(kernels) == k
            drawn = spectra.radii(kernel, mix64_int(self.seed ^ 0x7261646969), count)
            lengths[of_kernel] = np.minimum(drawn, FARTHEST)[pair[of_kernel]]
        turn = 2.0 * np.pi if self.kind == COSINE else 1.0
        with np.errstate(over="ignore", divide="ignore"):
            radii = np.minimum(lengths / (turn * bandwidths), _LARGEST_RADIUS)
        if self.kind != COSINE:
            return np.zeros(width), np.where(second, -radii, radii)
        phases = uniforms(mix64_int(self.seed ^ 0x706861736573), count)[pair]
        return np.where(second, (phases + 0.75) % 1.0, phases), radii

    @property
    def columns(self) -> int:
        """Columns available to experts."""
        return self.width if self.sections is None else self.sections.width

    def follow(self, targets: int) -> None:
        """Resize the cross moments of relevance, if any, for so many targets."""
        if self.sections is not None and self.sections.learned:
            self.sections.cross.grow(targets)
            self.renew()

    def grow(self, features: int) -> None:
        """Add features without changing the existing ones; sketches are added whole."""
        features = max(features, 0 if self.sections is None else self.sections.features)
        if features > self.features:
            self.features, self.width = features, width_of(features)
            self.regenerate()

    def cover(self, slots: int) -> None:
        """Open segments until there are so many slots; features of existing slots do not change."""
        if self._segments is not None and slots > self._segments.slots:
            self._segments.cover(slots)
            self._covered = slots
            self._compile_segments()
            self.renew()

    def _compile_segments(self) -> None:
        assert self._segments is not None
        self.waves = aligned(np.concatenate([self.waves[:2], self._segments.radii]))
        self.source = self._segments.compiled()

    def make_room(self, inputs: int = 0) -> None:
        """Grow the frequency cache, to hold so many inputs at once or after an overflow."""
        if inputs:
            self.cache.reserve(inputs)
        else:
            self.cache.grow()
        self.renew()

    def needs_cache(self, rows: EncodedRows) -> bool:
        """Return whether features of these rows need the frequency cache, which is not shared by threads."""
        return self.source is None or (self.slots is not None and bool((rows.keys > MOST_SLOTS).any()))

    def frequencies(self, keys: NDArray[np.uint64], inputs: slice, tile: slice) -> Floats:
        """Return the frequencies of inputs (a slice of ``keys``) in one tile of whole blocks."""
        if self._held is not None and np.array_equal(self._held[0], keys):
            return self._held[1][inputs, tile]
        return self._generate(keys[inputs], tile)

    def hold_frequencies(self, keys: NDArray[np.uint64]) -> None:
        """Store the frequencies of these inputs for the next calls, if they take at most 64 MiB."""
        if self._held is not None and np.array_equal(self._held[0], keys):
            return
        self._held = None
        if 4 * len(keys) * self.width <= CACHE_BYTES:
            self._held = keys, self._generate(keys, slice(0, self.width))

    def _generate(self, keys: NDArray[np.uint64], tile: slice) -> Floats:
        matrix = np.empty((len(keys), tile.stop - tile.start), dtype=np.float32)
        blocks = slice(tile.start // BLOCK, tile.stop // BLOCK)
        frequency_matrix(self._keys[blocks], self._families[blocks], self.waves[_RADII, tile], keys, matrix)
        return matrix

    def runs_in(self, tile: slice) -> Integers:
        """Return the runs of a tile of whole blocks, counted from its first column."""
        runs = self.record.runs.copy()
        runs[:, :2] = np.clip(runs[:, :2], tile.start, tile.stop) - tile.start
        return runs[runs[:, 0] < runs[:, 1]]

    def columns_by_inputs(self, tile: slice) -> list[Places | slice]:
        """Return the columns of a tile for each family of inputs of :func:`exponents_of`."""
        if len(self.exponents) == 1:
            return [slice(None)]
        inputs = np.repeat(self._families, BLOCK)[tile]
        return [np.flatnonzero(inputs == k) for k in range(len(self.exponents))]

    def __getstate__(self) -> Json:
        return {name: self.__dict__[name] for name in _KEPT}

    def __setstate__(self, state: Json) -> None:
        self.__dict__.update(state)
        self.regenerate()

    @property
    def phases(self) -> Floats:
        """Phases of the features in turns, ``(width,)``."""
        return np.asarray(self.waves[_PHASES])
