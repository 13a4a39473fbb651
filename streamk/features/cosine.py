"""The cosine of an angle in turns, as a polynomial: exact to float32, and vectorised by any compiler.

``cos 2πp`` has period 1 in ``p``, so reducing an angle costs one subtraction when angles are
counted in turns, where radians would need a multiple-word remainder. With ``u = p − round(p)`` in
[−½, ½] we have ``cos 2πp = sin 2π(¼ − |u|)``, whose argument lies in [−¼, ¼], where an odd
polynomial of degree 9 (minimax, error 3·10⁻⁹ before rounding) is enough: the result is within
2.0·10⁻⁷ of the true cosine of the reduced angle.

Every operation is one IEEE 754 float32 operation in the order written (the polynomial in fused
multiply-adds), so the value is the same in a vector register and in a scalar one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.features.fused import fma, nearest

COEFFICIENTS = (
    6.283185160089944,
    -41.34165503149521,
    81.60100407728456,
    -76.54978237293346,
    39.53670659961994,
)
_C1, _C3, _C5, _C7, _C9 = map(np.float32, COEFFICIENTS)
_QUARTER = np.float32(0.25)


@njit(cache=True, inline="always", error_model="numpy")
def sine_quarter(v):  # type: ignore[no-untyped-def]
    """Return ``sin 2πv`` for ``|v| ≤ ¼`` (float32)."""
    s = v * v
    return v * fma(s, fma(s, fma(s, fma(s, _C9, _C7), _C5), _C3), _C1)


@njit(cache=True, inline="always", error_model="numpy")
def cosine_turns(p):  # type: ignore[no-untyped-def]
    """Return ``cos 2πp`` (float32)."""
    u = p - nearest(p)
    return sine_quarter(_QUARTER - abs(u))
