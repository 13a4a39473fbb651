"""Start positions: where a session starts to read a partition, and when it must not start.

Kafka moves partitions between the members of a group and stores, for each, one position and one string of
metadata. A model learns into a checkpoint on its disk. :class:`OffsetMetadata` joins the two: it names
the topic, the number of partitions when the group started to read, and, oldest first, which model learned
the partition up to where, *durably*. The last owner is the present one:

    ["XnT2…/q8Lk…", 4, "5d41…", ["a1f0", 0, 5000], ["77c2", 5000, 9000]]     model, from, up to

The string is the digest of the settings that the models are trained with (:mod:`connectors.state.training`).

The committed position may be ahead of the last owner's: predictions were emitted for events that were not yet
in a checkpoint. From this follow all starts (:func:`start_by_owners`):

- the owner returns: it learns from its checkpoint, replaying without emitting up to the committed
  position;
- another model takes over: it learns from where the owner's checkpoints end, replaying without emitting up
  to the committed position, and enters itself; what the owner had learned beyond is lost with its memory,
  and learned once;
- a checkpoint that claims more than the metadata grants was never reported to the group, which may since have
  assigned the partition to another from where the metadata ends: it does not count, the one before it does
  (:func:`exceeds_commit`).

A broker refuses the commit of a process that is no longer in the group, so a dead owner cannot add an entry.

Operators of brokers also delete and recreate topics, let events expire, set positions from outside, add
partitions, and lose directories of checkpoints. What would lose events or predictions ends the run, with what
to do.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from connectors.contract.errors import CHECKPOINT, POSITION, Failure
from connectors.contract.records import Assigned, Committed
from connectors.contract.sections import EARLIEST, FAIL, LATEST, StartPolicy
from connectors.state.checkpoint import Progress
from connectors.state.training import require_same_digest

log = logging.getLogger(__name__)
_MOST_OWNERS = 40  # of at most 70 characters: brokers store 4,096 characters of metadata


class Owner(NamedTuple):
    """A model that owned a partition: it learned ``since … until − 1`` of it, durably."""

    model: str
    since: int
    until: int


class OffsetMetadata(NamedTuple):
    """What is committed next to a position.

    Attributes
    ----------
    owners
        The models that learned the partition, the present one last.
    identity
        Of the topic; empty if it is not known.
    partition_count
        How many partitions the topic had when the group started to read.
    digest
        Of the settings that the models are trained with; empty if it is not known.
    """

    owners: list[Owner]
    identity: str = ""
    partition_count: int = 0
    digest: str = ""


def metadata_of(committed: Committed | None) -> OffsetMetadata:
    """Return the metadata of a committed position; without owners if another program wrote it.

    >>> metadata_of(Committed(0, '["XnT2/q8Lk",4,["a1f0",0,5000]]')).owners
    [Owner(model='a1f0', since=0, until=5000)]
    >>> metadata_of(Committed(0, '["XnT2/q8Lk",4,"5d41",["a1f0",0,5000]]')).digest
    '5d41'
    >>> metadata_of(Committed(0, "not ours"))
    OffsetMetadata(owners=[], identity='', partition_count=0, digest='')
    """
    if committed is None:
        return OffsetMetadata([])
    try:
        identity, count, *entries = json.loads(committed.metadata.rstrip("\0"))  # librdkafka may end it so
        digest = entries.pop(0) if entries and isinstance(entries[0], str) else ""
        owners = [Owner(*entry) for entry in entries]
    except (ValueError, TypeError, RecursionError):
        return OffsetMetadata([])
    valid = type(identity) is str and type(count) is int
    valid &= all(type(t.model) is str and type(t.since) is type(t.until) is int for t in owners)
    return OffsetMetadata(owners, identity, count, digest) if valid else OffsetMetadata([])


def encode_metadata(metadata: OffsetMetadata) -> str:
    """Return metadata as a string, without the oldest owners where there are too many."""
    last = {owner.model: owner for owner in metadata.owners}
    owners = [owner for owner in metadata.owners if last[owner.model] is owner]
    digest = [metadata.digest] if metadata.digest else []
    entries = [metadata.identity, metadata.partition_count, *digest, *owners[-_MOST_OWNERS:]]
    return json.dumps(entries, separators=(",", ":"))


class StartPosition(NamedTuple):
    """Where to learn from, where to emit from, and the owners from now on."""

    position: int
    emitted: int
    owners: list[Owner]


def start_by_owners(
    model: str, committed: Committed | None, saved: int | None, otherwise: int
) -> StartPosition:
    """Return where a model starts to read a partition, by its checkpoint and the owners before it.

    Parameters
    ----------
    model
        Its identity.
    committed
        What the group has committed; None if nothing.
    saved
        The position in the model's checkpoint; None if it is not in it.
    otherwise
        Where to start if no model has read the partition.

    Examples
    --------
    >>> start_by_owners("a1f0", Committed(70, '["",1,["a1f0",0,50]]'), 50, 0)
    StartPosition(position=50, emitted=70, owners=[Owner(model='a1f0', since=0, until=50)])
    >>> start_by_owners("77c2", Committed(70, '["",1,["a1f0",0,50]]'), None, 0).owners
    [Owner(model='a1f0', since=0, until=50), Owner(model='77c2', since=50, until=50)]
    """
    if committed is None:
        position = otherwise if saved is None else saved
        return StartPosition(position, position, [Owner(model, position, position)])
    owners = metadata_of(committed).owners
    if not owners:  # another program committed the position
        position = committed.position if saved is None else saved
        owners = [Owner(model, position, position)]
    elif owners[-1].model != model:
        position = owners[-1].until
        owners = [*owners, Owner(model, position, position)]
    else:
        since = owners[-1].since
        position = since if saved is None else max(saved, since)
        owners[-1] = Owner(model, since, position)
    return StartPosition(position, max(position, committed.position), owners)


def exceeds_commit(model: str, committed: Committed | None, saved: int, identity: str = "") -> bool:
    """Return whether a checkpoint claims more of a topic of this identity than the group has committed.

    >>> committed = Committed(9000, '["t1",1,["a1f0",0,5000],["77c2",5000,9000]]')
    >>> exceeds_commit("a1f0", committed, 5000, "t1"), exceeds_commit("a1f0", committed, 5200, "t1")
    (False, True)
    >>> exceeds_commit("a1f0", committed, 5200, "t0")  # of a topic that was deleted and recreated
    False
    """
    metadata = metadata_of(committed)
    owned = [owner.until for owner in metadata.owners if owner.model == model]
    return bool(owned) and saved > owned[-1] and same_identity(metadata.identity, identity)


def same_identity(one: str, other: str) -> bool:
    """Return whether two identities may be those of one topic; an empty one is not known."""
    return not one or not other or one == other


def find_start(
    model: str,
    assigned: Assigned,
    saved: Progress | None,
    count_before: Callable[[], int | None],
    policy: StartPolicy,
) -> tuple[StartPosition, OffsetMetadata]:
    """Return where a model starts to read a partition, and the metadata to commit.

    Parameters
    ----------
    model
        Its identity.
    assigned
        The partition, and what the group has committed for it.
    saved
        How far the partition was read by the model's checkpoint; None if it is not in it.
    count_before
        Returns how many partitions there were when the group started to read the topic, 0 if that is lost,
        None if it has read nothing.
    policy
        What the settings say.

    Raises
    ------
    Failure
        If the topic is another one, events are gone, or the position was set from outside, and the settings
        do not say what to do then.
    """
    committed, metadata = assigned.committed, metadata_of(assigned.committed)
    if not metadata.owners or metadata.owners[-1].model != model:  # its checkpoint has all settings
        require_same_digest(assigned.partition, metadata.digest, policy)
    read = ("" if saved is None else saved.identity), metadata.identity
    if other := next((one for one in read if not same_identity(one, assigned.identity)), ""):
        start, count = _start_recreated(model, assigned, other, metadata, policy)
        return start, OffsetMetadata(start.owners, assigned.identity, count, policy.digest)
    if saved is not None:
        _require_unmoved(assigned, saved.position, metadata, policy)
    otherwise, count = assigned.first, metadata.partition_count or assigned.partition_count
    if policy.start == LATEST and committed is None and saved is None:
        # a partition that was added after the group started holds events that no model has read
        before = count_before()
        count = assigned.partition_count if before is None else before
        if assigned.number < count:
            otherwise = assigned.end
    start = start_by_owners(model, committed, None if saved is None else saved.position, otherwise)
    if not (assigned.first <= start.position <= start.emitted <= assigned.end):
        start = _start_expired(model, assigned, start, policy)
    return start, OffsetMetadata(start.owners, assigned.identity, count, policy.digest)


def _require_unmoved(assigned: Assigned, saved: int, metadata: OffsetMetadata, policy: StartPolicy) -> None:
    """Raise Failure if the group's position is lost, or was set from outside."""
    committed = assigned.committed
    if committed is None:
        if policy.group:
            raise lost_position(assigned.partition, saved, policy.group)
    elif not metadata.owners and committed.position != saved:
        raise Failure(
            POSITION,
            f"{assigned.partition}: the group's position was set to {committed.position} from outside, and "
            f"this model has read up to {saved}. `streamk reset SETTINGS --to group` continues from "
            f"{committed.position}, `streamk reset SETTINGS --to checkpoint` from {saved}",
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


def _start_recreated(
    model: str, assigned: Assigned, was: str, metadata: OffsetMetadata, policy: StartPolicy
) -> tuple[StartPosition, int]:
    """Return where to start a topic that was recreated under its name, and its number of partitions."""
    name = assigned.partition
    if policy.expired == FAIL:
        raise Failure(
            POSITION,
            f"{name} is not what was read before: its topic was deleted and recreated, or this is another "
            f"cluster ({assigned.identity}, not {was}). source.expired = 'earliest' or 'latest' continues "
            "with it and keeps the model",
        )
    if metadata.owners and same_identity(metadata.identity, assigned.identity):  # others have started with it
        start = start_by_owners(model, assigned.committed, None, assigned.first)
        count = metadata.partition_count or assigned.partition_count
    else:
        position = assigned.first if policy.expired == EARLIEST else assigned.end
        start, count = start_by_owners(model, None, None, position), assigned.partition_count
    log.warning("%s: its topic was recreated; continuing from %d", name, start.position)
    return start, count


def _start_expired(
    model: str, assigned: Assigned, start: StartPosition, policy: StartPolicy
) -> StartPosition:
    """Return where to start if the events to read are no longer there; what was emitted stays emitted."""
    name, first, end = assigned.partition, assigned.first, assigned.end
    there = f"{name} holds {first} to {end - 1}" if end > first else f"{name} is empty, and starts at {first}"
    there += f", and the next event to read is {start.position}"
    if start.emitted > start.position:
        there += f", with predictions up to {start.emitted - 1}"
    if policy.expired == FAIL:
        raise Failure(
            POSITION,
            f"{there}: events were deleted before they were read, or lost by the broker. "
            "source.expired = 'earliest' or 'latest' continues from there",
        )
    position = start.position
    if not first <= position <= end:
        position = first if policy.expired == EARLIEST and position < first else end
    log.warning("%s: continuing from %d", there, position)
    emitted = min(max(position, start.emitted), end)
    if position == start.position:
        return StartPosition(position, emitted, start.owners)
    return StartPosition(position, emitted, [*start.owners[:-1], Owner(model, position, position)])


def require_read_before(
    model: str, assigned: Assigned, alone: Callable[[], bool], policy: StartPolicy, missing: str
) -> None:
    """Raise Failure if a model without events would continue where other models stopped that are not there.

    That is what a new, empty directory of checkpoints does. Next to other members that learn, it is ordinary;
    ``alone`` returns whether there are none. ``missing`` is the middle of the sentence: what holds nothing of
    what was read, and what to put back.
    """
    owners = metadata_of(assigned.committed).owners
    if not owners or policy.blank or any(owner.model == model for owner in owners):
        return
    read = owners[-1].until
    if read <= assigned.first or not alone():
        return
    raise Failure(
        CHECKPOINT,
        f"{assigned.partition}: the group has read up to {read}, and {missing}; or run with --blank, to "
        "start with an empty model from there (source.blank = true where daemons come and go); or choose "
        "another source.group, to learn everything again",
    )
