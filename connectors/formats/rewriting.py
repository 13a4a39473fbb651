"""Text of other forms as CSV or JSON lines, while it is read; a record keeps the number of its line.

A rewrite is a function of an iterator over the bytes of a text in UTF-8, and yields other bytes. Lines that
are no records become blank lines.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from connectors.events.schema import CATEGORY, NUMBER

Rewrite = Callable[[Iterator[bytes]], Iterator[bytes]]
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]\n,]', re.DOTALL)
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*$')
_RELATION = re.compile(rb"(?:[ \t\r]*(?:%[^\n]*)?\n)*[ \t]*@relation\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    rb"^[ \t]*@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s{]+)\s*(\{[^\n]*\}|\S+)",
    re.IGNORECASE | re.MULTILINE,
)
_DATA = re.compile(rb"^[ \t]*@data\b", re.IGNORECASE | re.MULTILINE)
_CELL = re.compile(rb"\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,]*?)\s*(?:,|$)")
_WRITE = "write an object of fields for each record"


class Rewritten(NamedTuple):
    """How a text is rewritten, a sentence about it, and of CSV the delimiter and types; else it is JSON."""

    rewrite: Rewrite
    note: str
    delimiter: str | None = None
    types: Mapping[str, str] = {}


def decoded(encoding: str) -> Rewrite:
    """Return what writes text of an encoding in UTF-8; bytes that are none become U+FFFD."""

    def rewrite(parts: Iterator[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        for part in parts:
            yield decoder.decode(part).encode()
        yield decoder.decode(b"", True).encode()

    return rewrite


def with_line_ends(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Write line ends where lines end with carriage returns alone."""
    for part in parts:
        yield part.replace(b"\r", b"\n")


def by_line(line_of: Callable[[bytes], bytes]) -> Rewrite:
    """Return what rewrites line by line; a line has no line end."""

    def rewrite(parts: Iterator[bytes]) -> Iterator[bytes]:
        left = b""
        for part in parts:
            *whole, left = (left + part).split(b"\n")
            yield b"".join(line_of(line) + b"\n" for line in whole)
        if left:
            yield line_of(left) + b"\n"

    return rewrite


def without(skip: int, comment: str | None) -> Rewrite:
    """Return what makes the first lines, and those that begin with a comment, blank."""
    mark = (comment or "").encode()

    def rewrite(parts: Iterator[bytes]) -> Iterator[bytes]:
        lines = 0

        def line_of(line: bytes) -> bytes:
            nonlocal lines
            lines += 1
            return b"" if lines <= skip or (mark and line.lstrip().startswith(mark)) else line

        return by_line(line_of)(parts)

    return rewrite


# ---- JSON


def json_of(name: str, text: bytes, ended: bool) -> Rewritten | None:
    """Return how JSON is rewritten: an array, objects of several lines, an object with an array; else None.

    Parameters
    ----------
    name
        Of the file.
    text
        Its first bytes.
    ended
        Whether there are no more.

    Raises
    ------
    ValueError
        If there is no array of objects.
    """
    arrays, tops = _arrays(text)
    inside = text.lstrip().startswith(b"[")
    best = min(arrays, key=lambda array: (array[0], -arrays[array], array[1]), default=(1, 0))
    if inside and best[0]:
        raise ValueError(f"{name} is a JSON array without objects; {_WRITE}")
    if not inside:
        line, _, more = text.strip().partition(b"\n")
        over_lines = line.rstrip().endswith((b"{", b"[", b",")) and _arrays(line)[1] == 0
        if ended and (over_lines or not more) and _is_by_columns(text):
            raise ValueError(
                f"{name} is a table by columns; {_WRITE}, as "
                "frame.to_json(path, orient='records', lines=True) does"
            )
        if (more and not over_lines) or (not more and not arrays):
            return None
        if tops > 1 or not arrays:
            return Rewritten(_one_a_line(0, 0, None), f"{name}: objects of several lines are records")
    place = best[1]
    key = None if inside else _KEY.search(text[:place])
    of = f" `{key[1].decode('utf-8', 'replace')}`" if key else ""
    note = f"{name} is JSON with an array{of}; its objects are the records"
    return Rewritten(_one_a_line(place + 1, text.count(b"\n", 0, place), inside), note)


def _is_by_columns(text: bytes) -> bool:
    """Return whether a text is one object of columns, as pandas writes it, or of their names and rows."""
    try:
        table = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    columns = list(table.values()) if isinstance(table, dict) else []
    if {"columns", "data"} <= set(table if columns else ()):
        return True
    sizes = {len(each) if isinstance(each, dict | list) else 0 for each in columns}
    return len(columns) > 1 and len(sizes) == 1 and max(sizes) > 1


def _arrays(text: bytes) -> tuple[Counter[tuple[int, int]], int]:
    """Return how many objects are in arrays, by their depth and place, and how many values are in none."""
    stack: list[tuple[int, bytes]] = []
    counts: Counter[tuple[int, int]] = Counter()
    tops = 0
    for token in _TOKENS.finditer(text):
        sign = token[0]
        if sign == b'"':  # it does not close in what was read
            break
        if sign in (b"{", b"["):
            if stack and stack[-1][1] == b"[" and sign == b"{":
                counts[len(stack) - 1, stack[-1][0]] += 1
            stack.append((token.start(), sign))
        elif sign in (b"}", b"]") and stack:
            stack.pop()
            tops += not stack
    return counts, tops


class _ValuesOfArray:
    """Writes the values at one depth of JSON, each on the line on which it begins, or on the next one."""

    def __init__(self, lines: int) -> None:
        self._depth, self._lines, self._written = 0, lines, 0
        self._opened = False
        self._out: list[bytes] = []

    def take(self, data: bytes) -> tuple[bytes, int, int | None]:
        """Return what is written of a part, how much of it was read, and where the array closes, if so."""
        at = 0
        for token in _TOKENS.finditer(data):
            sign, place = token[0], token.start()
            if sign == b'"':  # the string ends in the next part
                return self._written_up_to(data[at:place]), place, None
            if sign == b"\n":
                self._add(data[at:place] + b" ", False)
                at, self._lines = place + 1, self._lines + 1
            elif sign in (b"{", b"["):
                self._depth += 1
            elif sign in (b"}", b"]"):
                self._depth -= 1
                if self._depth < 0:
                    self._add(data[at:place], True)
                    return self._written_up_to(b""), place + 1, place + 1
                if not self._depth:
                    self._add(data[at : place + 1], True)
                    at = place + 1
            elif sign == b"," and not self._depth:
                self._add(data[at:place], True)
                at = place + 1
        return self._written_up_to(data[at:]), len(data), None

    def _written_up_to(self, text: bytes) -> bytes:
        self._add(text, False)
        written = b"".join(self._out)
        self._out.clear()
        return written

    def _add(self, text: bytes, ends: bool) -> None:
        text = text if self._opened else text.lstrip()
        if text and not self._opened:
            self._out.append(b"\n" * (self._lines - self._written))
            self._written, self._opened = max(self._lines, self._written), True
        self._out.append(text)
        if self._opened and ends:
            self._out.append(b"\n")
            self._written, self._opened = self._written + 1, False


def _one_a_line(begin: int, lines: int, alone: bool | None) -> Rewrite:
    """Return what writes each value of an array on another line; it opens just before a byte, below lines.

    ``alone`` says whether what follows the array, which should be nothing, is read too; None if there is no
    array, but objects one after the other.
    """

    def rewrite(parts: Iterator[bytes]) -> Iterator[bytes]:
        values, skip, left = _ValuesOfArray(lines), begin, b""
        for part in parts:
            data, skip = left + part[skip:], max(0, skip - len(part))
            text, read, closes = values.take(data)
            yield text
            left = data[read:]
            if closes is not None and alone is not None:
                if alone:
                    yield left
                    yield from parts
                return
        yield left
        if alone is not None:
            raise EOFError("the JSON array does not close")

    return rewrite


# ---- ARFF


def is_arff(text: bytes) -> bool:
    """Return whether a text is ARFF, as files of Weka and OpenML are."""
    return _RELATION.match(text) is not None


def arff_of(name: str, text: bytes) -> Rewritten:
    r"""Return how ARFF is read, by its header.

    Raises
    ------
    ValueError
        If there is no header.

    Examples
    --------
    >>> text = b"@relation r\n@attribute 'a b' numeric\n@attribute c {x,'y z'}\n@data\n1,'y z'\n% no\n?,x\n"
    >>> b"".join(arff_of("r.arff", text).rewrite(iter([text])))
    b'\n\n\na b,c\n1,y z\n\n,x\n'
    """
    data = _DATA.search(text)
    attributes = _ATTRIBUTE.findall(text[: data.start()]) if data else []
    if not attributes:
        raise ValueError(f"{name} is ARFF without @attribute or @data; its header names no columns")
    names = [_plain(each) for each, _ in attributes]
    kinds = [kind for _, kind in attributes]
    defaults = [_cells(kind[1:-1])[0] if kind.startswith(b"{") else b"0" for kind in kinds]
    header, begun = _row(names), text.count(b"\n", 0, data.start()) if data else 0

    def rewrite(parts: Iterator[bytes]) -> Iterator[bytes]:
        lines = 0

        def line_of(line: bytes) -> bytes:
            nonlocal lines
            lines += 1
            line = line.strip()
            if lines <= begun or not line or line.startswith(b"%"):
                return b""
            if lines == begun + 1:
                return header
            return _row(_sparse(line, defaults) if line.startswith(b"{") else _cells(line))

        return by_line(line_of)(parts)

    types = {
        each.decode(): CATEGORY if kind.startswith(b"{") else NUMBER
        for each, kind in zip(names, kinds, strict=True)
        if kind.startswith(b"{") or kind.lower() in (b"numeric", b"real", b"integer")
    }
    return Rewritten(rewrite, f"{name} is ARFF, whose header gives names and types", ",", types)


def _plain(cell: bytes) -> bytes:
    """Return a value of ARFF without its quotes; a question mark is none."""
    if cell[:1] in (b"'", b'"') and len(cell) > 1:
        return re.sub(rb"\\(.)", rb"\1", cell[1:-1])
    return b"" if cell == b"?" else cell


def _cells(line: bytes) -> list[bytes]:
    if b"'" not in line and b'"' not in line:
        parts = line.split(b",") if b"," in line else line.split(b"\t")
        return [_plain(part.strip()) for part in parts]
    cells, at = [], 0
    while at < len(line) and (match := _CELL.match(line, at)):
        cells.append(_plain(match[1]))
        at = match.end()
    return [*cells, b""] if line.endswith(b",") else cells


def _sparse(line: bytes, defaults: Sequence[bytes]) -> list[bytes]:
    """Return the values of a row of places and values, as ``{1 x, 3 2.5}``; others have the first value."""
    row = list(defaults)
    for pair in filter(None, map(bytes.strip, line.strip(b"{} \t").split(b","))):
        place, _, value = pair.partition(b" ")
        if not place.isdigit() or int(place) >= len(row):
            return [line]  # it cannot be decoded
        row[int(place)] = _plain(value.strip())
    return row


def _row(cells: Iterable[bytes], delimiter: bytes = b",") -> bytes:
    """Return a line of CSV."""
    return delimiter.join(
        b'"' + cell.replace(b'"', b'""') + b'"' if b'"' in cell or delimiter in cell else cell
        for cell in cells
    )
