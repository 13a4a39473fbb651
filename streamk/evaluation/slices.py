"""Metrics by slice: separate metrics for each value of a column.

The slices of a column are determined by its first 1,000 events:

- Each value is a slice, in the order of appearance up to ``most`` of them; all others are ``(other)``.
- Numbers of more than 20 values are cut at the quantiles 0.2, 0.4, 0.6 and 0.8 of those events, rounded to
  four digits (more where cuts would coincide), so that ``≤ 3.2`` is exact. A later value that is no number is
  ``(other)``.
- None, NaN and the empty string are ``(missing)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Generic, Self, TypeVar

import numpy as np

from streamk.arrays import AnyArray, SavedState
from streamk.evaluation.exact import Sums, check_one_length, nest, part_of
from streamk.evaluation.windows import KINDS, kind_of

LOOK = 1000  # events that determine the slices
MISSING, OTHER = "(missing)", "(other)"
_VALUES = 20  # numbers with more values are cut
_SHARES = (0.2, 0.4, 0.6, 0.8)
_PENDING = 8192  # events gathered before they are sorted, since each slice of a chunk has a fixed cost
S = TypeVar("S", bound=Sums)


class Slices(Generic[S]):
    """Separate sums for each value of a column.

    Every slice has separate sums: with 50 values and two classes, AUC alone takes 13 MB (``ClassSums`` has an
    option without AUC).

    Parameters
    ----------
    sums
        Empty sums of the required kind.
    most
        Maximum number of values with a slice.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.evaluation.numbers import NumberSums
    >>> slices = Slices(NumberSums())
    >>> slices.add(["a", "b", None, "a"], np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4))
    >>> {name: sums.values()["mae"] for name, sums in slices.table().items()}
    {'a': 2.5, 'b': 2.0, '(missing)': 3.0}
    """

    def __init__(self, sums: S, most: int = 50) -> None:
        if type(most) is not int or most < 1:
            raise ValueError(f"most is {most!r}; it must be a whole number of values")
        self.most = most
        self._empty = sums.fresh()
        self._sums: dict[str, S] = {}
        self._edges: list[float] | None = None
        self._decided = False
        self._values: list[object] = []  # of events not sorted yet
        self._arrays: list[tuple[AnyArray | None, ...]] = []

    def add(self, values: Sequence[object], *arrays: AnyArray | None) -> None:
        """Add events: their values in the column, and the arrays of the sums.

        Raises
        ------
        ValueError
            If lengths differ.
        """
        if not check_one_length((values, *(array for array in arrays if array is not None))):
            return
        self._values.extend(map(_plain, values))
        # copied, since the caller may write the next chunk into the same arrays
        self._arrays.append(tuple(array if array is None else np.array(array) for array in arrays))
        if len(self._values) >= _PENDING:
            self._sort()

    def _sort(self) -> None:
        if not self._values:
            return
        if not self._decided:
            self._edges = _edges(self._values[:LOOK])
            self._decided = True
        names = self._named(self._values)
        places: dict[str, list[int]] = {}
        owners: dict[str, str] = {}
        for place, name in enumerate(names):
            owner = owners.get(name) or owners.setdefault(name, self._own(name, places))
            places.setdefault(owner, []).append(place)
        arrays = _joined(self._arrays)
        for name, rows in places.items():
            sums = self._sums.setdefault(name, self._empty.fresh())
            sums.add(*(array if array is None else array[rows] for array in arrays))
        self._values, self._arrays = [], []

    def _named(self, values: list[object]) -> list[str]:
        if self._edges is None:
            return [value if type(value) is str else _name(value) for value in values]
        groups = groups_of(self._edges)
        numbers = np.array([value if _is_number(value) else np.nan for value in values], np.float64)
        places = np.searchsorted(self._edges, numbers).tolist()
        return [
            groups[group] if _is_number(value) else MISSING if value is None else OTHER
            for value, group in zip(values, places, strict=True)
        ]

    def _own(self, name: str, coming: dict[str, list[int]]) -> str:
        """Return the slice of a value: one for it alone, below the maximum number of slices."""
        if name in self._sums or name in coming or name in (MISSING, OTHER):
            return name
        named = (self._sums.keys() | coming.keys()) - {MISSING, OTHER}
        return name if len(named) < self.most else OTHER

    def table(self) -> dict[str, S]:
        """Return copies of the sums of each slice.

        Values are sorted by frequency, groups of numbers by their order, with ``(missing)`` and ``(other)``
        last. All have the same classes.
        """
        if not self._decided and len(self._values) < LOOK:
            settled = self.restored(self.state())  # the first events determine the slices of later ones
            settled._sort()
        else:
            self._sort()
            settled = self
        whole = self._empty.fresh()
        for sums in settled._sums.values():
            whole.merge(sums)
        copies = {}
        for name in sorted(settled._sums, key=settled._order):
            copies[name] = whole.fresh()
            copies[name].merge(settled._sums[name])
        return copies

    def _order(self, name: str) -> tuple[int, int]:
        if name in (MISSING, OTHER):
            return 1, int(name == OTHER)
        if self._edges is not None:
            return 0, groups_of(self._edges).index(name)
        return 0, -self._sums[name].events  # ties in order of appearance

    def state(self) -> SavedState:
        """Return the state for :meth:`restored`."""
        if self._decided or len(self._values) >= LOOK:
            self._sort()
        waiting = _joined(self._arrays) if self._arrays else []
        header = {
            "most": self.most,
            "kind": kind_of(self._empty),
            "decided": self._decided,
            "edges": self._edges,
            "names": list(self._sums),
            "values": list(self._values),
            "given": [array is not None for array in waiting],
        }
        arrays = {f"waiting{k}": array for k, array in enumerate(waiting) if array is not None}
        saved: SavedState = (header, arrays)
        slices = {f"slice{k}": sums.state() for k, sums in enumerate(self._sums.values())}
        return nest(slices=saved, empty=self._empty.state(), **slices)

    @classmethod
    def restored(cls, state: SavedState) -> Self:
        """Return the slices of a state."""
        header, arrays = part_of(state, "slices")
        kind = KINDS[header["kind"]]
        slices = cls(kind.restored(part_of(state, "empty")), header["most"])
        slices._decided, slices._edges = header["decided"], header["edges"]
        for k, name in enumerate(header["names"]):
            slices._sums[name] = kind.restored(part_of(state, f"slice{k}"))
        if header["values"]:
            slices._values = list(header["values"])
            waiting = [f"waiting{k}" if present else "" for k, present in enumerate(header["given"])]
            slices._arrays = [tuple(arrays[name].copy() if name else None for name in waiting)]
        return slices


def _plain(value: object) -> object:
    """Return a value for JSON."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value == "" or value != value:
        return None
    return value if isinstance(value, (str, bool, int, float)) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _name(value: object) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _edges(values: list[object]) -> list[float] | None:
    """Return the cuts of a column, None if it has none."""
    known = [value for value in values if value is not None]
    if not all(map(_is_number, known)) or len(set(known)) <= _VALUES:
        return None
    exact = np.unique(np.quantile(np.array(known, np.float64), _SHARES, method="lower")).tolist()
    for digits in range(4, 18):
        rounded = [float(f"{edge:.{digits}g}") for edge in exact]
        if len(set(rounded)) == len(exact):
            break
    return rounded


def groups_of(edges: list[float]) -> list[str]:
    """Return the names of groups of numbers.

    Examples
    --------
    >>> groups_of([1.0, 2.5])
    ['≤ 1', '1 to 2.5', '> 2.5']
    """
    told = [_name(edge) for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(told)]
    return [f"≤ {told[0]}", *between, f"> {told[-1]}"]


def _joined(chunks: list[tuple[AnyArray | None, ...]]) -> list[AnyArray | None]:
    """Return arrays of chunks as one, with columns up to the last nonzero one."""
    joined: list[AnyArray | None] = []
    for arrays in zip(*chunks, strict=True):
        if arrays[0] is None or arrays[0].ndim == 1:
            joined.append(None if arrays[0] is None else np.concatenate(arrays))
            continue
        width = max(array.shape[1] for array in arrays)
        whole = np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in arrays])
        used = np.flatnonzero(whole.any(axis=0))
        joined.append(np.ascontiguousarray(whole[:, : used[-1] + 1 if len(used) else 0]))
    return joined
