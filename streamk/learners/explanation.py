"""Why a prediction: additive contributions of the fields of an event.

A contribution is a Shapley value, estimated from permutations of the fields (Castro, Gómez and Tejada 2009;
Štrumbelj and Kononenko 2014). For a permutation, the event begins as a background event ``z``, and its fields
take the values of ``x`` one after the other. Each change of the prediction belongs to the field that caused
it, so that for every permutation::

    f(x) = f(z) + Σ (changes)

The base value is the mean of ``f(z)``, and a contribution the mean of its field's changes, so base value and
contributions sum to ``f(x)`` exactly, however few permutations there are. Every second permutation is the
reverse of the one before, which balances the order in which fields of an interaction change.

Background events are recent events, spread evenly over those that ``Kernel…`` learners store. Learners that
store none, and frozen ones, have one background event, whose numbers are at their mean and whose categories
are absent. Fields that the event lacks are absent in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Integers
from streamk.encoding.fields import Event, named
from streamk.encoding.inputs import Inputs
from streamk.encoding.labels import Label
from streamk.encoding.rows import ABSENT, CATEGORY, UNSCALED, EncodedRows, missing, slices

_ROWS, _MOST = 128, 32  # rows predicted for an event, permutations: an even number
_VALUES = 2**20  # in memory at once


class Explanation(NamedTuple):
    """A prediction as a sum.

    Attributes
    ----------
    prediction
        The predicted number, or the probability of ``label``.
    base
        The mean prediction of the background events.
    contributions
        By field, the largest first; ``base`` plus their sum is ``prediction``. A field that the learner has
        never learned has 0.
    label
        The class whose probability is explained; None for numbers.
    """

    prediction: float
    base: float
    contributions: dict[str, float]
    label: Label | None = None


def explain(
    inputs: Inputs,
    x: Event,
    prediction: float,
    background: EncodedRows | None,
    predict: Callable[[EncodedRows], Array],
) -> Explanation:
    """Return the prediction of an event as a sum.

    Parameters
    ----------
    inputs
        The encoder.
    x
        The event.
    prediction
        Its prediction; that by ``predict`` may have other rounding errors, which then are in the base value.
    background
        Encoded events to compare it with; None for numbers at their mean.
    predict
        A function of encoded rows ``(n, …)`` to predictions ``(n,)``.

    Raises
    ------
    ValueError
        If a value of the event cannot be taken.
    """
    inputs.check(x)
    fields = named(x)
    row = inputs.encode_many([fields], [False])
    alone = inputs.encode_many([{name: value} for name, value in fields.items()], [False] * len(fields))
    owner = {key: j for j, keys in enumerate(alone.keys.tolist()) for key in keys if key != ABSENT}
    owners = np.array([owner.get(key, -1) for key in row.keys[0].tolist()], dtype=np.intp)
    players = np.unique(owners[owners >= 0])
    names, changes = list(fields), np.zeros(len(fields))
    if len(players):
        count = min(max(_ROWS // len(players) // 2, 1) * 2, _MOST)
        of_column = np.where(owners < 0, -1, np.searchsorted(players, owners))
        changes[players] = _changes(row, _compared(row, background, count), of_column, len(players), predict)
    ordered = sorted(zip(names, changes.tolist(), strict=True), key=lambda item: (-abs(item[1]), item[0]))
    return Explanation(prediction, prediction - float(changes.sum()), dict(ordered))


def _changes(
    row: EncodedRows,
    background: EncodedRows,
    of_column: Integers,
    players: int,
    predict: Callable[[EncodedRows], Array],
) -> Array:
    """Return the mean change of the prediction by each player."""
    count = len(background.values)
    ranks = _ranks(players, count)
    predictions = [predict(rows) for rows in _rows(row, background, of_column, ranks)]
    steps = np.concatenate(predictions)
    path = np.column_stack([steps[1:].reshape(count, players), np.full(count, steps[0])])
    changes: Array = np.take_along_axis(np.diff(path, axis=1), ranks, axis=1).mean(axis=0)
    return changes


def _ranks(players: int, count: int) -> Integers:
    """Return the place of every player in so many permutations, each second one the reverse of the first."""
    shuffled = np.tile(np.arange(players), (count // 2, 1))
    ranks = np.random.default_rng(players).permuted(shuffled, axis=1)
    return np.stack([ranks, players - 1 - ranks], axis=1).reshape(count, players)


def _rows(
    row: EncodedRows, background: EncodedRows, of_column: Integers, ranks: Integers
) -> Iterator[EncodedRows]:
    """Yield ``row``, then for every permutation its background event with 0, 1, … fields of ``row``."""
    yield row
    count, players = ranks.shape
    for part in slices(count * players, max(1, _VALUES // row.values.shape[1])):
        each, step = np.divmod(np.arange(part.start, part.stop), players)
        taken: NDArray[np.bool_] = ranks[each][:, of_column] < step[:, None]
        taken |= of_column < 0
        theirs = background.select(each)
        yield EncodedRows(
            np.where(taken, row.slots, theirs.slots),
            np.where(taken, row.keys, theirs.keys),
            np.where(taken, row.values, theirs.values),
        )


def _compared(row: EncodedRows, background: EncodedRows | None, count: int) -> EncodedRows:
    """Return the fields of ``row`` in so many background events, ``(count, w)``, in the same columns."""
    fields = _field_slots(row.slots)
    if background is None or not len(background.values):
        usual = (fields > UNSCALED)[0]
        slots = np.where(usual, missing(0) - fields, UNSCALED)
        made = slots, np.where(usual, row.keys, ABSENT), np.zeros_like(row.values)
        return _typed(*(np.repeat(array, count, axis=0) for array in made))
    places = np.linspace(0, len(background.values) - 1, count).astype(np.intp)
    chosen = background.select(places)
    slots, keys = (np.broadcast_to(a, chosen.values.shape) for a in (chosen.slots, chosen.keys))
    same = (_field_slots(slots)[:, :, None] == fields) & (keys != ABSENT)[:, :, None]
    same &= (fields != UNSCALED) | (keys[:, :, None] == row.keys)
    where, there = same.argmax(axis=1), same.any(axis=1)
    taken = (np.take_along_axis(array, where, axis=1) for array in (slots, keys, chosen.values))
    return _typed(*(np.where(there, a, gone) for a, gone in zip(taken, (UNSCALED, ABSENT, 0.0), strict=True)))


def _field_slots(slots: AnyArray) -> NDArray[np.int32]:
    """Return slots with those of missing numbers as if they were there."""
    return np.where((slots < UNSCALED) & (slots > CATEGORY), np.int32(missing(0)) - slots, slots)


def _typed(slots: Array, keys: Array, values: Array) -> EncodedRows:
    return EncodedRows(slots.astype(np.int32), keys.astype(np.uint64), values)
