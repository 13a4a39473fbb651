"""A log on disk as a source of records, also one that is followed and rotated, and its positions.

A position is a byte of the uncompressed log, at the start of a record. A log that is followed continues in
the next file when it is renamed and created again: then positions count on from the end of the one before.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NotRequired, TypedDict, cast

from connectors.contract.errors import POSITION, USAGE, Failure
from connectors.contract.records import (
    MOST,
    Assigned,
    LabelReader,
    Polled,
    Positions,
    Raw,
    RawBatch,
    Source,
    with_mark_of_labels,
)
from connectors.events.decoding import Decoder, EventFormat
from connectors.formats.lines import Lines
from connectors.formats.messagepack import MessagePackRecords
from connectors.formats.open_file import PARQUET, DamagedError, OpenFile, decompressed
from connectors.formats.records import with_inferred_types
from streamk.arrays import Json

_HEAD = 4096  # bytes by which a log is known
_FOUND = ("delimiter", "decimal", "encoding", "types")  # of a format, in the mark of a checkpoint
_GRACE = 1.0  # seconds for the last lines of a log that was renamed
_ABSENT = 10.0  # seconds until a log that was renamed must have been created again
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
_ROTATED = re.compile(r"[.-]\d[\d.:T_-]*(\.gz|\.zst|\.bz2|\.xz)?")
_RESET = (
    "`streamk reset SETTINGS --to earliest` reads it from its start, `--to latest` from its end; the "
    "model stays as it is"
)


class SourceMark(TypedDict):
    """What identifies the file that was read: its head, its inode, and how it was read."""

    head: int
    sha256: str
    base: int
    node: list[int]
    format: NotRequired[Json]


class FileSource(Source):
    """One partition, named like the file, which no other process reads.

    Parameters
    ----------
    path
        The log.
    form
        ``"json"``, a record a line, ``"csv"``, whose first line names the columns, or ``"msgpack"``.
    follow
        Whether to wait for more at the end.
    format
        Which field is what. Types that it does not set are inferred from the first records, as by a replay,
        or are those that were inferred before (:meth:`recognise`).

    Attributes
    ----------
    begins
        The position of the first record.
    columns
        Of CSV.

    Raises
    ------
    Failure
        If the file cannot be read, or is compressed and to be followed.
    """

    def __init__(
        self, path: Path, form: str = "json", follow: bool = False, format: EventFormat | None = None
    ) -> None:
        self.name, self._path, self._form, self._follow = path.name, path, form, follow
        self._format, self._inferred = format or EventFormat(), False
        self._configured = self._format
        self._base = 0  # bytes of the files before this one
        self._left: int | None = None  # when this one was last written to, if nothing more will be
        self._drained_at: int | None = None  # its size when a poll brought nothing
        self._missed: float | None = None  # when the log was first seen to be another file, or none
        self._open(path)
        if follow and self._compressed:
            self.close(True)
            raise Failure(USAGE, f"{path} is compressed or not UTF-8; only a plain log can be followed")
        self.columns, self.begins = self._reader.columns, self._reader.begins
        self._assigned = False

    def _open(self, path: Path) -> None:
        try:
            raw = path.open("rb")
        except OSError as error:
            raise Failure(USAGE, f"{path}: {error.strerror}") from None
        self._read_from(raw, path)

    def _read_from(self, raw: BinaryIO, path: Path) -> None:
        self._raw, self._left, self._missed = raw, None, None
        try:
            file = self._file = OpenFile(str(path), raw)
            file.look(self._form, self._format, self._follow)
            self._compressed = file.compressed
            if file.head.startswith(PARQUET):
                raise ValueError(
                    "it is Parquet, which is written once and read whole; learn it with streamk train, or "
                    "give JSON lines, CSV or MessagePack"
                )
            reader = MessagePackRecords if file.form == "msgpack" else Lines
            self._reader: Lines | MessagePackRecords = reader(file, self._format, growing=self._follow)
            if not self._inferred:
                self._format, self._inferred = with_inferred_types(self._reader), True
                self._format = replace(self._format, encoding=file.encoding, **self._dialect())
        except OSError as error:
            self._raw.close()
            raise Failure(USAGE, f"{path}: {error.strerror}") from None
        except ValueError as error:
            self._raw.close()
            sentence = str(error).removeprefix(f"{path}: ")
            code = POSITION if isinstance(error, DamagedError) else USAGE
            raise Failure(code, f"{path}: {sentence}") from None

    def _dialect(self) -> Json:
        """Return the dialect of CSV, which later files of the log have too."""
        reader = self._reader
        return reader.dialect._asdict() if isinstance(reader, Lines) and reader.form == "csv" else {}

    @property
    def decoder(self) -> Decoder:
        """The decoder of its records, with what was inferred from the log."""
        return self._reader.decoder

    def poll(self, seconds: float, most: int = MOST) -> Polled:
        """Return the next records; wait for them only if the log is followed."""
        if not self._assigned:
            self._assigned = True
            return Polled(assigned=[Assigned(self.name, None, self.begins, sys.maxsize)])
        deadline = time.monotonic() + seconds
        while True:
            size, self._drained_at = self._size(), None
            if records := self._read(most):
                return Polled({self.name: RawBatch(records, self._base + self._reader.position)})
            self._drained_at = size
            if not self._follow:
                return Polled(finished=True)
            if self._rotated():
                continue
            if time.monotonic() >= deadline:
                return Polled()
            time.sleep(min(0.02, seconds))

    def _read(self, most: int) -> list[Raw]:
        try:
            records = self._reader.records(most)
        except DamagedError as error:
            raise self._failure(f"after byte {self._reader.position}: {error}") from None
        except OSError as error:
            raise self._failure(f"cannot be read: {error.strerror}") from None
        return [raw._replace(offset=self._base + raw.offset) for raw in records] if self._base else records

    def _failure(self, what: str) -> Failure:
        return Failure(POSITION, f"{self._path} {what}")

    def _rotated(self) -> bool:
        """Continue in the next file if this one was renamed, and nothing was written to it for a while."""
        here = os.fstat(self._raw.fileno())
        if not self._compressed and here.st_size < self._reader.position:
            raise self._failure(f"has become shorter than what was read of it. {_RESET}")
        if self._left is None:
            if not self._is_left(here):
                return False
            self._left = here.st_mtime_ns
            self._reader.finish()  # the last line may have no end
            return True
        return self._go_on(self._left)

    def _is_left(self, here: os.stat_result) -> bool:
        """Return whether this file was renamed a while ago, or the one after it was, too."""
        try:
            if os.path.samestat(self._path.stat(), here):
                self._missed = None
                return False
            there = True
        except OSError:
            there = False
        if self._family(here.st_mtime_ns):
            return True
        now = time.monotonic()
        self._missed = now if self._missed is None else self._missed
        if not there and now - self._missed > _ABSENT:
            raise self._failure("was renamed or removed, and not created again")
        return there and now - self._missed >= _GRACE

    def _after(self, left: int) -> Path:
        """Return the file after one that was left: the oldest of those renamed since, or the log."""
        family = self._family(left)
        return family[0] if family else self._path

    def _go_on(self, left: int) -> bool:
        """Open the next file, unless its header is still to be written, or it is just being renamed."""
        try:
            path = self._after(left)
            if self.columns is not None and not self._has_line(path):
                return False
            raw = path.open("rb")
            # files are renamed at any time, in turns: was that the one?
            if not os.path.samestat(os.fstat(raw.fileno()), self._after(left).stat()):
                raw.close()
                return False
        except OSError:
            return False
        columns = self.columns
        self._base += self._reader.position
        self.close(True)
        self._read_from(raw, path)
        if self._reader.columns != columns:
            raise self._failure(f"has other columns than the file before it. {_RESET}")
        return True

    def _has_line(self, path: Path) -> bool:
        with path.open("rb") as file:
            return b"\n" in decompressed(file).read(1 << 16)

    def begin(self, partition: str, position: int) -> None:
        """Read from this position on."""
        size, byte = self._size(), position - self._base
        if not self._compressed and not 0 <= byte <= size:
            raise self._failure(f"has {size} bytes, fewer than the {byte} that were read of it. {_RESET}")
        try:
            self._reader.seek(byte)
        except DamagedError as error:
            raise self._failure(f"after byte {self._reader.position}: {error}") from None
        except ValueError as error:
            raise self._failure(f"is another log: {error}. {_RESET}") from None

    def partitions(self) -> list[str]:
        """Return the one partition."""
        return [self.name]

    def drained(self, partitions: Collection[str]) -> Collection[str]:
        """Return the partition if the last poll brought nothing, and nothing was written since."""
        return [name for name in partitions if self._drained_at == self._size()]

    def ends(self) -> Mapping[str, int]:
        """Return the end of a plain log; nothing is known of a compressed one's."""
        return {self.name: self._base + self._size()} if not self._compressed else {}

    def mark(self, positions: Mapping[str, int]) -> SourceMark:
        """Return what identifies this file: a checksum of the head of what was read, and its inode."""
        length = min(max(positions.get(self.name, 0) - self._base, 0), _HEAD)
        here = os.fstat(self._raw.fileno())
        return {
            "head": length, "sha256": self._checksum(length), "base": self._base,
            "node": [here.st_dev, here.st_ino],
            "format": {key: value for key, value in vars(self._format).items() if key in _FOUND},
        }  # fmt: skip

    def _checksum(self, length: int) -> str:
        try:
            return hashlib.sha256(self._file.first_bytes(length)).hexdigest()
        except DamagedError as error:
            raise self._failure(f"cannot be read: {error}") from None

    def recognise(self, mark: object) -> None:
        """Continue with the file of the mark: the log, or what it was renamed to between two runs.

        Raises
        ------
        Failure
            If there is none.
        """
        mark = cast(SourceMark, mark)
        self._base = mark["base"]
        self._use_inferred(mark.get("format", {}))
        if self._is(mark):
            return
        family = self._family() if self._follow else []
        for path in family:
            self.close(True)
            self._open(path)
            if self._is(mark):
                return
        if family:
            self.close(True)
            self._open(self._path)
        if mark["head"]:
            raise self._failure(
                f"is another log than the one of the checkpoint: its first bytes differ. {_RESET}"
            )

    def _use_inferred(self, inferred: Json) -> None:
        """Read by what was inferred when the log was first read; what is set now stays."""
        configured = vars(self._configured)
        known = {key: value for key, value in inferred.items() if configured[key] is None}
        types = {**inferred.get("types", {}), **self._configured.types}
        self._format = replace(self._format, **{**known, "types": types})
        self._reader.use(self._format)
        if isinstance(self._reader, Lines) and self._format.encoding is not None:
            self._reader.encode_by(self._format.encoding)

    def _family(self, after: int = 0) -> list[Path]:
        """Return what the log was renamed to, as ``log.1`` or ``log-20261122.gz``, the oldest first.

        Only files that were last written after a time, in nanoseconds; a compressed copy does not count.
        """
        modified = {}
        for path in self._path.parent.glob(f"{glob.escape(self._path.name)}?*"):
            compressed = path.suffix in _COMPRESSED and path.with_suffix("").exists()
            if _ROTATED.fullmatch(path.name.removeprefix(self._path.name)) and not compressed:
                with contextlib.suppress(OSError):  # it has just been compressed, or removed
                    modified[path] = path.stat().st_mtime_ns
        return sorted((path for path in modified if modified[path] > after), key=lambda path: modified[path])

    def _is(self, mark: SourceMark) -> bool:
        here = os.fstat(self._raw.fileno())
        if not mark["head"] and self._follow:  # nothing was read of it: only its inode identifies it
            return bool(mark["node"] == [here.st_dev, here.st_ino])
        return bool(self._checksum(mark["head"]) == mark["sha256"])

    def _size(self) -> int:
        return os.fstat(self._raw.fileno()).st_size

    def close(self, leaving: bool) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


class FileLabels(LabelReader):
    """The labels of a log's events in another log.

    Parameters
    ----------
    path, form, follow, format
        As for :class:`FileSource`.
    """

    def __init__(self, path: Path, form: str, follow: bool, format: EventFormat) -> None:
        self._log = FileSource(path, form, follow, format)
        (self._assigned,) = self._log.poll(0.0).assigned

    @property
    def decoder(self) -> Decoder:
        """The decoder of its records, with what was inferred from the log."""
        return self._log.decoder

    def labels_of(self, partition: str) -> Assigned:
        """Return the one partition."""
        return self._assigned

    def begin(self, partition: str, position: int) -> None:
        """Read from this position on."""
        self._log.begin(partition, position)

    def poll(self, seconds: float, partitions: Collection[str]) -> Mapping[str, RawBatch]:
        """Return the next records."""
        return self._log.poll(seconds).batches

    def drained(self, partitions: Collection[str]) -> Collection[str]:
        """Return the partition if the last poll brought nothing, and nothing was written since."""
        return self._log.drained(partitions)

    def ends(self) -> Mapping[str, int]:
        """Return the end of a plain log."""
        return self._log.ends()

    def mark(self, positions: Mapping[str, int]) -> object:
        """Return what identifies the log."""
        return self._log.mark(positions)

    def recognise(self, mark: object) -> None:
        """Continue with the log of the mark."""
        self._log.recognise(mark)

    def close(self) -> None:
        """Close the log."""
        self._log.close(True)


class LogPositions(Positions):
    """Where a log can be read from.

    Parameters
    ----------
    paths
        Of the log, and of that of the labels, if there is one.
    form, follow
        As for :class:`FileSource`.
    """

    def __init__(self, paths: Sequence[Path], form: str, follow: bool) -> None:
        self._logs = {log.name: log for log in (FileSource(path, form, follow) for path in paths)}

    def partitions(self) -> list[str]:
        """Return the partition of each log."""
        return list(self._logs)

    def mark(self, positions: Mapping[str, int]) -> Json:
        """Return what identifies the logs."""
        return with_mark_of_labels(*(log.mark(positions) for log in self._logs.values()))

    def range(self, partition: str) -> tuple[int, int]:
        """Return the byte of the first record, and the size, which is unknown of a compressed log."""
        log = self._logs[partition]
        return log.begins, log.ends().get(partition, sys.maxsize)

    def at(self, partition: str, moment: datetime) -> int:
        """Raise Failure: a log has no times."""
        raise Failure(USAGE, "--to: the records of a log have no times; give a byte, earliest or latest")

    def close(self) -> None:
        """Close the logs."""
        for log in self._logs.values():
            log.close(True)
