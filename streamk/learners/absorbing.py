"""What several learners with features know, as one.

Each of the four values merges by its own rule: the codec pools names, scales and labels; the map is the same;
experts merge by what they know (first order: the weighted mean of coefficients; second order: by information,
exactly); the combiner averages its calibration. Outputs are matched by label, features by name; what one of
them lacks is 0.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.codec import Unit
from streamk.encoding.recall import MEAN, NUMBERS, SHARED
from streamk.experts.expert import Columns, Expert
from streamk.experts.least_squares import LeastSquares
from streamk.features.plain import LINEAR, PLAIN, in_use
from streamk.features.relevance import BLOCKS
from streamk.features.sections import Sections
from streamk.features.segments import slots_of_first
from streamk.learners.refitting import pooled, refit, share_sample
from streamk.learners.state import LearnerState
from streamk.learners.tails import restarted_since


def absorb(
    merged: LearnerState,
    parts: Sequence[LearnerState],
    shares: Sequence[float],
    base: LearnerState | None = None,
) -> None:
    """Let a learner that knows nothing know what others know together; see :func:`streamk.merge`."""
    first = parts[0]._map
    assert first is not None
    merged._codec.absorb([part._codec for part in parts], None if base is None else base._codec)
    if base is not None and any(restarted_since(part, base) for part in parts):
        base = None
    latest = max(parts, key=lambda part: part._growth.openings)._growth
    merged._growth.count(latest.openings)
    made = merged._make_map(first.seed, first.slots)
    columns = [_places(part, merged) for part in parts]
    _share_memory(merged, parts, shares, columns)
    if made.sections is not None:
        made.sections.take([_sections(part) for part in parts], columns, base is not None)
        made.renew()
    counts = None
    if base is not None:
        counts = [1.0] * len(parts) + [1.0 - len(parts)]
        parts, shares, columns = [*parts, base], [*shares, 0.0], [*columns, _places(base, merged)]
    merged._grow(merged._codec.outputs, latest.blocks * latest.size)
    moves = [_moves(part, merged) for part in parts] if made.sections is not None else []
    for k, expert in enumerate(merged._experts):
        experts = [part._experts[k] for part in parts]
        if moves:
            experts = [_moved(expert, places) for expert, places in zip(experts, moves, strict=True)]
        expert.take(experts, shares, columns, None if base is None else _counts(k, parts, merged))
    if not all(expert.is_open for expert in merged._experts):
        merged._growth.open_again()
    merged._combiner.take([part._combiner for part in parts], shares, counts)
    apart = base is None and _are_apart(parts, merged)
    if apart:
        pool = pooled(merged, parts, shares, columns)
        refit(merged, parts, shares, columns, pool)
        share_sample(merged, pool, shares)
        merged._growth.count(merged._growth.openings_at(merged.events))
    if merged._asked is not None:
        merged._asked.begin(merged._live(), merged.events)
    if merged._stale is not None and not apart:
        combiners = [part._stale.combiner for part in parts if part._stale is not None]
        if any(combiner.has_learned for combiner in combiners):
            merged._stale.combiner.take(combiners, shares, counts)
        merged._stale.forget()


def _share_memory(
    merged: LearnerState, parts: Sequence[LearnerState], shares: Sequence[float], columns: Columns
) -> None:
    """Let the label memory begin as the mean of what the parts have in it on average.

    Experts have never seen an empty one: of classes, it would be an event of no class.
    """
    memory = merged._codec.memory
    for part, share, (codes, unit) in zip(parts, shares, columns, strict=True):
        if memory is None or part._codec.memory is None:
            return
        mean = part._codec.memory[MEAN]
        if not merged._classifies:
            memory[:, :NUMBERS] += share * (unit.scale * mean[:NUMBERS] + unit.offset)
            continue
        for k, code in enumerate(codes[:SHARED]):
            if code < SHARED:
                memory[:, [code, SHARED + code]] += share * mean[[k, SHARED + k]]


def _are_apart(parts: Sequence[LearnerState], merged: LearnerState) -> bool:
    """Return whether blocks under relevance of some parts are different, and all have samples of events."""
    if merged._map is None or merged._map.sections is None:
        return False
    ours, theirs = _sections(merged), [_sections(part) for part in parts]
    alike = all(ours.has_block_of(other, block) for other in theirs for block in range(BLOCKS))
    return not alike and all(len(other.sample) for other in theirs)


def _counts(k: int, parts: Sequence[LearnerState], merged: LearnerState) -> list[float]:
    """Return how often what experts number ``k`` know is added up; the others have gone on from the last one.

    What the last one knows is in each of the others, and counts once. But an expert that has begun anew has
    forgotten it, and so has one on a block of features under relevance that has, be it under the same one.
    """
    assert merged._map is not None
    *models, base = parts
    still = [m._experts[k].goes_on_from(base._experts[k]) for m in models]
    if merged._map.sections is not None:
        sections, before = merged._map.sections, _sections(base)
        for block in range(BLOCKS):
            if merged._experts[k].within(sections.columns_of_part(1 + block)):
                still = [
                    goes_on and not _begun_anew(block, m, base) and before.has_block_of(_sections(m), block)
                    for goes_on, m in zip(still, models, strict=True)
                ]
    return [*[1.0] * len(models), float(any(still)) - sum(still)]


def _begun_anew(block: int, part: LearnerState, base: LearnerState) -> bool:
    """Return whether a block under relevance has begun anew since a learner went on from another."""
    return any(opening % BLOCKS == block for opening in part._growth.since(base._growth, base.events))


def _sections(part: LearnerState) -> Sections:
    assert part._map is not None
    assert part._map.sections is not None
    return part._map.sections


def _moved(expert: Expert, places: NDArray[np.int64]) -> Expert:
    """Return an expert whose columns have moved, a copy if any has."""
    if np.array_equal(places, np.arange(len(places))):
        return expert
    copied = copy.deepcopy(expert)
    copied.rearrange(places)
    return copied


def _moves(part: LearnerState, merged: LearnerState) -> NDArray[np.int64]:
    """Return where the columns of a part's map stand in the merged learner's, −1 for nowhere.

    Features under another relevance than the merged learner's are other features: it knows nothing of them.
    """
    ours, theirs = _sections(merged), _sections(part)
    columns = {key: column for column, key in enumerate(in_use(ours.keys), 1)}
    moved = {column: columns.get(key, -1) for column, key in enumerate(in_use(theirs.keys), 1)}
    moved[0] = 0
    if not part._classifies:
        moved |= {column: column for column in range(LINEAR, PLAIN)}
    else:
        rows, _ = _places(part, merged)
        for k, row in enumerate(rows[:SHARED]):
            for first in (LINEAR, LINEAR + SHARED):
                moved[first + k] = first + row if row < SHARED else -1
    plain = np.arange(PLAIN)
    if any(column != place for column, place in moved.items()):  # what is not in use has no place
        plain[:] = -1
        plain[list(moved)] = list(moved.values())
    places = np.arange(ours.width)
    for part_of in range(1 + BLOCKS):
        start = ours.columns_of_part(part_of).start
        places[start : start + PLAIN] = np.where(plain < 0, -1, plain + start)
        if part_of and not ours.has_block_of(theirs, part_of - 1):
            places[start + PLAIN : ours.columns_of_part(part_of).stop] = -1
    return places


def _places(part: LearnerState, merged: LearnerState) -> tuple[list[int], Unit]:
    """Return where the outputs of a part go, and the unit of its targets."""
    unit = part._codec.unit_in(merged._codec)
    if part._codec.labels is None or merged._codec.labels is None:
        return [0], unit
    codes = merged._codec.labels.codes
    return [codes[label] for label in part._codec.labels.values[: part._outputs]], unit


def check_closed(model: LearnerState, name: str) -> None:
    """Raise a ValueError, which calls the learner so, if it forgot how well it knows its coefficients."""
    if any(_is_closed(expert) for expert in model._experts):
        raise ValueError(
            f"{name} was closed, and does not know any more how well it knows its coefficients; "
            "merge models as they were before closed()"
        )


def _is_closed(expert: Expert) -> bool:
    """Return whether least squares have coefficients, and no knowledge of how well these are known."""
    return isinstance(expert, LeastSquares) and not len(expert.joined) and bool(expert.coefficients.any())


def check_maps(models: Sequence[LearnerState], called: Sequence[str]) -> None:
    """Raise a ValueError, which calls models so, unless they have the same features; all have learned."""
    first = models[0]
    ours, numbers = _identity(first), list(first._codec.inputs.numbers)
    for model, name in zip(models[1:], called[1:], strict=True):
        theirs = _identity(model)
        for what, remedy in _REMEDIES.items():
            if ours[what] != theirs[what]:
                raise ValueError(
                    f"{name} has {what} {theirs[what]!r} and {called[0]} {ours[what]!r}: "
                    f"their features differ, so they cannot be merged; {remedy}"
                )
        if model._codec.inputs.positional:
            shared = min(len(numbers), len(model._codec.inputs.numbers))
            if numbers[:shared] != list(model._codec.inputs.numbers)[:shared]:
                raise ValueError(
                    f"{name} met its numbers in another order than {called[0]}, and "
                    f"{ours['directions']} directions are tied to their positions; use directions='keyed'"
                )


_REMEDIES = {
    "seed": "give all models the same seed before they learn",
    "directions": "use directions='keyed', which do not depend on the first event",
    "slots": "use directions='keyed', or let the first events have as many numbers",
}


def _identity(model: LearnerState) -> dict[str, Any]:
    assert model._map is not None
    slots = model._map.slots
    return {
        "seed": model._map.seed,
        "directions": model._codec.inputs.directions,
        "slots": None if slots is None else slots_of_first(slots),
    }
