"""The subspace expert: second order in the directions that matter most, first order in all others.

The rows ``V`` ``(k, F)`` span the leading directions of the covariance of the features. With ``u = Vφ``, the
part in them is learned by recursive least squares, and the rest ``φ⊥ = φ − Vᵀu`` by projections whose steps
become shorter, on the residual ``e`` that the recursion leaves of ``r``::

    P ← P − P u uᵀP/(1/w + uᵀPu)
    α ← α + Vᵀ P u r/(1/w + uᵀPu) + φ⊥ e/(φ⊥ᵀφ⊥ + ρ √n F/w)          e = r (1/w)/(1/w + uᵀPu)

It combines the preconditioner of EigenPro (Abedsoltan et al. 2023, §2.2) with Kaczmarz projections: a few
large eigenvalues would slow down first-order steps, so their directions are learned by second order. An event
costs ``k F`` products for ``u``, and ``k F`` for each output that moves.

``V`` is learned from the events. Before each *refresh*, the products ``Σ φ uᵀ`` of up to 1,000 events add up,
which is one step of the power method; the refresh makes them orthonormal. Refreshes come at the 200th event,
the 500th, and whenever the number of events has grown by half. Coefficients are one vector over all features,
so a subspace can be changed or dropped. In a new subspace, the information ``P⁻¹`` along direction ``i``
starts as ``λ_i n o_i + penalty``, ``λ_i`` being its eigenvalue and ``o_i`` the part of the direction that lay
in the old subspace and has been learned there.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import Array, Arrays, Floats, Integers
from streamk.compiling import ENTRY, INNER, fma
from streamk.dispatch import implements
from streamk.experts.expert import EVENTS, ITERATE, Expert, Merge, count_step, step
from streamk.features.counter import mix64
from streamk.losses import residuals
from streamk.state import LARGEST_COUNT, Field, Stateful
from streamk.vector import factor
from streamk.vector.lanes import aligned
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT, add_scaled, inner_product, inner_products

FIRST, SECOND, GROWTH = 200.0, 500.0, 1.5  # events at which the subspace is refreshed
_WINDOW = 1000.0  # events that a refresh looks at
_TILE = 512  # features worked on at once: they stay in the first cache
_BEGUN, _DUE, _SEEN = 0, 1, 2  # whether there is a subspace; the next refresh; events processed for it
_ROUNDING = 1e-4  # of φᵀφ: rounding may leave less of φ⊥ᵀφ⊥
_LEAST = 1e-6  # of the length of a direction, that makes it one
_MOST = 1e100
_LEAST_VARIANCE = float(np.nextafter(0.0, 1.0))


Subspacing = namedtuple(
    "Subspacing", "first features coefficients clock loss penalty rho schedule basis sums diagonal factor"
)


class Subspace(Expert):
    """Recursive least squares in a subspace and projections in the rest.

    Parameters
    ----------
    loss, columns
        As for :class:`streamk.experts.expert.Expert`: those of projections.
    rank
        ``k``, a multiple of 16.
    penalty
        Of a squared coefficient in a new subspace, in units of one event.
    rho
        ``ρ``: how fast steps in the rest become shorter.
    """

    rule = "subspace"
    record_type = Subspacing

    def __init__(
        self, loss: int, rank: int, penalty: float, rho: float, columns: slice | None = None
    ) -> None:
        super().__init__(loss, columns=columns)
        self.rank, self.penalty, self.rho = rank, float(penalty), float(rho)
        self._begin(0)

    def _begin(self, width: int) -> None:
        """Have no subspace, and look for one from now on."""
        self.schedule: Array = np.array([0.0, self.clock[EVENTS] + FIRST, 0.0])
        self.basis: Floats = aligned(np.zeros((self.rank, width), dtype=np.float32))
        self.sums: Floats = aligned(np.zeros((self.rank, width), dtype=np.float32))
        if width:
            _test(self.basis)
        self.diagonal: Array = np.zeros(self.rank)
        self.factor: Array = factor.empty_factor(self.rank)

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Resize to a map; the subspace restarts if there are more features."""
        super().grow(outputs, features, width)
        if self.coefficients.shape[2] != self.basis.shape[1]:
            self._begin(self.coefficients.shape[2])

    def close(self) -> None:
        """Drop the subspace; coefficients stay."""
        self._begin(self.basis.shape[1])

    def rearrange(self, places: Integers) -> None:
        """Move column ``j`` of the map to ``places[j]``; the subspace is dropped."""
        super().rearrange(places)
        self._begin(self.coefficients.shape[2])

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge: coefficients are averaged, and the subspace restarts."""
        super().merge_from(experts, merge)
        self._begin(self.coefficients.shape[2])

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield coefficients, clock, schedule, the sums of the next subspace, and the subspace."""
        yield from super().fields()
        clock = min(self.clock[EVENTS], LARGEST_COUNT)
        yield Field(
            "schedule", "schedule", (0.0, clock, 0.0), (1.0, clock + LARGEST_COUNT, _WINDOW), whole=True
        )
        names = ["sums"] if self.schedule[_SEEN] > 0.0 else []
        for name in names + (["basis", "diagonal", "factor"] if self.schedule[_BEGUN] > 0.0 else []):
            yield Field(name, "directions", _LEAST_VARIANCE if name == "diagonal" else -_MOST, _MOST)

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file; raise a ValueError if they are impossible."""
        self.close()
        super().load_state_dict(arrays)


@njit(**ENTRY)
def _test(basis):
    """Fill a basis with signs that follow no pattern: what the first refresh multiplies by."""
    for i in range(basis.shape[0]):
        for f in range(basis.shape[1]):
            odd = mix64(np.uint64(i * basis.shape[1] + f + 1)) >> np.uint64(63)
            basis[i, f] = np.float32(1.0) if odd else np.float32(-1.0)


@implements(step, Subspacing)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, _ = observation
    length = residuals(expert.loss, outputs[e, ITERATE, :known], aim, residual[:known])
    _move(expert, phi, i, length, residual, known, factor.noise_of(weight))
    count_step(expert.clock, expert.coefficients)
    if expert.clock[EVENTS] >= expert.schedule[_DUE]:
        _refresh(expert)


@njit(**INNER)
def _move(expert, phi, i, length, residual, known, noise):
    rank, columns = expert.basis.shape
    place, schedule, events = i * phi.shape[1] + expert.first, expert.schedule, expert.clock[EVENTS]
    squared, left, shrunk = np.float64(inner_product(phi, place, phi, place, columns)), 1.0, 1.0
    whole = squared
    u, x = np.zeros(rank, dtype=np.float32), np.zeros(rank)
    gain, change = np.zeros(rank), np.empty(rank, dtype=np.float32)
    begun, looked_at = schedule[_BEGUN] > 0.0, events >= schedule[_DUE] - _WINDOW
    if begun or looked_at:
        inner_products(expert.basis, rank, phi, place, columns, u, 0)
    if looked_at:
        schedule[_SEEN] += 1.0
        for j in range(rank):
            add_scaled(expert.sums, j * columns, u[j], phi, place, columns)
    if begun:
        for j in range(rank):
            x[j] = np.float64(u[j])
            whole -= x[j] * x[j]
        spread = factor.update(expert.diagonal, expert.factor, x, noise, gain) - noise
        left = noise + length * spread
        shrunk = noise / left
    whole = length * max(whole, 0.0) + expert.rho * np.sqrt(events) * expert.features * noise
    whole = max(whole, length * _ROUNDING * squared)  # a step of a heavy event would multiply the rounding
    for k in range(known):
        if residual[k] != 0.0 and whole > 0.0:
            pull = residual[k] * shrunk / whole
            add_scaled(expert.coefficients, k * columns, np.float32(pull), phi, place, columns)
            if begun:
                for j in range(rank):
                    change[j] = np.float32(gain[j] * residual[k] / left - x[j] * pull)
                _add_rows(expert.coefficients, k, change, expert.basis)


@njit(**INNER)
def _add_rows(out, k, factors, rows):
    """Add rows times factors to row ``k`` of the first of ``out``, four rows at a time, in their order."""
    columns, most = rows.shape[1], np.float32(LARGEST_COEFFICIENT)
    for start in range(0, columns, _TILE):
        first, tile = np.uint64(start), min(_TILE, columns - start)
        for j in range(0, rows.shape[0], 4):
            a, b, c, d = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
            for t in range(tile):
                f = first + np.uint64(t)
                one = fma(b, rows[j + 1, f], fma(a, rows[j, f], out[ITERATE, k, f]))
                moved = fma(d, rows[j + 3, f], fma(c, rows[j + 2, f], one))
                out[ITERATE, k, f] = moved if abs(moved) < most else most


@njit(**INNER)
def _orthonormal(sums, made, lengths):
    """Fill ``made`` with orthonormal directions, and their ``lengths``; return how many there are."""
    rank, columns = sums.shape
    direction, kept = np.empty(columns), 0
    for j in range(rank):
        before = 0.0
        for f in range(columns):
            direction[f] = np.float64(sums[j, f])
            before += direction[f] * direction[f]
        for _ in range(2):
            for m in range(kept):
                inner = 0.0
                for f in range(columns):
                    inner += made[m, f] * direction[f]
                for f in range(columns):
                    direction[f] -= inner * made[m, f]
        after = 0.0
        for f in range(columns):
            after += direction[f] * direction[f]
        if after > before * _LEAST**2 and after > 0.0:
            lengths[kept] = np.sqrt(after)
            for f in range(columns):
                made[kept, f] = direction[f] / lengths[kept]
            kept += 1
    return kept


@njit(**INNER)
def _refresh(expert):
    """Make the sums the new basis: by Gram and Schmidt, each direction twice, in double precision."""
    rank, columns = expert.basis.shape
    basis, sums, schedule = expert.basis, expert.sums, expert.schedule
    events, begun = expert.clock[EVENTS], schedule[_BEGUN] > 0.0
    old, overlap, lengths = np.empty(rank, dtype=np.float32), np.zeros(rank), np.zeros(rank)
    made = np.zeros((rank, columns))
    kept = _orthonormal(sums, made, lengths)
    for j in range(rank):
        for f in range(columns):
            sums[j, f] = np.float32(made[j, f])
    for j in range(kept):
        inner_products(basis, rank, sums, j * columns, columns, old, 0)
        for m in range(rank):
            overlap[j] += np.float64(old[m]) ** 2 if begun else 0.0
    seen = max(schedule[_SEEN], 1.0)
    ridge = expert.penalty * expert.features
    for j in range(rank):
        # before there is a basis, sums were multiplied by signs, and lengths are larger by the root of F
        value = lengths[j] / seen if begun else lengths[j] / (seen * np.sqrt(float(columns)))
        known = value * events * min(overlap[j], 1.0)
        expert.diagonal[j] = 1.0 / (ridge + known)
        for f in range(columns):
            basis[j, f] = sums[j, f]
            sums[j, f] = np.float32(0.0)
    expert.factor[:] = 0.0
    schedule[_BEGUN], schedule[_SEEN] = 1.0, 0.0
    schedule[_DUE] = SECOND if events < SECOND else np.floor(events * GROWTH)
