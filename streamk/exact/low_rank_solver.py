"""Stochastic low-rank kernel learning: a kernel that is a conical combination of rank-one approximations.

Each of ``M`` sampled events ``m`` has the column ``c_m = [k(x_i, x_m)]_i / √k(x_m, x_m)`` and a weight
``μ_m ≥ 0``, and the kernel matrix is ``K̃(μ) = Σ_m μ_m c_m c_mᵀ`` (Machart et al. 2011, eqs. 2 and 3). The
objective is convex and smooth (eq. 14):

    F(μ) = yᵀ (I + K̃(μ)/λ)⁻¹ y + ν Σ_m μ_m        over μ ≥ 0

A step changes one weight, chosen at random. With ``K_λ = λI + K̃(μ)``, ``a = yᵀ K_λ⁻¹ c`` and
``s = cᵀ K_λ⁻¹ c``, moving a weight by ``t`` changes ``F`` by ``νt − λa²t/(1 + st)``, so the best move is
``t = (|a|√(λ/ν) − 1)/s``; the Newton step of eqs. 19 to 21 is ``t = (λa² − ν)/(2λa²s)``, which from 0 never
goes further than ``1/2s``. Both stop at ``μ = 0``. Algorithm 2 as printed lacks the 2 of eq. 21 (its steps
near the minimum are then twice too long), and its stopping rule has the opposite sign; the text of the paper
has both right, and is followed here.

Columns enter through inner products alone, those of the ``m₀`` weights above 0 through ``G`` (eqs. 22, 23)

    G = (D⁻¹ + CᵀC/λ)⁻¹     K_λ⁻¹ = I/λ − C G Cᵀ/λ²     β = G Cᵀy/λ      f(x) = Σ β_m k(x, x_m)/√k(x_m, x_m)

which four cases update (eqs. 24 to 27) in ``O(m₀²)``. For a weight that is 0 and stays 0, a step takes
``O(m₀)``. As ``min_μ λβ²/μ + νμ = 2√(λν)|β|``, the solution is that of the lasso over the columns,
``min_β ‖y − Cβ‖² + 2√(λν)‖β‖₁``.

Events with weights ``w`` have ``√w_i`` in row ``i`` of the columns and of ``y``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from streamk.arrays import Array, Floats, Places
from streamk.encoding.rows import slices
from streamk.exact.gram import gram_of
from streamk.kernels import Kernel
from streamk.threads import one_blas_thread

_PIECE = 2048  # events whose rows of the columns are held at once
_SMALLEST = float(np.finfo(np.float32).tiny)
_DRIFT = 1e-2  # of a slope, until what rounding did to G is made good


class WeightedColumns:
    """The weighted columns ``c_m`` of a data set.

    Parameters
    ----------
    kernel, bandwidth
        ``k``.
    X
        Dense rows ``(n, d)``.
    chosen
        The events whose columns these are, ``(M,)``.
    weights
        Of the events, ``(n,)``, from 0 to 1.
    """

    def __init__(self, kernel: Kernel, bandwidth: float, X: Floats, chosen: Places, weights: Array) -> None:
        self.kernel, self.bandwidth, self.X, self.chosen = kernel, bandwidth, X, chosen
        self._roots = np.sqrt(weights).astype(np.float32)
        self.scales = np.array([self._scale(each) for each in chosen])

    def __len__(self) -> int:
        return len(self.chosen)

    def _scale(self, event: int) -> float:
        """Return ``1/√k(x, x)``; 0 for an event whose column is 0."""
        row = self.X[event : event + 1].astype(np.float64)
        square = float(self.kernel(row, row, self.bandwidth)[0, 0])
        return 1.0 / float(np.sqrt(square)) if square >= _SMALLEST else 0.0

    def block(self, rows: slice, places: slice) -> Floats:
        """Return rows of the columns at ``places``."""
        columns = self.kernel.block(self.X[rows], self.X[self.chosen[places]], self.bandwidth)
        columns *= self.scales[places].astype(np.float32)
        columns *= self._roots[rows, None]
        return columns

    def column(self, place: int) -> Array:
        """Return one column, ``(n,)``."""
        return self.block(slice(None), slice(place, place + 1))[:, 0].astype(np.float64)

    def weighted(self, targets: Array) -> Array:
        """Return targets ``(n, K)`` with the weights that the columns have."""
        return np.asarray(targets * self._roots[:, None].astype(np.float64))

    def products(self, goal: Array) -> tuple[Array, Array]:
        """Return products of columns with each other, ``(M, M)``, and with weighted targets, ``(M, K)``."""
        gram, goals = np.zeros((len(self), len(self))), np.zeros((len(self), goal.shape[1]))
        for part in slices(len(self.X), _PIECE):
            ours, theirs = gram_of(self.block(part, slice(None)), goal[part])
            gram += ours
            goals += theirs
        return gram, goals

    def products_with(self, goal: Array) -> Array:
        """Return the products of columns with weighted targets alone, ``(M, K)``."""
        goals = np.zeros((len(self), goal.shape[1]))
        for part in slices(len(self.X), _PIECE):
            for places in slices(len(self), _PIECE):
                piece = self.block(part, places).astype(np.float64)
                with one_blas_thread():
                    goals[places] += piece.T @ goal[part]
        return goals


class KeptBases:
    """All inner products, made beforehand: ``gram`` ``(M, M)``, ``goals`` ``(M,)``, ``energy = yᵀy``."""

    def __init__(self, gram: Array, goals: Array, energy: float) -> None:
        self._gram, self.goals, self.energy = gram, goals, energy

    def products(self, place: int, places: Places) -> tuple[Array, float]:
        """Return ``Cᵀc`` and ``cᵀc``."""
        row = self._gram[place]
        return row[places], float(row[place])

    def gram(self, places: Places) -> Array:
        """Return ``CᵀC``."""
        return self._gram[np.ix_(places, places)]


class MadeBases:
    """Columns computed when they are used; only those whose weights are not 0 are stored (section 4.2)."""

    def __init__(self, make: Callable[[int], Array], goals: Array, energy: float) -> None:
        self._make, self.goals, self.energy = make, goals, energy
        self._held: dict[int, Array] = {}

    def products(self, place: int, places: Places) -> tuple[Array, float]:
        """Return ``Cᵀc`` and ``cᵀc``, and let go of the columns whose weights are 0 by now."""
        kept = places.tolist()
        column = self._held[place] if place in self._held else self._make(place)
        self._held = {each: self._held[each] for each in kept} | {place: column}
        return np.array([self._held[each] @ column for each in kept]), float(column @ column)

    def gram(self, places: Places) -> Array:
        """Return ``CᵀC``."""
        C = np.array([self._held[each] for each in places.tolist()]).reshape(len(places), -1)
        return np.asarray(C @ C.T)


class Rules(NamedTuple):
    """``λ`` and ``ν``, and how a weight moves: :func:`exact` or :func:`newton`."""

    ridge: float
    penalty: float
    move: Callable[[float, float, float, float], float]


def newton(slope: float, curvature: float, ridge: float, penalty: float) -> float:
    """Return the Newton step ``−F'/F''`` of a weight (eqs. 19 to 21) from ``a`` and ``s``."""
    gain = ridge * slope * slope
    return (gain - penalty) / (2.0 * gain * curvature)


def exact(slope: float, curvature: float, ridge: float, penalty: float) -> float:
    """Return the step of a weight to where ``F`` is least, from ``a`` and ``s``."""
    return (abs(slope) * float(np.sqrt(ridge / penalty)) - 1.0) / curvature


MOVES = {"exact": exact, "newton": newton}


def changed(G: Array, position: int, old: float, new: float) -> Array:
    """Return ``G`` after a weight above 0 became another one (case 2, eq. 25)."""
    column = G[position]
    delta = 1.0 / new - 1.0 / old
    return G - np.outer(delta / (1.0 + delta * column[position]) * column, column)


def removed(G: Array, position: int) -> Array:
    """Return ``G`` after a weight became 0 (case 3, eq. 26)."""
    column = np.delete(G[position], position)
    smaller = np.delete(np.delete(G, position, 0), position, 1)
    smaller -= np.outer(column / G[position, position], column)
    return smaller


def added(G: Array, cross: Array, square: float, new: float, ridge: float) -> Array:
    """Return ``G`` after a weight came from 0 (case 4, eq. 27); its column is the last.

    ``cross`` are the inner products ``Cᵀc`` with the columns before it, ``square`` is ``cᵀc``.
    """
    known = G @ cross / ridge
    s = 1.0 / (1.0 / new + square / ridge - cross @ known / ridge)
    grown = np.empty((len(G) + 1, len(G) + 1))
    grown[:-1, :-1] = G
    grown[:-1, :-1] += np.outer(s * known, known)
    grown[-1, :-1] = grown[:-1, -1] = -s * known
    grown[-1, -1] = s
    return grown


class Bases(Protocol):
    """Inner products of columns: ``goals`` are those with the target, ``(M,)``, and ``energy`` is ``yᵀy``."""

    goals: Array
    energy: float

    def products(self, place: int, places: Places) -> tuple[Array, float]:
        """Return ``Cᵀc`` and ``cᵀc`` of a column ``c``, ``C`` being those whose weights are not 0."""
        ...

    def gram(self, places: Places) -> Array:
        """Return ``CᵀC`` of the columns whose weights are not 0."""
        ...


class DescentState(NamedTuple):
    """The state of a descent: the ``m₀`` columns whose weights are not 0.

    Their ``places`` and weights ``mu``, ``G``, the products ``goals = Cᵀy``, ``beta`` and ``F``.
    """

    places: Places
    mu: Array
    G: Array
    goals: Array
    beta: Array
    objective: float


def start(bases: Bases) -> DescentState:
    """Return the state in which all weights are 0."""
    none = np.zeros(0)
    return DescentState(np.zeros(0, dtype=np.intp), none, np.zeros((0, 0)), none, none, bases.energy)


def step(state: DescentState, bases: Bases, place: int, rules: Rules) -> DescentState:
    """Return the state after the weight at ``place`` had its turn; the same state if it stays 0 (case 1)."""
    ridge, penalty, move = rules
    cross, square = bases.products(place, state.places)
    slope = float(bases.goals[place] - cross @ state.beta) / ridge
    positions = np.flatnonzero(state.places == place)
    position = int(positions[0]) if len(positions) else -1
    if position >= 0 and _drifted(state, position, slope, rules):
        state = refreshed(state, bases, rules)
        slope = float(bases.goals[place] - cross @ state.beta) / ridge
    old = float(state.mu[position]) if position >= 0 else 0.0
    gain = ridge * slope * slope
    if old == 0.0 and gain <= penalty:
        return state
    curvature = (square - float(cross @ (state.G @ cross)) / ridge) / ridge
    new = max(0.0, old + move(slope, curvature, ridge, penalty)) if gain * curvature > 0.0 else 0.0
    if new == old:
        return state
    t = new - old
    objective = state.objective + penalty * t - gain * t / (1.0 + curvature * t)
    places, mu, G, goals = state.places, state.mu, state.G, state.goals
    if new == 0.0:
        places, mu, goals = np.delete(places, position), np.delete(mu, position), np.delete(goals, position)
        G = removed(G, position)
    elif old == 0.0:
        places, mu, goals = np.append(places, place), np.append(mu, new), np.append(goals, bases.goals[place])
        G = added(G, cross, square, new, ridge)
    else:
        mu = mu.copy()
        mu[position] = new
        G = changed(G, position, old, new)
    moved = DescentState(places, mu, G, goals, G @ goals / ridge, objective)
    if new > 0.0 and _drifted(moved, position, slope / (1.0 + curvature * t), rules):
        return refreshed(moved, bases, rules)
    return moved


def _drifted(state: DescentState, position: int, slope: float, rules: Rules) -> bool:
    """Return whether rounding has come between ``G`` and its columns: ``β = μa`` holds for each weight."""
    least = float(np.sqrt(rules.penalty / rules.ridge))  # |a| where the weights of a minimum are above 0
    error = abs(float(state.beta[position]) / float(state.mu[position]) - slope)
    return not error <= _DRIFT * max(abs(slope), least)


def refreshed(state: DescentState, bases: Bases, rules: Rules) -> DescentState:
    """Return a state with ``G`` and ``F`` computed again, without the rounding of the updates so far."""
    if not len(state.places):
        return state
    ridge, penalty, _ = rules
    root = np.sqrt(state.mu)
    inner = bases.gram(state.places) * (root[:, None] * root / ridge)
    inner[np.diag_indices_from(inner)] += 1.0
    factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
    G = cho_solve(factor, np.diag(root), check_finite=False) * root[:, None]
    G = 0.5 * (G + G.T)
    beta = G @ state.goals / ridge
    objective = bases.energy - float(state.goals @ beta) + penalty * float(state.mu.sum())
    return state._replace(G=G, beta=beta, objective=objective)


def descend(bases: Bases, places: Iterator[int], rules: Rules) -> Iterator[DescentState]:
    """Yield the state after each step, in the order in which weights have their turn (Algorithm 2)."""
    state = start(bases)
    for count, place in enumerate(places, 1):
        state = step(state, bases, place, rules)
        if count % len(bases.goals) == 0:
            state = refreshed(state, bases, rules)
        yield state


def until_settled(states: Iterator[DescentState], window: int, tolerance: float) -> Iterator[DescentState]:
    """Yield states until ``F`` fell by no more than a part ``tolerance`` of itself in ``window`` steps."""
    before: deque[float] = deque(maxlen=window)
    for state in states:
        yield state
        if len(before) == window and not before[0] - state.objective > tolerance * before[0]:
            return
        before.append(state.objective)
