"""Angles from frequencies in a table: keyed and dense directions, at the cost of the present inputs.

``angle_f = p_f + Σ_j z_j W_jf`` in turns, with phases ``p`` and frequencies ``W`` regenerated from the seed
(:mod:`streamk.features.frequencies`). Inputs are added in order of their keys by fused multiply-adds, one
rounding each, so the result does not depend on the tile. The angles of 64 features of a row stay in registers
until all inputs are added.

For many rows with the same inputs, the inner loop computes the angles of four rows and sixteen features at
once. A frequency is loaded once for four rows, so arithmetic is the bottleneck, not memory. The frequencies
are then stored in panels: panel ``p`` holds features ``16p … 16p + 15`` of all inputs, rows
``p·d … (p + 1)·d − 1`` of a matrix with sixteen columns.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from streamk.arrays import Floats
from streamk.compiling import ENTRY, Compiled, both
from streamk.vector.lanes import INDEX, LANES, Builder, Value, Values, at, fma, index, load, spread, store
from streamk.vector.random_numbers import GROUP

PHASES = 0


@intrinsic
def _sum_inputs(typing_context, phi, i, f, phases, frequencies, where, inputs, k, count):
    """Set 64 numbers of ``phi[i]`` from feature ``f`` on to the angles of inputs ``k`` of the row."""

    def generate(context, b, signature, arguments):
        def place(number: int, *indices: Value) -> Value:
            return _place_in(context, b, signature, arguments, number, *indices)

        i, f, k, count = (arguments[a] for a in (1, 2, 7, 8))
        none = index(0)
        rows, values = place(5, i, none), place(6, k, i, none)
        table, phase, target = place(4, none, f), place(3, none, f), place(0, i, f)
        apart = b.sub(b.ptrtoint(place(4, index(1), f), INDEX), b.ptrtoint(table, INDEX))
        starts = [index(start) for start in range(0, GROUP, LANES)]
        angles = [cgutils.alloca_once_value(b, load(b, at(b, phase, start))) for start in starts]
        with cgutils.for_range(b, count) as loop:
            row = b.mul(b.sext(b.load(at(b, rows, loop.index)), INDEX), b.ashr(apart, index(2)))
            value = spread(b, b.load(at(b, values, loop.index)))
            for start, angle in zip(starts, angles, strict=True):
                b.store(fma(b, value, load(b, at(b, table, row, start)), b.load(angle)), angle)
        for start, angle in zip(starts, angles, strict=True):
            store(b, b.load(angle), at(b, target, start))
        return context.get_dummy_value()

    n = types.intp
    return types.void(phi, n, n, phases, frequencies, where, inputs, n, n), generate


_add_inputs: Compiled = _sum_inputs


def _place_in(
    context: BaseContext, b: Builder, signature: Signature, arguments: Values, k: int, *indices: Value
) -> Value:
    """Return the pointer to a number of array argument ``k``."""
    kind = signature.args[k]
    array = context.make_array(kind)(context, b, arguments[k])
    return cgutils.get_item_pointer(context, b, kind, array, list(indices))


@both(nogil=True)
def fill_angles(inputs, where, counts, frequencies, waves, runs, phi):
    """Fill ``phi`` with the angles of rows of scaled inputs.

    Parameters
    ----------
    inputs
        Scaled inputs, ``(families, n, w)`` float32, nonzero ones first.
    where
        Row of ``frequencies`` of each input, ``(n, w)`` int32.
    counts
        Number of inputs of each row, ``(n,)``.
    frequencies
        ``(rows, width)`` float32, in turns per unit of input.
    waves
        ``(≥ 1, width)`` float32, the first row the phases in turns.
    runs
        ``(·, 3)``: first feature, last feature + 1, and the index of their inputs.
    phi
        ``(≥ n, width)`` float32. Runs are multiples of 64.
    """
    for r in range(runs.shape[0]):
        for f in range(runs[r, 0], runs[r, 1], GROUP):
            for i in range(counts.shape[0]):
                _add_inputs(phi, i, f, waves, frequencies, where, inputs, runs[r, 2], counts[i])


ROWS = 4


def pack(frequencies: Floats) -> Floats:
    """Return frequencies ``(d, columns)`` as panels, ``(columns/16 · d, 16)``."""
    d, columns = frequencies.shape
    panels = frequencies.reshape(d, columns // LANES, LANES).transpose(1, 0, 2)
    return np.ascontiguousarray(panels).reshape(-1, LANES)


@njit(nogil=True, **ENTRY)
def fill_panel_angles(inputs, start, stop, panels, phases, phi):
    """Fill ``phi`` with the angles of rows ``start … stop − 1`` of ``inputs`` ``(n, d)``, by fours.

    ``inputs`` and ``phi`` must have rows up to the next multiple of four.
    """
    d = inputs.shape[1]
    for p in range(phi.shape[1] // LANES):
        for i in range(start, stop, ROWS):
            _angles(inputs, i, panels, p * d, d, phases, p * LANES, phi, i - start)


@intrinsic
def _intrinsic(typing_context, inputs, i, panels, first, d, phases, f, phi, to):
    """Set ``phi[to:to+4, f:f+16]`` to the angles of rows ``i … i + 3`` over one panel."""
    n = types.intp
    return types.void(inputs, n, panels, n, n, phases, n, phi, n), _generate


_angles: Compiled = _intrinsic


def _generate(context, builder, signature, arguments):
    vector = ir.VectorType(ir.FloatType(), LANES)
    kind = ir.FunctionType(vector, [vector] * 3)
    fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
    index = ir.IntType(32)
    first_lane = ir.Constant(ir.VectorType(index, LANES), [0] * LANES)

    def place(k: int, row: object, column: object) -> object:
        array = context.make_array(signature.args[k])(context, builder, arguments[k])
        width = cgutils.unpack_tuple(builder, array.shape)[-1]
        return builder.gep(array.data, [builder.add(builder.mul(row, width), column)])

    def load(pointer: object) -> object:
        return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)

    i, first, d, f, to = (arguments[k] for k in (1, 3, 4, 6, 8))
    none = ir.Constant(i.type, 0)
    offsets = [ir.Constant(i.type, r) for r in range(ROWS)]
    starts = [place(0, builder.add(i, r), none) for r in offsets]
    panel = place(2, first, none)
    angles = [cgutils.alloca_once_value(builder, load(place(5, none, f))) for _ in offsets]
    with cgutils.for_range(builder, d) as loop:
        lanes = builder.mul(loop.index, ir.Constant(loop.index.type, LANES))
        w = load(builder.gep(panel, [lanes]))
        for start, angle in zip(starts, angles, strict=True):
            z = builder.load(builder.gep(start, [loop.index]))
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), z, ir.Constant(index, 0))
            spread = builder.shuffle_vector(one, one, first_lane)
            builder.store(builder.call(fma, [spread, w, builder.load(angle)]), angle)
    for r, angle in zip(offsets, angles, strict=True):
        pointer = builder.bitcast(place(7, builder.add(to, r), f), vector.as_pointer())
        builder.store(builder.load(angle), pointer, align=4)
    return context.get_dummy_value()
