"""Prefetching: a thread takes from an iterator into a bounded queue, while its consumer works."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

_DEPTH, _BYTES = 4, 1 << 24  # items that wait, and their size
T = TypeVar("T")


class Prefetcher(Generic[T]):
    """An iterator whose items are made in a thread, in the same order; an exception comes in its place.

    Parameters
    ----------
    items
        What to take from; only the thread touches it, and closes it.
    size
        Of an item, in bytes.
    wake
        Ends a wait inside of ``items``, called from the consumer's thread.
    depth, most
        Items, and bytes, that may wait; one item may always.

    Examples
    --------
    >>> with Prefetcher(iter(range(5)), lambda item: 1) as ahead:
    ...     list(ahead)
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        items: Iterator[T],
        size: Callable[[T], int],
        wake: Callable[[], None] = lambda: None,
        depth: int = _DEPTH,
        most: int = _BYTES,
    ) -> None:
        self._items, self._size, self._wake = items, size, wake
        self._depth, self._most = depth, most
        self._waiting: deque[tuple[T, int]] = deque()
        self._bytes, self._stopped, self._ended = 0, False, False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="streamk prefetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for item in self._items:
                size = self._size(item)
                with self._changed:
                    self._changed.wait_for(partial(self._may_add, size))
                    if self._stopped:
                        break
                    self._waiting.append((item, size))
                    self._bytes += size
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(self._items, "close", None)
            try:
                if close is not None:
                    close()
            finally:
                with self._changed:
                    self._ended = True
                    self._changed.notify_all()

    def _may_add(self, size: int) -> bool:
        fits = len(self._waiting) < self._depth and self._bytes + size <= self._most
        return self._stopped or not self._waiting or fits

    def __iter__(self) -> Prefetcher[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            if self._waiting:
                item, size = self._waiting.popleft()
                self._bytes -= size
                self._changed.notify_all()
                return item
            error, self._error = self._error, None
        if error is not None and not self._stopped:
            raise error
        raise StopIteration

    def close(self) -> None:
        """End the thread, and wait until it has closed what it reads."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()
        self._wake()
        self._thread.join()

    def __enter__(self) -> Prefetcher[T]:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
