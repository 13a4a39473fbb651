"""Explicit vector instructions of LLVM for hot loops: arithmetic of sixteen lanes, and the cosine.

The compiler may or may not vectorise a loop over numbers. A vector of sixteen float32 numbers is vector
arithmetic on every machine (in one register of 512 bits, or two of 256), and every operation here is one IEEE
754 operation per lane, in the order written. So the bits are those of a plain loop, and depend neither on the
lane nor on the machine. These functions build instructions inside Numba intrinsics; ``b`` is the instruction
builder.

The cosine of an angle in turns is a polynomial in fused multiply-adds. ``cos 2πp`` has period 1 in ``p``, so
the reduction of an angle in turns costs one subtraction, while radians would need a multiple-word remainder.
With ``u = p − round(p)`` in [−½, ½] we have ``cos 2πp = sin 2π(¼ − |u|)``. Its argument lies in [−¼, ¼],
where an odd polynomial of degree 9 (minimax, error 3·10⁻⁹ before rounding) is enough: the result is within
2.0·10⁻⁷ of the true cosine of the reduced angle.

The size of the machine's vector registers affects the speed of compiled code, not its results. With 512-bit
registers there are 32: one holds a vector of sixteen numbers, and a radix-32 butterfly just fits. Zen 4
stores them in halves, and is a tenth faster with radix 16, without spills to the stack. With 256-bit
registers there are sixteen: an instruction processes half a vector, and three levels of a transform (eight
registers, and those being loaded) fit before the numbers return to the first-level cache. With five levels,
most registers would spill to the stack repeatedly, which takes twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.registry import cpu_target
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numpy.typing import DTypeLike

from streamk.arrays import AnyArray, Floats
from streamk.compiling import Compiled, both

LANES = 16
LINE = 64  # bytes of a cache line
FLOAT, DOUBLE, INDEX = ir.FloatType(), ir.DoubleType(), ir.IntType(64)
_LANE = ir.IntType(32)
Builder: TypeAlias = ir.IRBuilder
Value: TypeAlias = ir.Value
Values = Sequence[Value]


def vector(lanes: int = LANES, kind: ir.Type = FLOAT) -> ir.VectorType:
    """Return the type of a vector."""
    return ir.VectorType(kind, lanes)


def constant(value: float, lanes: int = LANES) -> Value:
    """Return a vector of one float32 number."""
    return ir.Constant(vector(lanes), [float(np.float32(value))] * lanes)


def whole(value: int) -> Value:
    """Return a vector of one 32-bit word."""
    return ir.Constant(vector(kind=_LANE), [value] * LANES)


def index(value: int) -> Value:
    """Return an index, for addresses."""
    return ir.Constant(INDEX, value)


def data(context: BaseContext, b: Builder, signature: Signature, arguments: Values, k: int) -> Value:
    """Return the pointer to the data of array argument ``k``."""
    return context.make_array(signature.args[k])(context, b, arguments[k]).data


def shape(context: BaseContext, b: Builder, signature: Signature, arguments: Values, k: int) -> list[Value]:
    """Return the shape of array argument ``k``."""
    array = context.make_array(signature.args[k])(context, b, arguments[k])
    return list(cgutils.unpack_tuple(b, array.shape))


def members(context: BaseContext, b: Builder, signature: Signature, arguments: Values, k: int) -> list[Value]:
    """Return the members of tuple argument ``k``."""
    values = cgutils.unpack_tuple(b, arguments[k])
    kinds = zip(values, signature.args[k].types, strict=True)
    return [context.make_array(t)(context, b, v) if isinstance(t, types.Array) else v for v, t in kinds]


def at(b: Builder, pointer: Value, *offsets: Value) -> Value:
    """Return a pointer moved by the sum of offsets."""
    total = offsets[0]
    for offset in offsets[1:]:
        total = b.add(total, offset)
    return b.gep(pointer, [total])


def times(b: Builder, value: Value, factor: int) -> Value:
    """Return an index times a number."""
    return b.mul(value, index(factor))


def load(b: Builder, pointer: Value, lanes: int = LANES) -> Value:
    """Return the vector at a pointer, aligned or not."""
    number = pointer.type.pointee
    whole = b.bitcast(pointer, vector(lanes, number).as_pointer())
    return b.load(whole, align=4 if number == FLOAT else 8)


def store(b: Builder, value: Value, pointer: Value) -> None:
    """Store a vector at a pointer, aligned or not."""
    b.store(value, b.bitcast(pointer, value.type.as_pointer()), align=4)


def fetch(b: Builder, pointer: Value, lanes: int) -> None:
    """Prefetch so many numbers from a pointer on; it may be beyond the end of an array."""
    byte, number = ir.IntType(8).as_pointer(), pointer.type.pointee
    step = LINE // (4 if number == FLOAT else 8)
    kind = ir.FunctionType(ir.VoidType(), [byte, _LANE, _LANE, _LANE])
    function = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0")
    read, soon, numbers = (ir.Constant(_LANE, code) for code in (0, 3, 1))
    for k in range(0, lanes, step):
        b.call(function, [b.bitcast(at(b, pointer, index(k)), byte), read, soon, numbers])


def spread(b: Builder, number: Value, lanes: int = LANES) -> Value:
    """Return a vector of one number in every lane."""
    none = ir.Constant(vector(lanes, number.type), ir.Undefined)
    one = b.insert_element(none, number, ir.Constant(_LANE, 0))
    return shuffle(b, one, one, [0] * lanes)


def vector_of(b: Builder, numbers: Values) -> Value:
    """Return a vector of numbers."""
    value = ir.Constant(vector(len(numbers), numbers[0].type), ir.Undefined)
    for lane, number in enumerate(numbers):
        value = b.insert_element(value, number, ir.Constant(_LANE, lane))
    return value


def gathered(b: Builder, pointer: Value, places: Values) -> Value:
    """Return a vector of the numbers at places from a pointer on."""
    return vector_of(b, [b.load(at(b, pointer, place)) for place in places])


def shuffle(b: Builder, x: Value, y: Value, lanes: Sequence[int]) -> Value:
    """Return the vector of these lanes of ``x`` and then ``y``."""
    return b.shuffle_vector(x, y, ir.Constant(vector(len(lanes), _LANE), list(lanes)))


def call(b: Builder, name: str, *arguments: Value) -> Value:
    """Return LLVM's function of vectors, such as ``fma``, lane by lane."""
    kind = arguments[0].type
    function = ir.FunctionType(kind, [kind] * len(arguments))
    full = f"llvm.{name}.v{kind.count}{'f32' if kind.element == FLOAT else 'f64'}"
    return b.call(cgutils.get_or_insert_function(b.module, function, full), arguments)


def fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return ``xy + z``, rounded once."""
    return call(b, "fma", x, y, z)


def bounded(b: Builder, value: Value, bound: float) -> Value:
    """Return a vector with every number within ``±bound``; a NaN becomes ``bound``."""
    low, high = (ir.Constant(value.type, [end] * value.type.count) for end in (-bound, bound))
    value = b.select(b.fcmp_ordered("<", value, high), value, high)
    return b.select(b.fcmp_ordered(">", value, low), value, low)


def horner(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Return the polynomial of ascending coefficients at ``x``, by fused multiply-adds."""
    *lower, value = (constant(c, x.type.count) for c in coefficients)
    for c in reversed(lower):
        value = fma(b, x, value, c)
    return value


def fold(b: Builder, value: Value) -> Value:
    """Return the sum of the lanes, halves added until one is left."""
    half = value.type.count // 2
    while half:
        low, high = (shuffle(b, value, value, range(k, k + half)) for k in (0, half))
        value = b.fadd(low, high)
        half //= 2
    return b.extract_element(value, ir.Constant(_LANE, 0))


def transpose(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """Return the transpose of as many vectors as they have lanes: sixteen or eight."""
    count = len(rows)
    fours = range(0, count, 4)
    v = _exchange(b, rows, 1, [g + k for g in fours for k in (0, count, 1, count + 1)])
    v = _exchange(b, v, 2, [g + k for g in fours for k in (0, 1, count, count + 1)])
    half = 4
    while half < count:
        v = _exchange(b, v, half, [k + i for k in range(0, 2 * count, 8) for i in range(4)])
        half *= 2
    return [v[i & 12 | (i & 1) << 1 | (i & 2) >> 1] for i in range(count)]


def _exchange(b: Builder, v: Sequence[Value], half: int, low: Sequence[int]) -> list[Value]:
    """Exchange lanes of vectors at distance ``half``; return those of ``low``, then the others."""
    out, step = list(v), 4 if half > 2 else 2
    high = [k + step for k in low]
    for i in range(len(v)):
        if not i & half:
            out[i] = shuffle(b, v[i], v[i | half], low)
            out[i | half] = shuffle(b, v[i], v[i | half], high)
    return out


@intrinsic
def _below(typing_context, numbers, start, limit):
    """Return which of sixteen float32 numbers from ``start`` on are less than ``limit``, as bits."""

    def generate(context, b, signature, arguments):
        row = load(b, at(b, data(context, b, signature, arguments, 0), arguments[1]))
        less = b.fcmp_ordered("<", row, spread(b, arguments[2]))
        return b.zext(b.bitcast(less, ir.IntType(LANES)), _LANE)

    return types.uint32(numbers, types.intp, types.float32), generate


@intrinsic
def _first_set(typing_context, bits):
    """Return the index of the lowest bit that is set; one must be."""

    def generate(context, b, signature, arguments):
        function = ir.FunctionType(_LANE, [_LANE, ir.IntType(1)])
        count = cgutils.get_or_insert_function(b.module, function, "llvm.cttz.i32")
        return b.zext(b.call(count, [arguments[0], ir.IntType(1)(1)]), INDEX)

    return types.int64(types.uint32), generate


below: Compiled = _below
first_set: Compiled = _first_set


@both()
def empty_aligned(count):
    """Return an array of float32 numbers, aligned to 64 bytes."""
    buffer = np.empty(count + LANES, dtype=np.float32)
    skip = (-(np.int64(buffer.ctypes.data) >> 2)) & (LANES - 1)
    return buffer[skip : skip + count]


def aligned(array: Floats) -> Floats:
    """Return a contiguous copy aligned to 64 bytes, where vectors are read fastest."""
    copy: Floats = empty_aligned(array.size).reshape(array.shape)
    copy[:] = array
    return copy


def zeros_aligned(count: int, kind: DTypeLike = np.float64) -> AnyArray:
    """Return zeros aligned to 64 bytes, whose memory is allocated at the first use."""
    size = np.dtype(kind).itemsize
    more = LINE // size
    buffer = np.zeros(count + more, dtype=kind)
    skip = -(buffer.ctypes.data // size) % more
    return buffer[skip : skip + count]


_COEFFICIENTS = (
    6.283185160089944,
    -41.34165503149521,
    81.60100407728456,
    -76.54978237293346,
    39.53670659961994,
)


def sine_quarter(b: Builder, v: Value) -> Value:
    """Return ``sin 2πv`` for ``|v| ≤ ¼``."""
    return b.fmul(v, horner(b, b.fmul(v, v), _COEFFICIENTS))


def cosine_turns(b: Builder, p: Value) -> Value:
    """Return ``cos 2πp``."""
    u = b.fsub(p, call(b, "rint", p))
    return sine_quarter(b, b.fsub(constant(0.25, p.type.count), call(b, "fabs", u)))


class Registers(NamedTuple):
    """Numbers per instruction, and levels of a transform done in registers."""

    lanes: int
    levels: int


WIDE, HALVED, NARROW = Registers(16, 5), Registers(16, 4), Registers(8, 3)


def registers_of(name: str, features: str) -> Registers:
    """Return the registers of a machine by LLVM's ``name`` and ``features`` (``+`` marks available ones)."""
    if "+avx512f" not in features.split(","):
        return NARROW
    return HALVED if name == "znver4" else WIDE


# Numba's cache distinguishes machines by the same names, so cached code is for these registers.
HERE = registers_of(*cpu_target.target_context.codegen().magic_tuple()[1:])


def fence(b: Builder) -> None:
    """Prevent the compiler from keeping numbers in registers across this point.

    It would otherwise forward stored numbers to later loads, and need more registers than exist.
    """
    b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)


@intrinsic
def _as_double(typing_context, bits):
    """Return the double that has these bits."""

    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), build


as_double: Compiled = _as_double
