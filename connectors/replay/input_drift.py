"""How the values of inputs change over a log, from a sample of its events in bounded memory.

Event ``n`` is in the sample if the fractional part of ``n·φ`` is below a share that halves whenever the
sample is full. Distances between such events vary, so no period of the log is sampled at one phase only.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import numpy as np

from streamk.arrays import Array, Integers, Json
from streamk.drift.field_values import ABSENT, FieldValues
from streamk.evaluation.adapters import EventChunk
from streamk.evaluation.results import finite
from streamk.features.counter import GOLDEN64, MASK64

SHOWN = 12  # fields with their windows
_MOST, _MOST_VALUES, _MOST_FIELDS = 4096, 2**18, 500  # events and values of the sample, and fields compared
_WINDOWS, _FEWEST = 20, 20  # of the log, and events of the sample in each
_BAND = 0.1, 0.5, 0.9
_VALUES, _LENGTH = 3, 60  # of a category: values that are shown, and characters of one
_ONE_WAY = 0.9  # of the steps of a field that follows the order of the log: mean of their signs
_ORDER = "follows the order of the log"
_DISTINCT = "nearly every value once"


class InputSample:
    """A sample of the events of a log, in their order.

    Examples
    --------
    >>> sample = InputSample()
    >>> sample.add(EventChunk([{"a": float(n % 7), "b": float(n >= 800)} for n in range(1000)]))
    >>> [(each["field"], round(each["moved"], 2)) for each in sample.drift()["fields"]]
    [('b', 1.0), ('a', 0.01)]
    """

    def __init__(self) -> None:
        self.events = 0
        self._rows: list[tuple[int, Json]] = []
        self._last, self._values = MASK64, 0  # the last place that is in the sample, and values in it

    def add(self, chunk: EventChunk) -> None:
        """Take consecutive events."""
        numbers: Integers = np.arange(self.events, self.events + len(chunk), dtype=np.uint64)
        self.events += len(chunk)
        places = numbers * np.uint64(GOLDEN64)
        for row in np.flatnonzero(places <= np.uint64(self._last)).tolist():
            fields = {
                str(name): value[:_LENGTH] if type(value) is str else value
                for name, value in chunk.event(row).items()
            }
            self._rows.append((int(places[row]), fields))
            self._values += len(fields)
        while len(self._rows) > _MOST or self._values > _MOST_VALUES:
            self._last >>= 1
            self._rows = [each for each in self._rows if each[0] <= self._last]
            self._values = sum(len(fields) for _, fields in self._rows)

    def drift(self) -> Json | None:
        """Return how far the values of each field moved; None of a log that is too short.

        Returns
        -------
        dict
            ``events``, ``sampled``, and ``fields``, those that moved most first: ``moved``, the distance of
            Kolmogorov or of total variation between the first and the last fifth
            (:meth:`streamk.drift.field_values.FieldValues.distance`). The first of them have a value for
            every window of the log: the share ``missing``, and ``low``, ``median`` and ``high`` (the
            quantiles 0.1, 0.5 and 0.9), or ``values`` with the shares of the most frequent ones. A field that
            follows the order of the log, or has nearly every value once, is last, with a ``remark`` instead.
        """
        count = len(self._rows)
        windows = min(_WINDOWS, count // _FEWEST)
        if windows < 5:
            return None
        columns: dict[str, list[tuple[int, object]]] = {}
        for row, (_, fields) in enumerate(self._rows):
            for name, value in fields.items():
                columns.setdefault(name, []).append((row, value))
        compared = []
        for name in sorted(columns, key=lambda name: -len(columns[name]))[:_MOST_FIELDS]:
            values = [ABSENT] * count
            for row, value in columns[name]:
                values[row] = value
            first, last = (FieldValues.of(part) for part in (values[: count // 5], values[-(count // 5) :]))
            compared.append((_remark(values), -first.distance(last), name, values))
        compared.sort(key=lambda each: (each[0] != "", each[1]))
        ends = np.linspace(0, count, windows + 1).astype(int).tolist()
        fields_: list[Json] = []
        for remark, moved, name, values in compared:
            field: Json = {"field": name, "moved": -moved}
            if remark:
                field["remark"] = remark
            elif len(fields_) < SHOWN:
                field |= _windows([FieldValues.of(values[a:b]) for a, b in pairwise(ends)])
            fields_.append(field)
        return {"events": self.events, "sampled": count, "fields": fields_}


def _remark(values: list[object]) -> str:
    """Return why a field moves anyway, empty if it does not."""
    there = [value for value in values if value is not None and value is not ABSENT and value == value]
    if any(isinstance(value, date) for value in there):
        return "a time"
    if all(type(value) in (int, float) for value in there):
        ways = np.sign(np.diff(np.array(there, np.float64)))
        ways = ways[ways != 0.0]
        return _ORDER if len(ways) >= _FEWEST and abs(ways.mean()) > _ONE_WAY else ""
    return _DISTINCT if len(set(there)) > 0.9 * len(there) else ""


def _windows(windows: list[FieldValues]) -> Json:
    """Return what the values of a field are in every window."""
    field: Json = {"missing": [window.missing for window in windows]}
    others = [window.values() for window in windows]
    if sum(len(window.numbers) for window in windows) >= sum(window.events for window in windows) / 2:
        bands = [_band(window.numbers) for window in windows]
        return field | dict(zip(("low", "median", "high"), map(list, zip(*bands, strict=True)), strict=True))
    shares = {value: sum(part.get(value, 0.0) for part in others) for part in others for value in part}
    frequent = sorted(shares, key=lambda value: -shares[value])[:_VALUES]
    return field | {"values": {value: [part.get(value, 0.0) for part in others] for value in frequent}}


def _band(numbers: Array) -> list[float | None]:
    if not len(numbers):
        return [None] * len(_BAND)
    return [finite(value) for value in np.quantile(numbers, _BAND, method="nearest").tolist()]
