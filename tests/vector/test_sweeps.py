"""Registers of every kind find the same bits."""

import hashlib

import numpy as np
import pytest
from numba import njit

from streamk.features.counter import fill_bits
from streamk.features.structured import address, gap_of, groups_of, tile_size, transform
from streamk.vector.lanes import HALVED, HERE, LANES, NARROW, WIDE, registers_of
from streamk.vector.sweeps import Finish, Target, emitting, gathering, opening, plain, turning

GAP = np.int64(3)


def numbers(count, seed):
    """Whole float32 numbers of 24 bits, from the counter, so that additions of them round."""
    words = np.empty(count, dtype=np.uint32)
    fill_bits(np.uint64(seed), words)
    return ((words >> 8).astype(np.float32) - np.float32(2**23)) / np.float32(2**23)


def signs(count, seed):
    return np.copysign(np.float32(1.0), numbers(count, seed))


@pytest.mark.parametrize(("name", "features", "expected"), [
    ("sapphirerapids", "+avx2,+avx512f,+fma", WIDE), ("znver5", "+avx512f", WIDE),
    ("znver4", "+avx512f", HALVED), ("znver3", "+avx2", NARROW), ("haswell", "+avx2,-avx512f", NARROW),
])  # fmt: skip
def test_registers_of_machines(name, features, expected):
    assert registers_of(name, features) == expected


def swept(registers, size, lanes_alike):
    """A tile that went through every kind of sweep on these registers."""
    opens, transforms, turns = (make(size, registers) for make in (opening, plain, turning))

    @njit
    def work(inputs, signs, tile, stride):
        for c in range(0, 32, 1 << size):
            opens(inputs, c, GAP, signs, c + 5, tile)
        for c in range(32 >> size):
            start = c * stride
            turns(tile, start, stride * (32 >> size), signs, 7 + c, 32 >> size)
            transforms(tile, start, stride * (32 >> size))

    tile = numbers(40 * LANES, 1)
    inputs = numbers(40 * LANES, 2) if lanes_alike else numbers(32, 2)
    signed = signs(64, 3) if lanes_alike else signs(64 * LANES, 3).reshape(64, LANES)
    work(inputs, signed, tile, np.int64(LANES))
    return tile


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("lanes_alike", [True, False])
def test_sweeps_are_the_same(size, lanes_alike):
    expected = swept(WIDE, size, lanes_alike)
    assert not np.array_equal(expected, numbers(40 * LANES, 1))
    for registers in (HALVED, NARROW):
        assert swept(registers, size, lanes_alike).tobytes() == expected.tobytes()


def gathered(registers, rows):
    gather = gathering(registers)

    @njit
    def work(rows, last, places, tile, limit):
        return gather(rows, 1, last, 2, places, tile, limit)

    tile = np.zeros(20 * LANES, dtype=np.float32)
    places = np.random.default_rng(0).permutation(20) * LANES
    good = [work(rows, last, places, tile, np.float32(limit)) for last, limit in ((18, 0.5), (9, 2.0))]
    return tile, good


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_gathered_rows_are_the_same(kind):
    rows = numbers(20 * 20, 4).reshape(20, 20).astype(kind)
    (wide, good), (narrow, also_good) = gathered(WIDE, rows), gathered(NARROW, rows)
    assert wide.tobytes() == narrow.tobytes()
    assert good == also_good == [False, True]
    rows[3, 17] = np.nan
    assert gathered(NARROW, rows)[1] == gathered(WIDE, rows)[1] == [False, False]


def emitted(registers, finished, begin, step, count):
    emit = emitting(finished, registers)

    @njit
    def work(tile, waves, out, begin, step, count):
        finish = Finish(waves, np.int64(2), np.int64(2), begin, np.float32(0.125))
        emit(
            tile, np.int64(LANES), np.int64(32), step, finish, Target(out, np.int64(0), np.int64(160), count)
        )

    out = numbers(LANES * 160, 7)
    waves = numbers(3 * 160, 6).reshape(3, 160) * np.float32(3.0)
    work(numbers(17 * LANES, 5), waves, out, begin, np.int64(step), np.int64(count))
    return out


@pytest.mark.parametrize("finished", [True, False])
def test_features_are_the_same(finished):
    for begin, step, count in ((True, 0, 16), (True, 0, 11), (False, 0, 3), (True, 32, 16)):
        wide, narrow = (emitted(r, finished, begin, step, count) for r in (WIDE, NARROW))
        assert wide.tobytes() == narrow.tobytes()
        written = (wide != numbers(LANES * 160, 7)).reshape(LANES, 160)
        assert written.sum() == 32 * min(count, 4 if step else count)


@pytest.mark.parametrize(
    ("bits", "digest"), [(6, "e2d19a479491b6e0"), (10, "af3e59119a83d6cd"), (12, "0e08a20ce0adc83e")]
)
def test_golden_transforms(bits, digest):
    """Pinned: every machine, whatever its registers, finds these bits."""
    n, groups = 1 << bits, groups_of(bits)
    places = np.array([address(c, gap_of(groups)) for c in range(n)])[:, None] + np.arange(LANES)
    inputs, tile = (np.zeros(tile_size(groups), dtype=np.float32) for _ in range(2))
    inputs[places] = numbers(n * LANES, 8).reshape(n, LANES)
    transform(groups, inputs, signs(3 * n, 9), 0, tile)
    out = np.zeros((LANES, 2 * n), dtype=np.float32)
    emit = emitting(True, HERE)

    @njit
    def work(tile, starts, waves, out):
        finish = Finish(waves, np.int64(2), np.int64(2), np.bool_(True), np.float32(0.125))
        for k in range(starts.size):
            to = 32 * k
            emit(
                tile,
                starts[k],
                to,
                0,
                finish,
                Target(out, np.int64(0), 2 * starts.size * LANES, np.int64(LANES)),
            )

    waves = numbers(3 * 2 * n, 10).reshape(3, 2 * n)
    work(tile, places[::LANES, 0].copy(), waves, out.reshape(-1))
    assert hashlib.sha256(tile[places].tobytes() + out.tobytes()).hexdigest()[:16] == digest
