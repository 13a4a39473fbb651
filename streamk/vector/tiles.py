"""Transposition of rows into tiles, and of tiles into features.

A tile is sixteen transposed rows, and a transformed tile is transposed back into features of rows, sixteen
coordinates at a time. Angles, and optionally cosines, are computed in registers during this step: a feature
is written once and a projection never.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import (
    FLOAT,
    HERE,
    LANES,
    Registers,
    at,
    call,
    cosine_turns,
    data,
    fma,
    index,
    load,
    members,
    shape,
    spread,
    store,
    times,
    transpose,
    vector,
)


class Finish(NamedTuple):
    """Conversion of projections to features.

    ``waves`` ``(2 + segments, features)`` float32 has the phases in row 0, and radii in row ``radius``. A
    projection has ``copies`` features; their angles ``begin`` at the phases, or at the existing angles.
    ``amplitude`` is that of the cosines; 0 writes the angles.
    """

    waves: object
    radius: object
    copies: object
    begin: object
    amplitude: object


class Target(NamedTuple):
    """Destination of features: feature ``f`` of lane ``l < lanes`` at ``out[to + l · across + f]`` (flat).

    If lanes start at different features, ``across`` is the stride of their starts.
    """

    out: object
    to: object
    across: object
    lanes: object


def gathering(registers: Registers) -> Compiled:
    """Return the intrinsic that writes rows into a tile."""
    lanes = registers.lanes

    @intrinsic
    def gather(typing_context, rows, first, last, column, places, tile, limit):
        """Write columns ``column … column + 15`` of sixteen rows of a matrix into a tile.

        The rows are ``first … first + 15``, those after ``last`` being ``last`` again, and column ``j`` goes
        to the vector at ``places[j]``. Returns whether all absolute values were at most ``limit``.
        """
        n = types.intp

        def generate(context, b, signature, arguments):
            source, place, out = (data(context, b, signature, arguments, k) for k in (0, 4, 5))
            _, first, last, column, _, _, limit = arguments
            columns = shape(context, b, signature, arguments, 0)[1]
            bound, good = spread(b, limit, lanes), None
            begins = []
            for lane in range(LANES):
                row = b.add(first, index(lane))
                begins.append(b.mul(b.select(b.icmp_signed("<", row, last), row, last), columns))
            for part, c in product(range(0, LANES, lanes), repeat=2):
                v = []
                for begin in begins[part : part + lanes]:
                    value = load(b, at(b, source, begin, column, index(c)), lanes)
                    if value.type.element != FLOAT:
                        value = b.fptrunc(value, vector(lanes))
                    fits = b.fcmp_ordered("<=", call(b, "fabs", value), bound)
                    good = fits if good is None else b.and_(good, fits)
                    v.append(value)
                for j, value in enumerate(transpose(b, v)):
                    there = b.load(at(b, place, column, index(c + j)))
                    store(b, value, at(b, out, there, index(part)))
            word = ir.IntType(lanes)
            return b.icmp_unsigned("==", b.bitcast(good, word), word((1 << lanes) - 1))

        return types.boolean(rows, n, n, n, places, tile, types.float32), generate

    return gather


def emitting(finished: bool, registers: Registers) -> Compiled:
    """Return the intrinsic that converts a tile to features, or adds to angles."""
    lanes = registers.lanes

    @intrinsic
    def emit(typing_context, tile, start, f, step, finish, target):
        """Convert sixteen coordinates of a tile to features.

        The sixteen vectors from ``start`` on are transposed: lane ``l`` has the projections of features
        ``f + l·step + 16c …`` of copy ``c``. Their angles are their radii times the projection, added to the
        initial angles, and are written ``16c`` numbers after the place of ``f`` for lane ``l``. Features
        beyond the columns of the waves do not exist.
        """
        n = types.intp

        def generate(context, b, signature, arguments):
            source = data(context, b, signature, arguments, 0)
            _, start, f, step, _, _ = arguments
            waves, radius, copies, begin, amplitude = members(context, b, signature, arguments, 4)
            out, to, across, count = members(context, b, signature, arguments, 5)
            width = cgutils.unpack_tuple(b, waves.shape)[1]
            radii = at(b, waves.data, b.mul(radius, width))
            scale = spread(b, amplitude, lanes)
            with cgutils.for_range(b, index(LANES // lanes)) as part:
                above = times(b, part.index, lanes)
                blocks = []
                for c in range(0, LANES, lanes):
                    vectors = [at(b, source, start, above, index((c + j) * LANES)) for j in range(lanes)]
                    blocks.append(transpose(b, [load(b, p, lanes) for p in vectors]))
                with cgutils.for_range(b, copies) as loop:
                    offset = times(b, loop.index, LANES)
                    for j, projections in enumerate(zip(*blocks, strict=True)):
                        lane = b.add(above, index(j))
                        feature = b.add(b.add(f, offset), b.mul(step, lane))
                        there = b.icmp_signed("<", lane, count)
                        with b.if_then(b.and_(there, b.icmp_signed("<", feature, width))):
                            place = at(b, out.data, to, f, offset, b.mul(across, lane))
                            zero = b.select(begin, at(b, waves.data, feature), place)
                            for k, projection in enumerate(projections):
                                c = index(k * lanes)
                                value = fma(
                                    b,
                                    projection,
                                    load(b, at(b, radii, feature, c), lanes),
                                    load(b, at(b, zero, c), lanes),
                                )
                                if finished:
                                    value = b.fmul(scale, cosine_turns(b, value))
                                store(b, value, at(b, place, c))
            return context.get_dummy_value()

        return types.void(tile, n, n, n, finish, target), generate

    return emit


@intrinsic
def _cosines(typing_context, angles, i, f, amplitude):
    """Turn ``angles[i, f:f+16]`` into ``amplitude · cos``, in place."""
    n = types.intp

    def generate(context, b, signature, arguments):
        width = shape(context, b, signature, arguments, 0)[1]
        row = b.mul(arguments[1], width)
        pointer = at(b, data(context, b, signature, arguments, 0), row, arguments[2])
        store(b, b.fmul(spread(b, arguments[3]), cosine_turns(b, load(b, pointer))), pointer)
        return context.get_dummy_value()

    return types.void(angles, n, n, types.float32), generate


cosines: Compiled = _cosines
gather = gathering(HERE)
emit_angles, emit_cosines = emitting(False, HERE), emitting(True, HERE)
