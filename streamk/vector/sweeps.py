"""Sweeps of a fast transform: levels of additions on vectors of a tile, as instructions.

A sweep processes ``size`` levels of ``2^size`` vectors of sixteen lanes. The numbers per instruction, and the
levels between reading and writing a vector, depend on the machine (:mod:`streamk.vector.lanes`); every
number is the same sum in the same order on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numba import types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import (
    LANES,
    Builder,
    Registers,
    Value,
    Values,
    at,
    data,
    fence,
    fma,
    index,
    load,
    spread,
    store,
    times,
)

_Read = Callable[[int, int], Value]  # of a vector's index and of the first lane of a part


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
