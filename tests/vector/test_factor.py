"""The factor of least squares: eight columns at once find the bits of one column at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

from streamk.vector import factor
from streamk.vector.lanes import LANES

SIZES = [*range(1, 71), 269, 653]


@intrinsic
def _fused(typing_context, x, y, z):
    """Return ``xy + z`` of numbers of one type, rounded once."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        number = arguments[0].type
        kind = ir.FunctionType(number, [number] * 3)
        return b.call(b.module.declare_intrinsic("llvm.fma", [number], kind), arguments)

    return x(x, x, x), generate


@njit
def one_column_at_a_time(diagonal, columns, x, noise, gain):
    left, at = noise, 0
    for j in range(len(diagonal)):
        numbers = (j + LANES - 1) // LANES * LANES
        totals, changes = np.zeros_like(x[:LANES]), np.zeros_like(x[:2])
        for k in range(numbers):
            totals[k % LANES] = _fused(columns[at + k], x[k], totals[k % LANES])
        half = LANES // 2
        while half:
            for lane in range(half):
                totals[lane] += totals[lane + half]
            half //= 2
        f = np.float64(x[j]) + np.float64(totals[0])
        g = diagonal[j] * f
        before = left
        left = before + f * g
        diagonal[j] *= before / left
        changes[0], changes[1] = -f / before, g
        for k in range(numbers):
            u = columns[at + k]
            columns[at + k] = _fused(gain[k], changes[0], u)
            gain[k] = _fused(u, changes[1], gain[k])
        gain[j] = g
        at += numbers
    return left


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_update_finds_the_bits_of_one_column_at_a_time(kind: type, aligned: bool) -> None:
    rng = np.random.default_rng(7)
    for size in SIZES:
        padded = -(-size // LANES) * LANES
        columns = factor.empty_factor(size, kind)
        if not aligned:
            columns = np.zeros(len(columns) + 1, dtype=kind)[1:]
        found = np.full(size, 2.0), columns, np.zeros(padded, dtype=kind)
        wanted = tuple(part.copy() for part in found)
        for weight in (1.0, 0.3, 7.0, 1e-9):
            x = np.zeros(padded, dtype=kind)
            x[:size] = rng.normal(size=size) * (rng.random(size) < 0.8)
            found[2][:], wanted[2][:] = 0.0, 0.0
            left = factor.update(found[0], found[1], x, 1.0 / weight, found[2])
            assert left == one_column_at_a_time(wanted[0], wanted[1], x, 1.0 / weight, wanted[2])
            for one, other in zip(found, wanted, strict=True):
                assert one.tobytes() == other.tobytes()


@njit
def errors(diagonal, columns, X, y, part, gain):
    """Learn rows by recursive least squares with forgetting; return the error of each before it."""
    weights, found, most = np.zeros(len(diagonal)), np.empty(len(y)), diagonal.max()
    for i in range(len(y)):
        found[i] = y[i]
        for j in range(len(diagonal)):
            found[i] -= X[i, j] * weights[j]
        gain[:] = 0.0
        left = factor.update(diagonal, columns, X[i], 1.0, gain)
        for j in range(len(diagonal)):
            weights[j] += gain[j] * found[i] / left
            diagonal[j] = min(diagonal[j] / part, most)
    return found


@pytest.mark.parametrize("part", [1.0, 0.998])
def test_a_float32_factor_errs_as_little_where_features_depend_on_each_other(part: float) -> None:
    rng = np.random.default_rng(7)
    size, rows = 96, 30_000
    z = rng.normal(size=(rows, 1))  # one input: few directions hold almost all of 96 features
    X = (np.cos(z * rng.normal(size=size) + rng.uniform(0, 6, size)) / 8).astype(np.float32)
    y = np.sin(3 * z[:, 0]) + 0.1 * rng.normal(size=rows)
    squares = []
    for kind in (np.float64, np.float32):
        gain, columns = np.zeros(size, dtype=kind), factor.empty_factor(size, kind)
        found = errors(np.full(size, 1e3), columns, X.astype(kind), y, part, gain)
        squares.append((found[1000:] ** 2).mean())
    assert squares[1] == pytest.approx(squares[0], rel=1e-3)
    assert squares[1] < 0.02


def test_update_adds_an_event_to_the_information() -> None:
    rng = np.random.default_rng(7)
    size = 45
    diagonal, columns, known = np.ones(size), factor.empty_factor(size), np.eye(size)
    for _ in range(60):
        x, gain = np.zeros(48), np.zeros(48)
        x[:size] = rng.normal(size=size)
        inverse = np.linalg.inv(known)
        left = factor.update(diagonal, columns, x, 0.5, gain)
        assert left == pytest.approx(0.5 + x[:size] @ inverse @ x[:size])
        assert gain[:size] == pytest.approx(inverse @ x[:size])
        known += 2.0 * np.outer(x[:size], x[:size])
    assert np.allclose(factor.information(diagonal, columns), known)


def test_an_empty_factor_is_aligned_to_cache_lines() -> None:
    kinds = np.float64, np.float32
    assert all(factor.empty_factor(n, kind).ctypes.data % 64 == 0 for n in range(2, 60) for kind in kinds)
