"""Cells of CSV and JSON lines in compiled code: where they are, and the numbers among them.

A row with quotes, another number of values or anything else that is not plain has ``plain`` False: it is then
decoded by itself, by :class:`connectors.events.decoding.Decoder`. That decides nothing but speed.

A decimal of up to 19 digits is a whole number times a power of ten, whose first 128 bits are in a table; the
product has more bits than the nearest double needs (Lemire, "Number parsing at a gigabyte per second", 2021).
What this does not settle, some 1 in 10¹⁵ and numbers that are very large or small, is left to Python.
"""

# mypy: disable-error-code="no-untyped-call, misc, call-arg, assignment"
# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from streamk.compiling import ENTRY, INNER

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
def _as_double(typing_context, bits):
    """Return the double that has these bits."""

    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

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
def number(data, start, stop, point):  # noqa: PLR0912  # one compiled loop
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


COMMA, POINT, QUOTE = 44, 46, 34
_LINE, _RETURN = 10, 13


class Cells(NamedTuple):
    """Rows of cells: where each is in the bytes, what it is, and its number."""

    starts: NDArray[np.int32]
    stops: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    values: NDArray[np.float64]
    plain: NDArray[np.bool_]
    begins: NDArray[np.int64]  # of rows
    ends: NDArray[np.int64]  # of rows, after the end of the line
    lines: NDArray[np.int64]  # line ends of a row
    counts: NDArray[np.int64]  # values of a row of CSV; -1 if a quote closes, and is not the end of its value


def room(rows: int, columns: int) -> Cells:
    """Return cells to be filled."""
    shape = (rows, columns)
    starts, stops = np.empty(shape, np.int32), np.empty(shape, np.int32)
    kinds, values = np.empty(shape, np.uint8), np.empty(shape)
    return Cells(
        starts, stops, kinds, values, np.empty(rows, np.bool_), *(np.empty(rows, np.int64) for _ in range(4))
    )


@njit(**ENTRY, nogil=True)
def csv_cells(data, at, last, delimiter, point, out):  # noqa: PLR0912  # one compiled loop
    """Fill in rows of CSV from a byte on; return how many, and where the next begins.

    A row ends with a line that no quotes leave open. One without its end is left for when more is there, but
    with ``last``, where no more comes, it is taken. Rows are as many as ``out`` holds.
    """
    starts, stops, kinds, values, plain, begins, ends, lines, counts = out
    most, columns, size, row = len(plain), starts.shape[1], len(data), 0
    sign = point if point != delimiter else 255  # no byte of UTF-8: such a sign stands in quotes
    while row < most and at < size:
        begin, column, fine, ended, breaks, closed = at, 0, True, False, 0, True
        begins[row] = begin
        while not ended:
            start, quoted = at, at < size and data[at] == QUOTE
            if quoted:
                fine = False
                at += 1
                while at < size:  # to the quote that closes
                    if data[at] == _LINE:
                        breaks += 1
                    elif data[at] == QUOTE:
                        if at + 1 < size and data[at + 1] == QUOTE:
                            at += 1
                        else:
                            break
                    at += 1
                if at >= size:
                    return row, begin
                if at + 1 < size and data[at + 1] != delimiter:
                    closed = closed and (data[at + 1] == _LINE or data[at + 1] == _RETURN)
            value, found = 0.0, False
            if column < columns and not quoted:
                at, value, _, _ = short(data, at, size, sign)
                found = at > start and at < size and (data[at] == delimiter or data[at] <= _RETURN)
            while at < size and data[at] != delimiter and data[at] != _LINE:
                found = found and data[at] == _RETURN
                fine = fine and data[at] != QUOTE and data[at] != 0
                fine = fine and (data[at] != _RETURN or (at + 1 < size and data[at + 1] == _LINE))
                at += 1
            if at >= size and not last:
                return row, begin
            stop = at
            ended = at >= size or data[at] == _LINE
            if ended and at < size and at > start and data[at - 1] == _RETURN:
                stop -= 1
            if column < columns and fine:
                starts[row, column], stops[row, column] = start, stop
                if found:
                    kinds[row, column], values[row, column] = FLOAT, value
                elif start == stop:
                    kinds[row, column] = MISSING
                else:
                    kind, values[row, column] = number(data, start, stop, point)
                    kinds[row, column] = FLOAT if kind != NONE else TEXT
            column += 1
            at += 1
        at = min(at, size)
        if column == 1 and fine and start == stop:
            lines[row] = -1  # a blank line is no row
        else:
            lines[row] = breaks + 1
        plain[row] = fine and column == columns
        counts[row] = column if closed else -1
        ends[row] = at
        row += 1
    return row, at


@njit(**INNER)
def _space(data, at, stop):
    while at < stop and (data[at] == 32 or data[at] == 9):
        at += 1
    return at


@njit(**INNER)
def _is(data, at, stop, word):
    """Return whether these bytes are here."""
    if stop - at < len(word):
        return False
    for k in range(len(word)):  # noqa: SIM110  # compiled
        if data[at + k] != word[k]:
            return False
    return True


_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


@njit(**INNER)
def _value(data, at, stop):  # noqa: PLR0912  # one compiled loop
    """Return what a JSON value is, its number, where its content begins and stops, and what is after it."""
    if at < stop and data[at] == QUOTE:
        end = at + 1
        while end < stop and data[end] != QUOTE:
            if data[end] == 92 or data[end] < 32:  # escaped, or not allowed
                return NONE, 0.0, at, at, at
            end += 1
        return (TEXT if end < stop else NONE), 0.0, at + 1, end, end + 1
    end, quick, digits, pointed = short(data, at, stop, POINT)
    minus = at < stop and data[at] == 45
    if end > at and (digits == 1 or data[at + minus] != 48):
        after = data[end] if end < stop else 32
        if after == COMMA or after == 125 or after <= 32:
            return (FLOAT if pointed else INT), quick, at, end, end
    for kind, word in ((TRUE, _TRUE), (FALSE, _FALSE), (MISSING, _NULL)):
        if _is(data, at, stop, word):
            return kind, 0.0, at, at + len(word), at + len(word)
    end = at
    while end < stop and data[end] > 32 and data[end] != COMMA and data[end] != 125:
        end += 1
    first = at + 1 if at < end and data[at] == 45 else at
    # what JSON has no such way to write: +1, 01, .5, 5. and 5.e1; and -0, which is an integer
    if first == end or not 48 <= data[first] <= 57:
        return NONE, 0.0, at, end, end
    if data[first] == 48 and first + 1 < end and 48 <= data[first + 1] <= 57:
        return NONE, 0.0, at, end, end
    for k in range(first, end):
        if data[k] == POINT and (k + 1 == end or not 48 <= data[k + 1] <= 57):
            return NONE, 0.0, at, end, end
    kind, value = number(data, at, end, POINT)
    if kind == INT and value == 0.0 and first != at:
        return NONE, 0.0, at, end, end
    return kind, value, at, end, end


@njit(**ENTRY, nogil=True)
def json_cells(data, at, last, names, bounds, out):
    """Fill in JSON lines, as :func:`csv_cells`; plain are objects with these names in this order.

    Names are as they are written, with their quotes; name ``k`` lies between ``bounds[k]`` and the next.
    """
    starts, stops, kinds, values, plain, begins, ends, lines, _ = out
    most, columns, size, row = len(plain), starts.shape[1], len(data), 0
    blank = False
    while row < most and at < size:
        begin = at
        at = _space(data, begin, size)
        fine = at < size and data[at] == 123 and columns > 0
        at = _space(data, at + 1, size)
        for k in range(columns):
            if not fine:
                break
            name = names[bounds[k] : bounds[k + 1]]
            fine = _is(data, at, size, name)
            at = _space(data, at + len(name), size)
            fine = fine and at < size and data[at] == 58
            at = _space(data, at + 1, size)
            if not fine:
                break
            kind, values[row, k], starts[row, k], stops[row, k], at = _value(data, at, size)
            kinds[row, k] = kind
            at = _space(data, at, size)
            fine = kind != NONE and at < size and data[at] == (COMMA if k + 1 < columns else 125)
            at = _space(data, at + 1, size)
        # a line that is plain has been read up to its end; nothing above goes beyond one
        if fine and at < size and data[at] == _RETURN:
            at += 1
        fine = fine and (at >= size or data[at] == _LINE)
        if not fine:
            at, blank = begin, True
            while at < size and data[at] != _LINE:
                blank = blank and (data[at] == 32 or 9 <= data[at] <= 13)
                at += 1
        if at >= size and not last:
            return row, begin
        plain[row], begins[row], ends[row] = fine, begin, min(at + 1, size)
        lines[row] = 1 if fine or not blank else -1  # a blank line is no record
        at = ends[row]
        row += 1
    return row, at


def names_of(names: list[Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return names as they are written, one after the other, and the bounds between them."""
    return np.frombuffer(b"".join(names), np.uint8), np.cumsum([0, *map(len, names)])
