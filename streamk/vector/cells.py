"""Cells of random grids (:mod:`streamk.features.columns.cells`), eight grids at a time.

The cell of a grid is a hash of ``⌊z_j/δ + u⌋`` and the code of each of its fields ``j``, up to three::

    h = start + Σ_j factor_j · (⌊z_j/δ_j + u_j⌋ + code_j)        h = (h ⊕ (h >> 32)) · last

in 64-bit words, and its first 13 bits are the index in ``[0, 8192)``.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import (
    FLOAT,
    INDEX,
    Value,
    at,
    call,
    data,
    gathered,
    index,
    load,
    shape,
    store,
    times,
    vector,
)

CELLS = 8192
_LANES = 8  # grids at a time, a divisor of their number
_SHIFT = 64 - (CELLS - 1).bit_length()
_FACTORS = 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5
_LAST = 0xFF51AFD7ED558CCD


@intrinsic
def _fill_cells(typing_context, start, places, inverse, offsets, numbers, codes, phi, first):
    """Fill ``phi`` from ``first`` on with the cells of all grids, eight at a time.

    ``start`` ``(grids,)`` are the hashes that grids begin with; ``places``, ``inverse`` and ``offsets``
    ``(3, grids)`` the fields of each, ``1/δ`` and ``u``; ``numbers`` and ``codes`` those of the fields.
    """

    def generate(context, b, signature, arguments):
        start, places, inverse, offsets, numbers, codes, phi = (
            data(context, b, signature, arguments, k) for k in range(7)
        )
        out, grids = at(b, phi, arguments[7]), shape(context, b, signature, arguments, 0)[0]
        word = vector(_LANES, INDEX)

        def constant(number: int) -> Value:
            return ir.Constant(word, [number] * _LANES)

        with cgutils.for_range(b, b.ashr(grids, index(3))) as loop:
            g = times(b, loop.index, _LANES)
            cell = load(b, at(b, start, g), _LANES)
            for f, factor in enumerate(_FACTORS):
                k = b.add(g, times(b, grids, f))
                fields = [b.load(at(b, places, k, index(lane))) for lane in range(_LANES)]
                number = b.fmul(gathered(b, numbers, fields), load(b, at(b, inverse, k), _LANES))
                number = call(b, "floor", b.fadd(number, load(b, at(b, offsets, k), _LANES)))
                code = b.add(b.fptosi(number, word), gathered(b, codes, fields))
                cell = b.add(cell, b.mul(code, constant(factor)))
            cell = b.mul(b.xor(cell, b.lshr(cell, constant(32))), constant(_LAST))
            cell = b.lshr(cell, constant(_SHIFT))
            store(b, b.sitofp(cell, vector(_LANES, FLOAT)), at(b, out, g))
        return context.get_dummy_value()

    return types.void(start, places, inverse, offsets, numbers, codes, phi, types.intp), generate


hash_cells: Compiled = _fill_cells
