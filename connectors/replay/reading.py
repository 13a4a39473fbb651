"""Records as events: the target read as the task needs it, and the task told from the first ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.events import Places, Record, label, read_value
from streamk.prequential import replaying

LOOK = replaying.LOOK  # records looked at to tell the task


def tell_task(records: Sequence[Record]) -> str:
    """Return the task that the first records suggest (:func:`streamk.prequential.replaying.tell_task`)."""
    return replaying.tell_task([record.target for record in records])


def check_by(by: str | None, records: Sequence[Record]) -> None:
    """Raise a ValueError if none of the first records has the field whose values are to be told apart."""
    if by is not None and not any(by in record.fields for record in records):
        there = list(dict.fromkeys(str(name) for record in records for name in record.fields))
        some = ", ".join(there[:20]) + (" and more" if len(there) > 20 else "")
        raise ValueError(f"--by {by}: there is no such field; there are {some}")


def interpret(record: Record, log: Places, task: str) -> tuple[dict[str, Any], Any]:
    """Return an event and its target, the target read as the task needs it.

    Raises
    ------
    ValueError
        If the target is not a number where one is needed; the line is named.
    """
    target = record.target
    if task == "regression":
        number = read_value(target) if isinstance(target, str) else target
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise ValueError(
                f"{log.place(record.line)}: the target {log.target!r} is {target!r}, not a number"
            )
        return record.fields, float(number)
    return record.fields, label(target)
