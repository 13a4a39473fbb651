"""Files that are no plain table: what they are by their first bytes, and the table in them."""

from __future__ import annotations

import csv
import datetime
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

ZIP, OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # OLE holds .xls, and files of Word
SEEN = 512  # bytes by which a file is recognised
_PRINTABLE = re.compile(rb"[\x20-\x7e]+")
_CONTROL = re.compile(rb"[\x00\x02-\x06\x0e-\x1a\x1c-\x1e]")  # 0x01 and 0x1f may separate values
_MARKUP = re.compile(rb"\s*<(!doctype html|html|head|body|table|meta)\b", re.IGNORECASE)
_SPARSE = re.compile(rb"[-+]?\d[\d.]*( qid:\d+)?( \d+:[-+\d.eE]+)+[ \r]*(#.*)?\n")
_NAMESPACES = re.compile(
    rb"([-+]?\d[\d.]*( [\d.]+)?( '?[^\s|,;]+)?)?\s*\|[\w:.]* ?[^\s|,;]+(:[-+\d.eE]+)?( [^\s|,;]+)*\n"
)
_ASIDE = re.compile(r"/$|^__MACOSX/|(^|/)\.DS_Store$")  # directories, and what macOS adds
_DECIMAL = re.compile(
    r"[^\w.,]*\d[\d.,]*([.,])(?:\d{1,2}|\d{4,})\s?[^\d.,]{0,8}"
)  # of three digits: thousands
_COMMA = re.compile(r"([^\w.,]*)(\d{1,3}(?:\.\d{3})+|\d+)(,\d+)?(\D{0,8})")
_MANY = 0.04  # share of control bytes, of which text has none
_TABLE = "save its table as CSV or Parquet"
_KINDS: Mapping[str, Sequence[bytes]] = {  # what it is and what to do, and how it begins
    f"a pickle; {_TABLE}": (b"\x80\x02", b"\x80\x03", b"\x80\x04\x95", b"\x80\x05\x95"),
    f"an array of NumPy; {_TABLE}": (b"\x93NUMPY",),
    f"an HDF5 file; {_TABLE}": (b"\x89HDF\r\n\x1a\n",),
    f"a file of R, SPSS, Stata or MATLAB; {_TABLE}": (b"RDX", b"$FL2@(#)", b"<stata_dta>", b"MATLAB 5"),
    f"a PDF document; {_TABLE}": (b"%PDF-",),
    f"an XML file; {_TABLE}": (b"<?xml",),
    f"a rich text document; {_TABLE}": (b"{\\rtf",),
    "an SQLite database; export a table of it as CSV": (b"SQLite format 3\x00",),
    "a file of Arrow, ORC or Avro; write it as Parquet": (b"ARROW1\x00", b"FEA1", b"ORC", b"Obj\x01"),
    "a 7z or rar archive; unpack it first": (b"7z\xbc\xaf\x27\x1c", b"Rar!"),
    "compressed by lz4, snappy or Z; unpack it first": (b"\x04\x22M\x18", b"\xff\x06\x00\x00s", b"\x1f\x9d"),
    "a program; it holds no table": (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"),
    "a picture; it holds no table": (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*"),
    "a sound or a film; it holds no table": (b"RIFF", b"ID3", b"OggS"),
}  # fmt: skip
_MARKS = (b"%PDF-", b"<?xml", b"{\\rtf", b"<stata_dta>", b"$FL2@(#)")  # no table begins with these


def refusal(head: bytes) -> str:
    r"""Return what a file is that holds no table to read, and what to do; empty if it may be one.

    >>> refusal(b"\x7fELF\x02\x01\x01\x00"), refusal(b"MZ,BM\n1,2\n")
    ('a program; it holds no table', '')
    """
    seen = head[:SEEN]
    for what, signs in _KINDS.items():
        for sign in filter(seen.startswith, signs):
            if sign in _MARKS or not _PRINTABLE.fullmatch(sign) or _CONTROL.search(seen):
                return what
    if seen.startswith(b"ustar", 257):
        return "a tar archive; unpack it and name the files in it"
    if _MARKUP.match(seen.removeprefix(b"\xef\xbb\xbf")):
        return "an HTML page, which several programs name .xls; save its table as CSV"
    if _SPARSE.match(seen):
        return "sparse text of LibSVM; write it as CSV or JSON lines"
    if _NAMESPACES.match(seen) and b":" in seen.partition(b"\n")[0].partition(b"|")[2]:
        return "text of Vowpal Wabbit; write it as CSV or JSON lines"
    if seen[8:10] == b'{"' and b"\x00" in seen[:8]:
        return "a model file; give a log to read"
    return ""


def require_text(name: str, text: bytes) -> None:
    r"""Raise a ValueError if bytes have too many control bytes for text.

    >>> require_text("a.bin", bytes(range(256)))
    Traceback (most recent call last):
    ValueError: a.bin is no text (22 of 256 bytes are control bytes, as 0x00); save its table as CSV or ...
    """
    seen = text[: 8 * SEEN]
    control = _CONTROL.findall(seen)
    if len(control) > max(1, _MANY * len(seen)):
        count = f"{len(control):,} of {len(seen):,} bytes are control bytes, as 0x{control[0].hex()}"
        raise ValueError(f"{name} is no text ({count}); {_TABLE}")


def in_zip(name: str, file: IO[bytes]) -> IO[bytes] | None:
    """Return the one file in a zip archive; None if the archive is an Excel file.

    Raises
    ------
    ValueError
        If it holds no file, several, or one that cannot be read.
    """
    try:
        archive = zipfile.ZipFile(file)
        inside = {each.filename for each in archive.infolist() if not _ASIDE.search(each.filename)}
        names = sorted(inside)
        if inside & {"xl/workbook.xml", "xl/workbook.bin"}:
            return None
        if "mimetype" in inside and b"spreadsheet" in archive.read("mimetype"):
            return None
        if inside & {"word/document.xml", "ppt/presentation.xml", "META-INF/MANIFEST.MF", "content.xml"}:
            raise ValueError(f"{name} is a document or a program; {_TABLE}")
        if names and all(each.endswith(".npy") for each in names):
            raise ValueError(f"{name} is an archive of arrays of NumPy; {_TABLE}")
        if not names:
            raise ValueError(f"{name} is a zip archive without any file")
        if len(names) > 1:
            listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            what = f"{name} is a zip archive of {len(names)} files: {listed}"
            raise ValueError(f"{what}; unpack it, or name one, as zip://{names[0]}::{name}")
        return archive.open(names[0])
    except (RuntimeError, NotImplementedError) as error:  # it is encrypted, or compressed in another way
        raise ValueError(f"{name} is a zip archive that cannot be read ({error}); unpack it first") from None


def sheet_of(name: str, file: IO[bytes]) -> tuple[bytes, str]:
    """Return the first sheet of an Excel file that is no cover as CSV, and a sentence about it.

    It has at least a tenth of the values of the sheet with most. A row is a line.
    Dates are ISO 8601, whole numbers have no fraction, and line ends in cells are blanks.

    Raises
    ------
    ValueError
        If ``python-calamine`` is not installed, or the file cannot be read, or has no values.
    """
    try:
        from python_calamine import CalamineError, load_workbook
    except ImportError:
        raise ValueError(
            f"{name} is an Excel file; pip install 'streamk[excel]' to read it, or save it as CSV"
        ) from None
    try:
        book = load_workbook(file)
        sheets = [book.get_sheet_by_name(each).to_python(skip_empty_area=False) for each in book.sheet_names]
    except CalamineError as error:
        raise ValueError(
            f"{name} is a file of Office or is damaged, and has no sheet to read ({error})"
        ) from None
    values = [sum(cell != "" for row in rows for cell in row) for rows in sheets]
    if not any(values):
        raise ValueError(f"{name} is an Excel file without values")
    place = next(k for k, count in enumerate(values) if count >= max(values) / 10)
    rows, sheet = sheets[place], book.sheet_names[place]
    others = [repr(each) for each in book.sheet_names if each != sheet]
    more = f", and not {', '.join(others)}; save another one as CSV to read it" if others else ""
    strings = [cell.strip() for row in rows for cell in row if isinstance(cell, str)]
    commas = {match[1] for match in map(_DECIMAL.fullmatch, strings) if match is not None} == {","}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        cells = [_with_point(cell) if commas and isinstance(cell, str) else _cell(cell) for cell in row]
        writer.writerow(cells if any(cells) else [])
    return text.getvalue().encode(), f"{name} is an Excel file; its sheet {sheet!r} is read{more}"


def _with_point(text: str) -> str:
    """Return a number that is a string with decimal comma as the numbers of other cells are written.

    >>> [_with_point(each) for each in ("2,5 %", "-1.234,56 €", "1.789", "31.12.2024", "Bad, Ems")]
    ['2.5 %', '-1234.56 €', '1789', '31.12.2024', 'Bad, Ems']
    """
    if (match := _COMMA.fullmatch(text.strip())) is None:
        return _cell(text)
    before, whole, fraction, unit = match.groups("")
    return before + whole.replace(".", "") + fraction.replace(",", ".") + unit


def _cell(value: object) -> str:
    r"""Return the value of a cell as CSV has it.

    >>> [_cell(each) for each in (3.0, 2.5, True, datetime.datetime(2024, 5, 1, 12), "two\nlines")]
    ['3', '2.5', 'true', '2024-05-01T12:00:00', 'two lines']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _cell(value.total_seconds())
    return " ".join(str(value).splitlines())


def parts_of(file: io.BufferedIOBase, begun: bytes, size: int) -> Iterator[bytes]:
    """Yield what was read of a file before, and what follows."""
    yield begun
    while part := file.read1(size):
        yield part
