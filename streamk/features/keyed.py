"""Angles from frequencies in a table: keyed and dense directions, at the cost of the present inputs.

``angle_f = p_f + Σ_j z_j W_jf`` in turns, with phases ``p`` and frequencies ``W`` regenerated from the seed
(:mod:`streamk.features.frequencies`). Inputs are added in order of their keys, one rounding each, so the
result does not depend on the tile or on the processing of inputs by fours. Rows are indexed and never sliced
(a slice costs two atomic operations), by unsigned numbers (signed indices may count from the end, which
prevents vectorisation).

For many rows with the same inputs, the inner loop computes the angles of four rows and sixteen features at
once in registers. It has the operations of :func:`fill_angles` in the same order, with the same bits: a sum
over ``j`` in order, one fused multiply-add each, starting from the phase. A frequency is loaded once for four
rows, and an angle is stored only when complete, so arithmetic is the bottleneck, not memory. The frequencies
are then stored in panels: panel ``p`` holds features ``16p … 16p + 15`` of all inputs, rows
``p·d … (p + 1)·d − 1`` of a matrix with sixteen columns.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.arrays import Floats
from streamk.compiling import ENTRY, Compiled, both, fma

PHASES = 0
_TILE = 256  # features processed at once: their frequencies fit the first-level cache


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
        ``(≥ n, width)`` float32.
    """
    for r in range(runs.shape[0]):
        k = runs[r, 2]
        for start in range(runs[r, 0], runs[r, 1], _TILE):
            first, tile = np.uint64(start), min(_TILE, runs[r, 1] - start)
            for i in range(counts.shape[0]):
                for t in range(tile):
                    f = first + np.uint64(t)
                    phi[i, f] = waves[PHASES, f]
                fours = counts[i] - counts[i] % 4
                for j in range(0, fours, 4):
                    za, zb = inputs[k, i, j], inputs[k, i, j + 1]
                    zc, zd = inputs[k, i, j + 2], inputs[k, i, j + 3]
                    a, b = np.uint64(where[i, j]), np.uint64(where[i, j + 1])
                    c, d = np.uint64(where[i, j + 2]), np.uint64(where[i, j + 3])
                    for t in range(tile):
                        f = first + np.uint64(t)
                        angle = fma(zb, frequencies[b, f], fma(za, frequencies[a, f], phi[i, f]))
                        phi[i, f] = fma(zd, frequencies[d, f], fma(zc, frequencies[c, f], angle))
                for j in range(fours, counts[i]):
                    z, a = inputs[k, i, j], np.uint64(where[i, j])
                    for t in range(tile):
                        f = first + np.uint64(t)
                        phi[i, f] = fma(z, frequencies[a, f], phi[i, f])


ROWS, LANES = 4, 16


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
