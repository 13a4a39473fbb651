"""What the machine's vector registers hold, which decides how compiled code goes about it, not what it finds.

Sixteen float32 numbers are a vector of a tile everywhere. Where registers have 512 bits there are 32 of them:
one holds a vector, and a radix-32 butterfly just fits. Where they have 256 bits there are sixteen: an
instruction takes half a vector, and three levels of a transform (eight registers, and those on their way) are
what can be done before the numbers have to go back to the first cache. Of five, most would go to the stack
and come back, again and again, which takes twice as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core.registry import cpu_target


class Registers(NamedTuple):
    """How many numbers an instruction takes, and how many levels of a transform are done in registers."""

    lanes: int
    levels: int


WIDE, NARROW = Registers(16, 5), Registers(8, 3)


def registers_of(features: str) -> Registers:
    """Return what a machine with these features (LLVM's names, ``+`` before those it has) has."""
    return WIDE if "+avx512f" in features.split(",") else NARROW


# Numba keeps compiled code apart by the same features, so code in its cache is of the same registers.
HERE = registers_of(cpu_target.target_context.codegen().magic_tuple()[2])


def fence(b: Any) -> None:
    """Keep the compiler from holding numbers in registers from before to after.

    It would otherwise see that what is read was just written, and hold more than there are registers.
    """
    b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)
