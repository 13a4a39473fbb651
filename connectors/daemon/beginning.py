"""Where a session begins with a partition that it was given, and when it must not begin.

:mod:`connectors.daemon.ownership` says how a position follows from the checkpoint and the group, as long as
both speak of the same topic and its events are still there. Here is what else operators of brokers do: topics
are deleted and made anew, events expire, positions are set from outside, partitions are added, directories of
checkpoints are lost. What would lose events or predictions ends the run, with what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from connectors.daemon import ownership
from connectors.daemon.checkpoint import Progress
from connectors.daemon.ownership import Note, Owner, Start
from connectors.daemon.training import require_same_digest
from connectors.errors import CHECKPOINT, POSITION, Failure
from connectors.sections import EARLIEST, FAIL, LATEST, StartPolicy
from connectors.stream import Assigned

log = logging.getLogger(__name__)


class Beginning(NamedTuple):
    """Where to learn from, where to emit from, and the note to commit."""

    position: int
    emitted: int
    note: Note


def begin(
    model: str,
    assigned: Assigned,
    saved: Progress | None,
    before: Callable[[], int | None],
    policy: StartPolicy,
) -> Beginning:
    """Return where a model begins with a partition.

    Parameters
    ----------
    model
        Its identity.
    assigned
        The partition, and what the group says of it.
    saved
        How far the model's checkpoint says that it was read; None if it is not in it.
    before
        Says how many partitions there were when the group began to read the topic, 0 if that is not known any
        more; None if it has read nothing.
    policy
        What the settings say.

    Raises
    ------
    Failure
        If the topic is another one, events are gone, or the position was set from outside, and the settings
        do not say what to do then.
    """
    committed = assigned.committed
    note = Note([]) if committed is None else ownership.read(committed.note)
    if not note.owners or note.owners[-1].model != model:  # its own checkpoint has all settings
        require_same_digest(assigned.partition, note.digest, policy.digest, policy.group)
    read = ("" if saved is None else saved.identity), note.identity
    if another := next((one for one in read if not ownership.same(one, assigned.identity)), ""):
        return _renewed(model, assigned, another, note, policy)
    if committed is None and saved is not None and policy.group:
        raise lost_position(assigned.partition, saved.position, policy.group)
    if (
        committed is not None
        and not note.owners
        and saved is not None
        and committed.position != saved.position
    ):
        raise Failure(
            POSITION,
            f"{assigned.partition}: the group's position was set to {committed.position} from outside, and "
            f"this model has read up to {saved.position}. `streamk reset SETTINGS --to group` goes on from "
            f"{committed.position}, `streamk reset SETTINGS --to checkpoint` from {saved.position}",
        )
    otherwise, siblings = assigned.first, note.siblings or assigned.siblings
    if policy.start == LATEST and committed is None and saved is None:
        # a partition that came after the group began holds events that nobody has read
        siblings = there if (there := before()) is not None else assigned.siblings
        if assigned.number < siblings:
            otherwise = assigned.end
    start = ownership.start(model, committed, None if saved is None else saved.position, otherwise)
    if not (assigned.first <= start.position <= start.emitted <= assigned.end):
        start = _expired(model, assigned, start, policy)
    return Beginning(
        start.position, start.emitted, Note(start.owners, assigned.identity, siblings, policy.digest)
    )


def lost_position(partition: str, saved: int, group: str) -> Failure:
    """Return the failure of a group that has no position where the checkpoint has one."""
    return Failure(
        POSITION,
        f"{partition}: the group {group!r} has no position, and the checkpoint goes up to {saved}: the group "
        "was deleted, or its positions have expired, and predictions after the checkpoint may be there "
        "already. `streamk reset SETTINGS --to checkpoint` may repeat them; `streamk reset SETTINGS --to "
        "OFFSET` continues after the last of them",
    )


def _renewed(model: str, assigned: Assigned, was: str, note: Note, policy: StartPolicy) -> Beginning:
    """Begin with a topic that has the name of the one that was read, and is another."""
    name = assigned.partition
    if policy.expired == FAIL:
        raise Failure(
            POSITION,
            f"{name} is not what was read before: its topic was deleted and made anew, or this is another "
            f"cluster ({assigned.identity}, not {was}). source.expired = 'earliest' or 'latest' goes on "
            "with it, the model as it is",
        )
    if note.owners and ownership.same(note.identity, assigned.identity):  # others of the group began with it
        start = ownership.start(model, assigned.committed, None, assigned.first)
    else:
        position = assigned.first if policy.expired == EARLIEST else assigned.end
        start, note = Start(position, position, [Owner(model, position, position)]), Note([])
    log.warning("%s: its topic was made anew; going on from %d", name, start.position)
    siblings = note.siblings or assigned.siblings
    return Beginning(
        start.position, start.emitted, Note(start.owners, assigned.identity, siblings, policy.digest)
    )


def _expired(model: str, assigned: Assigned, start: Start, policy: StartPolicy) -> Start:
    """Begin where the events to read are no longer there; what was emitted stays emitted."""
    name, first, end = assigned.partition, assigned.first, assigned.end
    there = f"{name} holds {first} to {end - 1}" if end > first else f"{name} is empty, and begins at {first}"
    there += f", and the next event to read is {start.position}"
    if start.emitted > start.position:
        there += f", with predictions up to {start.emitted - 1}"
    if policy.expired == FAIL:
        raise Failure(
            POSITION,
            f"{there}: events were deleted before they were read, or lost by the broker. "
            "source.expired = 'earliest' or 'latest' goes on from there",
        )
    position = start.position
    if not first <= position <= end:
        position = first if policy.expired == EARLIEST and position < first else end
    log.warning("%s: going on from %d", there, position)
    emitted = min(max(position, start.emitted), end)
    if position == start.position:
        return Start(position, emitted, start.owners)
    return Start(position, emitted, [*start.owners[:-1], Owner(model, position, position)])


def require_known(
    model: str, assigned: Assigned, alone: Callable[[], bool], policy: StartPolicy, missing: str
) -> None:
    """Raise Failure if a model that knows nothing would go on where models ended that are not there.

    That is what a new, empty directory of checkpoints does; beside others that learn, it is ordinary, and
    ``alone`` says whether there are none. ``missing`` is the middle of the sentence: what knows nothing of
    what was read, and what to put back.
    """
    owners = [] if assigned.committed is None else ownership.read(assigned.committed.note).owners
    if not owners or policy.blank or any(owner.model == model for owner in owners):
        return
    read = owners[-1].until
    if read <= assigned.first or not alone():
        return
    raise Failure(
        CHECKPOINT,
        f"{assigned.partition}: the group has read up to {read}, and {missing}; or run with --blank, to "
        "begin with an empty model from there (source.blank = true where daemons come and go); or choose "
        "another source.group, to learn everything anew",
    )
