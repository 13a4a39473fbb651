"""Consecutive events as models take them: dicts, or columns of numbers where all fields are such."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from streamk.arrays import Array
from streamk.encoding.fields import Event

_Events = Sequence[Event] | Callable[[], Sequence[Event]]


class EventChunk:
    """Events, as dicts and perhaps as an array.

    Parameters
    ----------
    events
        Dicts, or a function that makes them if they are needed.
    names, matrix
        The same as columns of numbers, ``(n, d)``, if there are nothing but numbers.

    Examples
    --------
    >>> chunk = EventChunk([{"a": 1.0}, {"a": 2.0}])
    >>> chunk[1:].events, len(chunk)
    ([{'a': 2.0}], 2)
    """

    def __init__(
        self,
        events: _Events,
        names: Sequence[str] | None = None,
        matrix: Array | None = None,
        rows: slice = slice(None),
    ) -> None:
        self._events, self._rows = events, rows
        self.names, self._matrix = names, matrix
        self.matrix = None if matrix is None else matrix[rows]

    @classmethod
    def of(cls, events: Any) -> Self:
        """Return events as a chunk; a chunk unchanged."""
        return events if isinstance(events, cls) else cls(events)

    @property
    def events(self) -> Sequence[Event]:
        """The dicts."""
        if callable(self._events):
            self._events = self._events()
        return self._events[self._rows]

    def __len__(self) -> int:
        return len(self.events) if self.matrix is None else len(self.matrix)

    def __getitem__(self, rows: slice) -> EventChunk:
        if self._matrix is None:
            return EventChunk(self.events[rows])
        start, stop, _ = self._rows.indices(len(self._matrix))
        first, last, _ = rows.indices(stop - start)
        events: _Events = (lambda: self._made()) if callable(self._events) else self._events
        return EventChunk(events, self.names, self._matrix, slice(start + first, start + max(first, last)))

    def _made(self) -> Sequence[Event]:
        """Return all events, made once for all slices."""
        if callable(self._events):
            self._events = self._events()
        return self._events

    def column(self, name: str) -> list[object]:
        """Return the values of a field, None where it is absent."""
        if self.matrix is not None and self.names is not None:
            if name not in self.names:
                return [None] * len(self)
            values: list[object] = self.matrix[:, list(self.names).index(name)].tolist()
            return values
        return [x.get(name) for x in self.events]
