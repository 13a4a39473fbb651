"""Opens a file or standard input, told by its first bytes: how it is packed, and what it holds."""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import select
import shutil
import stat
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, BinaryIO

from connectors.files.compression import unpacked
from connectors.files.reader import DAMAGE, DamagedError

HEAD = 1 << 16  # bytes looked at
_PART = 1 << 16
_UTF8 = codecs.BOM_UTF8
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class StoppedError(Exception):
    """Somebody stopped the reading of a pipe."""


class _Pipe(io.RawIOBase):
    """A pipe, whose waiting can be ended from another thread; standard input stays open."""

    def __init__(self, number: int, own: bool = False) -> None:
        self._number, (self._woken, self._wake) = number, os.pipe()
        self._lock, self._own = threading.Lock(), own

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            ready, _, _ = select.select([self._number, self._woken], [], [])
            if self._woken in ready:
                raise StoppedError
            try:
                part = os.read(self._number, len(buffer))
            except BlockingIOError:
                continue
            buffer[: len(part)] = part
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
                if self._own:
                    os.close(self._number)
            super().close()


class _Seen(io.RawIOBase):
    """A raw file that notes the hash of what was read of it in order from its beginning."""

    def __init__(self, raw: Any) -> None:
        self._raw, self._at = raw, 0
        self.seen, self._hash = 0, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
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


class _Recoded(io.RawIOBase):
    """Text of another encoding as UTF-8."""

    def __init__(self, plain: BinaryIO, encoding: str) -> None:
        self._plain, self._encoding = plain, encoding
        self._decoder = codecs.getincrementaldecoder(self._encoding)("replace")
        self._rest, self._ended = io.BytesIO(), False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not (count := self._rest.readinto(buffer)) and not self._ended:
            part = self._plain.read1(_PART)  # type: ignore[attr-defined]
            self._ended = not part
            self._rest = io.BytesIO(self._decoder.decode(part, not part).encode())
        return count


class Opened:
    """An open file, or a pipe: whatever is no regular file is read once, and in order.

    Parameters
    ----------
    path
        Its name; ``-`` is standard input.

    Attributes
    ----------
    name
        How messages name it.
    form
        ``"csv"``, ``"json"``, ``"msgpack"`` or ``"parquet"``; empty if there is nothing in it.
    head
        The first plain bytes, which have been read.
    begins
        Where the first record may begin: after a byte-order mark.
    plain
        The rest of the plain bytes, of Parquet all of them.
    size
        Bytes of the file as it is; 0 of a pipe.
    piped
        Whether it is a pipe.

    Raises
    ------
    OSError
        If it cannot be opened.
    ValueError
        If it cannot be unpacked, or is a JSON array.
    """

    def __init__(self, path: str, form: str | None = None) -> None:
        self.piped = is_pipe(path)
        self.name = "standard input" if path == "-" else path
        self.size = size_of(path)
        self._raw = _Seen(_pipe(path) if self.piped else io.FileIO(path))
        try:
            self.plain: Any = unpacked(io.BufferedReader(self._raw))
            self.head = self._first(4)
            for mark, encoding in _UTF16.items():
                if self.head.startswith(mark):
                    self._again(io.BufferedReader(_Recoded(self.plain, encoding)))
            self.begins = len(_UTF8) if self.head.startswith(_UTF8) else 0
            self.form = form or self._told()
            if self.form == "parquet":
                self._spool()
        except DAMAGE as error:
            self.close()
            raise DamagedError(
                f"{self.name}: the compressed data is cut short or damaged ({error})"
            ) from None
        except BaseException:
            self.close()
            raise

    def _first(self, count: int) -> bytes:
        """Return so many bytes, or all there are, also where a pipe gives fewer at once."""
        found = b""
        while len(found) < count and (part := self.plain.read1(count - len(found))):
            found += part
        return found

    def _again(self, recoded: io.BufferedReader) -> None:
        """Read what was read once more, in another encoding."""
        decoder = codecs.getincrementaldecoder(recoded.raw._encoding)("replace")  # type: ignore[attr-defined]
        recoded.raw._decoder = decoder  # type: ignore[attr-defined]
        text = decoder.decode(self.head)
        recoded.raw._rest = io.BytesIO(text.encode())  # type: ignore[attr-defined]
        self.plain = recoded
        self.head = self._first(3)

    def more(self, most: int) -> bool:
        """Read more into the head; return whether there was any."""
        try:
            part: bytes = self.plain.read1(min(most, max(HEAD - len(self.head), len(self.head))))
        except DAMAGE:
            if not self.head.strip():
                raise
            return False  # said by whoever reads on
        self.head += part
        return bool(part)

    def _told(self) -> str:
        while not self.head[self.begins :].strip() and self.more(HEAD):
            pass
        text = self.head[self.begins :].lstrip()
        if not text:
            return ""
        if self.head.startswith(b"PAR1"):
            return "parquet"
        if 0x80 <= self.head[0] <= 0x8F or self.head[0] in (0xDE, 0xDF):
            return "msgpack"
        if text[:1] == b"[":
            raise ValueError(f"{self.name} is a JSON array; JSON lines have one object a line")
        return "json" if text[:1] == b"{" else "csv"

    def _spool(self) -> None:
        """Have Parquet as a file that is not packed, which its reader jumps about in."""
        if not self.piped and isinstance(self.plain, io.BufferedReader) and self.plain.raw is self._raw:
            self.plain.seek(0)
            return
        spool = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the log
        spool.write(self.head)
        shutil.copyfileobj(self.plain, spool, _PART)
        spool.seek(0)
        self._packed, self.plain = self.plain, spool

    def position(self) -> int:
        """Return how many bytes of the file, as it is, have been read."""
        return self._raw.tell() if not self._raw.closed else self.size

    def hash(self) -> tuple[int, str]:
        """Return how many bytes were read from the beginning without a gap, and their SHA-256."""
        return self._raw.seen, self._raw.hash()

    def stop(self) -> None:
        """End a wait for a pipe, from another thread."""
        self._raw.stop()

    def close(self) -> None:
        """Close it."""
        for file in (getattr(self, "plain", None), self._raw):
            if file is not None:
                file.close()


def is_pipe(path: str) -> bool:
    """Return whether a log can be read only once: standard input, and all that is no regular file."""
    return path == "-" or not stat.S_ISREG(Path(path).stat().st_mode)


def size_of(path: str) -> int:
    """Return the bytes of a file; 0 of a pipe."""
    return 0 if is_pipe(path) else Path(path).stat().st_size


def _pipe(path: str) -> Any:
    """Return a pipe as a raw file."""
    if path != "-":  # opening it must not wait for who writes, since nothing could end that
        return _Pipe(os.open(path, os.O_RDONLY | os.O_NONBLOCK), own=True)
    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):
        return sys.stdin.buffer  # not a real one
    return _Pipe(number) if os.name == "posix" else io.FileIO(number, closefd=False)
