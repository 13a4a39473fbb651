"""Losses of the projection learners, as the part of the residual that is to be fitted.

A Kaczmarz step projects onto ``φᵀA = f + residual``. A loss decides which residual is asked for:

=========================  ====================================================================
``squared``                ``y − f`` (classes: ``[k = y] − f_k`` for each of the K outputs)
``margin``                 ``l = 1 − (f_y − f_c)`` if positive, ``+l`` for the class ``y`` and
                           ``−l`` for the best wrong class ``c`` (passive-aggressive; Crammer 2006)
``huber``                  ``y − f`` clipped to ±1.345 (95 % efficiency under normal noise)
``epsilon_insensitive``    ``sign(y − f) · max(|y − f| − 0.1, 0)``
=========================  ====================================================================

The constants are in units of the target's running standard deviation.
"""

from __future__ import annotations

import numpy as np
from numba import njit

CLASSIFICATION = ("squared", "margin")
REGRESSION = ("squared", "huber", "epsilon_insensitive")
# Codes for the compiled code: below 2 the target is a class, from 2 on a number.
CODES = {("class", name): code for code, name in enumerate(CLASSIFICATION)} | {
    ("number", name): code + len(CLASSIFICATION) for code, name in enumerate(REGRESSION)
}
SQUARED, MARGIN = CODES["class", "squared"], CODES["class", "margin"]
FIRST_REGRESSION = CODES["number", "squared"]
_HUBER, _EPSILON_INSENSITIVE = CODES["number", "huber"], CODES["number", "epsilon_insensitive"]
_DELTA, _EPSILON = 1.345, 0.1


@njit(cache=True, error_model="numpy")
def residuals(loss, outputs, target, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (float64, one per output) with the residual that ``loss`` asks for.

    ``target`` is a class index or a standardised number. Returns the squared length of the
    direction of the step in units of ``φᵀφ``: 2 for the margin, whose step moves two outputs.
    """
    if loss == SQUARED:
        for k in range(outputs.shape[0]):
            out[k] = (1.0 if k == int(target) else 0.0) - outputs[k]
        return 1.0
    if loss == MARGIN:
        y, rival = int(target), -1
        for k in range(outputs.shape[0]):
            out[k] = 0.0
            if k != y and (rival < 0 or outputs[k] > outputs[rival]):
                rival = k
        if rival >= 0:
            violation = 1.0 - (np.float64(outputs[y]) - np.float64(outputs[rival]))
            if violation > 0.0:
                out[y], out[rival] = violation, -violation
        return 2.0
    r = target - np.float64(outputs[0])
    if loss == _HUBER:
        r = min(max(r, -_DELTA), _DELTA)
    elif loss == _EPSILON_INSENSITIVE:
        r = np.sign(r) * max(abs(r) - _EPSILON, 0.0)
    out[0] = r
    return 1.0
