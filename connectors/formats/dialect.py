"""CSV as people have it: delimiter, decimal sign, and the names of the columns."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from connectors.events.decoding import EventFormat
from connectors.events.names import listed, suggestion
from connectors.events.schema import DATETIME, LOOK, MISFIT, NUMBER, infer, parse_number, reader_of

DELIMITERS = ",;\t|"
_RARE = (
    "~^:\x01\x1f¦#"  # only where none of the others separates, between words, as nearly all rows have them
)
_AGREED = 0.95
_WORD = re.compile(r"[^\W\d][\w ]*")
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_SCORED = 200  # rows by which delimiters, and columns with numbers of one mark alone, are compared
_CELLS = 200_000  # looked at, of as many rows as types are inferred from
_TIME = re.compile(r"([01]?\d|2[0-3])\.[0-5]\d", re.ASCII)
_VERSION = re.compile(r"\d{1,2}\.\d{1,2}", re.ASCII)
_PLACE = re.compile(r"-?1?\d?\d\.\d{4,}", re.ASCII)  # latitudes and longitudes
_UNIT = re.compile(r"(?<=\d)\s?[^\W\d_]{1,10}([²³]|/[^\W\d_]{1,4})?\s*$")
_FEW = 20  # different versions
_PREAMBLE = 50  # rows among which the header is
_BELOW = 0.3  # share of rows by which a header below others counts less
_BRACKETS = re.compile(r"\[.*\]|\(.*\)|<.*>|\{.*\}")
_NONE = "", "-", "--", "–", "—", "?", ".", "(1)", "[1]"  # in a row of units, or of missing values
_SURE, _MOSTLY, _LONG_UNIT = 3, 0.9, 20  # values of a column and share of one type, and letters of a unit
_NUMBER = re.compile(r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*", re.ASCII)


class Dialect(NamedTuple):
    """What is between the values of CSV, and between whole and fraction.

    Examples
    --------
    >>> print(Dialect(";", ","))
    CSV with semicolons between values and decimal commas; --delimiter and --decimal change that
    """

    delimiter: str = ","
    decimal: str = "."

    def __str__(self) -> str:
        between = _NAMES.get(self.delimiter, repr(self.delimiter))
        decimal = "commas" if self.decimal == "," else "points"
        return (
            f"CSV with {between} between values and decimal {decimal}; --delimiter and --decimal change that"
        )


def sniff(
    text: str,
    target: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    before: str | None = None,
) -> Dialect:
    r"""Return the dialect of CSV by its header and its first rows.

    The delimiter is the one that makes a column of the target, then the one by which most rows have as many
    values as the header, then the one that makes most columns; a rare one only if no other makes two. Commas
    are decimal if more columns have numbers that are numbers by commas alone than by points alone; ``1,234``
    and ``1.234`` may be thousands and count for neither.

    Parameters
    ----------
    text
        The first lines, whole.
    target
        A column that is there.
    delimiter, decimal
        What is known already.
    before
        The decimal mark of the file before it, where no value here decides.

    Raises
    ------
    ValueError
        If ``delimiter`` or ``decimal`` is none.

    Examples
    --------
    >>> sniff("a;b\n3,14;2,7\n")
    Dialect(delimiter=';', decimal=',')
    >>> sniff('name|note\n"x|y"|1,2,3\n')
    Dialect(delimiter='|', decimal='.')
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ValueError(f"--delimiter {delimiter!r}: give one character, not a quote or a line end")
    if decimal not in (None, ".", ","):
        raise ValueError(f"--decimal {decimal!r}: it is . or ,")
    if delimiter is None:
        best: Sequence[str] = DELIMITERS
        for most in (_SCORED, LOOK):  # more rows only where a few do not decide
            scores = {one: _score(_rows(text, one, most), target) for one in best}
            best = [one for one in best if scores[one] == max(scores.values())]
            if len(best) == 1:
                break
        delimiter = best[0]
        if not scores[delimiter][1]:
            rare = {one: _score(_rows(text, one, _SCORED), target) for one in _RARE}
            other = max(rare, key=lambda one: rare[one])
            words = all(map(_WORD.fullmatch, _rows(text, other, 1)[0])) if rare[other][1] else False
            delimiter = other if words and rare[other][2] >= _AGREED else delimiter
    if decimal is None:
        rows = _rows(text, delimiter)
        decimal = _decimal(rows[header_row(rows, [target] if target else []) + 1 :], delimiter, before)
    return Dialect(delimiter, decimal)


def header_row(rows: Sequence[Sequence[str]], wanted: Sequence[str]) -> int:
    """Return which row names the columns: the first that names those wanted, or that is no preamble.

    A preamble is rows of which less than half of the values are there, as titles above a table, and comments.

    >>> header_row([["Sales", "", ""], ["# of 2024"], ["day", "shop", "sales"], ["1", "b", "7"]], [])
    2
    """
    first = rows[:_PREAMBLE]
    if wanted:
        for k, row in enumerate(first):
            if set(wanted) <= set(row):
                return k
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    for k, row in enumerate(first):
        comment = row[0].startswith("#") and len(row) != width
        if not comment and 2 * sum(map(bool, row)) >= width and (len(row) > 1 or width == 1):
            return 0 if any(map(_NUMBER.fullmatch, row)) else k
    return 0


def rows_of(text: str, delimiter: str) -> list[list[str]]:
    """Return the first rows of a text, twice as many as those in which its header is looked for."""
    return _rows(text, delimiter, 2 * _PREAMBLE)


def _rows(text: str, delimiter: str, most: int = LOOK) -> list[list[str]]:
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            if row:
                rows.append([cell.strip() for cell in row])
            if len(rows) > min(most, _CELLS // max(len(rows[0]) if rows else 1, 1) + 1):
                break
    except csv.Error:
        pass
    return rows


def _score(rows: list[list[str]], target: str | None) -> tuple[bool, bool, float, int]:
    if not rows:
        return False, False, 0.0, 0
    at = header_row(rows, [] if target is None else [target])
    width, body = len(rows[at]), rows[at + 1 :]
    same = sum(len(row) == width for row in body) / len(body) if body else 1.0
    return target in rows[at], width > 1, same - (_BELOW if at else 0.0), width


class _Votes(NamedTuple):
    """Cells of a column: how many are numbers by one mark alone, and by both marks."""

    commas: int
    points: int
    either: int
    pointed: list[str]  # the numbers by points


def _decimal(rows: list[list[str]], delimiter: str, before: str | None) -> str:
    """Return the decimal mark that most columns have.

    A column has one vote, whatever its number of cells; a cell with one mark and three digits after it fits
    both marks. Next to columns with decimal commas, those that look like times (``12.30``), coordinates or
    versions do not vote, and between semicolons, which separate values where commas are decimal, others need
    three votes for one.
    """
    width = max(map(len, rows), default=0)
    columns = [_votes_of_all([row[k] for row in rows if len(row) > k]) for k in range(width)]
    commas = sum(each.commas > each.points for each in columns)
    points = [each for each in columns if each.points > each.commas]
    if commas:
        against = sum(not _is_no_fraction(each.pointed) for each in points)
        return "," if commas * (3 if delimiter == ";" else 1) >= against + (delimiter != ";") else "."
    if points:
        return "."
    if before is not None:
        return before
    either = [cell for row in rows for cell in row if None not in _numbers(cell)]
    return "," if delimiter != "," and 2 * sum("," in cell for cell in either) > len(either) else "."


@lru_cache(1 << 14)
def _numbers(cell: str) -> tuple[float | None, float | None]:
    """Return what a cell is by commas, and by points; None where it is no number, or has no such mark."""
    if "," not in cell and "." not in cell:
        return None, None
    cell = _UNIT.sub("", cell)
    return parse_number(cell, ","), parse_number(cell, ".")


def _votes_of_all(cells: Sequence[str]) -> _Votes:
    """Return the votes of a column: of its first cells, or of all if no mark stands alone in these."""
    first = _votes(cells[:_SCORED])
    return first if first.commas or first.points else _votes(cells)


def _votes(cells: Sequence[str]) -> _Votes:
    """Return the votes of a column; none if less than half of its values are numbers."""
    numbers = [_numbers(cell) for cell in cells]
    commas = sum(by_comma is not None and by_point is None for by_comma, by_point in numbers)
    pointed = [
        cell for cell, each in zip(cells, numbers, strict=True) if each[0] is None and each[1] is not None
    ]
    either = sum(by_comma is not None and by_point is not None for by_comma, by_point in numbers)
    plain = sum(_NUMBER.fullmatch(cell) is not None for cell in cells if "," not in cell and "." not in cell)
    values = sum(bool(cell.strip()) for cell in cells)
    if 2 * (max(commas, len(pointed)) + either + plain) < values:
        return _Votes(0, 0, 0, [])
    return _Votes(commas, len(pointed), either, pointed)


def _is_no_fraction(pointed: Sequence[str]) -> bool:
    """Return whether what looks like fractions after a point may be times, versions, or coordinates."""
    cells = [cell.strip() for cell in pointed]
    times = all(map(_TIME.fullmatch, cells)) and len({cell.partition(".")[0] for cell in cells}) > 1
    versions = all(map(_VERSION.fullmatch, cells)) and len(set(cells)) <= _FEW
    return times or versions or all(map(_PLACE.fullmatch, cells))


def check_header(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise a ValueError if names are none, or one that is wanted is missing.

    >>> check_header(["1", "2.5"], ["y"])
    Traceback (most recent call last):
    ValueError: the first line holds only numbers (1, 2.5); name the 2 columns with --columns a,b,…
    """
    missing = [name for name in wanted if name not in names]
    if missing == list(wanted) and all(map(_NUMBER.fullmatch, names)):
        raise ValueError(
            f"the first line holds only numbers ({listed(names)}); name the {len(names)} columns with "
            "--columns a,b,…"
        )
    if missing:
        hint = (
            f"; if the first line is no header, --columns a,b,… names the {len(names)} columns"
            if any(map(_NUMBER.fullmatch, names))
            else ""
        )
        raise ValueError(f"there is no column {missing[0]!r}{suggestion(missing[0], names)}{hint}")


def seems_record(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether names of columns are probably a record: numbers, and words that are values below.

    >>> seems_record(["5.1", "setosa"], [["4.9", "setosa"]]), seems_record(["name", "2024"], [["x", "7"]])
    (True, False)
    """
    numbers = [_NUMBER.fullmatch(name) is not None for name in names]
    words = [k for k, name in enumerate(names) if name.strip() and not numbers[k]]
    return any(numbers) and any(len(row) > k and row[k] == names[k] for k in words for row in rows)


def seems_units(
    row: Sequence[str], rows: Sequence[Sequence[str]], decimal: str, format: EventFormat, names: Sequence[str]
) -> bool:
    """Return whether a row below the names of columns has their units, and no value.

    It has none that fits a column of numbers or dates, and nothing above other columns but brackets; at least
    half of the columns have a unit, or all units have brackets.

    >>> rows, format = [["7", "1.5", "a"]] * 3, EventFormat()
    >>> [seems_units(row, rows, ".", format, "xyz") for row in (["kg", "mm", ""], ["7", "mm", ""])]
    [True, False]
    """
    if len(row) != len(names):
        return False
    none = {*_NONE, *format.missing}
    filled = {k: cell for k, cell in enumerate(row) if cell not in none}
    columns = [[each[k] for each in rows if len(each) > k and each[k] not in none] for k in range(len(row))]
    brackets = [bool(_BRACKETS.fullmatch(cell)) for cell in filled.values()]
    units = [
        cell
        for k, cell in filled.items()
        if _are_numbers(columns[k], decimal, format.types.get(names[k], ""))
    ]
    if not units or any(parse_number(cell, decimal) is not None for cell in filled.values()):
        return False
    if any(len(cell) > _LONG_UNIT for cell in units) or (2 * len(units) < len(row) and not all(brackets)):
        return False
    return all(
        cell in units or bracketed or _fits_no_date(cell, names[k], columns[k])
        for (k, cell), bracketed in zip(filled.items(), brackets, strict=True)
    )


def _are_numbers(values: Sequence[str], decimal: str, kind: str) -> bool:
    """Return whether a column has numbers, by its type if it has few values."""
    if len(values) < _SURE:
        return kind.partition(":")[0] == NUMBER
    return sum(parse_number(each, decimal) is not None for each in values) >= _MOSTLY * len(values)


def _fits_no_date(cell: str, name: str, values: Sequence[str]) -> bool:
    """Return whether a column has dates, and a cell is none."""
    kind = infer(name, values)
    return kind.partition(":")[0] == DATETIME and reader_of(kind)(cell) is MISFIT
