"""Fast transforms of tiles: sweeps of additions, and transposition into tiles and from them to features.

A sweep processes ``size`` levels of ``2^size`` vectors of sixteen lanes. The numbers per instruction, and the
levels between reading and writing a vector, depend on the machine (:mod:`streamk.vector.lanes`); every
number is the same sum in the same order on every machine.

A tile is sixteen transposed rows, and a transformed tile is transposed back into features of rows, sixteen
coordinates at a time. Angles, and optionally cosines, are computed in registers during this step: a feature
is written once and a projection never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import (
    FLOAT,
    HERE,
    LANES,
    Builder,
    Registers,
    Value,
    Values,
    at,
    call,
    cosine_turns,
    data,
    fence,
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

_Read = Callable[[int, int], Value]  # of a vector's index and of the first lane of a part


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


def opening(size: int, registers: Registers) -> Compiled:
    """Return the sweep that reads inputs into a tile."""
    lanes = registers.lanes

    @intrinsic
    def sweep(typing_context, inputs, c, gap, signs, sign, tile):
        """Fill the vectors of ``c … c + 2^size − 1`` with the transform of the signed inputs."""
        n = types.intp

        def generate(context, b, signature, arguments):
            source, out = (data(context, b, signature, arguments, k) for k in (0, 5))
            c, gap = arguments[1], arguments[2]
            start = times(b, b.add(c, b.lshr(c, gap)), LANES)
            places = _vectors(b, out, start, index(LANES), size)
            inputs = _vectors(b, source, start, index(LANES), size)

            def one(j: int, _: int) -> Value:
                return spread(b, b.load(at(b, source, c, index(j))), lanes)

            shared = signature.args[3].ndim == 1
            read = _reader(b, inputs, lanes) if shared else one
            sign = _sign_reader(context, b, signature, arguments, index(1), lanes)
            _transform(b, registers, read, places, sign)
            return context.get_dummy_value()

        return types.void(inputs, n, n, signs, n, tile), generate

    return sweep


def plain(size: int, registers: Registers) -> Compiled:
    """Return the sweep that only transforms."""

    @intrinsic
    def sweep(typing_context, tile, start, stride):
        """Transform ``2^size`` vectors in place."""

        def generate(context, b, signature, arguments):
            base = data(context, b, signature, arguments, 0)
            places = _vectors(b, base, arguments[1], arguments[2], size)
            _transform(b, registers, _reader(b, places, registers.lanes), places)
            return context.get_dummy_value()

        return types.void(tile, types.intp, types.intp), generate

    return sweep


def turning(size: int, registers: Registers) -> Compiled:
    """Return the sweep that transforms, multiplies by signs, and transforms again."""

    @intrinsic
    def sweep(typing_context, tile, start, stride, signs, sign, step):
        """Transform ``2^size`` vectors, multiply by signs with stride ``step``, and repeat, in place."""
        n = types.intp

        def generate(context, b, signature, arguments):
            base = data(context, b, signature, arguments, 0)
            places = _vectors(b, base, arguments[1], arguments[2], size)
            read = _reader(b, places, registers.lanes)
            sign = _sign_reader(context, b, signature, arguments, arguments[5], registers.lanes)
            if size > registers.levels:
                _transform(b, registers, read, places)
                _transform(b, registers, read, places, sign)
            else:
                _transform(b, registers, read, places, sign, twice=True)
            return context.get_dummy_value()

        return types.void(tile, n, n, signs, n, n), generate

    return sweep


def _vectors(b: Builder, base: Value, start: Value, stride: Value, size: int) -> list[Value]:
    """Return the offsets of the vectors of a sweep."""
    first = at(b, base, start)
    return [at(b, first, b.mul(stride, index(j))) for j in range(1 << size)]


def _reader(b: Builder, places: Sequence[Value], lanes: int) -> _Read:
    return lambda i, lane: load(b, at(b, places[i], index(lane)), lanes)


def _sign_reader(
    context: BaseContext, b: Builder, signature: Signature, arguments: Values, step: Value, lanes: int
) -> _Read:
    """Return a reader of signs, arguments 3 and 4 of a sweep, at coordinates with stride ``step``."""
    pointer, first = data(context, b, signature, arguments, 3), arguments[4]

    def read(i: int, lane: int) -> Value:
        place = b.add(first, b.mul(step, index(i)))
        if signature.args[3].ndim == 1:
            return spread(b, b.load(at(b, pointer, place)), lanes)
        return load(b, at(b, pointer, times(b, place, LANES), index(lane)), lanes)

    return read


def _transform(
    b: Builder,
    registers: Registers,
    read: _Read,
    places: Sequence[Value],
    sign: _Read | None = None,
    twice: bool = False,
) -> None:
    """Write the transform of vectors from ``read`` (times signs, or transformed before them) to ``places``.

    In as many stages as the registers require, from the lowest levels of neighbours upwards.
    """
    size = len(places).bit_length() - 1
    stages = -(-size // registers.levels)
    low = -(-size // stages)
    narrow = stages > 1 or registers.lanes < LANES
    for first in range(0, 1 << size, 1 << low):
        block = range(first, first + (1 << low))
        for lane in range(0, LANES, registers.lanes):
            v = [read(i, lane) for i in block]
            v = _butterflies(b, v) if twice or sign is None else v
            v = v if sign is None else _signed(b, v, [sign(i, lane) for i in block])
            _write(b, v, places, block, lane)
            if narrow:
                fence(b)
    again = _reader(b, places, registers.lanes)
    for first in range(1 << low) if stages > 1 else ():
        block = range(first, 1 << size, 1 << low)
        for lane in range(0, LANES, registers.lanes):
            _write(b, _butterflies(b, [again(i, lane) for i in block]), places, block, lane)
            fence(b)


def _write(b: Builder, values: Sequence[Value], places: Sequence[Value], block: range, lane: int) -> None:
    for i, value in zip(block, values, strict=True):
        store(b, value, at(b, places[i], index(lane)))


def _butterflies(b: Builder, v: Sequence[Value], half: int = 1) -> list[Value]:
    v = list(v)
    while half < len(v):
        for i in range(len(v)):
            if not i & half:
                v[i], v[i | half] = b.fadd(v[i], v[i | half]), b.fsub(v[i], v[i | half])
        half *= 2
    return v


def _signed(b: Builder, v: Sequence[Value], signs: Sequence[Value]) -> list[Value]:
    """Return the transform of ``v_i · signs_i``; the signs cost half an operation per vector."""
    w = []
    for i in range(0, len(v), 2):
        kept, other = b.fmul(v[i], signs[i]), signs[i + 1]
        w += [fma(b, v[i + 1], other, kept), fma(b, b.fneg(v[i + 1]), other, kept)]
    return _butterflies(b, w, 2)
