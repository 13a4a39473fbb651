"""Events that come again: those whose key one of the last events of the partition had.

A producer that repeats a request, or a consumer that starts again, writes an event twice; without a window
of keys it would be learned twice. What is refused is not remembered: it may come again once it is corrected.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain

import msgspec

from connectors.contract.records import DEAD_LETTERS, Output, Processed, Raw, Tally

_BYTES = 8  # of a hash
Process = Callable[[Sequence[Raw]], Processed]


class RecentKeys:
    """The keys of the last events of each partition, as hashes of 64 bits.

    Parameters
    ----------
    most
        How many are known of a partition.
    key_of
        Returns the key of a record, None if it has none: such records never count as repeated.

    Examples
    --------
    >>> recent = RecentKeys(2, lambda raw: raw.key)
    >>> done = lambda raws: Processed([], Tally(learned=len(raws)), len(raws))
    >>> raws = [Raw(k, b"{}", key) for k, key in enumerate([b"a", b"b", b"a", b"c", b"a"])]
    >>> recent.process("clicks-0", raws, done).tally
    Tally(learned=4, predicted=0, refused=0, skipped=0, repeated=1)
    """

    def __init__(self, most: int, key_of: Callable[[Raw], bytes | None]) -> None:
        self._most, self._key_of = most, key_of
        self._known: dict[str, OrderedDict[bytes, None]] = {}

    def to_bytes(self) -> bytes:
        """Return the hashes, oldest first."""
        return msgspec.msgpack.encode({name: b"".join(order) for name, order in self._known.items()})

    def restore(self, stored: bytes | None) -> None:
        """Take the keys that were stored, and no others."""
        self._known = {}
        hashes = {} if stored is None else msgspec.msgpack.decode(stored, type=dict[str, bytes])
        for name, joined in hashes.items():
            for k in range(0, len(joined), _BYTES):
                self._insert(name, joined[k : k + _BYTES])

    def process(self, partition: str, records: Sequence[Raw], process: Process) -> Processed:
        """Have records processed, without those that are repeated.

        A part ends before a key that it has, or the window: whether that one is repeated depends on what
        becomes of the events before it. So batches do not matter.
        """
        hashes = [self._hash(raw) for raw in records]
        known = self._known.setdefault(partition, OrderedDict())
        parts: list[Processed] = []
        at = repeated = 0
        while at < len(records):
            if hashes[at] in known:
                repeated, at = repeated + 1, at + 1
                continue
            end, seen = at, set[bytes | None]()
            while end < len(records) and hashes[end] not in seen and hashes[end] not in known:
                seen |= {hashes[end]} - {None}
                end += 1
            parts.append(process(records[at:end]))
            self._add(partition, records[at : at + parts[-1].done], hashes[at:end], parts[-1].outputs)
            at += parts[-1].done
            if parts[-1].failure is not None:
                break
        return _together(parts, repeated)

    def _add(
        self,
        partition: str,
        records: Sequence[Raw],
        hashes: Sequence[bytes | None],
        outputs: Sequence[Output],
    ) -> None:
        """Add the keys of records, other than those that were refused."""
        refused = {each.raw.offset for each in outputs if each.kind == DEAD_LETTERS}
        for raw, each in zip(records, hashes, strict=False):
            if each is not None and raw.offset not in refused:
                self._insert(partition, each)

    def _insert(self, partition: str, key: bytes) -> None:
        known = self._known.setdefault(partition, OrderedDict())
        known[key] = None
        if len(known) > self._most:
            known.popitem(last=False)

    def _hash(self, raw: Raw) -> bytes | None:
        key = self._key_of(raw)
        return None if key is None else blake2b(key, digest_size=_BYTES).digest()


def _together(parts: Sequence[Processed], repeated: int) -> Processed:
    """Return the result of parts, the last of which may have ended the run, and of repeated records."""
    tally = Tally(*map(sum, zip(Tally(repeated=repeated), *(part.tally for part in parts), strict=True)))
    causes, fates = Counter[str](), Counter[str]()
    for part in parts:
        causes.update(part.causes)
        fates.update(part.fates)
    outputs = list(chain.from_iterable(part.outputs for part in parts))
    done, failure = sum(part.done for part in parts) + repeated, parts[-1].failure if parts else None
    return Processed(outputs, tally, done, failure, causes, fates)
