"""Sections of a map: parts of the features with their own scales and inputs, each after plain columns.

A learner of many experts has three: features of the unchanged inputs, half coarse and half fine, and two
blocks under learned relevance (:mod:`streamk.features.relevance`). Each follows a copy of the plain columns
(:mod:`streamk.features.plain`), so that an expert on adjacent columns can use both.

The blocks may grow once. Growth adds the last features of the map, without changing others, in columns after
those of the block that were 0 before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays, Floats, Integers, Places, typed
from streamk.encoding.codec import Unit
from streamk.features.cross_moments import MOST, CrossMoments
from streamk.features.exchange import FIELDS, ExchangeRecord, Exchanges
from streamk.features.grids import GRIDS, GridRecord, draw_grids
from streamk.features.plain import (
    LEAST_CATEGORY,
    LINEAR,
    PLAIN,
    Keys,
    columns_of,
    empty_columns,
    in_use,
    index_of,
)
from streamk.features.quadratic import QUADRATIC
from streamk.features.relevance import BLOCKS, GAP, LARGEST_FACTOR, no_relevance, pool_gaps, transform_of
from streamk.features.sample import EventSample, SampleRecord

COARSE, MIDDLE, FINE = (4.0, 2.0, 1.0), (2.0, 1.0, 0.5), (0.5, 0.25, 0.125)
UNIT = 6  # the features are a multiple of so many groups of random numbers per kernel
_ADDED = 5 / 3 - 1  # of a block's features, in whole groups for both kernels
_GROUPS = 128
_KEPT = 0.5  # of earlier relevance, when a block opens
_YOUNGER = 0.9
_STEEPEST = 20.0  # mean squared gradient, in units of the mean square by which exchanges move predictions
_MOST = 1e100
_LEAST = 1e-9  # variance of targets
IDENTITY, DIAGONAL, WHOLE = 0, 1, 2  # kinds of transforms
_KINDS = (DIAGONAL, WHOLE)
_INPUTS = np.array([0, 1, 2, 1, 2])  # of features: the parts, and the growth of the blocks


class SectionRecord(NamedTuple):
    """Sections for compiled code.

    ``amplitude`` of plain columns, their keys in ``columns``, and their hash table ``places``; ``width``, all
    columns, and ``starts`` of plain ones; ``parts``: first feature, its column, number of features, and
    whether they exist yet; ``transforms``, transposed, ``moments`` and ``gaps`` of relevance, and whether it
    is ``learned``; ``sums`` and ``squares`` of
    :class:`streamk.features.cross_moments.CrossMoments`; the first of the ``quadratic`` columns, 0 for none.
    """

    amplitude: np.float32
    columns: Keys
    places: Integers
    width: int
    starts: Integers
    parts: Integers
    transforms: Floats
    moments: Array
    gaps: Array
    learned: bool
    sums: Array
    squares: Array
    tags: NDArray[np.uint64]
    factors: Floats
    field_tags: Keys
    field_places: Integers
    sample: SampleRecord
    grids: GridRecord
    importance: Floats
    quadratic: int


class Sections:
    """Sections of a map of so many features.

    Parameters
    ----------
    features
        A third is coarse, a third fine, and a sixth in each of two blocks under relevance.
    learned
        Whether relevance is learned; if not, it is 1.
    grows
        Whether the blocks may grow by two thirds.
    binning
        Whether columns hold the cells of random grids (:mod:`streamk.features.grids`).
    quadratic
        Whether columns hold products of two inputs (:mod:`streamk.features.quadratic`).
    """

    def __init__(
        self,
        features: int,
        learned: bool,
        grows: bool = False,
        binning: bool = True,
        quadratic: bool = False,
    ) -> None:
        self.learned, sixth = learned, features // UNIT
        self._quadratic = QUADRATIC if quadratic else 0
        self._grids = GRIDS if binning else 0
        added = int(_ADDED * sixth) // _GROUPS * _GROUPS if grows else 0
        self._sizes = np.array([4 * sixth, sixth, sixth, added, added])
        self.grown = False
        self.amplitude = float(np.float32(np.sqrt(2.0 * sixth)))
        self.keys = empty_columns()
        self.moments, self.gaps, self.transforms, self.factors = no_relevance()
        self.cross, self.exchanges, self.sample = CrossMoments(), Exchanges(), EventSample()
        self.exchange_record: ExchangeRecord = self.exchanges.record
        self.tags: Keys = np.zeros(LINEAR, dtype=np.uint64)
        self.kinds = np.full(BLOCKS, IDENTITY)
        self.importance: Floats = np.ones((BLOCKS, FIELDS), dtype=np.float32)
        self.draw(0)

    def draw(self, seed: int) -> None:
        """Draw the grids of a seed."""
        self._grid_record = draw_grids(seed, self._grids, self.columns_of_grids.start, BLOCKS)

    @property
    def record(self) -> SectionRecord:
        """The sections for compiled code, valid until relevance changes."""
        self.exchange_record = self.exchanges.record
        self._grid_record.known[:] = -1  # fields are chosen again
        return SectionRecord(
            np.float32(self.amplitude), self.keys, index_of(self.keys), self.width, self._starts, self._parts,
            np.ascontiguousarray(self.transforms.transpose(0, 2, 1)), self.moments, self.gaps, self.learned,
            self.cross.sums, self.cross.squares, self.tags, self.factors,
            self.exchange_record.tags, self.exchange_record.places, self.sample.record, self._grid_record,
            self.importance, self.columns_of_products.start if self._quadratic else 0,
        )  # fmt: skip

    @property
    def features(self) -> int:
        """Features in use."""
        return int(self._sizes.sum() if self.grown else self._sizes[: 1 + BLOCKS].sum())

    @property
    def _starts(self) -> Integers:
        """Start of the plain columns of each part."""
        whole = PLAIN + self._sizes[: 1 + BLOCKS]
        whole[1:] += self._sizes[1 + BLOCKS :]
        return np.asarray(np.cumsum(whole) - whole)

    @property
    def _parts(self) -> Integers:
        sizes, columns = self._sizes, self._starts[_INPUTS] + PLAIN
        columns[1 + BLOCKS :] += sizes[1 : 1 + BLOCKS]
        there = np.arange(len(sizes)) < (len(sizes) if self.grown else 1 + BLOCKS)
        return np.column_stack([np.cumsum(sizes) - sizes, columns, sizes, there])

    def grow(self) -> None:
        """Grow the blocks to their maximum size."""
        self.grown = bool(self._sizes[-1])

    def scales_at(self, features: Places, own: Places) -> Array:
        """Return the scale of some features, with ``own`` their index among those of their kernel."""
        scales = np.array([COARSE, FINE, MIDDLE])
        half = self._sizes[0] // 2
        section = np.searchsorted([half, 2 * half], features, side="right")
        return np.asarray(scales[section, own % len(COARSE)])

    def inputs_at(self, features: Places) -> Places:
        """Return the kind of inputs of some features: 0 unchanged, 1 and 2 under relevance."""
        return _INPUTS[np.searchsorted(np.cumsum(self._sizes), features, side="right")]

    def columns_of_part(self, part: int) -> slice:
        """Return the columns of a part, including its plain ones."""
        start, stop = [*self._starts.tolist(), self.columns_of_grids.start][part : part + 2]
        return slice(start, stop)

    @property
    def columns_of_grids(self) -> slice:
        """The columns of the cells, after those of all parts."""
        start = int(self._sizes.sum()) + PLAIN * (1 + BLOCKS)
        return slice(start, start + self._grids)

    @property
    def columns_of_products(self) -> slice:
        """The quadratic columns, the last ones."""
        start = int(self.columns_of_grids.stop)
        return slice(start, start + self._quadratic)

    @property
    def width(self) -> int:
        """Number of all columns."""
        return int(self.columns_of_products.stop)

    def renew(self, opening: int, errors: Sequence[float], error: float) -> slice:
        """Restart the older block under the current relevance; return its columns.

        The first block, at the second opening, uses the diagonal, and the other one the full matrix. Later a
        block takes the kind of the block with the smaller mean squared error of ``errors``; the error of the
        younger block, which has learned from a third fewer events, is multiplied by 0.9. ``error`` is that of
        the best expert.
        """
        block = opening % BLOCKS
        younger = 1 - block
        better = younger if _YOUNGER * errors[younger] < errors[block] else block
        kind = _KINDS[block] if IDENTITY in self.kinds else int(self.kinds[better])
        self.kinds[block] = kind
        self.transforms[block], self.factors[block] = self._transform(error, kind == WHOLE)
        self.importance[block] = self.exchanges.importance()
        self.moments *= _KEPT
        self.cross.fade(_KEPT)
        self.exchanges.fade(_KEPT)
        return self.columns_of_part(1 + block)

    def pool(self, whole: bool, error: float) -> None:
        """Put both blocks under the current relevance; see :meth:`renew`."""
        for block in range(BLOCKS):
            self.kinds[block] = WHOLE if whole else DIAGONAL
            self.transforms[block], self.factors[block] = self._transform(error, whole)
        self.importance[:] = self.exchanges.importance()

    def _transform(self, error: float, whole: bool) -> tuple[Floats, Floats]:
        """Return the current ``T`` and factors; ``error`` is the mean squared error of the best expert."""
        used = slice(1, self._used)
        use, tags = self.exchanges.use(), self.tags[used].tolist()
        uses = np.array([use.get(tag, (0.0, 0.0)) for tag in tags]).reshape(-1, 2)
        root = np.sqrt(uses[:, 0])
        found = root[:, None] * self._found(error, uses[:, 1]) * root
        category = self.tags[used] >= LEAST_CATEGORY
        variances = np.where(category, self.cross.variances(used), 1.0)
        of_fields = np.array([0.5 * rho * moved for rho, moved in use.values()])
        columned = dict.fromkeys(use, 0.0)
        for tag, variance in zip(tags, variances, strict=True):
            if tag in columned:
                columned[tag] += variance
        rest = np.maximum(1.0 - np.array(list(columned.values())), 0.0)
        of_use = uses[:, 0], np.array([rho for rho, _ in use.values()])
        return transform_of(found, of_fields, of_use, (variances, rest), self.exchanges.present, whole)

    def _found(self, error: float, moved: Array) -> Array:
        """Return the mean gradient outer product, plus cross moments for the unexplained variance.

        Categories have no gradients; half of ``moved``, the mean square change of predictions under exchange,
        replaces them. A much larger gradient of a number is due to noise, and is limited.
        """
        used = slice(1, self._used)
        mean: Array = self.moments[used, used] / max(self.moments[0, 0], 1.0)
        own = np.maximum(mean.diagonal(), _LEAST)
        bound = np.sqrt(np.minimum(_STEEPEST * moved / own, 1.0))
        mean = bound[:, None] * mean * bound
        mean += np.diag(np.where(self.tags[used] >= LEAST_CATEGORY, 0.5 * moved, 0.0))
        unknown = min(1.0, error / max(self.cross.variance, _LEAST))
        return mean + unknown * self.cross.outer(used)

    @property
    def _used(self) -> int:
        """Columns in use with relevance, including the constant's."""
        return min(len(in_use(self.keys)) + 1, MOST)

    def relevance(self) -> dict[int, tuple[float, ...]]:
        """Return, by key, the relevance of inputs in each block."""
        keys = in_use(self.keys)[: MOST - 1]
        tested = self.exchanges.places
        return {
            key: tuple(float(np.sqrt((t[column] ** 2).sum())) for t in self.transforms)
            for column, key in enumerate(keys, 1)
        } | {
            tag: tuple(self.factors[:, place].tolist())
            for tag, place in tested.items()
            if tag < LEAST_CATEGORY and tag not in keys
        }

    def merge_from(
        self,
        others: Sequence[Sections],
        targets: Sequence[tuple[Sequence[int], Unit]],
        shared: bool = False,
    ) -> None:
        """Merge parts: columns in the order of the parts, pooled relevance, blocks of the first.

        ``targets`` are, for each part, the indices of its outputs and the unit of its targets. If all
        continue from ``shared`` state, their relevance, which fades, is averaged.
        """
        self.keys = columns_of(list(dict.fromkeys(key for other in others for key in in_use(other.keys))))
        self.exchanges.merge_from([other.exchanges for other in others])
        for other, (places, unit) in zip(others, targets, strict=True):
            columns = {key: column for column, key in enumerate(in_use(self.keys), 1)}
            for column, key in enumerate(in_use(other.keys), 1):
                if key in columns:
                    self.tags[columns[key]] = other.tags[column]
            here, there = self._shared(other)
            self.moments[np.ix_([0, *here], [0, *here])] += other.moments[np.ix_([0, *there], [0, *there])]
            pool_gaps(self.gaps, here, other.gaps[:, there])
            self.cross.merge_from(other.cross, (here, there), places, unit)
        if shared:
            self.moments /= len(others)
            self.cross.fade(1.0 / len(others))
            self.exchanges.fade(1.0 / len(others))
        self.kinds = others[0].kinds.copy()
        self.grown = any(other.grown for other in others)
        for block in range(BLOCKS):
            self.transforms[block], self.factors[block] = self._as_ours(others[0], block)
            self.importance[block] = self._by_field(others[0].importance[block], others[0])

    def _shared(self, other: Sections) -> tuple[list[int], list[int]]:
        """Return the columns with relevance of common inputs, in both learners."""
        ours = {key: column for column, key in enumerate(in_use(self.keys)[: MOST - 1], 1)}
        theirs = enumerate(in_use(other.keys)[: MOST - 1], 1)
        shared = [(ours[key], column) for column, key in theirs if key in ours]
        return [here for here, _ in shared], [there for _, there in shared]

    def _as_ours(self, other: Sections, block: int) -> tuple[Floats, Floats]:
        """Return transform and factors of another learner's block, in the columns and fields of this one."""
        here, there = self._shared(other)
        transform = np.eye(MOST, dtype=np.float32)
        transform[np.ix_(here, here)] = other.transforms[block][np.ix_(there, there)]
        return transform, self._by_field(other.factors[block], other)

    def _by_field(self, numbers: Floats, other: Sections) -> Floats:
        """Return another learner's numbers of fields, by the places of this one; 1 for fields it lacks."""
        found = np.ones(FIELDS, dtype=np.float32)
        ours, theirs = (e.exchanges.places for e in (self, other))
        for tag in ours.keys() & theirs.keys():
            found[ours[tag]] = numbers[theirs[tag]]
        return found

    def has_block_of(self, other: Sections, block: int) -> bool:
        """Return whether the features of a block equal another learner's."""
        transform, factors = self._as_ours(other, block)
        return np.array_equal(self.transforms[block], transform) and np.array_equal(
            self.factors[block], factors
        )

    def arrays(self) -> Arrays:
        """Return the arrays for a model file: of relevance, the columns in use."""
        used, fields = slice(0, self._used), 1 + len(in_use(self.exchanges.tags))
        return {
            "map.columns": np.array(in_use(self.keys), dtype=np.uint64),
            "map.tags": self.tags[1 : 1 + len(in_use(self.keys))],
            "map.factors": self.factors[:, :fields],
            **({"map.importance": self.importance[:, :fields]} if (self.importance != 1.0).any() else {}),
            **self.exchanges.arrays(),
            "map.moments": self.moments[used, used],
            "map.transforms": self.transforms[:, used, used],
            "map.kinds": self.kinds,
            **({"map.gaps": self.gaps[:, used]} if self.gaps.any() else {}),
            **({"map.grown": np.array([1])} if self.grown else {}),
            **self.cross.arrays(self._used),
            **self.sample.arrays(),
        }

    def load_state_dict(self, arrays: Arrays, closed: bool = False) -> None:
        """Restore the arrays of a model file after checking them; if closed, without cross moments."""
        keys = typed(arrays, "map.columns", np.uint64, (len(arrays["map.columns"]),))
        used = min(len(keys) + 1, MOST)
        moments = typed(arrays, "map.moments", np.float64, (used, used))
        gaps = np.zeros((3, used))
        if "map.gaps" in arrays:
            gaps = typed(arrays, "map.gaps", np.float64, (3, used))
        transforms = typed(arrays, "map.transforms", np.float32, (BLOCKS, used, used))
        kinds = typed(arrays, "map.kinds", np.int64, self.kinds.shape)
        if not set(kinds.tolist()) <= {IDENTITY, DIAGONAL, WHOLE}:
            raise ValueError("its kinds of relevance are impossible")
        possible = (abs(moments) <= _MOST).all() and (abs(gaps) <= _MOST).all() and (gaps[GAP] >= 0.0).all()
        if not (possible and (abs(transforms) <= LARGEST_FACTOR).all()):
            raise ValueError("its relevance is impossible")
        self.keys = columns_of(keys.tolist())
        self.tags[1 : 1 + len(keys)] = typed(arrays, "map.tags", np.uint64, keys.shape)
        self.exchanges.load_state_dict(arrays)
        if closed:
            self.exchanges.forget()
        fields = 1 + len(in_use(self.exchanges.tags))
        factors = typed(arrays, "map.factors", np.float32, (BLOCKS, fields))
        if not ((factors >= 0.0) & (factors <= FIELDS)).all():  # version 0.5 wrote larger ones
            raise ValueError("its relevance is impossible")
        self.moments, self.gaps, self.transforms, self.factors = no_relevance()
        self.moments[:used, :used], self.transforms[:, :used, :used] = moments, transforms
        self.gaps[:, :used] = gaps
        self.factors[:, :fields] = factors
        self.importance[:] = 1.0
        if "map.importance" in arrays:
            importance = typed(arrays, "map.importance", np.float32, (BLOCKS, fields))
            if not ((importance >= 0.0) & (importance <= 1.0)).all():
                raise ValueError("its importance of fields is impossible")
            self.importance[:, :fields] = importance
        self.kinds = kinds.copy()
        self.grown = "map.grown" in arrays
        if self.grown and not (self._sizes[-1] and typed(arrays, "map.grown", np.int64, (1,))[0] == 1):
            raise ValueError("its growth is impossible")
        if not closed:
            self.cross.load_state_dict(arrays, used)
