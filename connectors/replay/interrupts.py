"""Batches of a log until Ctrl-C is pressed, or until the log cannot be read further."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from connectors.contract.records import Log
from connectors.events.batches import RecordBatch


class Interruptible:
    """Batches of a log that end without the loss of a batch read before.

    Ctrl-C ends a wait for the next record at once; otherwise the replay stops after learning the current
    events. Pressed again, it ends the process. Records that standard input has delivered are still returned.

    Parameters
    ----------
    log
        What to read.
    """

    def __init__(self, log: Log) -> None:
        self._log, self._batches = log, log.batches()
        self._reading = self._ending = False
        self.interrupted, self.error = False, ""

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        if (self.interrupted and not self._ending) or self.error:
            raise StopIteration
        try:
            self._reading = True
            return next(self._batches)
        except KeyboardInterrupt:
            raise StopIteration from None
        except ValueError as error:
            self.error = str(error)
            raise StopIteration from None
        finally:
            self._reading = False

    def _ask(self, number: int, frame: object) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        if self._reading:
            self._ending = self._log.stop()

    def __enter__(self) -> Interruptible:
        self._before: Callable[[int, FrameType | None], object] | int | None = None
        with contextlib.suppress(ValueError):  # not the main thread, which handles Ctrl-C
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *details: object) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
