"""Exact solvers of a uniform sample of the events so far (:mod:`streamk.features.reservoir`)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays, Floats, Json
from streamk.encoding.codec import EVENTS
from streamk.encoding.rows import EncodedRows
from streamk.exact.expansion import Expansion, bandwidth_for
from streamk.exact.learner import ExactLearner
from streamk.features.reservoir import Reservoir

Tickets = NDArray[np.uint64]
_STREAM = 0x5245_5345_5256  # differs from all random streams of features
FIRST = 64  # events before the first solution
_GROWTH = 1.5  # of the events, until the next one


class ReservoirLearner(ExactLearner):
    """A learner that solves a uniform sample of the events so far, whenever their number has grown by half.

    ``fit`` takes a whole data set, stores all of it, and solves once. On a stream, the first solution comes
    after 64 events; between solutions, predictions do not change. :meth:`solve` brings them up to date.
    """

    rows: int

    def _begin(self) -> None:
        super()._begin()
        self._reservoir: Reservoir | None = None
        self._solved = 0  # events of the last solution

    @abstractmethod
    def _solve(
        self, X: Floats, targets: Array, weights: Array, bandwidth: float, progress: bool | None
    ) -> tuple[Array, Array]:
        """Return coefficients ``(n, K)`` and bias ``(K,)`` for dense rows and their targets ``(n, K)``."""

    def solve(self, progress: bool | None = None) -> None:
        """Solve the events in the reservoir.

        Parameters
        ----------
        progress
            Whether to show a bar; by default in notebooks.

        Raises
        ------
        ValueError
            If no event was learned.
        """
        reservoir = self._reservoir
        if reservoir is None or not len(reservoir):
            raise ValueError("there is nothing to solve; learn events first")
        rows, goal = reservoir.rows()
        columns = self._columns([rows])
        X = self._dense(columns, rows)
        bandwidth = self.bandwidth or bandwidth_for(self._kernel, X)
        coefficients, bias = self._solve(X, self._targets(goal[0]), goal[1], bandwidth, progress)
        solved = Expansion(self._kernel, bandwidth, columns, X, coefficients, bias)
        self._expansion = self._in_units(solved.supported())
        self._solved = self.events

    def _due(self) -> int:
        """Return the number of events at which the next solution is due."""
        return max(FIRST, int(_GROWTH * self._solved))

    def _until_due(self) -> int:
        return self._due() - int(self._codec.counts[EVENTS])

    @property
    def _kept_events(self) -> Reservoir:
        """The reservoir of a learner that has learned."""
        if self._reservoir is None:
            raise ValueError("the learner keeps no events")
        return self._reservoir

    @property
    def _drawn_seed(self) -> int:
        """The seed in use."""
        return self._kept_events.seed

    def _make_reservoir(self, most: int) -> Reservoir:
        return Reservoir(most, self._draw_seed())

    def _take(self, rows: EncodedRows, goal: Array) -> None:
        self._keep(rows, goal)
        if self._until_due() <= 0:
            self.solve()

    def _keep(self, rows: EncodedRows, goal: Array) -> None:
        if self._reservoir is None:
            self._reservoir = self._make_reservoir(self.rows)
        self._reservoir.add(rows, goal)
        self._observe(rows, np.ascontiguousarray(goal[0]))

    def _fit(self, X: Any, y: object, w: object, names: Sequence[str] | None, progress: bool | None) -> None:
        self._reservoir = self._make_reservoir(max(self.rows, len(X)))
        self._solved = 2**53  # nothing is due
        self._pass(X, y, w, names, wanted=False)
        self.solve(progress)

    def _may_learn_apart(self, copies: int) -> float:
        """Return how many events of each copy make the next solution due, so that none solves by itself."""
        return math.ceil(self._until_due() / copies) if self.events else math.inf

    def _settle(self) -> None:
        if self.events and self._until_due() <= 0:
            self.solve()

    def _to_parts(self) -> tuple[Json, Arrays]:
        header, arrays = super()._to_parts()
        header["solved"] = self._solved
        reservoir = self._reservoir
        header["reservoir"] = None if reservoir is None else [reservoir.most, reservoir.seed]
        return header, arrays if reservoir is None else arrays | reservoir.state_dict()

    def _restore(self, header: Json, arrays: Arrays, closed: bool) -> None:
        solved, kept = header["solved"], header["reservoir"]
        if not isinstance(solved, int) or not 0 <= solved <= self.events:
            raise ValueError(f"it has solved {solved!r} of {self.events} events")
        self._solved = solved
        if kept is None or closed:
            return
        most, seed = kept
        if not (isinstance(most, int) and self.rows <= most < 2**53 and isinstance(seed, int)):
            raise ValueError(f"its reservoir is {kept!r}")
        self._reservoir = Reservoir(most, seed)
        inputs = self._codec.inputs
        self._reservoir.load_state_dict(arrays, inputs.slots, inputs.largest)
        _, goal = self._reservoir.rows()
        self._check_labels(goal[0].tolist())
