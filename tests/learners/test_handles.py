"""Handles of records for compiled code."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, typeof

from streamk.learners import handles
from streamk.learners.handles import make_handle, unowned


class One(NamedTuple):
    """A record."""

    value: object


class Other(NamedTuple):
    """Another record of the same members."""

    value: object


def arrays():
    """Arrays of every kind that Numba tells apart."""
    for dtype in (np.float32, np.float64, np.int64, np.uint64):
        for shape in ((6,), (2, 3), (0, 3)):
            whole = np.arange(24, dtype=dtype)[: int(np.prod(shape))].reshape(shape)
            yield from (whole, whole.copy(), whole.T, whole[..., ::2], np.asfortranarray(whole))
            fixed = whole.copy()
            fixed.flags.writeable = False
            yield fixed
    yield np.frombuffer(bytes(17), dtype=np.uint8)[1:].view(np.float64)  # not aligned


def values():
    yield from (1, 1.5, True, None, np.float32(1.0), np.int32(1))
    yield from arrays()


def test_values_of_one_kind_have_one_type_in_compiled_code():
    kinds = {}
    for value, wrap in itertools.product(values(), (One, Other, lambda v: (v,), lambda v: (One(v), v))):
        wrapped = wrap(value)
        assert kinds.setdefault(handles._kind_of(wrapped), typeof(wrapped)) == typeof(wrapped)
    assert len(kinds) > 50


@njit
def total(handle):
    found = 0.0
    for x in unowned(handle).value[0].ravel():
        found += x
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_handles_of_arrays_of_other_types(dtype):
    for array in (np.arange(6, dtype=dtype), np.arange(6, dtype=dtype).reshape(2, 3)):
        for same in (array, array.copy(), array.T):
            assert total(make_handle((same,))) == 15.0


class Nested(NamedTuple):
    """A record of a number, an array and a handle."""

    number: float
    array: object
    inner: object


@njit
def sums_of(handle):
    view = unowned(handle)
    inner = view.inner
    return view.number, view.array.sum(), view.value.array.sum(), inner.number, inner.array[1], inner.inner


def test_members_of_a_named_tuple_are_members_of_its_handle():
    inner, array = np.arange(3), np.ones(2, dtype=np.float32)
    whole = make_handle(Nested(2.5, array, make_handle(Nested(7, inner, None))))
    assert sums_of(whole) == (2.5, 2.0, 2.0, 7, 1, None)


@njit
def value_of(handle):
    return unowned(handle).value.value.sum()


def test_the_value_of_a_handle_comes_before_a_member_of_that_name():
    array = np.arange(3)
    assert value_of(make_handle(One(array))) == 3


@njit
def total_of(handle):
    found = 0.0
    for group in unowned(handle).groups:
        for k in range(len(group)):
            found += group[k].value[0].sum()
    return found


def test_a_handle_keeps_those_among_its_members_alive():
    sums = np.arange(4.0), np.arange(5.0)
    groups = (tuple(make_handle((array,)) for array in sums),)
    whole = make_handle(handles.ModelView((), (), (), groups, (), None))
    del groups
    others = [make_handle((np.full(4, 1e9),)) for _ in range(1000)]  # in the memory of those, were they freed
    assert total_of(whole) == 16.0
    assert len(others) == 1000
