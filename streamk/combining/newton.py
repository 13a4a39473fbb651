"""Newton steps by Cholesky factors, in loops of a fixed order: the bits do not depend on any library.

Three sets of weights are factorised in parallel: while one waits for a square root or a division, the
others compute. In each set, column ``d`` of the factor ``L`` is row ``d`` of a matrix, so rows of ``L`` are
in lanes; the slope is one more row of ``L``, which solves ``L y = slope``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.arrays import Array
from streamk.compiling import INNER, Compiled
from streamk.features.lanes import DOUBLE, Builder, Value, at, data, index, load, shape, spread, store, times

SETS = 3  # side by side
_LANES = 8
_LARGEST_WEIGHT = 1e3
_LEAST = 1e-9  # of a pivot


@intrinsic
def _factorise(typing_context, work):
    """Make factors of matrices ``(3, size, padded)``, a column in each row, where slopes follow row ``size``.

    Of row ``e`` in column ``d``, products with the columns before are subtracted in order; then it is divided
    by the root of what is left of the pivot.
    """

    def generate(context, b, signature, arguments):
        start = data(context, b, signature, arguments, 0)
        _, size, padded = shape(context, b, signature, arguments, 0)
        apart = b.mul(size, padded)
        parts = [at(b, start, times(b, apart, s)) for s in range(SETS)]
        rest = [cgutils.alloca_once(b, ir.VectorType(DOUBLE, _LANES)) for _ in parts]
        pivots = [cgutils.alloca_once(b, DOUBLE) for _ in parts]
        vectors, least = b.ashr(padded, index(3)), ir.Constant(DOUBLE, _LEAST)
        with cgutils.for_range(b, size) as columns:
            d = columns.index
            first = b.ashr(d, index(3))
            with cgutils.for_range(b, vectors, start=first) as lanes:
                e = times(b, lanes.index, _LANES)
                own = [at(b, part, b.mul(d, padded), e) for part in parts]
                for s in range(SETS):
                    b.store(load(b, own[s], _LANES), rest[s])
                with cgutils.for_range(b, d) as before:
                    row = b.mul(before.index, padded)
                    for s, part in enumerate(parts):
                        factor = spread(b, b.load(at(b, part, row, d)), _LANES)
                        product = b.fmul(load(b, at(b, part, row, e), _LANES), factor)
                        b.store(b.fsub(b.load(rest[s]), product), rest[s])
                with b.if_then(b.icmp_signed("==", lanes.index, first)):
                    for s in range(SETS):
                        left = b.extract_element(b.load(rest[s]), b.sub(d, e))
                        left = b.select(b.fcmp_ordered(">", least, left), least, left)
                        b.store(_root(b, left), pivots[s])
                for s in range(SETS):
                    pivot = spread(b, b.load(pivots[s]), _LANES)
                    store(b, b.fdiv(b.load(rest[s]), pivot), own[s])
            for part, pivot in zip(parts, pivots, strict=True):
                b.store(b.load(pivot), at(b, part, b.mul(d, padded), d))
        return context.get_dummy_value()

    return types.void(work), generate


@intrinsic
def _solve(typing_context, work):
    """Solve ``Lᵀ x = y`` from the last number on; ``y`` follows the factors, and ``x`` replaces it."""

    def generate(context, b, signature, arguments):
        start = data(context, b, signature, arguments, 0)
        _, size, padded = shape(context, b, signature, arguments, 0)
        apart = b.mul(size, padded)
        parts = [at(b, start, times(b, apart, s)) for s in range(SETS)]
        rest = [cgutils.alloca_once(b, DOUBLE) for _ in parts]
        with cgutils.for_range(b, size) as loop:
            e = b.sub(b.sub(size, index(1)), loop.index)
            row = b.mul(e, padded)
            places = [at(b, part, row, size) for part in parts]
            for s in range(SETS):
                b.store(b.load(places[s]), rest[s])
            with cgutils.for_range(b, size, start=b.add(e, index(1))) as after:
                k = after.index
                solved = b.mul(k, padded)
                for s, part in enumerate(parts):
                    product = b.fmul(b.load(at(b, part, row, k)), b.load(at(b, part, solved, size)))
                    b.store(b.fsub(b.load(rest[s]), product), rest[s])
            for s, part in enumerate(parts):
                b.store(b.fdiv(b.load(rest[s]), b.load(at(b, part, row, e))), places[s])
        return context.get_dummy_value()

    return types.void(work), generate


def _root(b: Builder, number: Value) -> Value:
    kind = ir.FunctionType(DOUBLE, [DOUBLE])
    return b.call(cgutils.get_or_insert_function(b.module, kind, "llvm.sqrt.f64"), [number])


_factors: Compiled = _factorise
_solutions: Compiled = _solve


def scratch_of(sets: int, size: int) -> tuple[Array, Array]:
    """Return the slopes and the scratch array of :func:`newton_steps`, for sets of so many weights."""
    return np.empty((sets, size)), np.empty((sets, size, (size + _LANES) // _LANES * _LANES))


@njit(**INNER)
def newton_steps(weights, curvature, slopes, work):
    """Move three sets of ``weights`` ``(3, E)`` by ``−curvature⁻¹ slope`` each; they end at ±1,000.

    The lower triangle of a curvature is read, and the upper filled with the same. ``work`` is scratch.
    """
    sets, size = weights.shape
    work[:] = 0.0
    for s in range(sets):
        for e in range(size):
            for d in range(e + 1):
                work[s, d, e] = curvature[s, d, e] = curvature[s, e, d]
            work[s, e, size] = slopes[s, e]
    _factors(work)
    _solutions(work)
    for s in range(sets):
        for e in range(size):
            moved = weights[s, e] - work[s, e, size]
            weights[s, e] = min(max(moved, -_LARGEST_WEIGHT), _LARGEST_WEIGHT)
