"""Kernel machines over a fixed number of centers, by EigenPro 3 (Abedsoltan, Belkin and Pandit 2023).

They learn from data sets and from streams: first the centers are made, then every batch is one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.progress import Progress

from streamk.arrays import Array, Arrays, Floats, Json, Places, typed
from streamk.encoding.event_buffer import EventBuffer
from streamk.encoding.rows import EncodedRows, slices
from streamk.exact.centers import CHOICES, Centers, centers, passes
from streamk.exact.eigenpro_solver import DELAY, PROJECTIONS, EigenPro, SolverSettings
from streamk.exact.expansion import Expansion, InputColumns, bandwidth_for
from streamk.exact.gram import Similarities
from streamk.exact.learner import ExactLearner
from streamk.features.counter import permutation
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.parameters import check_exact
from streamk.progress import progress_bar

GATHERED = 3  # events a center, before the centers are made of them
_LAST = 4  # one step in so many, the last ones, counts in the mean that a fit ends with
_NEVER = 2**53


class EigenProLearner(ExactLearner):
    """A learner whose centers are made once, and whose coefficients learn from every batch."""

    centers: int
    choose: str
    projection: str
    epochs: int
    subsample: int | None
    rank: int | None
    batch: int | None
    family = "eigenpro"

    def _begin(self) -> None:
        super()._begin()
        self._pending = EventBuffer()
        self._drawn: int | None = None
        self._gathered = GATHERED * self.centers
        self._solver: EigenPro | None = None
        self._forget_centers()

    def _forget_centers(self) -> None:
        self._masses: Array = np.zeros(0)
        self._scale: tuple[float, float] = (0.0, 1.0)
        self._together = 0  # events of a round, 0 before there are centers

    @property
    def pending(self) -> int:
        """Events waiting for the centers to be made, or for their batch to fill."""
        return len(self._pending)

    def flush(self) -> None:
        """Learn the waiting events as one shorter batch; before there are centers, make centers of them."""
        if len(self._pending):
            self._learn_waiting()

    def _due(self) -> int:
        """Return how many events are learned together next."""
        return self._together or self._gathered

    def _until_due(self) -> int:
        return self._due() - len(self._pending)

    def _take(self, rows: EncodedRows, goal: Array) -> None:
        if self._drawn is None:
            self._drawn = self._draw_seed()
        self._pending.put(rows.copy(), goal.copy())
        if self._until_due() <= 0:
            self._learn_waiting()

    def _learn_waiting(self) -> None:
        """Learn the waiting events; once there are centers, these are at most those of one round."""
        rows, goal = self._pending.pop()
        self._observe(rows, np.ascontiguousarray(goal[0]))
        fresh = not self._together
        if fresh:
            columns = self._columns([rows])
            X = self._dense(columns, rows)
            self._make(columns, X)
        else:
            X = self._dense(self._current_expansion.columns, rows)
        targets = self._wanted(goal[0])
        solver, coefficients = self._ready(), self._wide(targets.shape[1])
        for part in slices(len(X), solver.together):
            coefficients = solver.learn(coefficients, X[part], targets[part], goal[1, part])
        self._set(coefficients)

    def _make(self, columns: InputColumns, X: Floats, bar: Progress | None = None) -> None:
        """Make centers of dense rows, and an expansion with coefficients of 0."""
        assert self._drawn is not None
        task = bar.add_task("centers", total=passes(self.choose)) if bar else None
        chosen = centers(
            self.choose,
            X,
            self.centers,
            self._drawn,
            lambda: bar.advance(task) if bar and task is not None else None,
        )
        if bar and task is not None:
            bar.remove_task(task)  # it may have taken fewer passes
        self._scale = super()._unit()
        self._masses = chosen.masses
        centre = 0.0 if self.classifies else self._scale[0]
        self._expansion = Expansion(
            self._kernel, self.bandwidth or bandwidth_for(self._kernel, X), columns, chosen.vectors,
            np.zeros((len(chosen.vectors), 1)), np.array([centre]),
        )  # fmt: skip
        self._solver = None
        self._together = self._ready().together

    def _ready(self) -> EigenPro:
        """Return the solver of the centers, which a model file does not hold."""
        if self._solver is None:
            now = self._current_expansion
            self._solver = EigenPro(
                self._kernel, now.bandwidth, Centers(now.centers, self._masses),
                SolverSettings(self.projection, self.subsample, self.rank, self.batch),
            )  # fmt: skip
        return self._solver

    def _unit(self) -> tuple[float, float]:
        """Return the centre and the unit of numeric targets, fixed when the centers were made."""
        return self._scale

    def _wanted(self, targets: Array) -> Array:
        """Return the targets of the expansion, ``(n, K)``: numbers in their units, minus the centre."""
        goals = self._targets(targets)
        return goals if self.classifies else goals * self._scale[1]

    def _wide(self, outputs: int) -> Array:
        """Return the coefficients, with zeros for outputs that are new."""
        now = self._current_expansion.coefficients
        return np.pad(now, ((0, 0), (0, max(0, outputs - now.shape[1]))))

    def _set(self, coefficients: Array) -> None:
        now = self._current_expansion
        bias = np.resize(now.bias, coefficients.shape[1])  # all zeros, or one centre
        self._expansion = now._replace(coefficients=coefficients, bias=bias)

    def _take_centers(self, other: EigenProLearner, expansion: Expansion, coefficients: Array) -> None:
        """Continue with the centers of another learner, and these coefficients."""
        self._drawn, self._masses, self._scale = other._drawn, other._masses.copy(), other._scale
        self._together, self._expansion = other._together, expansion
        self._set(coefficients)

    def has_centers_of(self, other: EigenProLearner) -> bool:
        """Return whether coefficients of both belong to the same centers."""
        a, b = self._current_expansion, other._current_expansion
        return (
            self._drawn == other._drawn
            and self._scale == other._scale
            and a.bandwidth == b.bandwidth
            and np.array_equal(a.columns.keys, b.columns.keys)
            and np.array_equal(a.columns.statistics, b.columns.statistics, equal_nan=True)
            and np.array_equal(a.centers, b.centers)
        )

    def _must_lead(self) -> int:
        """Return how many events make the centers, without which nothing can be put together."""
        return 0 if self._together else self._gathered

    def _fit(
        self, X: object, y: object, w: object, names: Sequence[str] | None, progress: bool | None
    ) -> None:
        self._gathered = _NEVER
        self._pass(X, y, w, names, wanted=False)
        self._gathered = GATHERED * self.centers
        if not len(self._pending):
            raise ValueError("there is nothing to learn; no event has a weight above 0")
        parts = list(self._pending.portions())
        for rows, goal in parts:
            self._observe(rows, np.ascontiguousarray(goal[0]))
        columns = self._columns([rows for rows, _ in parts])
        goal = np.concatenate([goal for _, goal in parts], axis=1)
        dense = np.empty((goal.shape[1], len(columns.keys)), dtype=np.float32)
        done = 0
        while parts:  # each is let go when it is dense
            rows, _ = parts.pop(0)
            dense[done : done + len(rows.values)] = self._dense(columns, rows)
            done += len(rows.values)
        with progress_bar(progress) as bar:
            self._make(columns, dense, bar)
            self._learn_all(dense, goal, bar)

    def _learn_all(self, X: Floats, goal: Array, bar: Progress) -> None:
        """Pass over the rows in random orders, and keep the mean of the coefficients after the last steps."""
        solver = self._ready()
        targets = self._wanted(goal[0])
        similar = Similarities(self._kernel, self._current_expansion.bandwidth, X, solver.centers)
        coefficients = self._wide(targets.shape[1])
        total, counted = np.zeros_like(coefficients), 0
        rounds = self.epochs * -(-len(X) // solver.together)
        task = bar.add_task("learning", total=rounds)
        for done, places in enumerate(self._rounds(len(X), solver.together), 1):
            coefficients = solver.learn(
                coefficients, X[places], targets[places], goal[1, places], similar.rows(places)
            )
            if done > rounds - max(1, rounds // _LAST):
                total += coefficients
                counted += 1
            bar.advance(task)
        self._set(total / counted)

    def _rounds(self, rows: int, together: int) -> Iterator[Places]:
        """Yield the places of the rows of every round, each epoch in another order."""
        assert self._drawn is not None
        for epoch in range(self.epochs):
            order = permutation(self._drawn, epoch, rows)
            for part in slices(rows, together):
                yield order[part]

    def _to_parts(self) -> tuple[Json, Arrays]:
        header, arrays = super()._to_parts()
        header |= {"drawn": self._drawn, "together": self._together}
        if self._together:
            arrays |= {"eigenpro.masses": self._masses, "eigenpro.scale": np.array(self._scale)}
        return header, arrays | self._pending.arrays()

    def _restore(self, header: Json, arrays: Arrays, closed: bool) -> None:
        drawn, together = header["drawn"], header["together"]
        if not (drawn is None or (type(drawn) is int and 0 <= drawn < 2**63)):
            raise ValueError(f"its seed is {drawn!r}")
        if closed:
            return
        self._drawn = drawn
        if type(together) is not int or not 0 <= together <= DELAY * 2**24:
            raise ValueError(f"its batch has {together!r} events")
        if together:
            self._restore_centers(arrays)
        self._together = together
        if "pending.values" in arrays:
            inputs = self._codec.inputs
            self._pending = EventBuffer.from_arrays(arrays, inputs.slots, self._due(), inputs.largest)
            if drawn is None:
                raise ValueError("events wait, and it has no seed")
            self._check_labels(self._pending.targets())

    def _restore_centers(self, arrays: Arrays) -> None:
        now = self._expansion
        if now is None or self._drawn is None:
            raise ValueError("it has a batch and no centers")
        masses = typed(arrays, "eigenpro.masses", np.float64, (len(now.centers),))
        centre, unit = typed(arrays, "eigenpro.scale", np.float64, (2,)).tolist()
        if not (
            np.isfinite(masses).all() and (masses > 0.0).all() and np.isfinite(centre) and 0.0 < unit < np.inf
        ):
            raise ValueError("its masses or its scale are impossible")
        self._masses, self._scale = masses.copy(), (centre, unit)


@dataclass(eq=False, repr=False)
class _EigenPro(EigenProLearner):
    kernel: str = "laplace"
    bandwidth: float | None = None
    centers: int = 1000
    choose: str = "random"
    projection: str = "exact"
    epochs: int = 5
    subsample: int | None = None
    rank: int | None = None
    batch: int | None = None
    scale_inputs: bool = True
    seed: int | None = None

    def __post_init__(self) -> None:
        self._make_plain()
        check_exact(self._get_params(), choose=CHOICES, projection=PROJECTIONS)
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"centers": 30, "seed": 7}


@dataclass(eq=False, repr=False)
class EigenProClassifier(_EigenPro, Classifier):
    """Kernel machine over a fixed number of centers, so its size does not depend on that of the data.

    Minimises ``Σ_i w_i (f(x_i) − y_i)²`` over ``f(x) = Σ_k k(x, z_k) α_k``, one output a class, ``y`` being 1
    for it and 0 for others, by preconditioned gradients projected onto the span of the centers
    (:mod:`streamk.exact.eigenpro_solver`). Batch and step follow from the spectrum of the kernel matrix;
    there is no rate to choose. Probabilities are the projection of ``f(x)`` onto the simplex.

    :meth:`fit` passes over a data set in random orders; the model is the mean of the coefficients over the
    last quarter of the steps. On a stream, the first ``3 · centers`` events are gathered. The centers are
    made of them, with the scales at that time, and then every full batch is one step. Fields that appear
    later are ignored; new labels are learned. Time of an event is ``O(centers · (d + K))``, memory
    ``O(centers · d)``, and ``O(centers²)`` for an exact projection.

    Parameters
    ----------
    kernel, bandwidth
        The kernel as a string (:func:`streamk.kernels.kernel`); the bandwidth, in units of the scaled inputs,
        is the median distance if None.
    centers
        ``p``, fewer if there are fewer different events.
    choose
        ``"random"`` rows, or ``"k-means"``, the means of clusters, which are better where centers are few.
    projection
        How ``K(Z, Z) θ = h`` is solved after every batch: ``"exact"``, by a Cholesky factor;
        ``"inexact"``, by two sweeps of EigenPro 2, without a factor, for very many centers; ``"delayed"``,
        the same once for four batches, whose rows are centers until then (EigenPro 4).
    epochs
        Passes of :meth:`fit`. A stream is passed once.
    subsample
        ``s``, centers that the preconditioner is made of; None for all, at most 2,000.
    rank
        ``q``, directions that it flattens; None for as many as the batch needs.
    batch
        Events of a step; None for half the number of centers, from 128 to 2,048, but at most the largest
        batch that learns as much from an event as a smaller one with the same preconditioner.
    scale_inputs
        Whether numbers are standardised.
    seed
        The only source of randomness. None draws a new one at the first event.

    Notes
    -----
    A weight multiplies an event's gradient; the weights of a batch with one above 1 are divided by the
    largest, so steps stay within their bounds.

    References
    ----------
    [^1]: Abedsoltan, A., Belkin, M., Pandit, P., 2023. Toward large kernel models. ICML. Algorithm 2.
    [^2]: Ma, S., Belkin, M., 2019. Kernel machines that adapt to GPUs for effective large batch training.
    [^3]: Abedsoltan, A. et al., 2024. Fast training of large kernel models with delayed projections.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(2000, 2))
    >>> inside = (X**2).sum(axis=1) < 1.0
    >>> learner = streamk.EigenProClassifier(centers=100, seed=7)
    >>> learner = learner.fit(X[:1500], inside[:1500], names=["a", "b"])
    >>> predicted = learner.predict_many(X[1500:], names=["a", "b"])
    >>> bool(np.mean(predicted == inside[1500:]) > 0.95)
    True
    """


@dataclass(eq=False, repr=False)
class EigenProRegressor(_EigenPro, Regressor):
    """Kernel machine over a fixed number of centers, for numbers.

    As :class:`EigenProClassifier`, with one output. ``f(x) = c + Σ_k k(x, z_k) α_k``, where ``c`` is the mean
    target when the centers are made; targets more than six deviations of that moment off are taken as six.

    Parameters
    ----------
    kernel, bandwidth, centers, choose, projection, epochs, subsample, rank, batch, scale_inputs, seed
        As of :class:`EigenProClassifier`.

    References
    ----------
    [^1]: Abedsoltan, A., Belkin, M., Pandit, P., 2023. Toward large kernel models. ICML. Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-3.0, 3.0, size=(2000, 1))
    >>> learner = streamk.EigenProRegressor(centers=50, kernel="gaussian", bandwidth=0.5, seed=7)
    >>> learner = learner.fit(X, np.sin(X[:, 0]), names=["x"])
    >>> round(learner.predict_one({"x": 1.0}), 2)
    0.84
    """
