"""Sections of a map: parts of the features with separate scales and inputs, each after plain columns.

A learner of many experts has three: features of the unchanged inputs, half coarse and half fine, and two
blocks under learned relevance (:mod:`streamk.features.relevance`). Each follows a copy of the plain columns
(:mod:`streamk.features.columns.plain`), so that an expert on adjacent columns can use both.

The blocks may grow once. Growth adds the last features of the map, without changing others, in columns after
those of the block that were 0 before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Integers, Places
from streamk.encoding.codec import Unit
from streamk.features.columns import FAMILIES
from streamk.features.columns.plain import (
    LEAST_CATEGORY,
    LINEAR,
    PLAIN,
    Keys,
    are_keys,
    columns_of,
    empty_columns,
    in_use,
    index_of,
)
from streamk.features.cross_moments import MOST, CrossMoments
from streamk.features.exchange import FIELDS, ExchangeRecord, Exchanges
from streamk.features.plans import BUDGETS, GridPlan
from streamk.features.ranks import Ranks
from streamk.features.relevance import BLOCKS, LARGEST_FACTOR, no_relevance, pool_gaps, transform_of
from streamk.features.sample import EventSample, SampleRecord
from streamk.handles import Handle, make_handle
from streamk.state import Field, Stateful

COARSE, MIDDLE, FINE = (4.0, 2.0, 1.0), (2.0, 1.0, 0.5), (0.5, 0.25, 0.125)
UNIT = 6  # the features are a multiple of so many groups of random numbers per kernel
_ADDED = 5 / 3 - 1  # of a block's features, in whole groups for both kernels
_GROUPS = 128
_KEPT = 0.5  # of earlier relevance, when a block opens
_YOUNGER = 0.9
_STEEPEST = 20.0  # mean squared gradient, in units of the mean square by which exchanges move predictions
_MOST = 1e100
_LEAST = 1e-9  # variance of targets; sum of importances
_MOVED = 0.25  # of all importance: grids whose fields change begin again, so fields follow only large changes
IDENTITY, DIAGONAL, WHOLE = 0, 1, 2  # kinds of transforms
_KINDS = (DIAGONAL, WHOLE)
_INPUTS = np.array([0, 1, 2, 1, 2])  # of features: the parts, and the growth of the blocks


class SectionRecord(NamedTuple):
    """Sections for compiled code.

    ``amplitude`` of plain columns, their keys in ``columns``, and their hash table ``places``; ``width``, all
    columns, and ``starts`` of plain ones; ``parts``: first feature, its column, number of features, and
    whether they exist yet; ``transforms``, transposed, ``moments`` and ``gaps`` of relevance, and whether it
    is ``learned``; ``sums`` and ``squares`` of
    :class:`streamk.features.cross_moments.CrossMoments`; ``knots`` of ranks; ``families``, handles of those
    of columns.
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
    importance: Floats
    knots: Floats
    families: tuple[Handle, ...]


class Sections(Stateful):
    """Sections of a map of so many features.

    Parameters
    ----------
    features
        A third is coarse, a third fine, and a sixth in each of two blocks under relevance.
    learned
        Whether relevance is learned; if not, it is 1.
    grows
        Whether the blocks may grow by two thirds.
    plan
        That of the random grids (:mod:`streamk.features.columns.cells`).
    quadratic
        Whether columns hold products of two inputs (:mod:`streamk.features.columns.products`).

    Attributes
    ----------
    families
        Of the columns, in the order of the registry.
    width
        Number of all columns.
    """

    def __init__(
        self,
        features: int,
        learned: bool,
        grows: bool = False,
        plan: GridPlan = BUDGETS["default"],
        quadratic: bool = False,
    ) -> None:
        self.learned, sixth = learned, features // UNIT
        added = int(_ADDED * sixth) // _GROUPS * _GROUPS if grows else 0
        self._sizes = np.array([4 * sixth, sixth, sixth, added, added])
        self.growth: Integers = np.zeros(1, dtype=np.int64)
        self.amplitude = float(np.float32(np.sqrt(2.0 * sixth)))
        self.keys = empty_columns()
        self.moments, self.gaps, self.transforms, self.factors = no_relevance()
        self.cross, self.exchanges, self.sample = CrossMoments(), Exchanges(), EventSample()
        self.exchange_record: ExchangeRecord = self.exchanges.record
        self.tags: Keys = np.zeros(LINEAR, dtype=np.uint64)
        self.kinds = np.full(BLOCKS, IDENTITY)
        self.importance: Floats = np.ones((BLOCKS, FIELDS), dtype=np.float32)
        self.plan, self.ranks = plan, Ranks(FIELDS)
        self.families = [family(plan, quadratic) for family in FAMILIES]
        self.width = self._end_of_parts
        for family in self.families:
            family.first = self.width
            self.width += family.width
        self.draw(0)

    def draw(self, seed: int) -> None:
        """Draw what depends on the seed."""
        for family in self.families:
            family.draw(seed, BLOCKS)

    @property
    def record(self) -> SectionRecord:
        """The sections for compiled code, valid until relevance changes."""
        self.exchange_record = self.exchanges.record
        return SectionRecord(
            np.float32(self.amplitude), self.keys, index_of(self.keys), self.width, self._starts, self._parts,
            np.ascontiguousarray(self.transforms.transpose(0, 2, 1)), self.moments, self.gaps, self.learned,
            self.cross.sums, self.cross.squares, self.tags, self.factors,
            self.exchange_record.tags, self.exchange_record.places, self.sample.record, self.importance,
            self.ranks.knots, tuple(make_handle(family.record) for family in self.families),
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

    @property
    def grown(self) -> bool:
        """Whether the blocks have their maximum size."""
        return bool(self.growth[0])

    def grow(self) -> None:
        """Grow the blocks to their maximum size."""
        self.growth[0] = min(1, self._sizes[-1])

    def scales_at(self, features: Places, indices: Places) -> Array:
        """Return the scale of features, with ``indices`` their index among those of their kernel."""
        scales = np.array([COARSE, FINE, MIDDLE])
        half = self._sizes[0] // 2
        section = np.searchsorted([half, 2 * half], features, side="right")
        return np.asarray(scales[section, indices % len(COARSE)])

    def inputs_at(self, features: Places) -> Places:
        """Return the kind of inputs of features: 0 unchanged, 1 and 2 under relevance."""
        return _INPUTS[np.searchsorted(np.cumsum(self._sizes), features, side="right")]

    def columns_of_part(self, part: int) -> slice:
        """Return the columns of a part, including its plain ones."""
        start, stop = [*self._starts.tolist(), self._end_of_parts][part : part + 2]
        return slice(start, stop)

    @property
    def _end_of_parts(self) -> int:
        return int(self._sizes.sum()) + PLAIN * (1 + BLOCKS)

    def columns_of(self, family: str) -> slice:
        """Return the columns of a family after those of the parts."""
        return next(one.columns for one in self.families if one.name == family)

    def renew(self, block: int, errors: Sequence[float], error: float) -> slice:
        """Restart a block, the older one, under the current relevance; return its columns.

        The first block, at the second opening, uses the diagonal, and the other one the full matrix. Later a
        block takes the kind of the block with the smaller mean squared error of ``errors``; the error of the
        younger block, which has learned from a third fewer events, is multiplied by 0.9. ``error`` is that of
        the best expert. The block's grids get other fields only if a quarter of all importance has moved.
        """
        younger, first = 1 - block, (self.kinds == IDENTITY).all()
        better = younger if _YOUNGER * errors[younger] < errors[block] else block
        kind = _KINDS[block] if IDENTITY in self.kinds else int(self.kinds[better])
        self.kinds[block] = kind
        self.transforms[block], self.factors[block] = self._transform(error, kind == WHOLE)
        if first or self.has_moved(block):
            self.importance[block] = self.exchanges.importance()
        self.fade(_KEPT)
        return self.columns_of_part(1 + block)

    def fade(self, kept: float) -> None:
        """Count earlier events ``kept`` times in relevance."""
        self.moments *= kept
        self.cross.fade(kept)
        self.exchanges.fade(kept)

    def has_moved(self, block: int) -> bool:
        """Return whether a quarter of all importance has moved since a block's grids began."""
        known = slice(1, 1 + len(in_use(self.exchanges.tags)))
        both = self.exchanges.importance()[known], self.importance[block][known]
        now, then = (shares / max(shares.sum(), _LEAST) for shares in both)
        return bool(np.maximum(now - then, 0.0).sum() > _MOVED)

    def move_ranks(self, statistics: Array, events: int) -> None:
        """Move the ranks of numbers towards those of the last events (:mod:`streamk.features.ranks`)."""
        self.ranks.move(self.sample, statistics, self.exchanges.places, events)
        for family in self.families:
            family.forget()

    def pool(self, whole: bool, error: float) -> None:
        """Put both blocks under the current relevance; see :meth:`renew`."""
        for block in range(BLOCKS):
            self.kinds[block] = WHOLE if whole else DIAGONAL
            self.transforms[block], self.factors[block] = self._transform(error, whole)

    def _transform(self, error: float, whole: bool) -> tuple[Floats, Floats]:
        """Return the current ``T`` and factors; ``error`` is the mean squared error of the best expert."""
        used = slice(1, self._used)
        use, tags = self.exchanges.use(), self.tags[used].tolist()
        uses = np.array([use.get(tag, (0.0, 0.0)) for tag in tags]).reshape(-1, 2)
        root = np.sqrt(uses[:, 0])
        outer = root[:, None] * self._outer_product(error, uses[:, 1]) * root
        category = self.tags[used] >= LEAST_CATEGORY
        variances = np.where(category, self.cross.variances(used), 1.0)
        of_fields = np.array([0.5 * rho * moved for rho, moved in use.values()])
        columned = dict.fromkeys(use, 0.0)
        for tag, variance in zip(tags, variances, strict=True):
            if tag in columned:
                columned[tag] += variance
        remaining = np.maximum(1.0 - np.array(list(columned.values())), 0.0)
        of_use = uses[:, 0], np.array([rho for rho, _ in use.values()])
        return transform_of(outer, of_fields, of_use, (variances, remaining), self.exchanges.present, whole)

    def _outer_product(self, error: float, moved: Array) -> Array:
        """Return the mean gradient outer product, plus cross moments for the unexplained variance.

        Categories have no gradients; half of ``moved``, the mean square change of predictions under exchange,
        replaces them. A much larger gradient of a number is due to noise, and is limited.
        """
        used = slice(1, self._used)
        mean: Array = self.moments[used, used] / max(self.moments[0, 0], 1.0)
        diagonal = np.maximum(mean.diagonal(), _LEAST)
        bound = np.sqrt(np.minimum(_STEEPEST * moved / diagonal, 1.0))
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
        votes: Sequence[float],
        shared: bool = False,
    ) -> None:
        """Merge parts: columns in the order of the parts, pooled relevance, blocks of the first.

        ``targets`` are, for each part, the indices of its outputs and the unit of its targets. If all
        continue from ``shared`` state, their relevance, which fades, is averaged. The fields of grids are
        those of the parts with most ``votes``.
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
        moved = [self._by_field(other.ranks.knots, other, 0.0) for other in others]
        counts = np.array([knots.any(axis=1) for knots in moved])
        self.ranks.knots[:] = np.sum(moved, axis=0) / np.maximum(counts.sum(axis=0), 1)[:, None]
        importances = [self._importance_of(other) for other in others]
        alike = np.array([[np.array_equal(one, other) for other in importances] for one in importances])
        self.importance[:] = importances[int(np.argmax(alike @ np.array(votes)))]
        self.kinds = others[0].kinds.copy()
        self.growth[0] = any(other.grown for other in others)
        for block in range(BLOCKS):
            self.transforms[block], self.factors[block] = self._as_ours(others[0], block)

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

    def _by_field(self, numbers: Floats, other: Sections, lacking: float = 1.0) -> Floats:
        """Return another learner's numbers of fields, by the places of this one."""
        values = np.full_like(numbers, lacking)
        ours, theirs = (e.exchanges.places for e in (self, other))
        for tag in ours.keys() & theirs.keys():
            values[ours[tag]] = numbers[theirs[tag]]
        return values

    def has_block_of(self, other: Sections, block: int) -> bool:
        """Return whether the features of a block equal another learner's."""
        transform, factors = self._as_ours(other, block)
        return np.array_equal(self.transforms[block], transform) and np.array_equal(
            self.factors[block], factors
        )

    def has_grids_of(self, other: Sections) -> bool:
        """Return whether the grids have the fields of another learner's."""
        return np.array_equal(self.importance, self._importance_of(other))

    def _importance_of(self, other: Sections) -> Floats:
        """Return another learner's importance of fields, ``(blocks, fields)``, by the places of this one."""
        return np.array([self._by_field(block, other) for block in other.importance])

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield columns, relevance of the columns in use, fields and their factors, and cross moments."""
        yield Field("map.columns", "plain columns", attribute="keys", counted=1, possible=are_keys)
        yield Field("map.tags", "tags", part=slice(1, 1 + len(in_use(self.keys))))
        every, used = slice(None), slice(self._used)
        yield Field("map.moments", "moments of relevance", -_MOST, _MOST, part=(used, used))
        least = np.array([[-_MOST], [-_MOST], [0.0]])
        yield Field("map.gaps", "gaps", least, _MOST, part=(every, used), default=0.0)
        bounds = -LARGEST_FACTOR, LARGEST_FACTOR
        yield Field("map.transforms", "transforms of relevance", *bounds, part=(every, used, used))
        yield Field("map.kinds", "kinds of relevance", IDENTITY, WHOLE)
        yield Field("map.grown", "growths", 1, min(1, int(self._sizes[-1])), attribute="growth", default=0)
        yield self.exchanges
        fields = every, slice(1 + len(in_use(self.exchanges.tags)))
        yield Field("map.factors", "factors", 0.0, FIELDS, part=fields)  # version 0.5 wrote such large ones
        yield Field("map.importance", "importances of fields", 0.0, 1.0, part=fields, default=1.0)
        self.ranks.used = fields[1].stop
        yield self.ranks
        self.cross.used = self._used
        yield self.cross

    def close(self) -> None:
        """Drop what only learning needs."""
        self.exchanges.forget()
        self.cross = CrossMoments()
