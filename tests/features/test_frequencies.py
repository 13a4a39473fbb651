"""The cache of frequencies is a cache: whatever its size, the same rows come out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamk
from streamk.features.counter import block_keys
from streamk.features.frequencies import FrequencyCache, frequency_matrix, frequency_rows
from streamk.features.map import FeatureMap, MapRecord

BLOCKS = block_keys(3, 2)
FAMILIES = np.array([0, 1])  # normal numbers, then Cauchy numbers
WAVES = np.vstack([np.zeros(128), np.linspace(0.5, 2.0, 128)]).astype(np.float32)


def rows_of(cache, keys, blocks=BLOCKS, families=FAMILIES, waves=WAVES):
    where = np.empty(keys.shape, dtype=np.int32)
    runs = np.array([[0, waves.shape[1], 0]])
    frequency_rows(
        MapRecord(
            blocks, families, runs, waves, 0, waves.shape[1], None, cache.table, cache.counts, cache.rows
        ),
        keys,
        where,
    )
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
        frequency_matrix(BLOCKS, FAMILIES, WAVES[1], keys[0], expected)
        for j, key in enumerate(event):
            if key == 0:
                assert where[0, j] == -1
            else:
                assert cache.rows[where[0, j], :128].tobytes() == expected[j].tobytes()
        cache.grow()
        assert len(cache.rows) <= room


@pytest.mark.parametrize(
    ("width", "rows"), [(512, 8192), (8192, 1024), (32_768, 512)], ids=["16 MiB", "1,024 inputs", "64 MiB"]
)
def test_the_cache_starts_small_and_is_bounded(width, rows):
    cache = FrequencyCache(width)
    assert cache.rows.nbytes <= 64 * 2**20 // 16
    keys, families = block_keys(3, width // 64), np.zeros(width // 64, int)
    waves = np.ones((2, width), dtype=np.float32)
    for start in range(0, 12 * rows, 50):
        cache.reserve(50)
        rows_of(cache, np.arange(start + 1, start + 51, dtype=np.uint64)[None], keys, families, waves)
        cache.grow()
    assert len(cache.rows) == rows


@pytest.mark.parametrize("many", [False, True])
def test_a_cache_of_the_largest_size_rebuilds_no_records(monkeypatch, many):
    """A new string with every event fills it again and again, and each time it is only wiped."""
    learner = streamk.KaczmarzRegressor(features=64, directions="keyed", scales=(1.0,), seed=1)
    learner.learn_one({"a": "first"}, 1.0)
    made = learner._map
    made.cache = FrequencyCache(made.width, limit=4 * made.width * 64)
    made.renew()
    renewed, renew = [], FeatureMap.renew
    monkeypatch.setattr(FeatureMap, "renew", lambda self: renewed.append(1) or renew(self))
    for i in range(1000):
        x = {"a": f"text {i}"}
        if many:
            learner.learn_many([x], [float(i % 2)])
        else:
            learner.predict_one(x)
            learner.learn_one(x, float(i % 2))
    assert len(made.cache.rows) == 64
    assert len(renewed) == 1  # from 32 rows to 64


def test_an_event_wider_than_the_limit_fits():
    cache = FrequencyCache(128, limit=1)
    cache.reserve(100)
    assert len(set(rows_of(cache, np.arange(1, 101, dtype=np.uint64)[None])[0])) == 100


@pytest.mark.parametrize("tile", [slice(0, 64), slice(64, 128)])
def test_any_block_can_be_made_alone(tile):
    keys = np.array([11, 12], dtype=np.uint64)
    whole, part = np.empty((2, 128), dtype=np.float32), np.empty((2, 64), dtype=np.float32)
    frequency_matrix(BLOCKS, FAMILIES, WAVES[1], keys, whole)
    blocks = slice(tile.start // 64, tile.stop // 64)
    frequency_matrix(BLOCKS[blocks], FAMILIES[blocks], WAVES[1, tile], keys, part)
    assert whole[:, tile].tobytes() == part.tobytes()
