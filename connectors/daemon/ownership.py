"""Who has learned what: the note that goes with a committed position.

Kafka moves partitions between the members of a group and keeps, for each, one position and one note. A model
learns into a checkpoint on its own disk. The note joins the two: it lists, oldest first, which model learned
the partition up to where, *durably*. Its last entry is the owner's:

    [["a1f0", 0, 5000], ["77c2", 5000, 9000]]     model, from, up to

The committed position may be ahead of the last entry: predictions were emitted for events that the owner had
not yet put into a checkpoint. From this follow all starts (:func:`start`):

- the owner comes back: it learns from its own checkpoint, replaying without emitting up to the committed
  position;
- another model takes over: it learns from where the owner's checkpoints end, replaying without emitting up
  to the committed position, and enters itself; what the owner had learned beyond is lost with its memory,
  and learned once;
- a checkpoint that claims more than the note grants was never told to the group, which may since have given
  the partition to another from where the note ends: it does not count, the one before it does
  (:func:`overreaches`).

A commit is refused to a process that is no longer in the group, so an entry cannot be made by a dead owner.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from connectors.stream import Committed

_MOST_ENTRIES = 40  # of at most 70 characters: brokers keep 4,096 characters of a note


class Owner(NamedTuple):
    """A model that owned a partition: it learned ``since … until − 1`` of it, durably."""

    model: str
    since: int
    until: int


def read(note: str) -> list[Owner]:
    """Return the owners in a note; none if somebody else wrote it.

    >>> read('[["a1f0",0,5000]]')
    [Owner(model='a1f0', since=0, until=5000)]
    >>> read("not ours")
    []
    """
    try:
        entries = [Owner(*entry) for entry in json.loads(note)]
    except (ValueError, TypeError, RecursionError):
        return []
    known = all(type(t.model) is str and type(t.since) is type(t.until) is int for t in entries)
    return entries if known else []


def write(owners: list[Owner]) -> str:
    """Return owners as a note, the oldest left out where there are too many."""
    last = {owner.model: owner for owner in owners}
    kept = [owner for owner in owners if last[owner.model] is owner]
    return json.dumps(kept[-_MOST_ENTRIES:], separators=(",", ":"))


class Start(NamedTuple):
    """Where to learn from, where to emit from, and the owners from now on."""

    position: int
    emitted: int
    owners: list[Owner]


def start(model: str, committed: Committed | None, saved: int | None, otherwise: int) -> Start:
    """Return how a model begins with a partition.

    Parameters
    ----------
    model
        Its identity.
    committed
        What the group has committed, None if nothing.
    saved
        The position in the model's checkpoint, None if the partition is not in it.
    otherwise
        Where to begin if nobody has read the partition.

    Examples
    --------
    >>> start("a1f0", Committed(70, '[["a1f0",0,50]]'), 50, 0)
    Start(position=50, emitted=70, owners=[Owner(model='a1f0', since=0, until=50)])
    >>> start("77c2", Committed(70, '[["a1f0",0,50]]'), None, 0).owners
    [Owner(model='a1f0', since=0, until=50), Owner(model='77c2', since=50, until=50)]
    """
    if committed is None:
        position = otherwise if saved is None else saved
        return Start(position, position, [Owner(model, position, position)])
    owners = read(committed.note)
    if not owners:  # the group was committed by another program
        position = committed.position if saved is None else saved
        return Start(position, max(position, committed.position), [Owner(model, position, position)])
    last = owners[-1]
    if last.model != model:
        position, owners = last.until, [*owners, Owner(model, last.until, last.until)]
    else:
        position = last.since if saved is None else max(saved, last.since)
        owners[-1] = Owner(model, last.since, max(position, last.since))
    return Start(position, max(position, committed.position), owners)


def overreaches(model: str, committed: Committed | None, saved: int) -> bool:
    """Return whether a checkpoint claims more than the group was told.

    >>> committed = Committed(9000, '[["a1f0",0,5000],["77c2",5000,9000]]')
    >>> overreaches("a1f0", committed, 5000), overreaches("a1f0", committed, 5200)
    (False, True)
    """
    owners = [] if committed is None else read(committed.note)
    mine = [t.until for t in owners if t.model == model]
    return bool(mine) and saved > mine[-1]
