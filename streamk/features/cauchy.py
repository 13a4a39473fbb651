"""Standard Cauchy numbers from counter bits, sixty-four at a time: the directions of the Laplacian kernel.

Each of the counters ``0 … 63`` of a stream gives one word, and so one number: its highest bit is the sign,
the other 31 the angle, and the tangent is a quotient of two sines::

    a = ((word & 0x7fffffff) + ½) · 2⁻³³        b = ((0x7fffffff − (word & 0x7fffffff)) + ½) · 2⁻³³
    cauchy = ± sin 2πa / sin 2πb                a + b = ¼

``b`` is made from whole numbers, so the largest, ±2.7·10⁹, is as exact as the smallest.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from streamk.features.cosine import sine_quarter
from streamk.features.lanes import LANES, Value, at, constant, data, fma, index, shape, store, whole
from streamk.features.normal import GROUP, counter_words, halves

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


def _sine(b: Any, part: Value) -> Value:
    """Return ``sin 2π(part + ½)2⁻³³``."""
    return sine_quarter(b, fma(b, b.sitofp(part, constant(0.0).type), constant(2.0**-33), constant(2.0**-34)))


fill_cauchy: Any = _fill_cauchy  # Numba's annotations count the typing context among the arguments
