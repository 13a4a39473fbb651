"""The cache of frequencies is a cache: whatever its size, the same rows come out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.features.counter import block_keys
from streamk.features.frequencies import FrequencyCache, frequency_matrix, frequency_rows

BLOCKS = block_keys(3, 2)
WAVES = np.vstack([np.zeros(128), np.linspace(0.5, 2.0, 128)]).astype(np.float32)


def rows_of(cache, keys):
    where = np.empty(keys.shape, dtype=np.int32)
    frequency_rows(keys, BLOCKS, WAVES, cache.table, cache.counts, cache.rows, where)
    return where


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=4, max_size=4), min_size=1, max_size=30),
    st.integers(4, 9),
)
def test_a_small_cache_gives_the_same_rows(events, room):
    cache = FrequencyCache(128, limit=4 * 128 * room)
    for event in events:
        keys = np.array([event], dtype=np.uint64)
        cache.reserve(4)
        where = rows_of(cache, keys)
        expected = np.empty((4, 128), dtype=np.float32)
        frequency_matrix(BLOCKS, WAVES[1], keys[0], expected)
        for j, key in enumerate(event):
            if key == 0:
                assert where[0, j] == -1
            else:
                assert cache.rows[where[0, j]].tobytes() == expected[j].tobytes()
        cache.grow()
        assert len(cache.rows) <= room


def test_the_cache_starts_small_and_is_bounded():
    cache = FrequencyCache(512)
    assert cache.rows.nbytes <= 64 * 1024
    for start in range(0, 100_000, 50):
        keys = np.arange(start + 1, start + 51, dtype=np.uint64)[None]
        cache.reserve(50)
        where = np.empty(keys.shape, dtype=np.int32)
        waves = np.ones((2, 512), dtype=np.float32)
        frequency_rows(keys, block_keys(3, 8), waves, cache.table, cache.counts, cache.rows, where)
        cache.grow()
    assert cache.rows.nbytes <= 64 * 2**20


def test_an_event_wider_than_the_limit_fits():
    cache = FrequencyCache(128, limit=1)
    cache.reserve(100)
    assert len(set(rows_of(cache, np.arange(1, 101, dtype=np.uint64)[None])[0])) == 100


@pytest.mark.parametrize("tile", [slice(0, 64), slice(64, 128)])
def test_any_block_can_be_made_alone(tile):
    keys = np.array([11, 12], dtype=np.uint64)
    whole, part = np.empty((2, 128), dtype=np.float32), np.empty((2, 64), dtype=np.float32)
    frequency_matrix(BLOCKS, WAVES[1], keys, whole)
    frequency_matrix(BLOCKS[tile.start // 64 : tile.stop // 64], WAVES[1, tile], keys, part)
    assert whole[:, tile].tobytes() == part.tobytes()
