"""Opens a file or standard input, and detects compression, encoding and content by its first bytes."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import io
import lzma
import os
import re
import select
import shutil
import stat
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard
from typing_extensions import Buffer

from connectors.contract.errors import Failure
from connectors.events.decoding import EventFormat
from connectors.events.schema import LOOK
from connectors.formats.addresses import local, shown
from connectors.formats.containers import OLE, SEEN, ZIP, in_zip, parts_of, refusal, require_text, sheet_of
from connectors.formats.rewriting import (
    Rewrite,
    Rewritten,
    arff_of,
    decoded,
    is_arff,
    json_of,
    with_line_ends,
    without,
)
from connectors.formats.shapes import shape_of

_PART = 1 << 16  # bytes read at once
_SMALL = 1 << 12  # of bzip2 and xz, which may be a thousandth of the plain bytes
DAMAGE = (
    EOFError, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, zstandard.ZstdError, zlib.error
)  # fmt: skip
HEAD = 1 << 16  # bytes read first, and by which a file is recognised
_MOST = 1 << 20  # bytes looked at
PARQUET = b"PAR1"  # its first bytes
_BINARY = ("parquet", "msgpack")
_UTF8 = codecs.BOM_UTF8
WINDOWS = "windows-1252"
_LETTERS = re.compile(  # of several bytes in UTF-8, or the first bytes of a symbol that was cut
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf]{1,3}|[\xf1-\xf4][\x80-\xbf]{2,3}"
)
_CUT = re.compile(rb"[\xc2-\xf4][\x80-\xbf]{1,3}")
_JSON = re.compile(rb"\s*(?:\{|\[\s*(?:[\[{\]\"\d-]|true|false|null|$))")
_OTHERS = re.compile(rb"[\x80-\xff]")
_MARKED = {  # byte-order marks; that of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip
_GZIP, _ZSTD, _XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"
_BZIP2 = re.compile(rb"BZh[1-9]")


def cut_short(place: str, error: object) -> str:
    """Return the message for a file that ends early, everything before that having been read."""
    return f"after {place}, the data is cut short or damaged ({error}); what is before was read"


class DamagedError(ValueError):
    """The compressed data of a file is cut short or altered."""


class _Forward(io.RawIOBase):
    """Transformed bytes of another file, which are read forward; going back begins again."""

    def __init__(self) -> None:
        self._unread, self._at = io.BytesIO(), 0
        self._failed: Exception | None = None

    def _next(self) -> bytes | None:
        """Return the next transformed bytes, None at the end."""
        raise NotImplementedError

    def _rewind(self) -> None:
        """Begin again."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        while not (count := self._unread.readinto(buffer)):
            if self._failed is not None:
                raise self._failed
            try:
                part = self._next()
            except DAMAGE as error:
                self._failed = error
                raise
            if part is None:
                return 0
            self._unread = io.BytesIO(part)
        self._at += count
        return count

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 1:
            place += self._at
        if place < self._at:
            self._unread, self._at, self._failed = io.BytesIO(), 0, None
            self._rewind()
        while self._at < place and self.readinto(memoryview(bytearray(min(_PART, place - self._at)))):
            pass
        return self._at


class _Decompressor(Protocol):
    """What decompresses one frame or stream."""

    @property
    def eof(self) -> bool:
        """Whether it has ended."""

    @property
    def unused_data(self) -> bytes:
        """What followed its end."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the plain bytes."""


class _Frames(_Forward):
    """The bytes of compressed frames, one after the other; a frame that is cut is detected."""

    def __init__(
        self, compressed: io.BufferedReader, what: str, size: int, make: Callable[[], _Decompressor]
    ) -> None:
        super().__init__()
        self._compressed, self._what, self._size, self._make = compressed, what, size, make
        self._frame: _Decompressor | None = None
        self._unused = b""

    def _next(self) -> bytes | None:
        part = self._unused or self._compressed.read1(self._size)
        if self._frame is None:
            part = part.lstrip(b"\0")  # between streams of xz
        if not part:
            if self._frame is not None:
                raise EOFError(f"the last {self._what} is not whole")
            return None
        frame = self._frame or self._make()
        try:
            plain = frame.decompress(part)
        except OSError as error:  # of bzip2
            raise EOFError(str(error)) from None
        self._unused, self._frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        return plain

    def _rewind(self) -> None:
        self._compressed.seek(0)
        self._frame, self._unused = None, b""


def decompressed(raw: BinaryIO | io.RawIOBase) -> io.BufferedIOBase:
    """Return the plain bytes of a file that may be gzip, zstd, bzip2 or xz."""
    buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
    magic = buffered.peek(6)[:6]
    if magic.startswith(_GZIP):
        return gzip.GzipFile(fileobj=buffered)
    if magic.startswith(_ZSTD):
        frames = _Frames(buffered, "zstd frame", _PART, lambda: zstandard.ZstdDecompressor().decompressobj())
    elif _BZIP2.match(magic):
        frames = _Frames(buffered, "bzip2 stream", _SMALL, bz2.BZ2Decompressor)
    elif magic.startswith(_XZ):
        frames = _Frames(buffered, "xz stream", _SMALL, lzma.LZMADecompressor)
    else:
        return buffered
    return io.BufferedReader(frames)


class StoppedError(Exception):
    """The reading of a pipe was stopped."""


class _Pipe(io.RawIOBase):
    """A pipe, whose wait can be ended from another thread; standard input stays open."""

    def __init__(self, number: int, closefd: bool = False) -> None:
        self._number, (self._woken, self._wake) = number, os.pipe()
        self._lock, self._closefd = threading.Lock(), closefd

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        while True:
            ready, _, _ = select.select([self._number, self._woken], [], [])
            if self._woken in ready:
                raise StoppedError
            view = memoryview(buffer)
            try:
                part = os.read(self._number, len(view))
            except BlockingIOError:
                continue
            view[: len(part)] = part
            return len(part)

    def stop(self) -> None:
        """End the waiting."""
        with self._lock:
            if not self.closed:
                os.write(self._wake, b".")

    def close(self) -> None:
        with self._lock:
            if not self.closed:
                os.close(self._woken)
                os.close(self._wake)
                if self._closefd:
                    os.close(self._number)
            super().close()


class _Hashed(io.RawIOBase):
    """A raw file, and the hash of what was read of it in order from its start."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw, self._at = raw, 0
        self.seen, self._hash = 0, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        count: int = self._raw.readinto(buffer) or 0
        if self._at <= self.seen < self._at + count:
            self._hash.update(memoryview(buffer)[self.seen - self._at : count])
            self.seen = self._at + count
        self._at += count
        return count

    def seekable(self) -> bool:
        return bool(self._raw.seekable())

    def tell(self) -> int:
        return self._at

    def seek(self, place: int, whence: int = 0) -> int:
        self._at = self._raw.seek(place, whence)
        return self._at

    def hash(self) -> str:
        return self._hash.hexdigest()

    def stop(self) -> None:
        if isinstance(self._raw, _Pipe):
            self._raw.stop()

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Rewriting(_Forward):
    """Text that is rewritten while it is read; positions are bytes of what is written.

    ``begun`` is what was read of the text before.
    """

    def __init__(self, plain: io.BufferedIOBase, rewrite: Rewrite, begun: bytes) -> None:
        super().__init__()
        self._plain, self._rewrite = plain, rewrite
        self._parts = self._from(begun)

    def _from(self, begun: bytes) -> Iterator[bytes]:
        return self._rewrite(parts_of(self._plain, begun, _PART))

    def _next(self) -> bytes | None:
        return next(self._parts, None)

    def _rewind(self) -> None:
        self._plain.seek(0)
        self._parts = self._from(b"")

    def seekable(self) -> bool:
        return self._plain.seekable()


def encoding_of(text: bytes) -> str:
    r"""Return the encoding of the first bytes of a text: UTF-8, UTF-16 or Windows-1252.

    A text is UTF-8 if it has more letters of several bytes than bytes that belong to none: the rows of
    these are then broken, and the others are what they are.

    >>> [encoding_of("é,b\n".encode(name)) for name in ("utf-8", "latin-1", "utf-16", "utf-16-be")]
    ['utf-8', 'windows-1252', 'utf-16-le', 'utf-16-be']
    """
    for mark, encoding in _MARKED.items():
        if text.startswith(mark):
            return encoding
    for encoding, zeros, letters in (
        ("utf-16-le", text[1::2], text[::2]),
        ("utf-16-be", text[::2], text[1::2]),
    ):
        if 2 * zeros.count(0) > len(zeros) and 10 * letters.count(0) < len(letters):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        whole, others = len(_LETTERS.findall(text)), len(_OTHERS.findall(_CUT.sub(b"", text)))
        return "utf-8" if whole > others or (whole and not others) else WINDOWS
    return "utf-8"


class OpenFile:
    """An open file, or a pipe: whatever is no regular file is read once, and in order.

    Parameters
    ----------
    path
        Its name; ``-`` is standard input.
    raw
        The file, if it is open already.

    Attributes
    ----------
    name
        How messages name it.
    form
        ``"csv"``, ``"json"``, ``"msgpack"`` or ``"parquet"``; empty if there is nothing in it.
    encoding
        Of text.
    head
        The first plain bytes, which have been read: of text the first 1,000 lines, or a mebibyte.
    begins
        Where the first record may begin: after a byte-order mark.
    plain
        The plain bytes that follow, of Parquet all of them.
    compressed
        Whether the file is compressed, recoded or rewritten, so that its bytes are not those of ``plain``.
    delimiter, types
        Of CSV that another form was rewritten as, where that decides them.
    notes
        Sentences about what the file is.
    size
        Bytes of the file as it is; 0 of a pipe.
    piped
        Whether it is a pipe.

    Raises
    ------
    OSError
        If it cannot be opened.
    """

    def __init__(self, path: str, raw: BinaryIO | None = None) -> None:
        self.piped = raw is None and is_pipe(path)
        self.name = "standard input" if path == "-" else shown(path)
        self.size = size_of(path) if raw is None else 0
        self._raw = _Hashed(
            cast(io.RawIOBase, raw) if raw else _pipe(path) if self.piped else io.FileIO(local(path))
        )
        self.head, self.begins, self.form, self.encoding = b"", 0, "", "utf-8"
        self.plain: io.BufferedIOBase = io.BytesIO()
        self.compressed = self._ended = False
        self.delimiter: str | None = None
        self.types: Mapping[str, str] = {}
        self.notes: list[str] = []
        self._plains: list[io.BufferedIOBase] = []  # that others read, and so stay open

    def look(self, form: str | None = None, format: EventFormat | None = None, growing: bool = False) -> None:
        """Read the head, and find out what the file holds.

        Parameters
        ----------
        form
            ``"csv"``, ``"json"``, ``"msgpack"`` or ``"parquet"``, if that is known.
        format
            With the encoding, the lines to skip, and what begins a comment.
        growing
            Whether lines may still be added. Windows-1252 is then not recoded, so that positions are bytes of
            the file.

        Raises
        ------
        ValueError
            If it cannot be decompressed, or holds no table.
        """
        try:
            buffered = io.BufferedReader(self._raw)
            self.plain = decompressed(buffered)
            self.compressed = self.plain is not buffered
            self.head = self._first(SEEN)
            self._unwrap()
            if what := refusal(self.head):
                raise ValueError(f"{self.name} is {what}")
            self.form = "csv" if self.delimiter else form or self._binary()
            if self.form not in _BINARY:
                self._look_at_text(form, format or EventFormat(), growing)
            elif self.form == "parquet":
                self._spool()
        except DAMAGE as error:
            self.close()
            raise DamagedError(f"{self.name}: the data is cut short or damaged ({error})") from None
        except BaseException:
            self.close()
            raise

    def _unwrap(self) -> None:
        """Open the one file in a zip archive, or the sheet of an Excel file."""
        while self.head.startswith((ZIP, OLE)):
            self._spool()
            self.compressed, inner = True, None
            if self.head.startswith(ZIP):
                inner = in_zip(self.name, cast(BinaryIO, self.plain))
            if inner is None:
                self.plain.seek(0)
                text, note = sheet_of(self.name, cast(BinaryIO, self.plain))
                self._plains, self.plain = [*self._plains, self.plain], io.BytesIO(text)
                self.delimiter, self.notes = ",", [note]
            else:
                self._plains, self.plain = [*self._plains, self.plain], decompressed(cast(BinaryIO, inner))
            self.head = self._first(SEEN)

    def _look_at_text(self, form: str | None, format: EventFormat, growing: bool) -> None:
        self._read_lines()
        lines = self.head[:_MOST].split(b"\n", LOOK + 1)
        known = "utf-8" if self.delimiter else encoding_of(b"\n".join(lines[: LOOK + 1]))
        self.encoding = known if self.delimiter else format.encoding or known
        name = codecs.lookup(self.encoding).name
        if not name.startswith(("utf-16", "utf-32")):
            require_text(self.name, self.head)
        if name != "utf-8" and not (growing and name == codecs.lookup(WINDOWS).name):
            self._rewrite(decoded(self.encoding))
        if b"\n" not in self.head and b"\r" in self.head.rstrip() and not growing:
            self._rewrite(with_line_ends)
        if format.skip or format.comment:
            self._rewrite(without(format.skip, format.comment))
        self.begins = len(_UTF8) if self.head.startswith(_UTF8) else 0
        if not growing and not self.delimiter:
            self._take(self._rewritten(form, format))
        self.form = self.form or form or self._textual()

    def _read_lines(self) -> None:
        """Read as many lines as types are inferred from, or a mebibyte."""
        while self.head.count(b"\n") <= LOOK and len(self.head) < _MOST and self.more(_MOST):
            pass

    def _rewrite(self, rewrite: Rewrite) -> None:
        """Read what is rewritten of the text from its start."""
        self.plain = io.BufferedReader(_Rewriting(self.plain, rewrite, self.head))
        self.head, self.compressed = self._first(len(self.head)), True

    def _rewritten(self, form: str | None, format: EventFormat) -> Rewritten | None:
        """Return how a text of another form is rewritten, None if it is CSV or JSON lines."""
        text = self.head[self.begins :]
        if is_arff(text):
            while b"@data" not in self.head.lower() and self.more(_MOST):
                pass
            return arff_of(self.name, self.head[self.begins :])
        if form != "csv" and _JSON.match(text):
            return json_of(self.name, b" " * self.begins + text, self._ended)
        how = shape_of(self.name, text) if form in (None, "csv") else None
        return None if how and format.delimiter not in (None, how.delimiter) else how

    def _take(self, how: Rewritten | None) -> None:
        if how is None:
            return
        self.delimiter, self.types = how.delimiter, how.types
        self.form = "csv" if how.delimiter else "json"
        self.notes = [*self.notes, how.note]
        self._rewrite(how.rewrite)
        self.begins = len(_UTF8) if self.head.startswith(_UTF8) else 0
        self._read_lines()

    def _first(self, count: int) -> bytes:
        """Return so many bytes, or all there are, also where a pipe gives fewer at once."""
        first = b""
        try:
            while len(first) < count and (part := self.plain.read1(count - len(first))):
                first += part
        except StoppedError:
            pass
        except DAMAGE:
            if b"\n" not in first:
                raise  # otherwise the next read reports it
        return first

    def more(self, most: int) -> bool:
        """Read more into the head; return whether there was any."""
        try:
            part: bytes = self.plain.read1(min(most, max(HEAD - len(self.head), len(self.head))))
        except StoppedError:
            return False
        except DAMAGE:
            if not self.head.strip():
                raise
            return False  # the next read reports it
        self.head += part
        self._ended = not part
        return bool(part)

    def _binary(self) -> str:
        if self.head.startswith(PARQUET):
            return "parquet"
        if self.head and (0x80 <= self.head[0] <= 0x8F or self.head[0] in (0xDE, 0xDF)):
            return "msgpack"
        return ""

    def _textual(self) -> str:
        text = self.head[self.begins :].lstrip()
        while not text and self.more(HEAD):
            text = self.head[self.begins :].lstrip()
        return "json" if text[:1] == b"{" else "csv" if text else ""

    def _spool(self) -> None:
        """Store Parquet as a plain file, since its reader seeks."""
        if not self.piped and isinstance(self.plain, io.BufferedReader) and self.plain.raw is self._raw:
            self.plain.seek(0)
            return
        spool = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the log
        spool.write(self.head)
        shutil.copyfileobj(self.plain, spool, _PART)
        spool.seek(0)
        self._plains, self.plain = [*self._plains, self.plain], spool

    def first_bytes(self, length: int) -> bytes:
        """Return the first plain bytes; reading continues where it was.

        Raises
        ------
        DamagedError
            If they cannot be read.
        """
        at = self.plain.tell()
        try:
            self.plain.seek(0)
            first: bytes = self.plain.read(length)
            self.plain.seek(at)
        except DAMAGE as error:
            raise DamagedError(f"the data is cut short or damaged ({error})") from None
        return first

    def seek(self, position: int) -> None:
        """Go to a plain byte.

        Raises
        ------
        ValueError
            If the file ends before it; a :class:`DamagedError` if it cannot be read so far.
        """
        try:
            self.plain.seek(position)
        except DAMAGE as error:
            raise DamagedError(f"the data is cut short or damaged ({error})") from None
        if self.plain.tell() != position:
            raise ValueError(f"it ends before byte {position}, up to which it was read")

    def position(self) -> int:
        """Return how many bytes of the file, as it is, have been read."""
        return self._raw.tell() if not self._raw.closed else self.size

    def hash(self) -> tuple[int, str]:
        """Return how many bytes were read from the start without a gap, and their SHA-256."""
        return self._raw.seen, self._raw.hash()

    def stop(self) -> None:
        """End a wait for a pipe, from another thread."""
        self._raw.stop()

    def close(self) -> None:
        """Close it."""
        for plain in (self.plain, *self._plains):
            plain.close()
        self._raw.close()


def is_pipe(path: str) -> bool:
    """Return whether a log can be read only once: standard input, and all that is no regular file."""
    return path == "-" or not stat.S_ISREG(Path(local(path)).stat().st_mode)


def size_of(path: str) -> int:
    """Return the bytes of a file; 0 of a pipe."""
    return 0 if is_pipe(path) else Path(local(path)).stat().st_size


def require_writable(path: Path, code: int, key: str) -> None:
    """Raise a Failure that names a setting, unless there is a file or a directory that can be written."""
    if not os.access(path, os.W_OK):
        raise Failure(code, f"{key}: {path} cannot be written, or is not there")


def _pipe(path: str) -> io.RawIOBase:
    """Return a pipe as a raw file."""
    if path != "-":  # opening it must not wait for who writes, since nothing could end that
        return _Pipe(os.open(path, os.O_RDONLY | os.O_NONBLOCK), closefd=True)
    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):
        return cast(io.RawIOBase, sys.stdin.buffer)  # not a real one
    return _Pipe(number) if os.name == "posix" else io.FileIO(number, closefd=False)
