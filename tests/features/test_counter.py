"""The bits are the model: they are pinned, and checked against the specification word for word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.features.counter import block_keys, fill_bits, mix64, mix64_int, stream_key, uniforms

WORD = st.integers(0, 2**64 - 1)


def specified_bits(key: int, counter: int) -> int:
    """``bits32`` in unbounded integers, from the module's docstring."""

    x = (counter * 0x9E3779B9 + (key & 0xFFFFFFFF)) & 0xFFFFFFFF
    x = ((x ^ (x >> 16) ^ (key >> 32)) * 0x21F0AAAD) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0xD35A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)


def test_golden_bits():
    words = np.empty(6, dtype=np.uint32)
    fill_bits(np.uint64(0x0123456789ABCDEF), words)
    assert words.tolist() == [
        0xBACC506F, 0x92F8E507, 0x9809BB55, 0x67CF6F9F, 0x91B6A4AF, 0xBC841DC2,
    ]  # fmt: skip


def test_golden_keys():
    assert block_keys(7, 3).tolist() == [
        0x63CBE1E459320DD7,
        0x044C3CD7F43C661C,
        0xE6984080BAB12A02,
    ]
    assert int(stream_key(np.uint64(7), np.uint64(9))) == 0x255C6046F62FBE29


def test_splitmix64_reference():
    # The first output of SplitMix64 seeded with 0, as published with the generator.
    assert mix64_int(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF


@given(WORD)
def test_bits_are_as_specified(key):
    words = np.empty(40, dtype=np.uint32)
    fill_bits(np.uint64(key), words)
    assert words.tolist() == [specified_bits(key, i) for i in range(40)]


@given(WORD, WORD)
def test_compiled_and_python_keys_agree(a, b):
    assert int(mix64(np.uint64(a))) == mix64_int(a)
    assert int(stream_key(np.uint64(a), np.uint64(b))) == mix64_int(a ^ b)


def test_uniforms_are_strictly_inside():
    u = uniforms(5, 100_000)
    assert u.min() > 0.0
    assert u.max() < 1.0
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / len(u))


@pytest.mark.parametrize("keys", [range(4096), [mix64_int(i) for i in range(4096)]])
def test_every_bit_is_fair_and_streams_are_unrelated(keys):
    words = np.empty((4096, 32), dtype=np.uint32)
    for row, key in zip(words, keys, strict=True):
        fill_bits(np.uint64(key), row)
    bits = ((words[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1).astype(np.float64)
    share = bits.mean(axis=(0, 1))
    assert np.abs(share - 0.5).max() < 5 * 0.5 / np.sqrt(words.size)
    for lag in (1, 2, 8, 16):  # counters of one stream
        within = np.corrcoef(words[:, :-lag].ravel(), words[:, lag:].ravel())[0, 1]
        assert abs(within) < 5 / np.sqrt(words.size)
    neighbours = np.corrcoef(words[:-1].ravel(), words[1:].ravel())[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(words.size)
