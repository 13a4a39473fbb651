"""Stacked experts: the combiner that weighs many experts, and forgets at several rates at once.

**Classes.** ``p = softmax(Σ_e w_e s_e)``, ``s_e`` the outputs of expert ``e`` clipped to ±4: calibration and
weighing in one. The weights follow Newton's method on the log loss, with ``s̄ = Σ_c p_c s_c``::

    A ← λA + (1 − λ) 10 I + Σ_c p_c s_c s_cᵀ − s̄ s̄ᵀ          w ← w − A⁻¹ (s̄ − s_y)

**Numbers.** ``f = Σ_e w_e s_e`` of standardised outputs, by the same with ``A ← … + s sᵀ`` and the gradient
``s (f − z)``: recursive least squares.

It begins with ``A = 10 I`` and equal weights. There are three such *sets* of weights, with ``λ`` = 1, 0.9995
and 0.99. Of classes, the sets are mixed as Bayes would, each by how probable it held what came; of numbers,
the sets and the experts themselves by ``exp(−½ error²/mean error²)``. After every event the shares move by a
thousandth of the way to equal ones, so that none is ever lost (Herbster and Warmuth 1998). The squared error
of every expert is followed beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from streamk.combining.combiner import adapt, combine, softmax
from streamk.combining.newton import newton_step
from streamk.compiling import INNER
from streamk.encoding.codec import KNOWN, aim_of, decode, is_learned
from streamk.encoding.rows import typed
from streamk.experts.expert import FINAL

FORGETTING = (1.0, 0.9995, 0.99)
CLIP, TARGET_CLIP = 4.0, 6.0  # of outputs: of classes, of numbers
_PENALTY = 10.0
_SHARE = 1e-3
_RATE = 0.5
_MOST = 1e100
_ERROR, _EVENTS = 0, 1  # of a running mean
_SLOWEST = 1e-3
Array = NDArray[np.float64]


class StackedClasses(NamedTuple):
    """The combiner of classes as compiled code sees it; see :class:`Stacking`."""

    forgetting: Array
    weights: Array
    curvature: Array
    shares: Array
    error: Array
    losses: Array


class StackedNumbers(NamedTuple):
    """The combiner of numbers as compiled code sees it: another type, so that code is compiled for one."""

    forgetting: Array
    weights: Array
    curvature: Array
    shares: Array
    error: Array
    losses: Array


class Stacking:
    """Stacked experts.

    Parameters
    ----------
    experts
        How many there are.
    classes
        Whether labels are classes.
    """

    def __init__(self, experts: int, classes: bool) -> None:
        sets = len(FORGETTING)
        self.classes, self.forgetting = classes, np.array(FORGETTING)
        self.weights: Array = np.full((sets, experts), (2.0 if classes else 1.0) / experts)
        self.curvature: Array = np.array([_PENALTY * np.eye(experts)] * sets)
        mixed = sets if classes else sets + experts
        self.shares: Array = np.full(mixed, 1.0 / mixed)
        self.error: Array = np.zeros(2)
        self.losses: Array = np.zeros(experts)

    @property
    def record(self) -> StackedClasses | StackedNumbers:
        """The combiner as compiled code sees it."""
        kind = StackedClasses if self.classes else StackedNumbers
        return kind(self.forgetting, self.weights, self.curvature, self.shares, self.error, self.losses)

    def take(self, others: Sequence[Self], shares: Sequence[float]) -> None:
        """Become the merge of several: what they know of their weights adds up, shares are averaged."""
        penalty = _PENALTY * np.eye(self.weights.shape[1])
        for s in range(len(self.weights)):
            before = penalty @ self.weights[s]
            known, moved = penalty.copy(), before.copy()
            for other in others:
                known += other.curvature[s] - penalty
                moved += other.curvature[s] @ other.weights[s] - before
            self.weights[s], self.curvature[s] = np.linalg.solve(known, moved), known
        self.shares[:] = sum(share * other.shares for share, other in zip(shares, others, strict=True))
        self.error[:] = sum(share * other.error for share, other in zip(shares, others, strict=True))
        self.losses[:] = sum(share * other.losses for share, other in zip(shares, others, strict=True))

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        return {f"stacking.{name}": getattr(self, name) for name in _KEPT}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the arrays of a model file, if they are possible."""
        for name in _KEPT:
            kept = typed(arrays, f"stacking.{name}", np.float64, getattr(self, name).shape)
            if not (abs(kept) <= _MOST).all() or (
                name in ("shares", "error", "losses") and (kept < 0.0).any()
            ):
                raise ValueError(f"the {name} of its experts are impossible")
            setattr(self, name, kept.copy())
        if not self.shares.sum() > 0.0 or any(np.linalg.eigvalsh(a)[0] <= 0.0 for a in self.curvature):
            raise ValueError("the weights of its experts are impossible")


_KEPT = ("weights", "curvature", "shares", "error", "losses")


@njit(cache=True, **INNER)
def _clipped(outputs, e, k, clip):  # type: ignore[no-untyped-def]
    return min(max(np.float64(outputs[e, FINAL, k]), -clip), clip)


@njit(cache=True, **INNER)
def _probabilities(combiner, s, outputs, known, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` ``(known,)`` with what set ``s`` of weights says of the classes."""
    for k in range(known):
        total = 0.0
        for e in range(outputs.shape[0]):
            total += combiner.weights[s, e] * _clipped(outputs, e, k, CLIP)
        out[k] = total
    softmax(out)


@njit(cache=True, **INNER)
def _number(combiner, s, outputs):  # type: ignore[no-untyped-def]
    """Return what set ``s`` of weights says; those after the last set are the experts themselves."""
    sets, experts = combiner.weights.shape
    if s >= sets:
        return _clipped(outputs, s - sets, 0, TARGET_CLIP)
    total = 0.0
    for e in range(experts):
        total += combiner.weights[s, e] * _clipped(outputs, e, 0, TARGET_CLIP)
    return min(max(total, -TARGET_CLIP), TARGET_CLIP)


@overload(combine, jit_options=INNER)
def _combine(combiner, coding, outputs, mixed, out) -> Any:  # type: ignore[no-untyped-def]
    if combiner.instance_class is StackedClasses:

        def probabilities(combiner, coding, outputs, mixed, out):  # type: ignore[no-untyped-def]
            out[:] = 0.0
            known = int(coding.counts[KNOWN])
            one = np.empty(known)
            for s in range(combiner.shares.shape[0] if known > 0 else 0):
                _probabilities(combiner, s, outputs, known, one)
                for k in range(known):
                    out[k] += combiner.shares[s] * one[k]

        return probabilities
    if combiner.instance_class is StackedNumbers:

        def number(combiner, coding, outputs, mixed, out):  # type: ignore[no-untyped-def]
            said = 0.0
            for s in range(combiner.shares.shape[0]):
                said += combiner.shares[s] * _number(combiner, s, outputs)
            out[0] = decode(coding, said)

        return number
    return None


@overload(adapt, jit_options=INNER)
def _adapt(combiner, coding, outputs, mixed, given, target) -> Any:  # type: ignore[no-untyped-def]
    if combiner.instance_class is StackedClasses:

        def learn_class(combiner, coding, outputs, mixed, given, target):  # type: ignore[no-untyped-def]
            known = int(coding.counts[KNOWN])
            if target < known and known > 1:
                _learn_class(combiner, outputs, known, int(target))

        return learn_class
    if combiner.instance_class is StackedNumbers:

        def learn_number(combiner, coding, outputs, mixed, given, target):  # type: ignore[no-untyped-def]
            if is_learned(coding, target):
                _learn_number(combiner, outputs, aim_of(coding, target))

        return learn_number
    return None


@njit(cache=True, **INNER)
def _learn_class(combiner, outputs, known, y):  # type: ignore[no-untyped-def]
    sets, experts = combiner.weights.shape
    given, said, slope = np.empty(known), np.empty((known, experts)), np.empty(experts)
    total, rate = 0.0, _rate(combiner.error)
    for e in range(experts):
        loss = 0.0
        for k in range(known):
            said[k, e] = _clipped(outputs, e, k, CLIP)
            loss += (said[k, e] - (1.0 if k == y else 0.0)) ** 2
        combiner.losses[e] += rate * (loss - combiner.losses[e])
    for s in range(sets):
        _probabilities(combiner, s, outputs, known, given)
        combiner.shares[s] *= max(given[y], 1e-12)
        total += combiner.shares[s]
        curvature = combiner.curvature[s]
        _fade(curvature, combiner.forgetting[s])
        for e in range(experts):
            mean = 0.0
            for k in range(known):
                mean += given[k] * said[k, e]
            slope[e] = mean
        for k in range(known):
            for e in range(experts):
                part = given[k] * (said[k, e] - slope[e])
                for d in range(e + 1):
                    curvature[e, d] += part * (said[k, d] - slope[d])
        for e in range(experts):
            slope[e] -= said[y, e]
        newton_step(combiner.weights[s], curvature, slope)
    _share(combiner.shares, total)


@njit(cache=True, **INNER)
def _learn_number(combiner, outputs, aim):  # type: ignore[no-untyped-def]
    sets, experts = combiner.weights.shape
    slope, count = np.empty(experts), combiner.shares.shape[0]
    errors, least, total, mixed = np.empty(count), np.inf, 0.0, 0.0
    for s in range(count):
        said = _number(combiner, s, outputs)
        errors[s] = (said - aim) ** 2
        least = min(least, errors[s])
        mixed += combiner.shares[s] * said
    rate = _rate(combiner.error)
    for e in range(experts):
        combiner.losses[e] += rate * (errors[sets + e] - combiner.losses[e])
    combiner.error[_ERROR] += rate * ((mixed - aim) ** 2 - combiner.error[_ERROR])
    for s in range(count):
        if combiner.error[_ERROR] > 0.0:
            combiner.shares[s] *= np.exp(-_RATE * min((errors[s] - least) / combiner.error[_ERROR], 50.0))
        total += combiner.shares[s]
    for s in range(sets):
        curvature, said = combiner.curvature[s], 0.0
        _fade(curvature, combiner.forgetting[s])
        for e in range(experts):
            slope[e] = _clipped(outputs, e, 0, TARGET_CLIP)
            said += combiner.weights[s, e] * slope[e]
            for d in range(e + 1):
                curvature[e, d] += slope[e] * slope[d]
        for e in range(experts):
            slope[e] *= said - aim
        newton_step(combiner.weights[s], curvature, slope)
    _share(combiner.shares, total)


@njit(cache=True, **INNER)
def _rate(error):  # type: ignore[no-untyped-def]
    """Count an event; return by how much running means move: those of all events, then of the last 1,000."""
    error[_EVENTS] += 1.0
    return max(1.0 / error[_EVENTS], _SLOWEST)


@njit(cache=True, **INNER)
def _fade(curvature, forgetting):  # type: ignore[no-untyped-def]
    """Forget, towards what was known before the first event (the lower triangle; so below)."""
    if forgetting < 1.0:
        for e in range(curvature.shape[0]):
            for d in range(e + 1):
                curvature[e, d] *= forgetting
            curvature[e, e] += (1.0 - forgetting) * _PENALTY


@njit(cache=True, **INNER)
def _share(shares, total):  # type: ignore[no-untyped-def]
    count = shares.shape[0]
    for s in range(count):
        shares[s] = (1.0 - _SHARE) * shares[s] / total + _SHARE / count
