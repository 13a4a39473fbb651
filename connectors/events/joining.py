"""Labels and events that come separately, joined by a key that is a string in both.

A replay with ``--labels`` and a daemon with ``[labels]`` decide by these rules what becomes of a label:

- one whose event waits is learned;
- one that comes before its event is held until the event comes;
- a second one of an event is a duplicate if it is the same, and contradicts the first otherwise;
- a held label whose event has not come within the time to wait, or for 65,536 others, is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

LEARNED, DUPLICATE, CONTRADICTING = "learned", "duplicate", "contradicting"
UNKNOWN, REFUSED, EXPIRED = "unknown", "refused", "expired"
FATES = LEARNED, DUPLICATE, CONTRADICTING, UNKNOWN, REFUSED, EXPIRED
MOST = 2**16  # labels that are held, and learned ones that are remembered
_EXACT = 2.0**53  # from here on, several whole numbers are one float


def key_text(value: object) -> str:
    """Return a key as the string by which events and labels are joined.

    Strings are unchanged and whole numbers become their digits, so ``12``, ``12.0`` and ``"12"`` of JSON are
    one key. CSV has only strings, so ``0012`` and ``12`` are two keys.

    Raises
    ------
    ValueError
        If it is missing, no string or number, or a float that may stand for several whole numbers.

    Examples
    --------
    >>> [key_text(value) for value in ("0012", 12, 12.0, 1.5, 1234567890123456789)]
    ['0012', '12', '12', '1.5', '1234567890123456789']
    """
    if isinstance(value, str) and value:
        return value
    if isinstance(value, float) and abs(value) < _EXACT:
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or value == "":
        raise ValueError("is missing")
    if isinstance(value, float):
        raise ValueError(f"is {value!r}, which is no exact number; write it as a text")
    raise ValueError(f"is {str(value)[:40]}; a key is a text or a whole number")


class StoredLabel(NamedTuple):
    """A label: its time in seconds, what it says, and its place."""

    time: float
    label: object
    place: str = ""


class Joining:
    """Labels that came before their events, and those that were learned last.

    Parameters
    ----------
    wait
        Seconds after which a held label is unknown, and a learned one forgotten.

    Attributes
    ----------
    early, learned
        By key, the oldest first.
    """

    def __init__(self, wait: float = inf) -> None:
        self.wait = wait
        self.early: dict[str, StoredLabel] = {}
        self.learned: dict[str, StoredLabel] = {}

    def of_event(self, key: str) -> StoredLabel | None:
        """Return the label of an event that comes now, None if it has not come."""
        self.learned.pop(key, None)
        return self.early.pop(key, None)

    def hold(self, key: str, held: StoredLabel) -> str:
        """Hold a label whose event does not wait; return its fate, empty if that is open.

        Examples
        --------
        >>> joining = Joining()
        >>> joining.hold("a", StoredLabel(1.0, "yes")), joining.of_event("a").label
        ('', 'yes')
        >>> joining.learn("a", StoredLabel(1.0, "yes"))
        >>> joining.hold("a", StoredLabel(2.0, "yes")), joining.hold("a", StoredLabel(3.0, "no"))
        ('duplicate', 'contradicting')
        """
        before = self.learned.get(key) or self.early.get(key)
        if before is None:
            self.early[key] = held
            return ""
        return DUPLICATE if before.label == held.label else CONTRADICTING

    def learn(self, key: str, held: StoredLabel) -> None:
        """Remember a label that was learned."""
        self.learned[key] = held
        for _ in self._outdated(self.learned, held.time):
            pass

    def unknown(self, now: float) -> Iterator[tuple[str, StoredLabel]]:
        """Yield held labels for which no event will come any more, and let them go."""
        return self._outdated(self.early, now)

    def _outdated(self, labels: dict[str, StoredLabel], now: float) -> Iterator[tuple[str, StoredLabel]]:
        while labels:
            key = next(iter(labels))
            if len(labels) <= MOST and labels[key].time + self.wait >= now:
                return
            yield key, labels.pop(key)
