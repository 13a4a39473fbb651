"""Rows of a table, four numbers at a time: their sum, and the addition of multiples to each of them.

A table ``(cells, width)`` holds the coefficients of a cell side by side: a row is a cache line or less. Its
width is a multiple of four.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import (
    INDEX,
    Builder,
    Value,
    at,
    data,
    fetch,
    index,
    load,
    members,
    shape,
    spread,
    store,
    vector,
)

LANES = 4  # a divisor of the width
_TOGETHER = 4  # sums that do not wait for each other, a divisor of the number of cells


def _row(b: Builder, cells: Value, g: Value, width: Value) -> Value:
    """Return the place of the row of grid ``g``."""
    return b.mul(b.zext(b.load(at(b, cells, g)), INDEX), width)


@intrinsic
def _fetch_cells(typing_context, table, cells):
    """Prefetch the first numbers of the rows of all cells."""

    def generate(context, b, signature, arguments):
        table_, cells_ = (data(context, b, signature, arguments, k) for k in range(2))
        width = shape(context, b, signature, arguments, 0)[1]
        count = shape(context, b, signature, arguments, 1)[0]
        with cgutils.for_range(b, count) as loop:
            fetch(b, at(b, table_, _row(b, cells_, loop.index, width)), 1)
        return context.get_dummy_value()

    return types.void(table, cells), generate


@intrinsic
def _sum_cells(typing_context, table, cells, part, sums):
    """Set row ``p`` of ``sums`` to the sum of the rows of ``cells[begin:end]``, a multiple of four.

    The ``part`` is ``(p, begin, end)``.
    """

    def generate(context, b, signature, arguments):
        table_, cells_ = (data(context, b, signature, arguments, k) for k in range(2))
        part, begin, end = members(context, b, signature, arguments, 2)
        width, kind = shape(context, b, signature, arguments, 0)[1], vector(LANES)
        out = at(b, data(context, b, signature, arguments, 3), b.mul(part, width))
        totals = [cgutils.alloca_once(b, kind) for _ in range(_TOGETHER)]
        with cgutils.for_range_slice(b, index(0), width, index(LANES)) as (r, _):
            for total in totals:
                b.store(ir.Constant(kind, [0.0] * LANES), total)
            with cgutils.for_range_slice(b, begin, end, index(_TOGETHER)) as (g, _):
                for k, total in enumerate(totals):
                    row = at(b, table_, _row(b, cells_, b.add(g, index(k)), width), r)
                    b.store(b.fadd(b.load(total), load(b, row, LANES)), total)
            one, two, three, four = (b.load(total) for total in totals)
            store(b, b.fadd(b.fadd(one, two), b.fadd(three, four)), at(b, out, r))
        return context.get_dummy_value()

    return types.void(table, cells, part, sums), generate


@intrinsic
def _add_to_cells(typing_context, table, cells, rates, part, gains):
    """Add to the row of each of ``cells[begin:end]`` its rate times row ``p`` of the gains."""

    def generate(context, b, signature, arguments):
        table_, cells_, rates_ = (data(context, b, signature, arguments, k) for k in range(3))
        part, begin, end = members(context, b, signature, arguments, 3)
        width = shape(context, b, signature, arguments, 0)[1]
        gains_ = at(b, data(context, b, signature, arguments, 4), b.mul(part, width))
        with cgutils.for_range_slice(b, index(0), width, index(LANES)) as (r, _):
            gain = load(b, at(b, gains_, r), LANES)
            with cgutils.for_range_slice(b, begin, end, index(1)) as (g, _):
                row = at(b, table_, _row(b, cells_, g, width), r)
                rate = spread(b, b.load(at(b, rates_, g)), LANES)
                store(b, b.fadd(load(b, row, LANES), b.fmul(gain, rate)), row)
        return context.get_dummy_value()

    return types.void(table, cells, rates, part, gains), generate


fetch_cells: Compiled = _fetch_cells
sum_cells: Compiled = _sum_cells
add_to_cells: Compiled = _add_to_cells
