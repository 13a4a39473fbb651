"""Hashes of cells, compared with NumPy."""

import numpy as np
from numba import njit

from streamk.compiling import ENTRY
from streamk.features.columns.cells import _FACTORS
from streamk.vector.cells import BITS, hash_cells


@njit(**(ENTRY | {"cache": False}))
def hashed(start, places, inverse, offsets, of_fields, part, phi, first):
    hash_cells(start, places, inverse, offsets, of_fields, part, phi, first)


def test_cells_are_the_formula():
    rng, grids, fields = np.random.default_rng(3), 40, 9
    factors = np.array(_FACTORS, dtype=np.uint64)
    start, codes = (rng.integers(0, 2**64, n, dtype=np.uint64) for n in (grids, fields))
    places, numbers = rng.integers(0, fields, (8, grids)), rng.normal(size=fields) * 50.0
    inverse, offsets = rng.exponential(size=(8, grids)), rng.random((8, grids))
    phi, of_fields = np.zeros(8 + grids, np.float32), (numbers, codes, factors)
    for begin, end, most in ((0, 16, 3), (16, 32, 8)):
        hashed(start, places, inverse, offsets, of_fields, (begin, end, most), phi, 8)
        part, used = slice(begin, end), slice(most)
        whole = (
            np.floor(numbers[places] * inverse + offsets).astype(np.int64).astype(np.uint64) + codes[places]
        )
        cell = start + (whole * factors[:, None])[used].sum(axis=0, dtype=np.uint64)
        cell = (cell ^ (cell >> np.uint64(32))) * np.uint64(0xFF51AFD7ED558CCD)
        expected = (cell >> np.uint64(64 - BITS)).astype(np.float32)
        assert (phi[8:][part] == expected[part]).all()
    assert not phi[:8].any()
    assert not phi[8 + 32 :].any()  # grids of no part
