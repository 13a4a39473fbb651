"""Events as models without a codec of their own take them: river's, and the baselines."""

from __future__ import annotations

from datetime import date
from typing import Any

from streamk.encoding.calendar_inputs import with_calendar
from streamk.encoding.fields import Event


def present(x: Event) -> dict[object, object]:
    """Return an event without missing fields, booleans as numbers, and times as calendar inputs.

    >>> present({"a": None, "b": True, "c": "red"})
    {'b': 1, 'c': 'red'}
    """
    fields: dict[Any, Any] = {}
    for name, value in x.items():
        if value is not None:
            fields[name] = int(value) if isinstance(value, bool) else value
    if any(isinstance(value, date) for value in fields.values()):
        return dict(with_calendar(fields, scaled=True))
    return fields
