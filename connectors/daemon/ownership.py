"""Who has learned what: the note that goes with a committed position.

Kafka moves partitions between the members of a group and keeps, for each, one position and one note. A model
learns into a checkpoint on its own disk. The note joins the two: it names the topic, says how many partitions
it had when the group began to read, and lists, oldest first, which model learned the partition up to where,
*durably*. The last owner is the present one:

    ["XnT2…/q8Lk…", 4, "5d41…", ["a1f0", 0, 5000], ["77c2", 5000, 9000]]     model, from, up to

The text is the digest of the settings that the models are trained with (:mod:`connectors.daemon.training`).

The committed position may be ahead of the last owner's: predictions were emitted for events that it had not
yet put into a checkpoint. From this follow all starts (:func:`start`):

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

_MOST_OWNERS = 40  # of at most 70 characters: brokers keep 4,096 characters of a note


class Owner(NamedTuple):
    """A model that owned a partition: it learned ``since … until − 1`` of it, durably."""

    model: str
    since: int
    until: int


class Note(NamedTuple):
    """What is committed beside a position.

    Attributes
    ----------
    owners
        The models that learned the partition, the present one last.
    identity
        Of the topic; empty if it is not known.
    siblings
        How many partitions the topic had when the group began to read.
    digest
        Of the settings that the models are trained with; empty if it is not known.
    """

    owners: list[Owner]
    identity: str = ""
    siblings: int = 0
    digest: str = ""


def read(text: str) -> Note:
    """Return the note in a text; one without owners if somebody else wrote it.

    >>> read('["XnT2/q8Lk",4,["a1f0",0,5000]]')
    Note(owners=[Owner(model='a1f0', since=0, until=5000)], identity='XnT2/q8Lk', siblings=4, digest='')
    >>> read('["XnT2/q8Lk",4,"5d41",["a1f0",0,5000]]').digest
    '5d41'
    >>> read("not ours")
    Note(owners=[], identity='', siblings=0, digest='')
    """
    try:
        identity, siblings, *entries = json.loads(text.rstrip("\0"))  # with which librdkafka may end it
        digest = entries.pop(0) if entries and isinstance(entries[0], str) else ""
        owners = [Owner(*entry) for entry in entries]
    except (ValueError, TypeError, RecursionError):
        return Note([])
    known = type(identity) is str and type(siblings) is int
    known &= all(type(t.model) is str and type(t.since) is type(t.until) is int for t in owners)
    return Note(owners, identity, siblings, digest) if known else Note([])


def write(note: Note) -> str:
    """Return a note as a text, the oldest owners left out where there are too many."""
    last = {owner.model: owner for owner in note.owners}
    kept = [owner for owner in note.owners if last[owner.model] is owner]
    digest = [note.digest] if note.digest else []
    return json.dumps([note.identity, note.siblings, *digest, *kept[-_MOST_OWNERS:]], separators=(",", ":"))


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
    >>> start("a1f0", Committed(70, '["",1,["a1f0",0,50]]'), 50, 0)
    Start(position=50, emitted=70, owners=[Owner(model='a1f0', since=0, until=50)])
    >>> start("77c2", Committed(70, '["",1,["a1f0",0,50]]'), None, 0).owners
    [Owner(model='a1f0', since=0, until=50), Owner(model='77c2', since=50, until=50)]
    """
    if committed is None:
        position = otherwise if saved is None else saved
        return Start(position, position, [Owner(model, position, position)])
    owners = read(committed.note).owners
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


def overreaches(model: str, committed: Committed | None, saved: int, identity: str = "") -> bool:
    """Return whether a checkpoint claims more of a topic of this identity than the group was told.

    >>> committed = Committed(9000, '["t1",1,["a1f0",0,5000],["77c2",5000,9000]]')
    >>> overreaches("a1f0", committed, 5000, "t1"), overreaches("a1f0", committed, 5200, "t1")
    (False, True)
    >>> overreaches("a1f0", committed, 5200, "t0")  # of a topic that was deleted and made anew
    False
    """
    note = Note([]) if committed is None else read(committed.note)
    mine = [t.until for t in note.owners if t.model == model]
    return bool(mine) and saved > mine[-1] and same(note.identity, identity)


def same(one: str, other: str) -> bool:
    """Return whether two identities may be those of one topic; an empty one is not known."""
    return not one or not other or one == other
