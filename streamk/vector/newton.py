"""Newton steps by Cholesky factors, in loops of a fixed order: the bits do not depend on any library.

Three sets of weights are processed side by side: numbers of the same place are adjacent lanes of one vector,
whose fourth lane is unused. So a matrix of each set is an array ``(E, E, 4)``, of which an event changes the
lower triangle. The factors are ``L`` of ``L Lᵀ = curvature``, stored by column. The slopes are one more row
of ``L``, which solves ``L y = slope``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.arrays import Array
from streamk.compiling import INNER, Compiled
from streamk.vector.lanes import (
    DOUBLE,
    Builder,
    Value,
    Values,
    at,
    call,
    data,
    index,
    load,
    shape,
    spread,
    store,
    times,
    vector,
    vector_of,
    zeros_aligned,
)

SETS = 3  # side by side
_LANES = 4
_BESIDE = 4  # rows of a factor that do not wait for each other
_LARGEST_WEIGHT = 1e3
_LEAST = 1e-9  # of a pivot


def _at(b: Builder, start: Value, row: Value, column: Value, width: Value) -> Value:
    """Return the pointer to the lanes of a place in an array of so many columns."""
    return at(b, start, times(b, b.add(b.mul(row, width), column), _LANES))


def _lanes_of(b: Builder, numbers: Values) -> Value:
    """Return a vector of a number for each set."""
    return vector_of(b, [*numbers, ir.Constant(DOUBLE, 0.0)])


@intrinsic
def _fade(typing_context, curvature, first, second, third, penalty):
    """Multiply lower triangles by ``f``, a number for each set, and add ``(1 − f) penalty`` to diagonals."""

    def generate(context, b, signature, arguments):
        start = data(context, b, signature, arguments, 0)
        size = shape(context, b, signature, arguments, 0)[0]
        kept, penalty = _lanes_of(b, arguments[1:4]), spread(b, arguments[4], _LANES)
        one = ir.Constant(kept.type, [1.0] * _LANES)
        added = b.fmul(b.fsub(one, kept), penalty)
        with cgutils.for_range(b, size) as rows:
            e = rows.index
            with cgutils.for_range(b, b.add(e, index(1))) as columns:
                place = _at(b, start, e, columns.index, size)
                store(b, b.fmul(load(b, place, _LANES), kept), place)
            place = _at(b, start, e, e, size)
            store(b, b.fadd(load(b, place, _LANES), added), place)
        return context.get_dummy_value()

    n = types.float64
    return types.void(curvature, n, n, n, n), generate


@intrinsic
def _add_products(typing_context, curvature, scores, k, means, first, second, third, scratch):
    """Add ``f (s − m)(s − m)ᵀ`` to the lower triangles, ``f`` being a number for each set.

    ``s`` is row ``k`` of ``scores``, and ``m`` are the ``means`` of each set, ``(E, 4)`` like ``scratch``.
    """

    def generate(context, b, signature, arguments):
        start, scores, means, scratch = (data(context, b, signature, arguments, k) for k in (0, 1, 3, 7))
        size = shape(context, b, signature, arguments, 0)[0]
        scores, factor = at(b, scores, b.mul(arguments[2], size)), _lanes_of(b, arguments[4:7])
        with cgutils.for_range(b, size) as rows:
            e = rows.index
            place = times(b, e, _LANES)
            score = spread(b, b.load(at(b, scores, e)), _LANES)
            deviation = b.fsub(score, load(b, at(b, means, place), _LANES))
            store(b, deviation, at(b, scratch, place))
            part = b.fmul(factor, deviation)
            with cgutils.for_range(b, b.add(e, index(1))) as columns:
                d = columns.index
                place = _at(b, start, e, d, size)
                product = b.fmul(part, load(b, at(b, scratch, times(b, d, _LANES)), _LANES))
                store(b, b.fadd(load(b, place, _LANES), product), place)
        return context.get_dummy_value()

    n = types.float64
    return types.void(curvature, scores, types.intp, means, n, n, n, scratch), generate


@intrinsic
def _factorise(typing_context, curvature, slopes, work):
    """Fill ``work`` ``(E, E + 1, 4)`` with factors, a column in each row, and ``y`` after it.

    Of row ``e`` in column ``d``, products with the columns before are subtracted in order; then it is divided
    by the root of what is left of the pivot. The upper triangles of ``curvature`` become the lower ones.
    """

    def generate(context, b, signature, arguments):
        matrix, slopes, work = (data(context, b, signature, arguments, k) for k in range(3))
        size = shape(context, b, signature, arguments, 0)[0]
        width = b.add(size, index(1))

        def subtract(d: Value, starts: list[Value], rows: list[Value]) -> None:
            """Write rows of column ``d``, from what they start with, not yet divided."""
            remainders = [cgutils.alloca_once_value(b, start) for start in starts]
            with cgutils.for_range(b, d) as before:
                factor = load(b, _at(b, work, before.index, d, width), _LANES)
                for remainder, e in zip(remainders, rows, strict=True):
                    product = b.fmul(load(b, _at(b, work, before.index, e, width), _LANES), factor)
                    b.store(b.fsub(b.load(remainder), product), remainder)
            for remainder, e in zip(remainders, rows, strict=True):
                store(b, b.load(remainder), _at(b, work, d, e, width))

        def copied(d: Value, rows: list[Value]) -> list[Value]:
            """Return rows of the lower triangle, and copy them to the upper one."""
            loaded = [load(b, _at(b, matrix, e, d, size), _LANES) for e in rows]
            for e, number in zip(rows, loaded, strict=True):
                store(b, number, _at(b, matrix, d, e, size))
            return loaded

        with cgutils.for_range(b, size) as columns:
            d = columns.index
            whole = b.sub(size, b.srem(b.sub(size, d), index(_BESIDE)))
            with cgutils.for_range_slice(b, d, whole, index(_BESIDE)) as (e, _):
                rows = [b.add(e, index(k)) for k in range(_BESIDE)]
                subtract(d, copied(d, rows), rows)
            with cgutils.for_range(b, size, start=whole) as tail:
                subtract(d, copied(d, [tail.index]), [tail.index])
            subtract(d, [load(b, at(b, slopes, times(b, d, _LANES)), _LANES)], [size])
            place = _at(b, work, d, d, width)
            left, least = load(b, place, _LANES), ir.Constant(vector(_LANES, DOUBLE), [_LEAST] * _LANES)
            pivot = call(b, "sqrt", b.select(b.fcmp_ordered(">", least, left), least, left))
            store(b, pivot, place)
            with cgutils.for_range(b, width, start=b.add(d, index(1))) as rows:
                place = _at(b, work, d, rows.index, width)
                store(b, b.fdiv(load(b, place, _LANES), pivot), place)
        return context.get_dummy_value()

    return types.void(curvature, slopes, work), generate


@intrinsic
def _solve(typing_context, work):
    """Solve ``Lᵀ x = y`` from the last number on; ``y`` follows the factors, and ``x`` replaces it."""

    def generate(context, b, signature, arguments):
        work = data(context, b, signature, arguments, 0)
        size, width, _ = shape(context, b, signature, arguments, 0)
        remainder = cgutils.alloca_once(b, vector(_LANES, DOUBLE))
        with cgutils.for_range(b, size) as loop:
            e = b.sub(b.sub(size, index(1)), loop.index)
            place = _at(b, work, e, size, width)
            b.store(load(b, place, _LANES), remainder)
            with cgutils.for_range(b, size, start=b.add(e, index(1))) as after:
                k = after.index
                solved = load(b, _at(b, work, k, size, width), _LANES)
                product = b.fmul(load(b, _at(b, work, e, k, width), _LANES), solved)
                b.store(b.fsub(b.load(remainder), product), remainder)
            store(b, b.fdiv(b.load(remainder), load(b, _at(b, work, e, e, width), _LANES)), place)
        return context.get_dummy_value()

    return types.void(work), generate


_fade_lanes: Compiled = _fade
_add_lanes: Compiled = _add_products
_factors: Compiled = _factorise
_solutions: Compiled = _solve


def side_by_side(matrices: Array) -> Array:
    """Return matrices or vectors of each set with the sets side by side.

    Examples
    --------
    >>> side_by_side(np.arange(6.0).reshape(3, 2)).tolist()
    [[0.0, 2.0, 4.0, 0.0], [1.0, 3.0, 5.0, 0.0]]
    """
    sizes = matrices.shape[1:]
    lanes = zeros_aligned(int(np.prod(sizes)) * _LANES).reshape(*sizes, _LANES)
    by_set(lanes)[:] = matrices
    return lanes


def by_set(lanes: Array) -> Array:
    """Return a view of arrays that are side by side, one of each set after the other."""
    return np.moveaxis(lanes[..., :SETS], -1, 0)


def scratch_of(size: int) -> tuple[Array, ...]:
    """Return slopes, and the scratch arrays of :func:`add_products` and :func:`newton_steps`.

    They are for sets of ``size`` weights.
    """
    return tuple(side_by_side(np.zeros((SETS, size, *more))) for more in ((), (), (size + 1,)))


@njit(**INNER)
def fade(curvature, forgetting, penalty, weight):
    """Fade curvatures, side by side, towards their initial value ``penalty I``; one ``forgetting`` a set."""
    one, two, three = forgetting[0], forgetting[1], forgetting[2]
    if weight != 1.0:
        one, two, three = one**weight, two**weight, three**weight
    _fade_lanes(curvature, one, two, three, penalty)


@njit(**INNER)
def add_products(curvature, scores, k, means, factors, deviations):
    """Add ``f (s − m)(s − m)ᵀ`` to curvatures, side by side.

    ``s`` is row ``k`` of ``scores``, ``m`` the ``means`` of each set, ``(E, 4)``, and ``f`` its number in
    ``factors``. ``deviations`` is scratch.
    """
    one, two, three = factors
    _add_lanes(curvature, scores, k, means, one, two, three, deviations)


@njit(**INNER)
def newton_steps(weights, curvature, slopes, work):
    """Move three sets of ``weights`` ``(3, E)`` by ``−curvature⁻¹ slope`` each; they end at ±1,000.

    ``curvature`` and ``slopes`` are side by side. The lower triangle of a curvature is read, and the upper
    filled with the same. ``work`` is scratch.
    """
    _factors(curvature, slopes, work)
    _solutions(work)
    sets, size = weights.shape
    for s in range(sets):
        for e in range(size):
            moved = weights[s, e] - work[e, size, s]
            weights[s, e] = min(max(moved, -_LARGEST_WEIGHT), _LARGEST_WEIGHT)
