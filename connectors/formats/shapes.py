r"""Tables that are no plain CSV, as programs print them, which are read as CSV line by line.

They are drawn with bars, have blanks between values, single quotes, whole lines in quotes, quotes after a
backslash or after a blank.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from connectors.events.schema import parse_number
from connectors.formats.dialect import sniff
from connectors.formats.rewriting import Rewritten, by_line

_FEW = 200  # lines that are looked at
_NEAR = 5  # lines among which a rule below the names is
_SURE = 3  # columns at least that blanks separate
_MANY = 10  # lines of as many values, of which a quarter that are numbers is enough
_SAME = 0.95  # share of lines that have as many values as most
_RULE = re.compile(r"(?=.*[-=─═━]{2})[-=─═━\s|+:,;│┼├┤┌┐└┘┬┴╪╞╡║╔╗╚╝╬╠╣]+")
_DASHES = re.compile(r"[\s|,;│]*--(?:[\s|,;│]+--)*[\s|,;│]*")  # a rule, or values that are missing
_BARS = "|│║"
_WORD = re.compile(r'"[^"]*"|\S+')
_SINGLE = re.compile(r"'[^']*'(?:([,;\t|])'[^']*'(?:\1'[^']*')*)")
_ESCAPED = re.compile(r'\\(["\\])')
_BLANK = re.compile(r'([,;|\t]) +"')


class _Shape(NamedTuple):
    """How a line is written as CSV, a sentence about it, and the delimiter, if that is known.

    ``names`` are the line above the rule, if there is one.
    """

    line_of: Callable[[str], str]
    what: str
    delimiter: str | None = None
    names: str | None = None

    def is_rule(self, line: str, before: str | None) -> bool:
        """Return whether a line is a rule, by the line before it."""
        if self.names is None or not _RULE.fullmatch(line):
            return False
        return before in (None, self.names) or not _DASHES.fullmatch(line)


def shape_of(name: str, text: bytes) -> Rewritten | None:
    r"""Return how a text is read as CSV by its first bytes; None if it is plain CSV.

    >>> text = b" a   |  b\n-----+----\n 1.5 | x y\n"
    >>> how = shape_of("t.txt", text)
    >>> how.note, b"".join(how.rewrite(iter([text])))
    ('t.txt is a table drawn with bars; its rules are skipped', b'a|b\n\n1.5|x y\n')
    """
    *lines, last = re.split(r"\r\n?|\n", text.decode("utf-8", "replace"), maxsplit=_FEW)
    lines = [line for line in ([*lines, last] if len(lines) < _FEW and not text.endswith(b"\n") else lines)
             if line.strip()]  # fmt: skip
    if len(lines) < 2:
        return None
    shape = _ruled(lines) or _blank_separated(lines) or _single_quoted(lines) or _quoted(lines)
    if shape is None:
        return None
    line_of = shape.line_of
    plain = lines if shape.names is None else [line for line in lines if not _RULE.fullmatch(line)]
    delimiter = shape.delimiter or sniff("\n".join(map(line_of, plain))).delimiter

    def rewrite(parts: Iterator[bytes]) -> Iterator[bytes]:
        before: str | None = None

        def rewritten(line: bytes) -> bytes:
            nonlocal before
            text = line.decode("utf-8", "surrogateescape").rstrip("\r")
            rule = shape.is_rule(text, before)
            before = text if text.strip() else before
            return b"" if rule else line_of(text).encode("utf-8", "surrogateescape")

        return by_line(rewritten)(parts)

    return Rewritten(rewrite, f"{name} {shape.what}", delimiter)


def _ruled(lines: Sequence[str]) -> _Shape | None:
    """Return the shape of a table with a rule below its names; with bars, or as CSV."""
    rules = [k for k, line in enumerate(lines[:_NEAR]) if _RULE.fullmatch(line)]
    at = next((k for k in rules if k == 1 or not _DASHES.fullmatch(lines[k])), None)
    if at is None or "".join(lines[:at]).count('"') % 2:  # a line of a value in quotes
        return None
    plain = [line for line in lines if not _RULE.fullmatch(line)]
    names = lines[at - 1] if at else ""
    bar = max(_BARS, key=lambda each: sum(each in line for line in plain))
    barred = [line for line in plain if bar in line]
    if 2 * len(barred) > len(plain):
        names, outer = barred[0], barred[0].strip().startswith(bar)

        def cells_of(line: str) -> str:
            if bar not in line:
                return line
            cells = line.strip().removeprefix(bar).removesuffix(bar) if outer else line
            return _row([cell.strip() for cell in cells.split(bar)], "|")

        return _Shape(cells_of, "is a table drawn with bars; its rules are skipped", "|", names)
    inner = _blank_separated(plain)
    what = "has a rule below the names of its columns, which is skipped"
    return _Shape(inner.line_of if inner else str, what, inner and inner.delimiter, names)


def _blank_separated(lines: Sequence[str]) -> _Shape | None:
    """Return the shape of a table with blanks between values, as many in each line.

    The line of names may have one fewer, as R writes tables with names of rows.

    >>> numbers, words = [" 1.5   2  red", " 2.5  30 blue"], ["a b c", "d e f"]
    >>> _blank_separated(numbers) is not None, _blank_separated(words) is not None
    (True, False)
    """
    rows = [_WORD.findall(line) for line in lines]
    widths = Counter(map(len, rows[1:]))
    width = max(widths, key=lambda each: widths[each], default=0)
    unnamed = len(rows) > 2 and len(rows[0]) == width - 1
    if width < _SURE or widths[width] < _SAME * len(rows[1:]) or not (unnamed or len(rows[0]) == width):
        return None
    if any(sum(sign in line for line in lines) > len(lines) / 2 for sign in (",", ";", "|")):
        return None
    tabs = {line.count("\t") for line in lines}
    if len(tabs) == 1 and 0 not in tabs and not any("  " in line for line in lines):
        return None  # one between values each
    cells = [cell.strip('"') for each in rows[1:] for cell in each]
    numbers = sum(parse_number(cell) is not None for cell in cells)
    if (4 if len(rows) > _MANY else 2) * numbers <= len(cells):
        return None
    names = ['"row"', *rows[0]] if unnamed else []

    def line_of(line: str) -> str:
        words = _WORD.findall(line) if '"' in line else line.split()
        return "\t".join(names if names and words == rows[0] else words)

    return _Shape(line_of, "has blanks between values; --delimiter changes that", "\t")


def _single_quoted(lines: Sequence[str]) -> _Shape | None:
    first = _SINGLE.fullmatch(lines[0])
    if first is None:
        return None
    between = first[1]

    def line_of(line: str) -> str:
        return _row(next(csv.reader([line], delimiter=between, quotechar="'"), []), between)

    return _Shape(line_of, "has single quotes around values", between)


def _quoted(lines: Sequence[str]) -> _Shape | None:
    """Return the first shape of quotes by which more lines have as many values as the first."""
    shapes = [
        (all(line[:1] == line[-1:] == '"' for line in lines), _unquoted, "has quotes around whole lines"),
        (any(map(_ESCAPED.search, lines)), _doubled, "has a backslash before quotes"),
        (any(map(_BLANK.search, lines)), _closer, "has blanks before quotes"),
    ]
    for seen, line_of, what in shapes:
        if seen and _regularity([*map(line_of, lines)]) > _regularity(lines):
            return _Shape(line_of, what)
    return None


def _regularity(lines: Sequence[str]) -> tuple[bool, int, int]:
    """Return whether CSV has several columns, how many rows have as many as the first, and minus the quotes.

    Those are the quotes that are left in values.
    """
    text = "\n".join(lines)
    rows = list[list[str]]()
    with contextlib.suppress(csv.Error):
        rows.extend(csv.reader(io.StringIO(text, newline=""), delimiter=sniff(text).delimiter, strict=True))
    width = len(rows[0]) if rows else 0
    quotes = sum(cell.count('"') for cells in rows for cell in cells)
    return width > 1, sum(len(cells) == width for cells in rows), -quotes


def _row(cells: Sequence[str], delimiter: str) -> str:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(cells)
    return line.getvalue()


def _unquoted(line: str) -> str:
    return line.strip()[1:-1].replace('""', '"')


def _doubled(line: str) -> str:
    return _ESCAPED.sub(lambda sign: '""' if sign[1] == '"' else "\\", line)


def _closer(line: str) -> str:
    return _BLANK.sub(r'\1"', line)
