"""A thread that reads ahead within bounds, and hands on what it reads, errors included."""

import threading
import time

import pytest

from connectors.files.log import Prefetcher

PATIENCE = 20.0  # seconds


def until(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


class Counted:
    """Items that say how many of them were taken, and whether they were closed."""

    def __init__(self, count):
        self.count, self.taken, self.closed = count, 0, False

    def __iter__(self):
        return self

    def __next__(self):
        if self.taken == self.count:
            raise StopIteration
        self.taken += 1
        return self.taken

    def close(self):
        self.closed = True


def test_items_come_in_order_and_the_source_is_closed():
    items = Counted(50)
    with Prefetcher(items, lambda item: 1) as ahead:
        assert list(ahead) == list(range(1, 51))
    assert items.closed


def test_so_many_items_wait_and_another_is_held():
    items = Counted(50)
    with Prefetcher(items, lambda item: 1, depth=3) as ahead:
        until(lambda: items.taken == 4)
        assert next(ahead) == 1
        until(lambda: items.taken == 5)
        time.sleep(0.05)
        assert items.taken == 5


def test_bytes_of_items_that_were_taken_no_longer_count():
    items = Counted(50)
    with Prefetcher(items, lambda item: 40, depth=100, most=100) as ahead:
        for k in range(1, 20):  # two of 40 bytes wait, and another is held
            until(lambda k=k: items.taken == k + 2)
            assert next(ahead) == k


def test_an_item_larger_than_all_space_comes_alone():
    with Prefetcher(Counted(3), lambda item: 1000, most=100) as ahead:
        assert list(ahead) == [1, 2, 3]


def test_an_error_comes_after_what_was_read_before_it():
    def items():
        yield 1
        raise OSError("gone")

    with Prefetcher(items(), lambda item: 1) as ahead:
        assert next(ahead) == 1
        with pytest.raises(OSError, match="gone"):
            next(ahead)
        with pytest.raises(StopIteration):
            next(ahead)


def test_closing_ends_a_thread_that_waits_for_space():
    items = Counted(50)
    with Prefetcher(items, lambda item: 1, depth=1) as ahead:
        until(lambda: items.taken == 2)
    assert items.closed
    assert list(ahead) == []
    assert not [t for t in threading.enumerate() if t.name == "streamk prefetch" and t is ahead._thread]
