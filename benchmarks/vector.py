"""Operations of :mod:`streamk.vector` compared with plain compiled loops of the same meaning.

    python benchmarks/vector.py [NAME …]

Operation and loop run in turns on flat arrays of the sizes that learners have, 2,000 times a turn; the table
has the least CPU time of a run in nanoseconds. Loops index by unsigned integers, since signed ones make them
take three to ten times as long. An operation whose loop takes less than 1.2 times as long should become that
loop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from streamk.compiling import ENTRY, INNER, fma
from streamk.vector.cells import BITS, hash_cells
from streamk.vector.factor import empty_factor, update
from streamk.vector.lanes import aligned, below, first_set, zeros_aligned
from streamk.vector.linear_algebra import (
    add_distances,
    add_products_to,
    add_rows,
    add_scaled,
    clear,
    copy,
    inner_product,
)
from streamk.vector.newton import add_products, fade, newton_steps, scratch_of, side_by_side
from streamk.vector.tables import add_to_cells, sum_cells
from streamk.vector.variables import any_new, gather, move

RUNS, TURNS = 2000, 9
EXPERTS, COLUMNS, INPUTS, CELLS = 14, 512, 128, 1 << 15  # of a mixture, of an expert, of a table; of cells
Function = Callable[..., Any]
U = np.uint64
PLAIN: dict[Function, Function] = {}


def plain(operation: Function) -> Callable[[Function], Function]:
    """Register a plain loop that does what an operation does."""

    def register(loop: Function) -> Function:
        PLAIN[operation] = njit(**INNER)(loop)
        return loop

    return register


@plain(copy)
def _copy(out, to, source, start, count):
    for k in range(U(count)):
        out[U(to) + k] = source[U(start) + k]


@plain(clear)
def _clear(out, to, count):
    for k in range(U(count)):
        out[U(to) + k] = 0.0


@plain(add_rows)
def _add_rows(out, rows, start, places, values, first, count):
    out[:] = 0.0
    for m in range(count):
        value = values[first + m] if places[m] > 0 else np.float32(0.0)
        row = U(start + 64 * places[m])
        for k in range(U(64)):
            out[k] += rows[row + k] * value


@plain(add_products_to)
def _add_products_to(sums, start, values, last, factor):
    for k in range(U(last + 1)):
        sums[U(start) + k] += factor * (values[last] * values[k])


@plain(any_new)
def _any_new(phi, start, known, count):
    new = False
    for k in range(U(count)):
        new |= (phi[U(start) + k] != 0.0) & (not known[k])
    return new


@plain(gather)
def _gather(x, phi, start, variables, count):
    for j in range(U(count)):
        x[j] = phi[U(start + variables[U(1) + j])]


@plain(move)
def _move(weights, k, gain, length, coefficients, variables, count):
    for j in range(U(count)):
        moved = min(max(weights[k, j] + np.float64(gain[j]) * length, -1e15), 1e15)
        weights[k, j] = moved
        coefficients[0, k, U(variables[U(1) + j])] = moved


@plain(inner_product)
def _inner_product(a, i, b, j, length):
    sums = np.zeros(32, dtype=np.float32)
    for k in range(U(length // 32)):
        for lane in range(U(32)):
            sums[lane] = fma(a[U(i) + U(32) * k + lane], b[U(j) + U(32) * k + lane], sums[lane])
    half = 16
    while half:
        for lane in range(half):
            sums[lane] += sums[lane + half]
        half //= 2
    return sums[0]


@plain(add_scaled)
def _add_scaled(out, i, factor, values, j, length):
    low, high = np.float32(-1e15), np.float32(1e15)
    for k in range(U(length)):
        moved = fma(factor, values[U(j) + k], out[U(i) + k])
        moved = moved if moved < high else high
        out[U(i) + k] = moved if moved > low else low


@plain(add_distances)
def _add_distances(out, columns, start, width, values, first, count):
    for j in range(count):
        column = U(start + j * width)
        for k in range(U(width)):
            distance = values[first + j] - columns[column + k]
            out[k] = fma(distance, distance, out[k])


@njit(**INNER)
def nearest(numbers, limit):
    """Return the sum of the places of numbers below a limit, by vectors."""
    places = 0
    for start in range(0, numbers.shape[0], 16):
        bits = below(numbers, start, limit)
        while bits:
            places += start + first_set(bits)
            bits &= bits - np.uint32(1)
    return places


@plain(nearest)
def _nearest(numbers, limit):
    places = 0
    for k in range(numbers.shape[0]):
        if numbers[k] < limit:
            places += k
    return places


_HALF, _LAST, _SHIFT = np.uint64(32), np.uint64(0xFF51AFD7ED558CCD), np.uint64(64 - BITS)


@plain(hash_cells)
def _hash_cells(start, places, inverse, offsets, of_fields, part, phi, first):
    (numbers, codes, factors), (begin, end, fields) = of_fields, part
    for g in range(begin, end):
        cell = start[g]
        for f in range(fields):
            j = places[f, g]
            whole = np.int64(np.floor(numbers[j] * inverse[f, g] + offsets[f, g]))
            cell += (np.uint64(whole) + codes[j]) * factors[f]
        phi[first + g] = np.int64(((cell ^ (cell >> _HALF)) * _LAST) >> _SHIFT)


@plain(sum_cells)
def _sum_cells(table, cells, part, sums):
    p, begin, end = part
    for r in range(table.shape[1]):
        sums[p, r] = np.float32(0.0)
    for g in range(begin, end):
        for r in range(table.shape[1]):
            sums[p, r] += table[cells[g], r]


@plain(add_to_cells)
def _add_to_cells(table, cells, rates, part, gains):
    p, begin, end = part
    for g in range(begin, end):
        for r in range(table.shape[1]):
            table[cells[g], r] += rates[g] * gains[p, r]


@plain(fade)
def _fade(curvature, forgetting, penalty, weight):
    for e in range(curvature.shape[0]):
        for d in range(e + 1):
            for s in range(3):
                curvature[e, d, s] *= forgetting[s]
        for s in range(3):
            curvature[e, e, s] += (1.0 - forgetting[s]) * penalty


@plain(add_products)
def _add_products(curvature, scores, k, means, factors, deviations):
    for e in range(curvature.shape[0]):
        for s in range(3):
            deviations[e, s] = scores[k, e] - means[e, s]
        for d in range(e + 1):
            for s in range(3):
                curvature[e, d, s] += (factors[s] * deviations[e, s]) * deviations[d, s]


@plain(newton_steps)
def _newton_steps(weights, curvature, slopes, work):
    size = weights.shape[1]
    for s in range(3):
        for d in range(size):
            for e in range(d, size):
                work[d, e, s] = curvature[d, e, s] = curvature[e, d, s]
            work[d, size, s] = slopes[d, s]
            for k in range(d):
                for e in range(d, size + 1):
                    work[d, e, s] -= work[k, e, s] * work[k, d, s]
            work[d, d, s] = np.sqrt(max(work[d, d, s], 1e-9))
            for e in range(d + 1, size + 1):
                work[d, e, s] /= work[d, d, s]
        for e in range(size - 1, -1, -1):
            for k in range(e + 1, size):
                work[e, size, s] -= work[e, k, s] * work[k, size, s]
            work[e, size, s] /= work[e, e, s]
            weights[s, e] = min(max(weights[s, e] - work[e, size, s], -1e3), 1e3)


@plain(update)
def _update(diagonal, factor, x, noise, gain):
    left, at = noise, 0
    for j in range(diagonal.shape[0]):
        product = np.float64(x[j])
        for k in range(j):
            product += factor[at + k] * x[k]
        g, before = diagonal[j] * product, left
        left = before + product * g
        diagonal[j] *= before / left
        for k in range(j):
            u = factor[at + k]
            factor[at + k] = u - product / before * gain[k]
            gain[k] += g * u
        gain[j] = g
        at += (j + 15) // 16 * 16
    return left


VALUED = {f for operation in (any_new, inner_product, nearest) for f in (operation, PLAIN[operation])}


def cases() -> dict[str, tuple[Function, tuple[Any, ...]]]:
    """Return operations and what to call them with, by name."""
    rng, one = np.random.default_rng(0), np.float32(1e-9)

    def singles(*shape: int) -> Any:
        return aligned(rng.normal(size=shape).astype(np.float32))

    def words(count: int) -> Any:
        return rng.integers(0, 2**63, count, dtype=np.uint64)

    phi, coefficients, fields, grids = singles(3 * 1024), singles(6 * COLUMNS), 9, 256
    parts = rng.normal(size=(3, EXPERTS, 60))
    curvature, scores = side_by_side(np.tril(parts @ parts.transpose(0, 2, 1))), rng.normal(size=(3, EXPERTS))
    cells = rng.integers(0, CELLS, 96).astype(np.uint32)
    zeros, (_, deviations, work) = side_by_side(np.zeros((3, EXPERTS))), scratch_of(EXPERTS)
    table = {
        "copy 9": (copy, (phi, 3, coefficients, 5, 9)),
        "copy 64": (copy, (phi, 3, coefficients, 5, 64)),
        "clear 9": (clear, (phi, 3, 9)),
        "clear 64": (clear, (phi, 3, 64)),
        "add_rows 16": (
            add_rows, (singles(64), singles(40 * 64), 0, rng.integers(0, 40, 50), singles(50), 0, 16)
        ),
        "add_products_to 40": (add_products_to, (np.zeros(8 * 64), 64, rng.normal(size=64), 40, 1e-9)),
        "any_new": (any_new, (phi, 3, np.ones(INPUTS, np.bool_), INPUTS)),
        "inner_product": (inner_product, (coefficients, 0, phi, 0, COLUMNS)),
        "add_scaled": (add_scaled, (coefficients, COLUMNS, one, phi, 0, COLUMNS)),
        "add_distances": (
            add_distances, (np.zeros(COLUMNS, np.float32), singles(8 * COLUMNS), 0, COLUMNS, singles(8), 0, 8)
        ),
        "nearest": (nearest, (singles(COLUMNS), np.float32(-2.5))),
        "hash_cells": (
            hash_cells,
            (
                words(grids), rng.integers(0, fields, (3, grids)), rng.exponential(size=(3, grids)),
                rng.random((3, grids)), (rng.normal(size=fields) * 50.0, words(fields), words(3)),
                (0, grids, 3), singles(grids), 0,
            ),
        ),
        **{
            f"sum_cells {w}": (sum_cells, (singles(CELLS, w), cells, (0, 0, 96), singles(1, w)))
            for w in (4, 16)
        },
        **{
            f"add_to_cells {w}": (
                add_to_cells, (singles(CELLS, w), cells, singles(96), (0, 0, 96), singles(1, w) * one)
            )
            for w in (4, 16)
        },
        "fade": (fade, (curvature, np.array([1.0, 0.9995, 0.99]), 10.0, 1.0)),
        "add_products": (
            add_products, (curvature, scores, 1, side_by_side(scores), (1e-9, 0.0, 2e-9), deviations)
        ),
        "newton_steps": (newton_steps, (np.zeros((3, EXPERTS)), curvature, zeros, work)),
    }  # fmt: skip
    for order in "adjacent", "scattered":
        columns = np.arange(INPUTS) if order == "adjacent" else rng.permutation(INPUTS)
        variables = np.concatenate([[INPUTS], columns])
        table[f"gather, {order}"] = gather, (singles(INPUTS), phi, 3, variables, INPUTS)
        weights, moved = np.zeros((2, INPUTS)), np.zeros((1, 2, INPUTS), np.float32)
        table[f"move, {order}"] = move, (weights, 1, singles(INPUTS), 1e-9, moved, variables, INPUTS)
    for kind in np.float32, np.float64:
        for size in 40, 256:
            whole = -(-size // 16) * 16
            table[f"update {size}, {kind.__name__}"] = (
                update,
                (
                    np.ones(size), empty_factor(size, kind), zeros_aligned(whole, kind) + kind(1e-3), 1.0,
                    zeros_aligned(whole, kind),
                ),
            )  # fmt: skip
    return table


def repeated(function: Function) -> Function:
    """Return a compiled loop that calls a function many times."""

    @njit(**(ENTRY | {"cache": False}))
    def run(arguments, times, zero):
        for _ in range(times):
            function(*arguments)

    @njit(**(ENTRY | {"cache": False}))
    def run_and_use(arguments, times, zero):
        for _ in range(times):  # a result that nothing needs would not be computed
            arguments[0][0] = function(*arguments) * zero

    return run_and_use if function in VALUED else run


def check_same(runs: list[Function], arguments: tuple[Any, ...]) -> None:
    """Raise an AssertionError if an operation and its plain loop do not leave the same in their arrays."""
    after = []
    for run in runs:
        copies = copied(arguments)
        run(copies, 1, 1.0)
        after.append([a for a in copies if isinstance(a, np.ndarray)])
    for one, other in zip(*after, strict=True):
        used = np.s_[..., :3] if one.shape[-1] == 4 else ...  # the fourth lane of sets holds anything
        np.testing.assert_allclose(one[used], other[used], rtol=1e-4, atol=1e-6)


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with copies of arrays."""
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def nanoseconds(operation: Function, arguments: tuple[Any, ...]) -> tuple[float, float]:
    """Return the least CPU time of an operation and of its plain loop."""
    runs, least = [repeated(operation), repeated(PLAIN[operation])], [np.inf, np.inf]
    check_same(runs, arguments)
    for _ in range(TURNS):
        for k, run in enumerate(runs):
            copies = copied(arguments)
            start = time.process_time_ns()
            run(copies, RUNS, 0.0)
            least[k] = min(least[k], (time.process_time_ns() - start) / RUNS)
    return least[0], least[1]


def main() -> None:
    """Print a table."""
    print("| operation | ns | plain loop, ns | ratio |\n|---|---|---|---|")
    for name, (operation, arguments) in cases().items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            vector, loop = nanoseconds(operation, arguments)
            print(f"| {name} | {vector:.1f} | {loop:.1f} | {loop / vector:.2f} |", flush=True)


if __name__ == "__main__":
    main()
