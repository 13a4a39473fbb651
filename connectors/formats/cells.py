"""Cells of CSV in compiled code: where they are, and the numbers among them.

A row with quotes, another number of values or anything else that is not plain has ``plain`` False: it is then
decoded by itself, by :class:`connectors.events.decoding.Decoder`. That decides nothing but speed.

A decimal of up to 19 digits is a whole number times a power of ten, whose first 128 bits are in a table; the
product has more bits than the nearest double needs (Lemire, "Number parsing at a gigabyte per second", 2021).
What this does not settle, about 1 in 10¹⁵ and numbers that are very large or small, is left to Python.
"""

# mypy: disable-error-code="no-untyped-call, misc, call-arg, assignment"
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.compiling import ENTRY, INNER
from streamk.vector.lanes import as_double

FLOAT, MISSING, TEXT = range(3)  # what a cell is
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
    return True, as_double(bits | (np.uint64(exponent) << np.uint64(52)))


@njit(**INNER)
def short(data, start, stop, point):
    """Return where a short plain decimal ends, and its value.

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
        return start, 0.0
    value = np.float64(whole)
    if after:
        value /= _TENS[after]
    return at, (-value if negative else value)


@njit(**INNER)
def number(data, start, stop, point):  # noqa: PLR0912  # one compiled loop
    """Return whether a decimal between two bytes has a known value, and that value.

    A decimal is a sign, digits with one point among or around them, and an exponent.
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
                return False, 0.0
            whole = whole * np.uint64(10) + np.uint64(byte - 48)
            if not plain:
                after += 1
        elif byte == point and plain:
            plain = False
        else:
            break
        at += 1
    if not seen:
        return False, 0.0
    power = 0
    if at < stop:
        if data[at] != 101 and data[at] != 69:
            return False, 0.0
        at += 1
        plain, down = False, False
        if at < stop and (data[at] == 45 or data[at] == 43):
            down = data[at] == 45
            at += 1
        if at == stop or stop - at > 4:
            return False, 0.0
        while at < stop:
            if data[at] < 48 or data[at] > 57:
                return False, 0.0
            power = power * 10 + np.int64(data[at] - 48)
            at += 1
        if down:
            power = -power
    settled, value = nearest(whole, power - after)
    if not settled or (plain and whole >= np.uint64(1 << 53)):
        return False, 0.0  # so large an integer is not a double
    return True, (-value if negative else value)


POINT, QUOTE = 46, 34
_LINE, _RETURN = 10, 13


class CsvCells(NamedTuple):
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


def room(rows: int, columns: int) -> CsvCells:
    """Return cells to be filled."""
    shape = (rows, columns)
    starts, stops = np.empty(shape, np.int32), np.empty(shape, np.int32)
    kinds, values = np.empty(shape, np.uint8), np.empty(shape)
    return CsvCells(
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
            value, is_short = 0.0, False
            if column < columns and not quoted:
                at, value = short(data, at, size, sign)
                is_short = at > start and at < size and (data[at] == delimiter or data[at] <= _RETURN)
            while at < size and data[at] != delimiter and data[at] != _LINE:
                is_short = is_short and data[at] == _RETURN
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
                if is_short:
                    kinds[row, column], values[row, column] = FLOAT, value
                elif start == stop:
                    kinds[row, column] = MISSING
                else:
                    known, values[row, column] = number(data, start, stop, point)
                    kinds[row, column] = FLOAT if known else TEXT
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
