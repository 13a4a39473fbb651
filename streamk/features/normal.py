"""Standard normal numbers from counter bits (Box and Muller 1958), sixty-four at a time.

The unit of generation is one *group* of 64 normals. Each of the counters ``0 … 31`` of a stream gives one
word: its upper half a radius, its lower half an angle and a sign, and so two normals::

    u = ((word >> 16) + ½) · 2⁻¹⁶              ± = bit 15 of the word
    v = ((word & 0x7fff) + ½) · 2⁻¹⁶           r = √(−2 ln u)
    normal[i] = r cos 2πv                      normal[32 + i] = ± r sin 2πv

The largest normal is ±4.85; a finer radius would change the moments by less than 10⁻⁵. The logarithm
is a polynomial of our own: a library's would differ between machines.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.features.cosine import sine_quarter
from streamk.features.counter import bits32
from streamk.features.fused import fma

GROUP = 64
_PAIRS = GROUP // 2
_SCALE, _HALF_STEP = np.float32(2.0**-16), np.float32(2.0**-17)
_QUARTER = np.float32(0.25)
_ONE = np.float32(1.0)
_LN2 = np.float32(0.6931471805599453)
_SQRT_HALF_BITS = np.int32(0x3F3504F3)
# ln(1 + t)/t on [√½ − 1, √2 − 1], relative error 1.7·10⁻⁷ (minimax)
_P0 = np.float32(0.9999999453097704)
_P1 = np.float32(-0.5000036512371988)
_P2 = np.float32(0.33335058940907186)
_P3 = np.float32(-0.2496990904190648)
_P4 = np.float32(0.19900165589154278)
_P5 = np.float32(-0.17250830129482264)
_P6 = np.float32(0.1622257964252962)
_P7 = np.float32(-0.10106893083340689)


@njit(cache=True, inline="always", error_model="numpy")
def log_unit(u):  # type: ignore[no-untyped-def]
    """Return ``ln u`` for ``0 < u < 1`` (float32, relative error below 5·10⁻⁷).

    ``u = 2ᵉ (1 + t)`` with ``1 + t`` in [√½, √2); the polynomial gives ``ln(1 + t)/t``.
    """
    bits = np.float32(u).view(np.int32)
    e = np.int32(bits - _SQRT_HALF_BITS) >> np.int32(23)
    t = np.int32(bits - (e << np.int32(23))).view(np.float32) - _ONE
    p = fma(t, fma(t, fma(t, fma(t, _P7, _P6), _P5), _P4), _P3)
    return fma(np.float32(e), _LN2, t * fma(t, fma(t, fma(t, p, _P2), _P1), _P0))


@njit(cache=True, error_model="numpy")
def fill_normals(key, out, row, start):  # type: ignore[no-untyped-def]
    """Fill columns ``start … start + 63`` of a row of ``out`` (float32) with the group of a stream key."""
    low = np.uint32(key & np.uint64(0xFFFFFFFF))
    high = np.uint32(key >> np.uint64(32))
    first = np.uint64(start)
    for i in range(_PAIRS):
        word = bits32(low, high, np.uint32(i))
        u = fma(np.float32(np.int32(word >> np.uint32(16))), _SCALE, _HALF_STEP)
        v = fma(np.float32(np.int32(word & np.uint32(0x7FFF))), _SCALE, _HALF_STEP)
        sign = np.int32(np.uint32(word & np.uint32(0x8000)) << np.uint32(16))
        r = np.float32(np.sqrt(np.float32(-2.0) * log_unit(u)))
        signed = np.int32(r.view(np.int32) ^ sign).view(np.float32)
        c = _QUARTER - v
        out[row, first + np.uint64(i)] = r * sine_quarter(c)
        out[row, first + np.uint64(_PAIRS + i)] = signed * sine_quarter(_QUARTER - abs(c))
