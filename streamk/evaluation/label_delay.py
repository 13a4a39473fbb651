"""Label delays: targets that come a number of events late, or a time, or in chunks.

The time of an event is the value of a column, as seconds since 1970.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Callable, Hashable, Set
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol, cast

import numpy as np

from streamk.encoding.calendar_inputs import read_iso
from streamk.encoding.fields import Event
from streamk.evaluation.adapters import EventChunk, Place
from streamk.evaluation.contest import Contest, RefusedError

_DAY = re.compile(r"\s*(19|20)\d{6}(\.0*)?\s*", re.ASCII)  # 19000101 to 20991231
_LONG = {86_400: "day", 3600: "hour", 60: "minute"}  # seconds
_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))  # from so many on, they are nano-, micro-, milliseconds
LONGEST_DELAY = 2**24  # exclusive
Refuse = Callable[[ValueError], None]


def moment(value: Any) -> float:
    """Return a time as seconds since 1970 in UTC.

    It is ISO 8601, in UTC where it names no zone (``UTC`` and ``GMT`` may follow), or a number: of seconds,
    or of milli-, micro- or nanoseconds if seconds would be after the year 5138. Eight digits that are a day
    from 1900 to 2099, as 20240131, are that day; as seconds they would be a moment of August 1970.

    Raises
    ------
    ValueError
        If it is no time.

    Examples
    --------
    >>> moment("2001-09-09T01:46:40Z"), moment("2001-09-09"), moment(1_000_000_000_000), moment("1e9")
    (1000000000.0, 999993600.0, 1000000000.0, 1000000000.0)
    >>> moment(20010909), moment("20010909"), moment(20010931)
    (999993600.0, 999993600.0, 20010931.0)
    """
    if isinstance(value, str | int | float) and (day := _day(str(value))) is not None:
        value = day
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                value = read_iso(value)
            except ValueError:
                raise ValueError(f"{value!r} is no time: neither ISO 8601 nor a number") from None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e20:
        raise ValueError(f"{value!r} is no time: neither ISO 8601 nor a number")
    for least, unit in _UNITS:
        if abs(value) >= least:
            return float(value * unit)
    return float(value)


def _day(text: str) -> date | None:
    """Return the day that eight digits are, None if they are none."""
    if _DAY.fullmatch(text):
        digits = text.strip()
        try:
            return date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
        except ValueError:
            pass
    return None


def fail(error: ValueError) -> None:
    """Raise the error of a rejected target."""
    raise error


def tell(contest: Contest, key: Hashable, y: object, refuse: Refuse) -> None:
    """Add a target; pass a :class:`RefusedError`, which has the key of its event, to ``refuse``."""
    try:
        contest.tell(key, y)
    except RefusedError as error:
        refuse(error)


class LabelDelay(Protocol):
    """When targets come; ``count`` is the number of predicted events, and the key of the next."""

    count: int

    def event(self, contest: Contest, x: Event, y: object, refuse: Refuse = fail) -> None:
        """Add the targets that come before or with an event, and predict it.

        A rejected event raises. The error of a rejected target, which belongs to another event, is passed to
        ``refuse``; if that does not raise, the target is skipped.
        """
        ...

    def end(self, contest: Contest, refuse: Refuse = fail) -> None:
        """Add the targets that have not come yet."""
        ...


class DelayByCount:
    """Targets come a number of events late: event ``t`` is predicted after learning ``0 … t − delay − 1``.

    Parameters
    ----------
    delay
        Events, at least 1.

    Raises
    ------
    ValueError
        If it is no such number.
    """

    def __init__(self, delay: int) -> None:
        if check_delay(delay) < 1:
            raise ValueError("delay is 0, which is not late")
        self.delay = delay
        self.count = 0
        self._due: deque[tuple[int, object]] = deque()

    def event(self, contest: Contest, x: Event, y: object, refuse: Refuse = fail) -> None:
        """Predict an event; then add the target that is due."""
        contest.ask(self.count, x)
        self._due.append((self.count, y))
        self.count += 1
        if len(self._due) > self.delay:
            tell(contest, *self._due.popleft(), refuse)

    def end(self, contest: Contest, refuse: Refuse = fail) -> None:
        """Add all targets."""
        while self._due:
            tell(contest, *self._due.popleft(), refuse)


class DelayByTime:
    """Targets come a time after their events, before the first event of that time or later.

    Events need not be in order.

    Parameters
    ----------
    moment
        The field with the time of an event, which is then removed from it, or a function of the event that
        returns its time: values that :func:`moment` takes.
    delay
        Seconds, or a ``timedelta``.

    Raises
    ------
    ValueError
        If the delay is negative.
    """

    def __init__(self, moment: str | Callable[[Event], object], delay: float | timedelta) -> None:
        self.moment = moment
        self.delay = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
        if not self.delay >= 0.0:
            raise ValueError(f"delay is {delay!r}; it must be at least 0")
        self.count = 0
        self._due: list[tuple[float, int, object]] = []  # a heap

    def __str__(self) -> str:
        field = f" by {self.moment}" if isinstance(self.moment, str) else ""
        size = next((size for size in _LONG if self.delay and self.delay % size == 0.0), 1)
        count = self.delay / size
        return f"{count:,.6g} {_LONG.get(size, 'second')}{'' if count == 1.0 else 's'} late{field}"

    def event(self, contest: Contest, x: Event, y: object, refuse: Refuse = fail) -> None:
        """Add the targets that have come by the time of an event, and predict it."""
        now = self.seconds(x)
        if isinstance(self.moment, str):
            x = {name: value for name, value in x.items() if name != self.moment}
        while self._due and self._due[0][0] <= now:
            _, number, target = heapq.heappop(self._due)
            tell(contest, number, target, refuse)
        contest.ask(self.count, x, now)
        heapq.heappush(self._due, (now + self.delay, self.count, y))
        self.count += 1

    def end(self, contest: Contest, refuse: Refuse = fail) -> None:
        """Add all targets, the earliest first."""
        while self._due:
            _, number, target = heapq.heappop(self._due)
            tell(contest, number, target, refuse)

    def seconds(self, x: Event) -> float:
        """Return the time of an event in seconds.

        Raises
        ------
        ValueError
            If it has none.
        """
        if not isinstance(self.moment, str):
            return moment(self.moment(x))
        try:
            return moment(x.get(self.moment))
        except ValueError as error:
            raise ValueError(f"field {self.moment!r}: {error}") from None


class DelayByChunks:
    """Targets come in chunks: all events of a chunk are predicted, and then learned in order.

    The first chunk is learned and not scored. A learner of streamk is asked for a chunk in one pass.

    Parameters
    ----------
    events
        How many there will be; those that are more belong to the last chunk.
    chunks
        Of nearly equal lengths.

    Examples
    --------
    >>> str(DelayByChunks(1000))
    'in 20 chunks, each after its events are predicted; the first is not scored'
    """

    def __init__(self, events: int, chunks: int = 20) -> None:
        self.chunks, self.count = chunks, 0
        self._ends: list[int] = np.linspace(0, events, chunks + 1).astype(int).tolist()[1:]
        self._pending: dict[Hashable, tuple[Event, object, Place | None]] = {}

    def __str__(self) -> str:
        return f"in {self.chunks} chunks, each after its events are predicted; the first is not scored"

    @property
    def asked(self) -> Set[Hashable]:
        """Return the keys of the events whose targets have not come."""
        return self._pending.keys()

    def event(self, contest: Contest, x: Event, y: object, refuse: Refuse = fail) -> None:
        """Add an event to its chunk, which is predicted and learned if it is the last one of it."""
        self._pending[self.count] = x, y, contest.place
        self.count += 1
        if self.count in self._ends[:-1]:
            self.end(contest, refuse)

    def end(self, contest: Contest, refuse: Refuse = fail) -> None:
        """Predict and learn the events of the last chunk."""
        while self._pending:
            keys = list(self._pending)
            xs, ys, places = zip(*self._pending.values(), strict=True)
            try:
                chunk = EventChunk(xs, places=places)
                contest.take_together(keys, chunk, ys, scored=self.count > self._ends[0])
            except RefusedError as error:
                del self._pending[keys[error.row]]
                refuse(error)
            else:
                self._pending = {}


def delay_of(delay: Any) -> LabelDelay | None:
    """Return the label delay of a number of events or a :class:`DelayByTime`; None for 0 events.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    if hasattr(delay, "event"):
        return cast(LabelDelay, delay)
    return DelayByCount(delay) if check_delay(delay) else None


def check_delay(delay: int) -> int:
    """Return ``delay``.

    Raises
    ------
    ValueError
        If it is not a number of events.
    """
    if type(delay) is not int or not 0 <= delay < LONGEST_DELAY:
        raise ValueError(f"delay is {delay!r}; it must be a whole number from 0 to {LONGEST_DELAY - 1}")
    return delay
