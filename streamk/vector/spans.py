"""Spans of numbers in flat arrays: copied, cleared, and added up in the order of a plain loop.

A loop over a span compiles to tests for overlap and a remainder, which take longer than such short spans. The
functions take offsets in the flat arrays, and every product and every sum is rounded separately.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import DOUBLE, FLOAT, LANES, at, data, index, load, spread, store, times, vector

_BYTES = 4  # of a float32 number
_WHOLE = 4  # vectors of a row of relevance
_INDEX, _NUMBER = types.intp, types.float32


@intrinsic
def _copy(typing_context, out, to, source, start, count):
    """Copy ``count`` float32 numbers from ``source`` to a place that does not overlap."""

    def generate(context, b, signature, arguments):
        there = at(b, data(context, b, signature, arguments, 0), arguments[1])
        here = at(b, data(context, b, signature, arguments, 2), arguments[3])
        cgutils.raw_memcpy(b, there, here, arguments[4], _BYTES)
        return context.get_dummy_value()

    return types.void(out, _INDEX, source, _INDEX, _INDEX), generate


@intrinsic
def _clear(typing_context, out, to, count):
    """Set ``count`` float32 numbers to 0."""

    def generate(context, b, signature, arguments):
        there = at(b, data(context, b, signature, arguments, 0), arguments[1])
        cgutils.memset(b, there, times(b, arguments[2], _BYTES), 0)
        return context.get_dummy_value()

    return types.void(out, _INDEX, _INDEX), generate


@intrinsic
def _add_rows(typing_context, out, rows, start, places, values, first, count):
    """Fill the 64 numbers of ``out`` with ``Σ_m rows[start + 64 places[m] :] values[first + m]``, float32.

    The sums start at 0 and run over ``m < count`` in order; a place of 0 adds 0.
    """

    def generate(context, b, signature, arguments):
        out, rows, places, values = (data(context, b, signature, arguments, k) for k in (0, 1, 3, 4))
        rows, values = at(b, rows, arguments[2]), at(b, values, arguments[5])
        zero = ir.Constant(vector(), [0.0] * LANES)
        totals = [cgutils.alloca_once_value(b, zero) for _ in range(_WHOLE)]
        with cgutils.for_range(b, arguments[6]) as loop:
            place = b.load(at(b, places, loop.index))
            value = b.load(at(b, values, loop.index))
            used = b.icmp_signed(">", place, index(0))
            factor = spread(b, b.select(used, value, ir.Constant(FLOAT, 0.0)))
            row = at(b, rows, times(b, place, _WHOLE * LANES))
            for v, total in enumerate(totals):
                product = b.fmul(load(b, at(b, row, index(v * LANES))), factor)
                b.store(b.fadd(b.load(total), product), total)
        for v, total in enumerate(totals):
            store(b, b.load(total), at(b, out, index(v * LANES)))
        return context.get_dummy_value()

    return types.void(out, rows, _INDEX, places, values, _INDEX, _INDEX), generate


@intrinsic
def _add_products(typing_context, sums, start, values, last, factor):
    """Add ``factor · (values[last] values[k])`` to ``sums[start + k]`` for ``k ≤ last``, float64.

    ``sums`` and ``values`` are read up to the next multiple of 16; numbers after ``last`` do not change.
    """

    def generate(context, b, signature, arguments):
        sums, values = (data(context, b, signature, arguments, k) for k in (0, 2))
        sums, last = at(b, sums, arguments[1]), arguments[3]
        value, factor = spread(b, b.load(at(b, values, last))), spread(b, arguments[4])
        lanes = ir.Constant(vector(kind=ir.IntType(64)), list(range(LANES)))
        zero = ir.Constant(vector(kind=DOUBLE), [0.0] * LANES)
        with cgutils.for_range(b, b.add(b.ashr(last, index(4)), index(1))) as loop:
            k = times(b, loop.index, LANES)
            product = b.fmul(factor, b.fmul(value, load(b, at(b, values, k))))
            within = b.icmp_signed("<=", b.add(lanes, spread(b, k)), spread(b, last))
            place = at(b, sums, k)
            store(b, b.fadd(load(b, place), b.select(within, product, zero)), place)
        return context.get_dummy_value()

    return types.void(sums, _INDEX, values, _INDEX, types.float64), generate


copy: Compiled = _copy
clear: Compiled = _clear
add_rows: Compiled = _add_rows
add_products_to: Compiled = _add_products
