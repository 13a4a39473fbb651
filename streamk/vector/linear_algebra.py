"""Inner products, sums of rows and spans: sums have a fixed order, and still use the widest registers.

A compiler may vectorise a sum only if it may reorder it, and then the result depends on the
compiler. Here the order is part of the definition: lane ``l`` of 32 adds the products of indices
``l, l + 32, l + 64, …`` in turn, by fused multiply-adds, and the lanes are then folded in halves
(16, 8, 4, 2, 1)::

    s_l = Σ_t a[32t + l] · b[32t + l]          fold:  s_l ← s_l + s_{l+h},  h = 16, 8, 4, 2, 1

Written as plain loops this takes ten times as long for 512 numbers (``benchmarks/vector.py``), because the 32
partial sums do not stay in registers. Several products are summed side by side, so that one need not wait for
its last addition: four with 32 registers, and two with sixteen.

Operands are contiguous float32 arrays of any shape, taken as flat: ``a, i`` is the numbers of ``a`` from
place ``i`` on. Lengths are multiples of 32.

Spans of numbers in flat arrays are copied, cleared, and added up in the order of a plain loop: every product
and every sum is rounded separately.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from streamk.compiling import Compiled, both
from streamk.vector.lanes import (
    DOUBLE,
    FLOAT,
    HERE,
    LANES,
    NARROW,
    Builder,
    Value,
    Values,
    at,
    bounded,
    data,
    fma,
    fold,
    index,
    load,
    spread,
    store,
    times,
    vector,
)

_SUMS = 32  # partial ones of a sum
LARGEST_COEFFICIENT = 1e15  # keeps outputs finite in float32
_BESIDE = 2 if HERE == NARROW else 4  # sums whose lanes fit the registers
_COLUMNS = 4  # of distances
_BYTES = 4  # of a float32 number
_WHOLE = 4  # vectors of a row of relevance
_INDEX, _NUMBER = types.intp, types.float32


@intrinsic
def _inner_product(typing_context, a, i, b, j, length):
    """Return ``Σ_l a[i + l] b[j + l]``, ``l < length``."""
    if not _are_flat(a, b):
        return None

    def generate(context, builder, signature, arguments):
        return _products(context, builder, signature, arguments, 1)[0]

    n = types.intp
    return types.float32(a, n, b, n, n), generate


def _storing(count: int) -> Compiled:
    @intrinsic
    def products(typing_context, a, i, b, j, length, out, k):
        """Set ``out[k + r]`` to the inner product of row ``r < count`` of ``a, i`` with ``b, j``."""
        if not _are_flat(a, b, out):
            return None

        def generate(context, builder, signature, arguments):
            target = at(builder, data(context, builder, signature, arguments, 5), arguments[6])
            for r, total in enumerate(_products(context, builder, signature, arguments, count)):
                builder.store(total, at(builder, target, index(r)))
            return context.get_dummy_value()

        n = types.intp
        return types.void(a, n, b, n, n, out, n), generate

    return products


@intrinsic
def _add_scaled(typing_context, out, i, factor, values, j, length):
    """Add ``factor`` times the numbers of ``values`` from ``j`` on to those of ``out`` from ``i`` on.

    The sums stay within the bounds of coefficients.
    """
    if not _are_flat(out, values):
        return None
    n = types.intp

    def generate(context, b, signature, arguments):
        target = at(b, data(context, b, signature, arguments, 0), arguments[1])
        source = at(b, data(context, b, signature, arguments, 3), arguments[4])
        scale = spread(b, arguments[2])
        lanes = scale.type.count
        with cgutils.for_range(b, b.udiv(arguments[5], index(lanes))) as loop:
            start = times(b, loop.index, lanes)
            place = at(b, target, start)
            moved = fma(b, scale, load(b, at(b, source, start)), load(b, place))
            store(b, bounded(b, moved, LARGEST_COEFFICIENT), place)
        return context.get_dummy_value()

    return types.void(out, n, types.float32, values, n, n), generate


@intrinsic
def _add_distances(typing_context, out, columns, start, width, values, first, count):
    """Add ``Σ_j (values[first + j] − columns[start + j width + l])²`` to ``out[l]``, ``l < width``.

    ``j < count`` in order, by fused multiply-adds; ``width`` is a multiple of 32. Four columns are read
    side by side from end to end, as processors expect when they load ahead.
    """
    if not _are_flat(out, columns, values):
        return None
    n = types.intp

    def generate(context, b, signature, arguments):
        target, source = (data(context, b, signature, arguments, k) for k in (0, 1))
        source, width, count = at(b, source, arguments[2]), arguments[3], arguments[6]
        point = at(b, data(context, b, signature, arguments, 4), arguments[5])

        def add(first: Value, several: int) -> None:
            numbers = [b.add(first, index(k)) for k in range(several)]
            coordinates = [spread(b, b.load(at(b, point, j)), _SUMS) for j in numbers]
            with cgutils.for_range(b, b.udiv(width, index(_SUMS))) as loop:
                place = times(b, loop.index, _SUMS)
                total = load(b, at(b, target, place), _SUMS)
                for value, j in zip(coordinates, numbers, strict=True):
                    distance = b.fsub(value, load(b, at(b, source, b.mul(j, width), place), _SUMS))
                    total = fma(b, distance, distance, total)
                store(b, total, at(b, target, place))

        with cgutils.for_range(b, b.sdiv(count, index(_COLUMNS))) as loop:
            add(times(b, loop.index, _COLUMNS), _COLUMNS)
        with cgutils.for_range(b, count, start=b.sub(count, b.srem(count, index(_COLUMNS)))) as loop:
            add(loop.index, 1)
        return context.get_dummy_value()

    return types.void(out, columns, n, n, values, n, n), generate


add_distances: Compiled = _add_distances
inner_product: Compiled = _inner_product
add_scaled: Compiled = _add_scaled
_several, _one = _storing(_BESIDE), _storing(1)


@both()
def inner_products(a, rows, b, j, length, out, k):
    """Set ``out[k + r]`` (flat, float32) to the inner product of row ``r < rows`` of ``a`` and ``b, j``."""
    last = rows - rows % _BESIDE
    for r in range(0, last, _BESIDE):
        _several(a, r * length, b, j, length, out, k + r)
    for r in range(last, rows):
        _one(a, r * length, b, j, length, out, k + r)


def _are_flat(*operands: object) -> bool:
    return all(isinstance(x, types.Array) and (x.dtype, x.layout) == (types.float32, "C") for x in operands)


def _products(
    context: BaseContext, b: Builder, signature: Signature, arguments: Values, count: int
) -> list[Value]:
    """Return the inner products of ``count`` rows of ``a`` with one of ``b``."""
    length = arguments[4]
    first = at(b, data(context, b, signature, arguments, 0), arguments[1])
    rows = [at(b, first, b.mul(index(r), length)) for r in range(count)]
    shared = at(b, data(context, b, signature, arguments, 2), arguments[3])
    zero = ir.Constant(vector(_SUMS), [0.0] * _SUMS)
    partial = [cgutils.alloca_once_value(b, zero) for _ in rows]
    with cgutils.for_range(b, b.udiv(length, index(_SUMS))) as loop:
        start = times(b, loop.index, _SUMS)
        y = load(b, at(b, shared, start), _SUMS)
        for row, total in zip(rows, partial, strict=True):
            b.store(fma(b, load(b, at(b, row, start), _SUMS), y, b.load(total)), total)
    return [fold(b, b.load(total)) for total in partial]


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
