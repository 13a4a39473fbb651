"""Warnings of fields whose values change from numbers to categories, or the reverse.

A learner learns both: a number that arrives as a string is a category from then on. That is rarely meant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from connectors.decoding import Event
from connectors.stream import Raw
from streamk.encoding.fields import name_of
from streamk.encoding.names import MOST_CHANGED

log = logging.getLogger(__name__)
_LONGEST = 60  # characters of an example
_CATEGORIES, _NUMBERS = (str, bool), (int, float)


def warn_of_changes(
    changed: Sequence[tuple[str, bool]],
    partition: str,
    records: Sequence[Raw],
    decode: Callable[[bytes], Event],
    warned: set[str],
) -> None:
    """Log one warning for each field that changed, with its first value of the new kind.

    Parameters
    ----------
    changed
        Names, and whether the field is a category since (:attr:`streamk.encoding.names.Names.changed`).
    partition, records, decode
        Where the last of them changed: records of this partition, and what decodes them.
    warned
        Fields that the log of this process has named already; others are added.
    """
    for name, category in changed:
        if name in warned or len(warned) >= MOST_CHANGED:
            continue
        for raw in records:
            value = _value(raw, name, decode)
            if type(value) in (_CATEGORIES if category else _NUMBERS):
                warned.add(name)
                before, now = ("number", "category") if category else ("category", "number")
                log.warning(
                    "%s, offset %d: the field %r was a %s in all events before, and is %.*s here; "
                    "it is also learned as a %s (logged once a field)",
                    partition, raw.offset, name, before, _LONGEST, repr(value), now,
                )  # fmt: skip
                break


def _value(raw: Raw, name: str, decode: Callable[[bytes], Event]) -> Any:
    try:
        fields = decode(raw.value or b"").fields
    except ValueError:
        return None
    return next((value for field, value in fields.items() if name_of(field) == name), None)
