"""Standard normal numbers from counter bits (Box and Muller 1958), thirty-two at a time.

The unit of generation is one *group* of 32 normals. Counters ``i`` and ``16 + i`` of a stream,
``0 ≤ i < 16``, give one radius and one angle, and so two normals::

    u = ((bits32(i) >> 9) + ½) · 2⁻²³          v = (bits32(16 + i) >> 9) · 2⁻²³ − ½
    r = √(−2 ln u)                             normal[i] = r cos 2πv,  normal[16 + i] = r sin 2πv

23 bits are used because ``u`` is then exact in float32; the largest normal is ±5.77. The
logarithm is a float32 polynomial of our own: a library's would differ between machines.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.features.cosine import cosine_turns
from streamk.features.counter import bits32

GROUP = 32
_PAIRS = GROUP // 2
_ULP = np.float32(2.0**-23)
_HALF = np.float32(0.5)
_QUARTER = np.float32(0.25)
_ONE = np.float32(1.0)
_LN2 = np.float32(0.6931471805599453)
_SQRT_HALF_BITS = np.int32(0x3F3504F3)
_L3 = np.float32(2.0 / 3.0)
_L5 = np.float32(2.0 / 5.0)
_L7 = np.float32(2.0 / 7.0)
_L9 = np.float32(2.0 / 9.0)


@njit(cache=True, inline="always", error_model="numpy")
def log_unit(u):  # type: ignore[no-untyped-def]
    """Return ``ln u`` for ``0 < u < 1`` (float32, absolute error below 2·10⁻⁷ · max(1, |ln u|)).

    ``u = 2ᵉ m`` with ``m`` in [√½, √2); ``ln m = 2 atanh s`` with ``s = (m − 1)/(m + 1)``, as
    five terms of its series.
    """
    bits = np.float32(u).view(np.int32)
    e = np.int32(bits - _SQRT_HALF_BITS) >> np.int32(23)
    m = np.int32(bits - (e << np.int32(23))).view(np.float32)
    s = (m - _ONE) / (m + _ONE)
    z = s * s
    series = s * (np.float32(2.0) + z * (_L3 + z * (_L5 + z * (_L7 + z * _L9))))
    return np.float32(e) * _LN2 + series


@njit(cache=True, error_model="numpy")
def fill_normals(key, out):  # type: ignore[no-untyped-def]
    """Fill ``out[:32]`` (float32) with the group of normals of one stream key (``uint64``)."""
    low = np.uint32(key & np.uint64(0xFFFFFFFF))
    high = np.uint32(key >> np.uint64(32))
    for i in range(_PAIRS):
        a = bits32(low, high, np.uint32(i))
        b = bits32(low, high, np.uint32(_PAIRS + i))
        u = (np.float32(np.int32(a >> np.uint32(9))) + _HALF) * _ULP
        v = np.float32(np.int32(b >> np.uint32(9))) * _ULP - _HALF
        r = np.float32(np.sqrt(np.float32(-2.0) * log_unit(u)))
        out[i] = r * cosine_turns(v)
        out[_PAIRS + i] = r * cosine_turns(v - _QUARTER)
