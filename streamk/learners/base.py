"""What every learner shares: the way rows reach the compiled loop."""

from __future__ import annotations

import math
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.batches import Batch
from streamk.expansion import Expansion
from streamk.features.choice import KEYED, STRUCTURED, choose_for
from streamk.inputs import Event
from streamk.kernels import kernel
from streamk.learners import blocks
from streamk.learners.blocks import Gathered
from streamk.learners.events import DONE, EVENTS, LACKING, OVERFLOWED, outputs_after, run
from streamk.learners.state import LearnerState
from streamk.rows import Rows, slices
from streamk.threads import on_threads

_PIECE = 4096  # rows encoded at once
_ROWS = 64  # rows a thread predicts at once
_NO_OUT = np.zeros((0, 1, 1))
Array = NDArray[np.float64]


class KernelLearner(LearnerState):
    """The row handling of a learner: checked, encoded, and on to the compiled loop or to blocks."""

    def _ready(self, rows: Rows, outputs: int) -> Expansion:
        """Return the expansion, made on the first event that is learned, with room for ``outputs``."""
        if self._expansion is None:
            seed = secrets.randbits(63) if self.seed is None else self.seed
            bandwidth = math.sqrt(max(rows.fields(), 1)) if self.bandwidth is None else self.bandwidth
            self._expansion = Expansion(
                kernel(self.kernel),
                bandwidth,
                tuple(self.scales),
                self.features,
                seed,
                rows.most_slots() if self._inputs.directions == STRUCTURED else None,
                sets=2 if self.average else 1,
                outputs=max(outputs, 1),
            )
            self._make_scratch()
        elif outputs > self._expansion.outputs:
            self._expansion.add_outputs(outputs)
            self._make_scratch()
        self._open_due()
        return self._expansion

    def _predict_event(self, x: Event) -> Array | None:
        """Return the compiled prediction of one event, ``(K,)``, or None before any learning."""
        rows = self._inputs.encode(x, False)
        expansion = self._expansion
        if expansion is None:
            self._inputs.check(x)
            return None
        if self._run(expansion, False, rows, self._target, self._out) >= 0:
            self._inputs.check(x)
        prediction: Array = self._out[0, 0]
        return prediction

    def _learn_event(self, x: Event, target: float, weight: float, outputs: int) -> None:
        """Learn one event whose target has been checked; nothing changes if ``x`` is refused."""
        if self._gathers:
            goal = np.array([[target], [weight]])
            self._gather(self._encode_learned(x).copy(), goal, None)
            return
        expansion, due = self._expansion, self._next_opening
        if (
            expansion is None
            or outputs > expansion.outputs
            or (due < math.inf and self._state[EVENTS] >= due)
        ):
            rows = self._encode_learned(x)
            expansion = self._ready(rows, outputs)
        else:
            rows = self._inputs.encode(x, True)
        goal = self._target
        goal[0, 0] = target
        goal[1, 0] = weight
        if self._run(expansion, True, rows, goal, _NO_OUT) >= 0:
            self._inputs.check(x)

    def _encode_learned(self, x: Event) -> Rows:
        rows = self._inputs.encode_checked(x, True)
        if self._settles(rows):
            rows = self._inputs.encode_checked(x, True)
        return rows

    def _settles(self, rows: Rows) -> bool:
        """Choose automatic directions by the first event learned; return whether it must be encoded again."""
        if self._inputs.settled:
            return False
        chosen = choose_for(rows, self.scale_inputs, self.features, len(self.scales), self._together)
        self._inputs.settle(chosen)
        return chosen == KEYED

    def _run(self, e: Expansion, learning: bool, rows: Rows, goal: Array, out: Array) -> int:
        """Run the compiled loop; return −1, or the flat index of a value that cannot be taken."""
        cache = e.cache
        slots, keys, values = rows
        if e.slots is not None:
            self._cover(e, rows)
        code: int = run(
            learning, slots, keys, values, self._inputs.statistics, e.source, e.block_keys, e.waves, e.kind,
            e.features, cache.table, cache.counts, cache.rows, e.coefficients,
            self._active if learning else None, self._rules, self._state,
            goal, out,
        )  # fmt: skip
        if code == OVERFLOWED:
            cache.grow()
            return DONE
        if code < LACKING:
            cache.reserve(LACKING - code)
            return self._run(e, learning, rows, goal, out)
        return code

    def _cover(self, e: Expansion, rows: Rows) -> None:
        """Open the slots that these rows have."""
        if e.slots is not None:
            e.cover(len(self._inputs.numbers) if self.scale_inputs else rows.most_slots())

    def _run_checked(self, learning: bool, rows: Rows, goal: Array, out: Array) -> None:
        """Run the compiled loop on rows whose values have been checked."""
        if self._expansion is None or self._run(self._expansion, learning, rows, goal, out) >= 0:
            raise RuntimeError("rows reached the compiled loop unchecked; please report this")

    def _predict_batch(self, rows: Batch) -> Array:
        """Return predictions of every row, ``(n, K)``; K is 0 before any learning."""
        rows.prepare(self._inputs, None)
        if self._expansion is None:
            return np.zeros((len(rows), 0))
        out = np.zeros((len(rows), 1, self._outputs))
        for part in slices(len(rows), _PIECE):
            piece = rows.rows(self._inputs, part.start, part.stop)
            self._predict_rows(piece, out[part])
        return out[:, 0]

    def _learn_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        """Learn the rows in order and, if ``wanted``, return the predictions made before each.

        ``goal`` is ``(2, n)``: target and weight. Targets and rows have been checked.
        """
        out = np.zeros((len(rows) if wanted else 0, 1, max(outputs, self._outputs)))
        for part in slices(len(rows), _PIECE):
            piece = rows.rows(self._inputs, part.start, part.stop)
            goals = goal[:, part]
            if self._gathers:
                self._gather(piece, goals, out[part] if wanted else None)
                continue
            learned = np.flatnonzero(goals[1] > 0.0)
            if len(learned):
                self._ready(piece.select(learned[:1]), outputs)
            elif self._expansion is None:
                continue
            self._learn_rows(piece, goals, learned, out[part])
        return out[:, 0]

    def _learn_rows(self, rows: Rows, goal: Array, learned: NDArray[np.intp], out: Array) -> None:
        """Learn rows one by one, cut where a block of features opens; ``learned`` are those with weight."""
        start, done = 0, 0.0
        while start < goal.shape[1]:
            stop = goal.shape[1]
            if done < len(learned):
                self._open_due()
                done += self._next_opening - self._state[EVENTS]
                if done < len(learned):
                    stop = int(learned[int(done)])
            part = slice(start, stop)
            self._run_checked(True, rows.select(part), np.ascontiguousarray(goal[:, part]), out[part])
            start = stop

    def _predict_rows(self, rows: Rows, out: Array) -> None:
        """Fill ``out`` with predictions: by matrix products if blocks learn from frequencies in a table."""
        e = self._expansion
        if e is None:
            return
        self._cover(e, rows)
        if self._gathers and e.source is None:
            blocks.predict(e, rows, self._inputs.statistics, self._rules, self._state, out)
        elif e.needs_cache(rows):
            self._run_checked(False, rows, np.zeros((2, len(out))), out)
        else:

            def work(part: slice) -> None:
                self._run_checked(False, rows.select(part), np.zeros((2, part.stop - part.start)), out[part])

            on_threads(work, slices(len(out), _ROWS))

    def _gather(self, rows: Rows, goal: Array, out: Array | None) -> None:
        """Cut rows into blocks by count: predict each part, add it, learn when the block is full."""
        start, count = 0, goal.shape[1]
        while start < count:
            stop = min(count, start + self._together - len(self._pending))
            part = rows.select(slice(start, stop))
            if out is not None:
                self._predict_rows(part, out[start:stop])
            self._pending.add(part, goal[:, start:stop])
            if len(self._pending) == self._together:
                self.flush()
            start = stop

    def learn_many(self, X: Any, y: Any, w: Any = None, names: Sequence[str] | None = None) -> None:
        """Learn many events: the same model as a loop of ``learn_one``, in one compiled loop.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, a NumPy array with ``names``, or a list of dicts.
        y
            The targets: a series, an array or a list.
        w
            Sample weights, all 1 by default.
        names
            Column names of an array.

        Raises
        ------
        ValueError
            If any value, target or weight cannot be taken, naming field and row; nothing was
            then learned.
        """
        self._pass(X, y, w, names, wanted=False)

    @abstractmethod
    def _pass(self, X: Any, y: Any, w: Any, names: Sequence[str] | None, wanted: bool) -> tuple[Batch, Array]:
        """Learn a batch; return it with the predictions made before each row, if ``wanted``."""

    def flush(self) -> None:
        """Learn the events that wait for their block to fill, as one shorter block."""
        if len(self._pending):
            rows, goal = self._pending.pop()
            grown = outputs_after(goal[0].max(), self._rules, self._state)
            expansion = self._ready(rows, grown)
            self._cover(expansion, rows)
            blocks.learn(expansion, rows, goal, self._inputs.statistics, self._rules, self._state, self._fit)

    def _merge_open_blocks(self, models: Sequence[Any]) -> None:
        """Take the open blocks of merged learners into this one; most learners have none."""

    def _fit(self, e: Expansion, block: Gathered) -> None:
        """Move the coefficients by a block of events; only for learners that gather some."""
        raise NotImplementedError

    def _prepare(self, rows: Batch, weights: Array) -> None:
        """Check every row and register the names of those with weight; unchanged on error."""
        learned = weights > 0.0
        with self._inputs.forgetting_on_error():
            if learned.any() and not self._inputs.settled:
                first = int(learned.argmax())
                rows.prepare(self._inputs, np.arange(len(rows)) == first)
                self._settles(rows.rows(self._inputs, first, first + 1))
            rows.prepare(self._inputs, learned)
