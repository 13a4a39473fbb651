"""Records that end where Ctrl-C is pressed, or where the log cannot be read further."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from connectors.events import Record


class Interruptible:
    """Records that end without losing one before.

    Ctrl-C ends a wait for the next record at once, and is otherwise noted for when the chunk at hand is
    learned; pressed again, it ends the process.

    Parameters
    ----------
    records
        In order.
    """

    def __init__(self, records: Iterator[Record]) -> None:
        self._records, self._reading = records, False
        self.interrupted, self.error = False, ""

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        if self.interrupted or self.error:
            raise StopIteration
        try:
            self._reading = True
            return next(self._records)
        except KeyboardInterrupt:
            raise StopIteration from None
        except ValueError as error:
            self.error = str(error)
            raise StopIteration from None
        finally:
            self._reading = False

    def _ask(self, number: int, frame: Any) -> None:
        if self.interrupted or self._reading:
            self.interrupted = True
            raise KeyboardInterrupt
        self.interrupted = True

    def __enter__(self) -> Interruptible:
        self._before: Any = None
        with contextlib.suppress(ValueError):  # not the main thread: Ctrl-C is somebody else's
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *details: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
