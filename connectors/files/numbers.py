"""Numbers out of bytes, in compiled code: what ``float`` reads, to the last bit, or "look at it yourself".

A decimal of up to 19 digits is a whole number times a power of ten, whose first 128 bits are in a table; the
product has more bits than the nearest double needs (Lemire, "Number parsing at a gigabyte per second", 2021).
What this does not settle, some 1 in 10¹⁵ and numbers that are very large or small, is left to Python.
"""

# mypy: disable-error-code="no-untyped-call, misc, call-arg, assignment"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import intrinsic

from streamk.compiling import INNER

NONE, FLOAT, INT, MISSING, TEXT, TRUE, FALSE = range(7)  # what a cell is; NONE: left to Python
_LEAST, _MOST = -27, 55  # powers of ten between which a product that is cut off decides
_DIGITS = 19  # that always fit into 64 bits


def _power(q: int) -> tuple[int, int]:
    """Return the first 128 bits of a power of five, rounded up below one."""
    if q >= 0:
        value = 5**q
        shift = 128 - value.bit_length()
        value = value << shift if shift >= 0 else value >> -shift
    else:
        power = 5**-q
        value = (1 << ((power - 1).bit_length() + 127)) // power + 1
    return value >> 64, value & (1 << 64) - 1


_TENS = np.array([10.0**q for q in range(23)])
_POWERS = np.array([_power(q) for q in range(_LEAST, _MOST + 1)], dtype=np.uint64)


@intrinsic
def _as_double(typingctx: Any, bits: Any) -> Any:
    """Return the double that has these bits."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), build


@njit(**INNER)
def _product(a, b):
    """Return both halves of the product of two 64-bit numbers."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
    middle = (p00 >> half) + (p01 & low) + (p10 & low)
    return p11 + (p01 >> half) + (p10 >> half) + (middle >> half), (middle << half) | (p00 & low)


@njit(**INNER)
def nearest(whole, q):
    """Return whether it is settled which double is nearest to ``whole · 10^q``, and that double."""
    if whole == np.uint64(0):
        return True, 0.0
    if whole < np.uint64(1 << 53) and -22 <= q <= 22:  # both are doubles, and so one rounding is all there is
        exact = np.float64(np.int64(whole))
        return True, (exact * _TENS[q] if q >= 0 else exact / _TENS[-q])
    if q < _LEAST or q > _MOST:
        return False, 0.0
    zeros, shifted = 0, whole
    while shifted >> np.uint64(63) == np.uint64(0):
        shifted <<= np.uint64(1)
        zeros += 1
    high, low = _product(shifted, _POWERS[q - _LEAST, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _product(shifted, _POWERS[q - _LEAST, 1])
        low += more
        if low < more:
            high += np.uint64(1)
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    bits = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if exponent <= 0 or exponent >= 0x7FE:
        return False, 0.0
    # exactly between two doubles: to the even one
    halfway = low <= np.uint64(1) and -4 <= q <= 23 and bits & np.uint64(3) == np.uint64(1)
    if halfway and bits << shift == high:
        bits &= ~np.uint64(1)
    bits += bits & np.uint64(1)
    bits >>= np.uint64(1)
    if bits >= np.uint64(1 << 53):
        bits = np.uint64(1 << 52)
        exponent += 1
    bits &= np.uint64((1 << 52) - 1)
    return True, _as_double(bits | (np.uint64(exponent) << np.uint64(52)))


@njit(**INNER)
def short(data, start, stop, point):
    """Return where a short plain decimal ends, its value, digits before the point, and whether it has one.

    It is what most numbers are: perhaps a minus, at most 15 digits, perhaps a point among them. With no digit
    before or after the point, or with more, it ends at the start.
    """
    negative = start < stop and data[start] == 45
    at = first = start + negative
    whole = np.int64(0)
    while at < stop and 48 <= data[at] <= 57:
        whole = whole * 10 + np.int64(data[at]) - 48
        at += 1
    before, after = at - first, 0
    pointed = at < stop and data[at] == point
    if pointed:
        at += 1
        while at < stop and 48 <= data[at] <= 57:
            whole = whole * 10 + np.int64(data[at]) - 48
            at += 1
        after = at - first - before - 1
    if before == 0 or before + after > 15 or (pointed and after == 0):
        return start, 0.0, before, pointed
    value = np.float64(whole)
    if after:
        value /= _TENS[after]
    return at, (-value if negative else value), before, pointed


@njit(**INNER)
def number(data, start, stop, point):
    """Return what a decimal between two bytes is, and its value.

    It is INT without point and exponent, FLOAT with, and NONE if it is anything but a sign, digits with one
    point among or around them, and an exponent.
    """
    at, negative = start, False
    if at < stop and (data[at] == 45 or data[at] == 43):
        negative = data[at] == 45
        at += 1
    whole, digits, after, seen, plain = np.uint64(0), 0, 0, False, True
    while at < stop:
        byte = data[at]
        if 48 <= byte <= 57:
            seen = True
            if digits or byte != 48:
                digits += 1
            if digits > _DIGITS:
                return NONE, 0.0
            whole = whole * np.uint64(10) + np.uint64(byte - 48)
            if not plain:
                after += 1
        elif byte == point and plain:
            plain = False
        else:
            break
        at += 1
    if not seen:
        return NONE, 0.0
    power = 0
    if at < stop:
        if data[at] != 101 and data[at] != 69:
            return NONE, 0.0
        at += 1
        plain, down = False, False
        if at < stop and (data[at] == 45 or data[at] == 43):
            down = data[at] == 45
            at += 1
        if at == stop or stop - at > 4:
            return NONE, 0.0
        while at < stop:
            if data[at] < 48 or data[at] > 57:
                return NONE, 0.0
            power = power * 10 + np.int64(data[at] - 48)
            at += 1
        if down:
            power = -power
    settled, value = nearest(whole, power - after)
    if not settled or (plain and whole >= np.uint64(1 << 53)):
        return NONE, 0.0  # so large an integer is not a double
    return (INT if plain else FLOAT), (-value if negative else value)
