"""Sixteen variables at a time: reading and writing the columns of a row that an expert uses.

A variable is a column of an expert that has ever been other than 0, and ``variables[1 + j]`` is the column of
variable ``j``. Columns are mostly adjacent: sixteen adjacent ones are read and written as one vector, others
one by one, with the same operations.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import (
    DOUBLE,
    INDEX,
    LANES,
    Builder,
    Value,
    at,
    bounded,
    data,
    index,
    load,
    shape,
    spread,
    store,
    times,
    vector,
)
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT

_LANE = ir.IntType(32)


@intrinsic
def _any_new(typing_context, phi, start, known, count):
    """Return whether one of ``count`` columns, a multiple of 16, is other than 0 and no variable."""

    def generate(context, b, signature, arguments):
        row = at(b, data(context, b, signature, arguments, 0), arguments[1])
        known = data(context, b, signature, arguments, 2)
        new_lanes = cgutils.alloca_once_value(b, ir.Constant(vector(kind=ir.IntType(1)), [0] * LANES))
        zero = ir.Constant(vector(), [0.0] * LANES)
        byte = vector(kind=ir.IntType(8))
        with cgutils.for_range(b, b.ashr(arguments[3], index(4))) as loop:
            k = times(b, loop.index, LANES)
            there = b.fcmp_unordered("!=", load(b, at(b, row, k)), zero)
            variable = b.load(b.bitcast(at(b, known, k), byte.as_pointer()), align=1)
            new = b.and_(there, b.icmp_signed("==", variable, ir.Constant(byte, [0] * LANES)))
            b.store(b.or_(b.load(new_lanes), new), new_lanes)
        word = ir.IntType(LANES)
        return b.icmp_unsigned("!=", b.bitcast(b.load(new_lanes), word), word(0))

    n = types.intp
    return types.boolean(phi, n, known, n), generate


@intrinsic
def _gathered(typing_context, x, phi, start, variables, count):
    """Set ``x[j]`` to ``phi[start + variables[1 + j]]``, ``count`` being a multiple of 16."""

    def generate(context, b, signature, arguments):
        out, row, variables = (data(context, b, signature, arguments, k) for k in (0, 1, 3))
        row, variables = at(b, row, arguments[2]), at(b, variables, index(1))
        with cgutils.for_range(b, b.ashr(arguments[4], index(4))) as loop:
            j = times(b, loop.index, LANES)
            columns, follow = _columns_from(b, variables, j)
            with b.if_else(follow) as (together, apart):
                with together:
                    values = load(b, at(b, row, b.load(at(b, variables, j))))
                    store(b, values, at(b, out, j))
                with apart:
                    for lane in range(LANES):
                        column = b.extract_element(columns, ir.Constant(_LANE, lane))
                        b.store(b.load(at(b, row, column)), at(b, out, j, index(lane)))
        return context.get_dummy_value()

    n = types.intp
    return types.void(x, phi, n, variables, n), generate


@intrinsic
def _moved(typing_context, weights, k, gain, length, coefficients, variables, count):
    """Add ``gain · length`` to weights of output ``k`` within their bounds, and copy them to coefficients.

    ``count`` is a multiple of 16; coefficients are the first of two or more of shape ``(outputs, columns)``.
    """

    def generate(context, b, signature, arguments):
        exact, gains, out, variables = (data(context, b, signature, arguments, k) for k in (0, 2, 4, 5))
        exact = at(b, exact, b.mul(arguments[1], shape(context, b, signature, arguments, 0)[1]))
        out = at(b, out, b.mul(arguments[1], shape(context, b, signature, arguments, 4)[2]))
        variables, length = at(b, variables, index(1)), spread(b, arguments[3])
        with cgutils.for_range(b, b.ashr(arguments[6], index(4))) as loop:
            j = times(b, loop.index, LANES)
            gain = b.fpext(load(b, at(b, gains, j)), vector(kind=DOUBLE))
            moved = b.fadd(load(b, at(b, exact, j)), b.fmul(gain, length))
            moved = bounded(b, moved, LARGEST_COEFFICIENT)
            store(b, moved, at(b, exact, j))
            rounded = b.fptrunc(moved, vector())
            columns, follow = _columns_from(b, variables, j)
            with b.if_else(follow) as (together, apart):
                with together:
                    store(b, rounded, at(b, out, b.load(at(b, variables, j))))
                with apart:
                    for lane in range(LANES):
                        place = ir.Constant(_LANE, lane)
                        b.store(
                            b.extract_element(rounded, place), at(b, out, b.extract_element(columns, place))
                        )
        return context.get_dummy_value()

    n, number = types.intp, types.float64
    return types.void(weights, n, gain, number, coefficients, variables, n), generate


def _columns_from(b: Builder, variables: Value, j: Value) -> tuple[Value, Value]:
    """Return the columns of sixteen variables, and whether they follow one another."""
    columns = b.load(b.bitcast(at(b, variables, j), vector(kind=INDEX).as_pointer()), align=8)
    first = spread(b, b.load(at(b, variables, j)))
    lanes = ir.Constant(columns.type, list(range(LANES)))
    word = ir.IntType(LANES)
    other = b.bitcast(b.icmp_signed("!=", columns, b.add(first, lanes)), word)
    return columns, b.icmp_unsigned("==", other, word(0))


any_new: Compiled = _any_new
gather: Compiled = _gathered
move: Compiled = _moved
