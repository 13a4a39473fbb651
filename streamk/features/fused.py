"""The fused multiply-add of IEEE 754: ``a·b + c`` with one rounding.

A compiler left to itself may fuse a product and a sum or not, and then the result depends on the compiler.
Asked for by name, the operation has one result on every machine, and where the processor has it (every
x86-64 since 2013, every 64-bit ARM) it halves the arithmetic of a polynomial or a sum of products.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic
def _fma(typing_context, a, b, c):
    """Return ``a·b + c`` of three float32 numbers, rounded once."""
    return types.float32(types.float32, types.float32, types.float32), _generate


def _generate(context, builder, signature, arguments):
    return builder.fma(*arguments)


fma: Any = _fma  # Numba's annotations count the typing context among the arguments
