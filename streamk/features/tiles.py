"""Rows of numbers into tiles, and tiles into features: where lanes and rows change places.

Sixteen rows are a tile once they are transposed, and a transformed tile becomes features of rows once it is
transposed back, sixteen coordinates at a time. The angles, and the cosines if they are wanted, are
made on the way, in registers: a feature is written once and a projection never.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from streamk.features.cosine import cosine_turns
from streamk.features.lanes import (
    FLOAT,
    LANES,
    at,
    call,
    data,
    fma,
    index,
    load,
    shape,
    spread,
    store,
    times,
    transpose,
    vector,
)

_BITS = ir.IntType(LANES)


@intrinsic
def _gather(typing_context, rows, first, last, column, places, tile, limit):  # type: ignore[no-untyped-def]
    """Write columns ``column … column + 15`` of sixteen rows of a matrix into a tile.

    The rows are ``first … first + 15``, those after ``last`` being ``last`` again, and column ``j`` goes
    to the vector at ``places[j]``. Returns whether every number was at most ``limit`` in size.
    """
    n = types.intp

    def generate(context, b, signature, arguments):  # type: ignore[no-untyped-def]
        source, place, out = (data(context, b, signature, arguments, k) for k in (0, 4, 5))
        _, first, last, column, _, _, limit = arguments
        columns = shape(context, b, signature, arguments, 0)[1]
        bound, good = spread(b, limit), None
        v = []
        for lane in range(LANES):
            row = b.add(first, index(lane))
            row = b.select(b.icmp_signed("<", row, last), row, last)
            value = load(b, at(b, source, b.mul(row, columns), column))
            if value.type.element != FLOAT:
                value = b.fptrunc(value, vector())
            fits = b.fcmp_ordered("<=", call(b, "fabs", value), bound)
            good = fits if good is None else b.and_(good, fits)
            v.append(value)
        for j, value in enumerate(transpose(b, v)):
            store(b, value, at(b, out, b.load(at(b, place, column, index(j)))))
        word = b.bitcast(good, _BITS)
        return b.icmp_unsigned("==", word, _BITS(0xFFFF))

    return types.boolean(rows, n, n, n, places, tile, types.float32), generate


def _emitting(finish: bool) -> Any:
    @intrinsic
    def emit(  # type: ignore[no-untyped-def]
        typing_context, tile, start, waves, radius, f, step, copies, begin, amplitude, out, to, across, count
    ):  # fmt: skip
        """Turn sixteen coordinates of a tile into features (or into angles, to be added to).

        The sixteen vectors from ``start`` on are transposed: lane ``l < count`` has the projections of
        features ``f + l·step + 16c …`` of copy ``c < copies``, whose angle is its radius (row ``radius`` of
        ``waves``) times the projection, plus its phase (row 0) if this is the ``begin``ning and plus what
        is in ``out`` if not. They go to ``out`` (flat) from ``to + l·across + 16c`` on; features past the
        columns of ``waves`` do not exist.
        """
        n = types.intp

        def generate(context, b, signature, arguments):  # type: ignore[no-untyped-def]
            source, wave, target = (data(context, b, signature, arguments, k) for k in (0, 2, 9))
            _, start, _, radius, f, step, copies, begin, amplitude, _, to, across, count = arguments
            width = shape(context, b, signature, arguments, 2)[1]
            radii = at(b, wave, b.mul(radius, width))
            lanes = transpose(b, [load(b, at(b, source, start, index(j * LANES))) for j in range(LANES)])
            scale = spread(b, amplitude)
            with cgutils.for_range(b, copies) as loop:
                offset = times(b, loop.index, LANES)
                for lane, projection in enumerate(lanes):
                    feature = b.add(b.add(f, offset), b.mul(step, index(lane)))
                    there = b.icmp_signed("<", index(lane), count)
                    with b.if_then(b.and_(there, b.icmp_signed("<", feature, width))):
                        place = at(b, target, to, offset, b.mul(across, index(lane)))
                        zero = load(b, b.select(begin, at(b, wave, feature), place))
                        value = fma(b, projection, load(b, at(b, radii, feature)), zero)
                        if finish:
                            value = b.fmul(scale, cosine_turns(b, value))
                        store(b, value, place)
            return context.get_dummy_value()

        arguments = (tile, n, waves, n, n, n, n, types.boolean, types.float32, out, n, n, n)
        return types.void(*arguments), generate

    return emit


@intrinsic
def _cosines(typing_context, angles, i, f, amplitude):  # type: ignore[no-untyped-def]
    """Turn ``angles[i, f:f+16]`` into ``amplitude · cos``, in place."""
    n = types.intp

    def generate(context, b, signature, arguments):  # type: ignore[no-untyped-def]
        width = shape(context, b, signature, arguments, 0)[1]
        row = b.mul(arguments[1], width)
        pointer = at(b, data(context, b, signature, arguments, 0), row, arguments[2])
        store(b, b.fmul(spread(b, arguments[3]), cosine_turns(b, load(b, pointer))), pointer)
        return context.get_dummy_value()

    return types.void(angles, n, n, types.float32), generate


# Numba's annotations count the typing context among the arguments
gather: Any = _gather
cosines: Any = _cosines
emit_angles, emit_cosines = _emitting(False), _emitting(True)
