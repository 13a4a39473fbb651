"""Losses: for each event, a residual to project onto, or a direction of descent.

A Kaczmarz step projects onto ``φᵀA = f + residual`` (:func:`residuals`); a gradient step goes along
``−ℓ'(f)`` (:func:`descents`). ``m = f_y − f_c`` is the margin of the class ``y`` over the best wrong class
``c``. Outputs of the logistic loss are logits, which no event can satisfy: its projection is a normalised
step of gradient descent.

=========================  ============================================  =======================  ===
loss                       residual                                      ``−ℓ'``                  κ
=========================  ============================================  =======================  ===
``squared``                ``y − f`` (classes: ``[k = y] − f_k``)        the same                 1
``margin``                 ``1 − m`` if positive, ``+`` for ``y`` and    none                     ·
                           ``−`` for ``c`` (passive-aggressive)
``logistic``               ``[k = y] − softmax_k``                       the same                 ½
``hinge``                  none                                          ``[m < 1]``, ``±``       2
``smoothed_hinge``         none                                          ``1 − m`` in [0, 1], ``±``  2
``huber``                  ``y − f`` clipped to ±1.345                   the same                 1
``epsilon_insensitive``    ``sign(r) · max(|r| − 0.1, 0)``               ``sign(r) [|r| > 0.1]``  1
``quantile``               none                                          ``q − [y < f]``          1
=========================  ============================================  =======================  ===

``κ`` bounds the curvature: the Hessian in the outputs is at most ``κI`` where there is one (hinges of several
classes are those of Crammer and Singer 2001). The constants of the target are in units of its running
standard deviation; 1.345 gives 95 % efficiency under normal noise.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.compiling import INNER, both

CLASSIFICATION = ("squared", "margin", "logistic", "hinge", "smoothed_hinge")
REGRESSION = ("squared", "huber", "epsilon_insensitive", "quantile")
# Codes for compiled code, classification first.
CODES = {("class", name): code for code, name in enumerate(CLASSIFICATION)} | {
    ("number", name): code + len(CLASSIFICATION) for code, name in enumerate(REGRESSION)
}
SQUARED, MARGIN, LOGISTIC = (CODES["class", k] for k in ("squared", "margin", "logistic"))
FIRST_REGRESSION = CODES["number", "squared"]
_HINGE, _SMOOTHED_HINGE = CODES["class", "hinge"], CODES["class", "smoothed_hinge"]
_HUBER, _EPSILON_INSENSITIVE, _QUANTILE = (
    CODES["number", k] for k in ("huber", "epsilon_insensitive", "quantile")
)
_DELTA, _EPSILON, _FLATTEST = 1.345, 0.1, 0.05


def curvature(loss: int) -> float:
    """Return ``κ`` of a loss."""
    return {LOGISTIC: 0.5, _HINGE: 2.0, _SMOOTHED_HINGE: 2.0}.get(loss, 1.0)


@both()
def residuals(loss, outputs, target, out):
    """Fill ``out`` (float64, one per output) with the residual of ``loss``.

    ``target`` is a class index or a standardised number. Returns the squared length of the
    direction of the step in units of ``φᵀφ``: 2 for the margin, whose step moves two outputs.
    """
    if loss == SQUARED:
        for k in range(outputs.shape[0]):
            out[k] = (1.0 if k == int(target) else 0.0) - outputs[k]
        return 1.0
    if loss == MARGIN:
        _along_margin(outputs, int(target), np.inf, out)
        return 2.0
    if loss == LOGISTIC:
        _along_likelihood(outputs, int(target), out)
        return 1.0
    r = target - np.float64(outputs[0])
    if loss == _HUBER:
        r = min(max(r, -_DELTA), _DELTA)
    elif loss == _EPSILON_INSENSITIVE:
        r = np.sign(r) * max(abs(r) - _EPSILON, 0.0)
    out[0] = r
    return 1.0


@both()
def curvature_along(loss, residual, target):
    """Return the curvature of a loss along the steps expected from ``residual``.

    Of the logistic loss it is ``tr H²/tr H``, ``H = diag p − p pᵀ`` being the Hessian and also the covariance
    of the residual, and at least 0.05; of others 1.
    """
    if loss != LOGISTIC:
        return 1.0
    square, cube = 0.0, 0.0
    for k in range(residual.shape[0]):
        p = (1.0 if k == int(target) else 0.0) - residual[k]
        square += p * p
        cube += p * p * p
    trace = max(1.0 - square, _FLATTEST)
    return max((square - 2.0 * cube + square * square) / trace, _FLATTEST)


@both()
def descents(loss, outputs, target, quantile, out):
    """Fill ``out`` (float64, one per output) with ``−ℓ'``; ``quantile`` is used by the loss of that name."""
    if loss in (_HINGE, _SMOOTHED_HINGE):
        _along_margin(outputs, int(target), 1.0, out)
        if loss == _HINGE:
            for k in range(outputs.shape[0]):
                out[k] = np.sign(out[k])
    elif loss == _EPSILON_INSENSITIVE:
        residuals(loss, outputs, target, out)
        out[0] = np.sign(out[0])
    elif loss == _QUANTILE:
        out[0] = quantile - (1.0 if target < outputs[0] else 0.0)
    else:
        residuals(loss, outputs, target, out)


@njit(**INNER)
def _along_margin(outputs, y, most, out):
    """Fill ``out`` with ``1 − m``, clipped to ``[0, most]``: positive for ``y``, negative for ``c``."""
    rival = -1
    for k in range(outputs.shape[0]):
        out[k] = 0.0
        if k != y and (rival < 0 or outputs[k] > outputs[rival]):
            rival = k
    if rival >= 0:
        violation = 1.0 - (np.float64(outputs[y]) - np.float64(outputs[rival]))
        if violation > 0.0:
            out[y] = min(violation, most)
            out[rival] = -out[y]


@njit(**INNER)
def _along_likelihood(outputs, y, out):
    """Fill ``out`` with ``[k = y] − softmax_k``."""
    highest, total = -np.inf, 0.0
    for k in range(outputs.shape[0]):
        highest = max(highest, np.float64(outputs[k]))
    for k in range(outputs.shape[0]):
        out[k] = np.exp(np.float64(outputs[k]) - highest)
        total += out[k]
    for k in range(outputs.shape[0]):
        out[k] = (1.0 if k == y else 0.0) - out[k] / total
