"""Types of arrays, and of what model files and checkpoints hold.

A model file is a header of JSON values and named arrays; a state is the pair of both.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.float32]  # features, coefficients, outputs of experts
Integers = NDArray[np.int64]
Places = NDArray[np.intp]
AnyArray = NDArray[Any]
Arrays = dict[str, AnyArray]
Json = dict[str, Any]
SavedState = tuple[Json, Arrays]
Table = TypeVar("Table")  # a frame, an array or a list of dicts
Column = TypeVar("Column", covariant=True)  # a series of a frame's library
_P = TypeVar("_P", bound="Pickled")


class Frame(Protocol[Column]):
    """A table of pandas, polars or pyarrow, whose columns are of one type."""

    def __getitem__(self, name: str, /) -> Column: ...


class Pickled:
    """An object that pickles its state as bytes.

    joblib handles arrays of a pickled object one by one: it maps them read-only, which compiled code rejects,
    and stores an array that two parts share once for each, so the parts would diverge.
    """

    def __reduce__(self) -> tuple[Callable[..., object], tuple[type, bytes]]:
        return _restored, (type(self), pickle.dumps(self.__getstate__(), pickle.HIGHEST_PROTOCOL))


def _restored(cls: type[_P], state: bytes) -> _P:
    restored = cls.__new__(cls)
    restored.__dict__.update(pickle.loads(state))
    return restored


def typed(arrays: Arrays, name: str, dtype: type, shape: tuple[int, ...]) -> AnyArray:
    """Return an array of a model file.

    Raises
    ------
    ValueError
        If its type or shape is not what compiled code takes.
    """
    array = arrays[name]
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"its {name} are {array.dtype} of shape {array.shape}, not {np.dtype(dtype)} of shape {shape}"
        )
    return array


def padded(array: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return an array with zeros after the end of each axis, up to ``shape``; no axis becomes shorter.

    >>> padded(np.ones((1, 2)), (2, 3)).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    more = [(0, max(0, wanted - now)) for now, wanted in zip(array.shape, shape, strict=True)]
    return np.pad(array, more) if any(after for _, after in more) else array


def used_columns(array: AnyArray) -> NDArray[np.int32]:
    """Return the places on the last axis that hold anything but 0."""
    return np.flatnonzero(array.any(axis=tuple(range(array.ndim - 1)))).astype(np.int32)


def unpacked(
    arrays: Arrays, values: str, used: str, like: AnyArray, what: str, elsewhere: AnyArray | None = None
) -> AnyArray:
    """Return an array as ``like``, of which a model file holds only some columns; 0 is ``elsewhere``.

    Raises
    ------
    ValueError
        If columns are not in order or out of bounds, calling the array ``what``.
    """
    columns = typed(arrays, used, np.int32, arrays[used].shape[:1])
    if not (np.diff(columns, prepend=-1) > 0).all() or not (columns < like.shape[-1]).all():
        raise ValueError(f"its columns of {what} are impossible")
    whole = np.zeros_like(like) if elsewhere is None else elsewhere.copy()
    whole[..., columns] = typed(arrays, values, like.dtype.type, (*like.shape[:-1], len(columns)))
    return whole
