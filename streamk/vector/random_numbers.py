"""Standard normal and Cauchy numbers from counter bits, sixty-four at a time.

Normal numbers follow Box and Muller (1958). The unit of generation is one *group* of 64 normals. Each of the
counters ``0 … 31`` of a stream gives one word: its upper half a radius, its lower half an angle and a sign,
and so two normals::

    u = ((word >> 16) + ½) · 2⁻¹⁶              ± = bit 15 of the word
    v = ((word & 0x7fff) + ½) · 2⁻¹⁶           r = √(−2 ln u)
    normal[i] = r cos 2πv                      normal[32 + i] = ± r sin 2πv

The largest normal is ±4.85; a finer radius would change the moments by less than 10⁻⁵. The logarithm
is a polynomial defined here, since a library's differs between machines.

Cauchy numbers are the directions of the Laplacian kernel. Each of the counters ``0 … 63`` of a stream gives
one word, and so one number: its highest bit is the sign, the other 31 the angle, and the tangent is a
quotient of two sines::

    a = ((word & 0x7fffffff) + ½) · 2⁻³³        b = ((0x7fffffff − (word & 0x7fffffff)) + ½) · 2⁻³³
    cauchy = ± sin 2πa / sin 2πb                a + b = ¼

``b`` is made from whole numbers, so the largest, ±2.7·10⁹, is as exact as the smallest.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from streamk.compiling import Compiled
from streamk.vector.lanes import (
    LANES,
    Builder,
    Value,
    at,
    call,
    constant,
    data,
    fma,
    horner,
    index,
    shape,
    sine_quarter,
    spread,
    store,
    whole,
)

GROUP = 64
_PAIRS = GROUP // 2
_SQRT_HALF_BITS = 0x3F3504F3
# ln(1 + t)/t on [√½ − 1, √2 − 1], relative error 1.7·10⁻⁷ (minimax)
_LOGARITHM = (
    0.9999999453097704,
    -0.5000036512371988,
    0.33335058940907186,
    -0.2496990904190648,
    0.19900165589154278,
    -0.17250830129482264,
    0.1622257964252962,
    -0.10106893083340689,
)


def log_unit(b: Builder, u: Value) -> Value:
    """Return ``ln u`` of a vector, ``0 < u < 1`` (relative error below 5·10⁻⁷).

    ``u = 2ᵉ (1 + t)`` with ``1 + t`` in [√½, √2); the polynomial gives ``ln(1 + t)/t``.
    """
    bits = b.bitcast(u, _WORDS)
    e = b.ashr(b.sub(bits, whole(_SQRT_HALF_BITS)), whole(23))
    t = b.fsub(b.bitcast(b.sub(bits, b.shl(e, whole(23))), u.type), constant(1.0))
    return fma(b, b.sitofp(e, u.type), constant(np.log(2.0)), b.fmul(t, horner(b, t, _LOGARITHM)))


def counter_words(b: Builder, low: Value, high: Value, first: int) -> Value:
    """Return the words of counters ``first … first + 15``: ``bits32`` of the counter, in lanes."""
    golden = ir.Constant(_WORDS, [(first + lane) * 0x9E3779B9 & 0xFFFFFFFF for lane in range(LANES)])
    x = b.add(golden, low)
    x = b.mul(b.xor(b.xor(x, b.lshr(x, whole(16))), high), whole(0x21F0AAAD))
    x = b.mul(b.xor(x, b.lshr(x, whole(15))), whole(0xD35A2D97))
    return b.xor(x, b.lshr(x, whole(15)))


def halves(b: Builder, key: Value) -> tuple[Value, Value]:
    """Return the lower and the upper word of a stream key, in every lane."""
    word = ir.IntType(32)
    return spread(b, b.trunc(key, word)), spread(b, b.trunc(b.lshr(key, index(32)), word))


@intrinsic
def _fill_normals(typing_context, key, out, row, start):
    """Fill columns ``start … start + 63`` of a row of ``out`` (float32) with the group of a stream key."""
    n = types.intp

    def generate(context, b, signature, arguments):
        low, high = halves(b, arguments[0])
        width = shape(context, b, signature, arguments, 1)[1]
        target = at(b, data(context, b, signature, arguments, 1), b.mul(arguments[2], width), arguments[3])
        for first in range(0, _PAIRS, LANES):
            words = counter_words(b, low, high, first)
            u = _unit(b, b.lshr(words, whole(16)))
            v = _unit(b, b.and_(words, whole(0x7FFF)))
            sign = b.shl(b.and_(words, whole(0x8000)), whole(16))
            r = call(b, "sqrt", b.fmul(constant(-2.0), log_unit(b, u)))
            signed = b.bitcast(b.xor(b.bitcast(r, _WORDS), sign), r.type)
            c = b.fsub(constant(0.25), v)
            store(b, b.fmul(r, sine_quarter(b, c)), at(b, target, index(first)))
            quarter = b.fsub(constant(0.25), call(b, "fabs", c))
            store(b, b.fmul(signed, sine_quarter(b, quarter)), at(b, target, index(_PAIRS + first)))
        return context.get_dummy_value()

    return types.void(types.uint64, out, n, n), generate


def _unit(b: Builder, words: Value) -> Value:
    """Return ``(word + ½) · 2⁻¹⁶``."""
    return fma(b, b.sitofp(words, constant(0.0).type), constant(2.0**-16), constant(2.0**-17))


_WORDS = whole(0).type
fill_normals: Compiled = _fill_normals


_MOST = 0x7FFFFFFF


@intrinsic
def _fill_cauchy(typing_context, key, out, row, start):
    """Fill columns ``start … start + 63`` of a row of ``out`` (float32) with the group of a stream key."""
    n = types.intp

    def generate(context, b, signature, arguments):
        low, high = halves(b, arguments[0])
        width = shape(context, b, signature, arguments, 1)[1]
        target = at(b, data(context, b, signature, arguments, 1), b.mul(arguments[2], width), arguments[3])
        for first in range(0, GROUP, LANES):
            words = counter_words(b, low, high, first)
            part = b.and_(words, whole(_MOST))
            sine, cosine = (_sine(b, x) for x in (part, b.sub(whole(_MOST), part)))
            tangent = b.bitcast(b.fdiv(sine, cosine), words.type)
            signed = b.or_(tangent, b.xor(words, part))
            store(b, b.bitcast(signed, sine.type), at(b, target, index(first)))
        return context.get_dummy_value()

    return types.void(types.uint64, out, n, n), generate


def _sine(b: Builder, part: Value) -> Value:
    """Return ``sin 2π(part + ½)2⁻³³``."""
    return sine_quarter(b, fma(b, b.sitofp(part, constant(0.0).type), constant(2.0**-33), constant(2.0**-34)))


fill_cauchy: Compiled = _fill_cauchy
