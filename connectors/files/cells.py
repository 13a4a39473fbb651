"""Where the cells of lines of CSV or JSON are and which are numbers, in compiled code that others run beside.

A row has quotes, another number of values or any other thing that is not plain if its ``plain`` is False: it
is then decoded by itself, by :class:`connectors.decoding.Decoder`. That decides nothing but speed.
"""

# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from connectors.files.numbers import FALSE, FLOAT, INT, MISSING, NONE, TEXT, TRUE, number, short
from streamk.compiling import ENTRY, INNER

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


def room(rows: int, columns: int) -> Cells:
    """Return cells to be filled."""
    shape = (rows, columns)
    starts, stops = np.empty(shape, np.int32), np.empty(shape, np.int32)
    kinds, values = np.empty(shape, np.uint8), np.empty(shape)
    return Cells(
        starts, stops, kinds, values, np.empty(rows, np.bool_), *(np.empty(rows, np.int64) for _ in range(3))
    )


@njit(**ENTRY, nogil=True)
def csv_cells(data, at, last, delimiter, point, out):
    """Fill in rows of CSV from a byte on; return how many, and where the next begins.

    A row ends with a line that no quotes leave open. One without its end is left for when more is there, but
    with ``last``, where no more comes, it is taken. Rows are as many as there is room for.
    """
    starts, stops, kinds, values, plain, begins, ends, lines = out
    most, columns, size, row = len(plain), starts.shape[1], len(data), 0
    sign = point if point != delimiter else 255  # no byte of UTF-8: such a sign stands in quotes
    while row < most and at < size:
        begin, column, fine, ended, breaks = at, 0, True, False, 0
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
def _value(data, at, stop):
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
    starts, stops, kinds, values, plain, begins, ends, lines = out
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
