"""What the machine's vector registers hold, which decides how compiled code goes about it, not what it finds.

Sixteen float32 numbers are a vector of a tile everywhere. Where registers have 512 bits there are 32 of them:
one holds a vector, and a radix-32 butterfly just fits. Zen 4 stores them by halves, and is a tenth faster if
none has to wait on the stack: radix 16. Where registers have 256 bits there are sixteen: an instruction takes
half a vector, and three levels of a transform (eight registers, and those on their way) are what can be done
before the numbers have to go back to the first cache. Of five, most would go to the stack and come back,
again and again, which takes twice as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core.registry import cpu_target


class Registers(NamedTuple):
    """How many numbers an instruction takes, and how many levels of a transform are done in registers."""

    lanes: int
    levels: int


WIDE, HALVED, NARROW = Registers(16, 5), Registers(16, 4), Registers(8, 3)


def registers_of(name: str, features: str) -> Registers:
    """Return what suits a machine of LLVM's ``name`` and ``features`` (``+`` before those it has)."""
    if "+avx512f" not in features.split(","):
        return NARROW
    return HALVED if name == "znver4" else WIDE


# Numba keeps compiled code apart by the same names, so what is in its cache was made for such registers.
HERE = registers_of(*cpu_target.target_context.codegen().magic_tuple()[1:])


def fence(b: Any) -> None:
    """Keep the compiler from holding numbers in registers from before to after.

    It would otherwise see that what is read was just written, and hold more than there are registers.
    """
    b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)
