"""What every learner shares: events one by one, many at once, or gathered into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.batches import Batch, portions, prepare_whole
from streamk.encoding.codec import EVENTS, outputs_after
from streamk.encoding.fields import Event
from streamk.encoding.rows import Rows, slices
from streamk.experts.blocks import HEAVIEST, look
from streamk.experts.expert import FINAL, Lesson
from streamk.learners.absorbing import absorb, check_closed, check_maps
from streamk.learners.events import adapt_many, combine_many, observe_block
from streamk.learners.rows import RowLearner
from streamk.threads import on_threads, one_blas_thread

_PIECE = 4096  # rows encoded at once
_NOTHING = np.zeros(0)
_ROWS = 64  # rows a thread predicts at once
Array = NDArray[np.float64]


class KernelLearner(RowLearner):
    """The river face's common part: checked, encoded, and on to the compiled loop or to blocks."""

    def _predict_event(self, x: Event, out: Array | None = None) -> Array | None:
        """Return the compiled prediction of one event, ``(K,)``, or None before any learning.

        ``out`` ``(1, ·)`` is filled with it, if there is one.
        """
        rows = self._codec.inputs.encode(x, False)
        made = self._map
        if made is None:
            self._codec.inputs.check(x)
            return None
        if self._run_event(made, False, rows, out=out) >= 0:
            self._run_event(made, False, self._codec.inputs.with_missing(x, rows), out=out)
        prediction: Array = (self._out if out is None else out)[0]
        return prediction

    def _learn_event(self, x: Event, target: float, weight: float, outputs: int) -> None:
        """Learn one event whose target has been checked; nothing changes if ``x`` is refused."""
        if self._is_frozen:
            self._check_learns()
        if self._gathers:
            self._pending.put(self._encode_learned(x).copy(), np.array([[target], [weight]]))
            if len(self._pending) == self._together:
                self.flush()
            return
        made = self._map
        if made is None or outputs > self._outputs or self._growth.due(self._codec.counts[EVENTS]):
            rows = self._encode_learned(x)
            made = self._ready(rows, outputs)
        else:
            rows = self._codec.inputs.encode(x, True)
        if self._run_event(made, True, rows, target, weight) >= 0:
            self._run_event(made, True, self._codec.inputs.with_missing(x, rows), target, weight)
        self._learned()

    def _predict_batch(self, rows: Batch, more: int = 0) -> Array:
        """Return predictions of every row, ``(n, K + more)``; K is 0 before any learning."""
        inputs = self._codec.inputs
        rows.prepare(inputs, None)
        if self._map is None:
            return np.zeros((len(rows), 0))
        out = np.zeros((len(rows), self._outputs + more))
        for part in slices(len(rows), _PIECE):
            self._predict_rows(rows.rows(inputs, part.start, part.stop), out[part])
        return out

    def _learn_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        """Learn the rows in order and, if ``wanted``, return the predictions made before each.

        ``goal`` is ``(2, n)``: target and weight. Targets and rows have been checked.
        """
        most = max(outputs, self._outputs)
        out = np.zeros((len(rows) if wanted else 0, most))
        for where, portion in portions(rows, self._codec.inputs, goal[1] > 0.0):
            self._learn_portion(portion, goal[:, where], most, out[where] if wanted else out)
        return out

    def _learn_portion(self, rows: Batch, goal: Array, outputs: int, out: Array) -> None:
        """Learn rows whose names are registered, and fill ``out`` with predictions unless it is empty."""
        wanted = len(out) > 0
        for part in slices(len(rows), _PIECE):
            piece = rows.rows(self._codec.inputs, part.start, part.stop)
            goals = goal[:, part]
            if self._gathers:
                self._gather(piece, goals, out[part] if wanted else None)
                continue
            learned = np.flatnonzero(goals[1] > 0.0)
            if len(learned):
                self._ready(piece.select(learned[:1]), outputs, opens=False)
            elif self._map is None:
                continue
            self._learn_rows(piece, goals, learned, out[part])

    def _learn_rows(self, rows: Rows, goal: Array, learned: NDArray[np.intp], out: Array) -> None:
        """Learn rows one by one, cut where something is due; ``learned`` are those with weight."""
        start, done, growth = 0, 0.0, self._growth
        while start < goal.shape[1]:
            stop, given = goal.shape[1], out
            if done < len(learned):
                if len(out) and growth.openings and growth.due(self._codec.counts[EVENTS]):
                    # the event with which a block of features opens is predicted without it
                    stop, given, done = int(learned[int(done)]) + 1, out[:0], done + 1.0
                    self._predict_rows(rows.select(slice(start, stop)), out[start:stop])
                    self._open_due()
                else:
                    self._open_due()
                    done += self._until_due()
                    if done < len(learned):
                        stop = int(learned[int(done)])
            part = slice(start, stop)
            assert self._map is not None
            self._run(self._map, True, rows.select(part), np.ascontiguousarray(goal[:, part]), given[part])
            self._learned()
            start = stop

    def _predict_rows(self, rows: Rows, out: Array) -> None:
        """Fill ``out`` with predictions: by matrix products if blocks learn from frequencies in a table."""
        e = self._map
        if e is None:
            return
        if self._classifies and out.shape[1] > self._outputs:
            narrow = np.zeros((len(out), self._outputs))
            self._predict_rows(rows, narrow)
            out[:, : self._outputs] = narrow
            return
        self._cover(e, rows)
        if self._gathers and e.source is None:
            statistics = self._codec.inputs.statistics
            outputs, _ = look(e, rows, statistics, self._experts, False)
            coding, _, _, _, combiner = self._all_but_rows(e)
            combine_many(coding, combiner, _both(outputs), out)
        elif e.needs_cache(rows):
            self._run(e, False, rows, np.zeros((2, len(out))), out)
        else:
            self._lent(e)  # once, before threads ask for it

            def work(part: slice) -> None:
                self._run(e, False, rows.select(part), np.zeros((2, part.stop - part.start)), out[part])

            on_threads(work, slices(len(out), _ROWS))

    def _gather(self, rows: Rows, goal: Array, out: Array | None) -> None:
        """Cut rows into blocks by count: predict each part, add it, learn when the block is full."""
        start, count = 0, goal.shape[1]
        while start < count:
            stop = min(count, start + self._together - len(self._pending))
            part = rows.select(slice(start, stop))
            waiting, added = len(self._pending), int((goal[1, start:stop] > 0.0).sum())
            full = waiting + added == self._together
            at_once = full and not waiting and out is not None and self._map is not None
            with one_blas_thread():  # once for all products
                if out is not None and not at_once:
                    self._predict_rows(part, out[start:stop])
                self._pending.add(part, goal[:, start:stop])
                if full:
                    self._learn_block(out[start:stop] if out is not None and at_once else None)
            start = stop

    def flush(self) -> None:
        """Learn the events that wait for their block to fill, as one shorter block.

        Inputs and targets are scaled by the statistics of the blocks before this one; the first block by its
        own, for want of any.
        """
        if len(self._pending):
            with one_blas_thread():
                self._learn_block(None)

    def _learn_block(self, out: Array | None) -> None:
        """Learn the events that wait; fill ``out`` with predictions made from the same look at them."""
        rows, goal = self._pending.pop()
        targets, weights = np.ascontiguousarray(goal[0]), np.minimum(goal[1], HEAVIEST)
        codec = self._codec
        known = outputs_after(codec.coding(_NOTHING), targets.max())
        e = self._ready(rows, known)
        self._cover(e, rows)
        coding, _, _, _, combiner = self._all_but_rows(e)
        counts = codec.counts.copy()
        if first := counts[EVENTS] == 0.0:
            observe_block(coding, rows, targets, goal[1])
            after = codec.counts.copy()
            codec.counts[:] = counts
        aims = np.empty(len(targets))
        outputs, kept = look(e, rows, codec.inputs.statistics, self._experts, True)
        if out is not None:
            combine_many(coding, combiner, _both(outputs), out)
        adapt_many(coding, combiner, _both(outputs), targets, weights, aims)
        for expert, given, features in zip(self._experts, outputs, kept, strict=True):
            expert.step_many(Lesson(given, features, aims, weights, known))
        if first:
            codec.counts[:] = after
        else:
            observe_block(coding, rows, targets, goal[1])

    def _prepare(self, rows: Batch, weights: Array) -> None:
        """Check every row and register the names of those with weight; unchanged on error."""
        learned, inputs = weights > 0.0, self._codec.inputs
        if learned.any():
            self._check_learns()
        with inputs.forgetting_on_error():
            if learned.any() and not inputs.settled:
                first = int(learned.argmax())
                rows.prepare(inputs, np.arange(len(rows)) == first)
                self._settles(rows.rows(inputs, first, first + 1))
            prepare_whole(rows, inputs, learned)

    @property
    def _has_begun(self) -> bool:
        return self._map is not None

    def _check_mergeable(self, name: str) -> None:
        check_closed(self, name)

    def _check_same(self, models: Sequence[Any], called: Sequence[str]) -> None:
        check_maps(models, called)

    def _absorb(self, parts: Sequence[Any], shares: Sequence[float], base: Any) -> None:
        absorb(self, parts, shares, base)


def _both(outputs: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return outputs of experts, ``(sets, m, K)``, as ``(E, 2, m, K)``."""
    return np.array([given if len(given) > FINAL else given.repeat(2, axis=0) for given in outputs])
