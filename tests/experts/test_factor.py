"""The factor of least squares: eight columns at once find the bits of one column at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from streamk.experts import factor
from streamk.features.lanes import LANES

SIZES = [*range(1, 71), 269, 653]


@intrinsic
def _fused(typing_context, x, y, z):
    """Return ``xy + z`` of numbers, rounded once."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * 3)
        return b.call(b.module.declare_intrinsic("llvm.fma", [ir.DoubleType()], kind), arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@njit
def one_column_at_a_time(diagonal, packed, x, noise, gain):
    left, at = noise, 0
    for j in range(len(diagonal)):
        numbers = (j + LANES - 1) // LANES * LANES
        totals = np.zeros(LANES)
        for k in range(numbers):
            totals[k % LANES] = _fused(packed[at + k], x[k], totals[k % LANES])
        half = LANES // 2
        while half:
            for lane in range(half):
                totals[lane] += totals[lane + half]
            half //= 2
        f = x[j] + totals[0]
        g = diagonal[j] * f
        before = left
        left = before + f * g
        diagonal[j] *= before / left
        back = -f / before
        for k in range(numbers):
            u = packed[at + k]
            packed[at + k] = _fused(gain[k], back, u)
            gain[k] = _fused(u, g, gain[k])
        gain[j] = g
        at += numbers
    return left


@pytest.mark.parametrize("aligned", [True, False])
def test_update_finds_the_bits_of_one_column_at_a_time(aligned: bool) -> None:
    rng = np.random.default_rng(7)
    for size in SIZES:
        padded = -(-size // LANES) * LANES
        packed = factor.empty_factor(size)
        if not aligned:
            packed = np.zeros(len(packed) + 1)[1:]
        found = np.full(size, 2.0), packed, np.zeros(padded)
        wanted = tuple(part.copy() for part in found)
        for weight in (1.0, 0.3, 7.0, 1e-9):
            x = np.zeros(padded)
            x[:size] = rng.normal(size=size) * (rng.random(size) < 0.8)
            found[2][:], wanted[2][:] = 0.0, 0.0
            left = factor.update(found[0], found[1], x, 1.0 / weight, found[2])
            assert left == one_column_at_a_time(wanted[0], wanted[1], x, 1.0 / weight, wanted[2])
            for one, other in zip(found, wanted, strict=True):
                assert one.tobytes() == other.tobytes()


def test_update_adds_an_event_to_the_information() -> None:
    rng = np.random.default_rng(7)
    size = 45
    diagonal, packed, known = np.ones(size), factor.empty_factor(size), np.eye(size)
    for _ in range(60):
        x, gain = np.zeros(48), np.zeros(48)
        x[:size] = rng.normal(size=size)
        inverse = np.linalg.inv(known)
        left = factor.update(diagonal, packed, x, 0.5, gain)
        assert left == pytest.approx(0.5 + x[:size] @ inverse @ x[:size])
        assert gain[:size] == pytest.approx(inverse @ x[:size])
        known += 2.0 * np.outer(x[:size], x[:size])
    assert np.allclose(factor.information(diagonal, packed), known)


def test_an_empty_factor_is_aligned_to_cache_lines() -> None:
    assert all(factor.empty_factor(size).ctypes.data % 64 == 0 for size in range(2, 60))
