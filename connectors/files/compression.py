"""The plain bytes of a log that may be packed: gzip or zstd, told by the first bytes."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, BinaryIO

import zstandard

_PART = 1 << 16
DAMAGE = (EOFError, gzip.BadGzipFile, zstandard.ZstdError, zlib.error)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def cut_short(place: str, error: object) -> str:
    """Return the message for a file that ends early, everything before that having been read."""
    return f"after {place}, the compressed data is cut short or damaged ({error}); what is before was read"


class DamagedError(ValueError):
    """The compressed data of a file is cut short or altered."""


class _Zstd(io.RawIOBase):
    """The bytes of zstd frames, one after the other; unlike the library's reader, it knows a whole frame."""

    def __init__(self, packed: Any) -> None:
        self._packed = packed
        self._frame: Any = None
        self._plain = io.BytesIO()
        self._rest = b""
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not (count := self._plain.readinto(buffer)):
            part = self._rest or self._packed.read1(_PART)
            if not part:
                if self._frame is not None:
                    raise EOFError("the last zstd frame is not whole")
                return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._plain, self._rest = io.BytesIO(self._frame.decompress(part)), b""
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
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
            self._packed.seek(0)
            self._frame, self._plain, self._rest, self._at = None, io.BytesIO(), b"", 0
        while self._at < place and self.readinto(memoryview(bytearray(min(_PART, place - self._at)))):
            pass
        return self._at


def unpacked(raw: BinaryIO) -> BinaryIO:
    """Return the plain bytes of a file that may be gzip or zstd."""
    buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]
    magic = buffered.peek(4)[:4]
    plain: Any = buffered
    if magic.startswith(_GZIP):
        plain = gzip.GzipFile(fileobj=buffered)
    elif magic == _ZSTD:
        plain = io.BufferedReader(_Zstd(buffered))
    return plain  # type: ignore[no-any-return]
