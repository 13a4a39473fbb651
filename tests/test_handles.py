"""Handles of records for compiled code."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, typeof

from streamk import handles
from streamk.handles import make_group, make_handle


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
        assert kinds.setdefault(handles._kind_of(wrapped, []), typeof(wrapped)) == typeof(wrapped)
    assert len(kinds) > 50


@njit
def total(handle):
    found = 0.0
    for x in handle.value[0].ravel():
        found += x
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_handles_of_arrays_of_every_kind(dtype):
    kinds = {typeof(array): array for array in arrays() if array.dtype == dtype}
    assert len(kinds) >= 6
    for array in kinds.values():
        assert total(make_handle((array,))) == array.sum()


@njit
def filled(handle):
    array = handle.value[0]
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            array[i, j] += 10 * i + j


def test_compiled_code_changes_the_array_of_a_handle():
    whole = np.zeros((4, 6))
    filled(make_handle((whole[::2, 1::2],)))
    assert np.flatnonzero(whole).tolist() == [3, 5, 13, 15, 17]
    assert whole[2, 5] == 12.0


@njit
def numbers_of(handle):
    a, b, c, d, e, f, g = handle.value
    return a, b, c, d, e[1], f, g is None


def test_numbers_of_every_kind():
    last = np.float32(0.1), (1.0, np.int32(-7)), 8, None
    assert numbers_of(make_handle((-3, 2.5, True, *last))) == (-3, 2.5, True, last[0], -7, 8, True)
    assert numbers_of(make_handle((2**62, -0.5, False, *last))) == (2**62, -0.5, False, last[0], -7, 8, True)


@njit
def is_empty(handle):
    return len(handle.value) == 0


def test_a_handle_of_nothing():
    assert is_empty(make_handle(()))


class Nested(NamedTuple):
    """A record of a number, an array and a handle."""

    number: float
    array: object
    inner: object


@njit
def sums_of(handle):
    inner = handle.inner
    return (
        handle.number,
        handle.array.sum(),
        handle.value.array.sum(),
        inner.number,
        inner.array[1],
        inner.inner,
    )


def test_members_of_a_named_tuple_are_members_of_its_handle():
    inner, array = np.arange(3), np.ones(2, dtype=np.float32)
    whole = make_handle(Nested(2.5, array, make_handle(Nested(7, inner, None))))
    assert sums_of(whole) == (2.5, 2.0, 2.0, 7, 1, None)


@njit
def value_of(handle):
    return handle.value.value.sum()


def test_the_value_of_a_handle_comes_before_a_member_of_that_name():
    array = np.arange(3)
    assert value_of(make_handle(One(array))) == 3


@njit
def total_of(handle):
    found = 0.0
    for group in (handle.value[0], handle.value[1]):
        for k in range(len(group)):
            found += (k + 1) * group[k].value[0].sum()
    return found


def group_of(count, number):
    """Return a group of handles of arrays that hold ``number``, the next number, and so on."""
    handles = [make_handle((np.full(4, float(number + k)),)) for k in range(count)]
    return make_group((np.zeros(1),), handles)


def test_groups_of_any_size_have_one_type():
    for sizes in [(2, 3), (0, 3), (2, 0), (0, 0)]:
        expected = sum(4 * (k + 1) * (size + k) for size in sizes for k in range(size))
        assert total_of(make_handle(tuple(group_of(size, size) for size in sizes))) == expected
    assert len(total_of.signatures) == 1


def test_handles_of_a_group_have_one_type():
    with pytest.raises(TypeError, match=r"a group of handle of .* cannot have a handle of"):
        make_group((np.zeros(2),), [make_handle((np.zeros(2),)), make_handle((np.zeros(4)[::2],))])


def test_a_handle_keeps_alive_what_it_refers_to():
    whole = make_handle((group_of(2, 1), group_of(2, 1)))
    others = [make_handle((np.full(4, 1e9),)) for _ in range(1000)]  # in the memory of those, were they freed
    assert total_of(whole) == 2 * (4.0 + 2 * 8.0)
    assert len(others) == 1000
