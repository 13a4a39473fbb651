"""Hashes of cells, compared with NumPy."""

import numpy as np
from numba import njit

from streamk.compiling import ENTRY
from streamk.vector.cells import CELLS, hash_cells

FACTORS = np.array([0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], dtype=np.uint64)


@njit(**(ENTRY | {"cache": False}))
def hashed(start, places, inverse, offsets, numbers, codes, phi, first):
    hash_cells(start, places, inverse, offsets, numbers, codes, phi, first)


def test_cells_are_the_formula():
    rng, grids, fields = np.random.default_rng(3), 40, 9
    start, codes = (rng.integers(0, 2**64, n, dtype=np.uint64) for n in (grids, fields))
    places, numbers = rng.integers(0, fields, (3, grids)), rng.normal(size=fields) * 50.0
    inverse, offsets = rng.exponential(size=(3, grids)), rng.random((3, grids))
    phi = np.zeros(8 + grids, np.float32)
    hashed(start, places, inverse, offsets, numbers, codes, phi, 8)
    whole = np.floor(numbers[places] * inverse + offsets).astype(np.int64).astype(np.uint64) + codes[places]
    cell = start + (whole * FACTORS[:, None]).sum(axis=0, dtype=np.uint64)
    cell = (cell ^ (cell >> np.uint64(32))) * np.uint64(0xFF51AFD7ED558CCD)
    assert (phi[:8] == 0.0).all()
    assert (phi[8:] == (cell >> np.uint64(64 - 13)).astype(np.float32)).all()
    assert phi.max() < CELLS
