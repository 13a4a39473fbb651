"""Cells of random grids (:mod:`streamk.features.columns.cells`), eight grids at a time.

The cell of a grid is a hash of ``⌊z_j/δ + u⌋`` and the code of each of its fields ``j``::

    h = start + Σ_j factor_j · (⌊z_j/δ_j + u_j⌋ + code_j)        h = (h ⊕ (h >> 32)) · last

in 64-bit words, and a column holds its first 24 bits.
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
    members,
    shape,
    store,
    vector,
    vector_of,
)

BITS = 24  # of the index in a column
_LANES = 8  # grids at a time, a divisor of their number
_LAST = 0xFF51AFD7ED558CCD


@intrinsic
def _fill_cells(typing_context, start, places, inverse, offsets, of_fields, part, phi, first):
    """Fill ``phi`` from ``first`` on with the cells of the grids of a part, eight at a time.

    ``start`` ``(grids,)`` are the hashes that grids begin with; ``places``, ``inverse`` and ``offsets``
    ``(fields, grids)`` the fields of each, ``1/δ`` and ``u``; ``of_fields`` are their numbers and codes, and
    the factors of the hash. The ``part`` is the first grid, the end, and the number of fields of a grid.
    """

    def generate(context, b, signature, arguments):
        start, places, inverse, offsets, phi = (
            data(context, b, signature, arguments, k) for k in (0, 1, 2, 3, 6)
        )
        numbers, codes, factors = (array.data for array in members(context, b, signature, arguments, 4))
        begin, end, fields = members(context, b, signature, arguments, 5)
        out, grids = at(b, phi, arguments[7]), shape(context, b, signature, arguments, 0)[0]
        word = vector(_LANES, INDEX)

        def constant(number: int) -> Value:
            return ir.Constant(word, [number] * _LANES)

        total = cgutils.alloca_once(b, word)
        with cgutils.for_range_slice(b, begin, end, index(_LANES)) as (g, _):
            b.store(load(b, at(b, start, g), _LANES), total)
            with cgutils.for_range(b, fields) as loop:
                k = b.add(g, b.mul(grids, loop.index))
                of = [b.load(at(b, places, k, index(lane))) for lane in range(_LANES)]
                number = b.fmul(gathered(b, numbers, of), load(b, at(b, inverse, k), _LANES))
                number = call(b, "floor", b.fadd(number, load(b, at(b, offsets, k), _LANES)))
                code = b.add(b.fptosi(number, word), gathered(b, codes, of))
                factor = vector_of(b, [b.load(at(b, factors, loop.index))] * _LANES)
                b.store(b.add(b.load(total), b.mul(code, factor)), total)
            cell = b.load(total)
            cell = b.mul(b.xor(cell, b.lshr(cell, constant(32))), constant(_LAST))
            cell = b.lshr(cell, constant(64 - BITS))
            store(b, b.sitofp(cell, vector(_LANES, FLOAT)), at(b, out, g))
        return context.get_dummy_value()

    return types.void(start, places, inverse, offsets, of_fields, part, phi, types.intp), generate


hash_cells: Compiled = _fill_cells
