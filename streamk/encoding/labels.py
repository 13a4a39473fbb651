"""Class labels: one type per learner, numbered in order of appearance.

Labels are booleans, integers or strings, all of the type of the first one learned. ``True == 1`` in Python,
so types are compared, not values. A float that is a whole number, as frames have after a join, is the
integer. A boolean problem has the classes ``{False, True}`` from its first event
on.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, cast

import numpy as np

from streamk.encoding.rows import RowError

Label = bool | int | str
_TYPES = (bool, int, str)


def plain(value: object) -> Any:
    """Return a NumPy scalar as a Python value, and other values unchanged."""
    if isinstance(value, np.str_):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


class Labels:
    """The classes of a classifier."""

    def __init__(self) -> None:
        self.values: list[Label] = []
        self.codes: dict[Hashable, int] = {}
        self.type: type | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def least(self) -> int:
        """The least number of classes after the first event: 2 for booleans."""
        return 2 if self.type is bool else 0

    def check(self, label: object) -> Label:
        """Return a label as a plain Python value, if its type is accepted.

        Raises
        ------
        ValueError
            If the label is not a boolean, integer or string, or not of the type of the first one.
        """
        return _check(label, self.type)

    def check_many(self, labels: Sequence[Any], learned: Sequence[bool]) -> list[Label]:
        """Return labels as plain Python values; errors name the row of the first invalid one.

        Only labels of rows that will be learned determine the type of later ones; other labels may be None.
        """
        expected = self.type
        kinds = set(map(type, labels))
        if len(kinds) == 1 and kinds <= ({*_TYPES} if expected is None else {expected}):
            return list(labels)
        checked: list[Any] = []
        for row, label in enumerate(labels):
            if label is None and not learned[row]:
                checked.append(None)
                continue
            try:
                checked.append(_check(label, expected))
            except ValueError as error:
                raise RowError(row, str(error)) from None
            if learned[row]:
                expected = type(checked[-1])
        return checked

    def register(self, labels: Sequence[Label]) -> None:
        """Give numbers to the labels not seen before, in order."""
        for label in dict.fromkeys(labels):
            if label not in self.codes:
                if type(label) is bool:
                    self._add(False)
                    self._add(True)
                else:
                    self._add(label)

    def _add(self, label: Label) -> None:
        self.type = type(label)
        self.codes[label] = len(self.values)
        self.values.append(label)


def _check(value: object, expected: type | None) -> Label:
    label: Label | float = plain(value)
    if type(label) is float and label.is_integer():
        label = int(label)
    if type(label) not in _TYPES:
        shown = "NaN" if isinstance(label, float) and math.isnan(label) else repr(label)[:40]
        numbers = "; for numbers, use regression" if type(label) is float and math.isfinite(label) else ""
        raise ValueError(
            f"the label is {shown} ({type(value).__name__}); "
            f"a class label must be a boolean, an integer or a string{numbers}"
        )
    if type(label) is not expected and expected is not None:
        raise ValueError(
            f"the label is {label!r} ({type(label).__name__}), but earlier labels are "
            f"of type {expected.__name__}; a learner keeps one type of label"
        )
    return cast(Label, label)
