"""CSV as people have it: delimiter, decimal sign, and the names of the columns."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from connectors.names import suggestion

DELIMITERS = ",;\t|"
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_ROWS = 200  # looked at
_COMMA = re.compile(r"[+-]?(\d*|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?", re.ASCII)
_POINT = re.compile(r"[+-]?(\d*|\d{1,3}(,\d{3})+)\.\d+([eE][+-]?\d+)?", re.ASCII)
_UNITS = " \t\u00a0%$€£¥()"  # next to a number
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+", re.ASCII)
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
    before: str = ".",
) -> Dialect:
    r"""Return the dialect of CSV by its header and its first rows.

    The delimiter is the one that makes a column of the target, then the one by which most rows have as many
    values as the header, then the one that makes most columns. Commas are decimal if more values read as
    numbers by commas than by points; between commas, ``"1,234"`` in quotes counts for neither, as it may be
    thousands.

    Parameters
    ----------
    text
        The first lines, whole.
    target
        A column that is there.
    delimiter, decimal
        What is known already.
    before
        The decimal sign of the file before it, where no value here decides.

    Raises
    ------
    ValueError
        If what is given is no delimiter or no decimal sign.

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
        tables = {one: _rows(text, one) for one in DELIMITERS}
        delimiter = max(DELIMITERS, key=lambda one: _score(tables[one], target))  # the first of the best
    rows = _rows(text, delimiter)[1:]
    return Dialect(delimiter, decimal or _decimal(rows, delimiter, before))


def _rows(text: str, delimiter: str) -> list[list[str]]:
    found: list[list[str]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            if row:
                found.append(row)
            if len(found) > _ROWS:
                break
    except csv.Error:
        pass
    return found


def _score(rows: list[list[str]], target: str | None) -> tuple[bool, bool, float, int]:
    if not rows:
        return False, False, 0.0, 0
    width, body = len(rows[0]), rows[1:]
    same = sum(len(row) == width for row in body) / len(body) if body else 1.0
    return target in rows[0], width > 1, same, width


def _decimal(rows: list[list[str]], delimiter: str, before: str) -> str:
    cells = [cell.strip(_UNITS) for row in rows for cell in row]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    if delimiter == "," and all(map(_THOUSANDS.fullmatch, commas)):
        commas = []
    points = sum(_POINT.fullmatch(cell) is not None for cell in cells)
    if not commas and not points:
        return before
    return "," if len(commas) > points else "."


def check_header(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise a ValueError if names are none, one of them comes twice, or one that is wanted is missing.

    >>> check_header(["1", "2.5"], ["y"])
    Traceback (most recent call last):
    ValueError: the first line holds only numbers (1, 2.5); the first line of CSV must name the columns
    """
    missing = [name for name in wanted if name not in names]
    if missing == list(wanted) and all(map(_NUMBER.fullmatch, names)):
        raise ValueError(
            f"the first line holds only numbers ({_some(names)}); the first line of CSV must name the columns"
        )
    if len(set(names)) != len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise ValueError(f"two columns are named {_some([repr(name) for name in twice])}")
    if missing:
        raise ValueError(f"there is no column {missing[0]!r}{suggestion(missing[0], names)}")


def _some(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
