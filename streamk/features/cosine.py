"""The cosine of an angle in turns, as a polynomial: exact to float32, sixteen at a time.

``cos 2πp`` has period 1 in ``p``, so reducing an angle costs one subtraction when angles are
counted in turns, where radians would need a multiple-word remainder. With ``u = p − round(p)`` in
[−½, ½] we have ``cos 2πp = sin 2π(¼ − |u|)``, whose argument lies in [−¼, ¼], where an odd
polynomial of degree 9 (minimax, error 3·10⁻⁹ before rounding) is enough: the result is within
2.0·10⁻⁷ of the true cosine of the reduced angle.

Every operation is one IEEE 754 float32 operation in the order written (the polynomial in fused
multiply-adds), so the value does not depend on the lane or the machine. ``b`` builds instructions inside
Numba intrinsics (:mod:`streamk.features.lanes`).
"""

from __future__ import annotations

from typing import Any

from streamk.features.lanes import Value, call, constant, horner

_COEFFICIENTS = (
    6.283185160089944,
    -41.34165503149521,
    81.60100407728456,
    -76.54978237293346,
    39.53670659961994,
)


def sine_quarter(b: Any, v: Value) -> Value:
    """Return ``sin 2πv`` for ``|v| ≤ ¼``."""
    return b.fmul(v, horner(b, b.fmul(v, v), _COEFFICIENTS))


def cosine_turns(b: Any, p: Value) -> Value:
    """Return ``cos 2πp``."""
    u = b.fsub(p, call(b, "rint", p))
    return sine_quarter(b, b.fsub(constant(0.25, p.type.count), call(b, "fabs", u)))
