"""The way of encoded rows into the compiled loop: its arguments, made anew when something has changed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from streamk.encoding.codec import EVENTS
from streamk.encoding.fields import Event
from streamk.encoding.recall import MEAN
from streamk.encoding.rows import Rows
from streamk.features.choice import KEYED, STRUCTURED, choose_for
from streamk.features.map import FeatureMap
from streamk.learners.borrowed import Whole, lend
from streamk.learners.events import DONE, LACKING, OVERFLOWED, run
from streamk.learners.saving import SavedLearner

compiled: Any = run
Array = NDArray[np.float64]


class RowLearner(SavedLearner):
    """A learner that rows are run through, one or many."""

    _arguments: tuple[Any, ...] | None = None  # that the compiled loop is lent; None: to be made anew
    _loans: Any = None  # of these, and of what was known when events were asked for
    _entry: Any = None  # the compiled loop for arguments of these types
    _goal: Array
    _out: Array

    def _ready(self, rows: Rows, outputs: int, opens: bool = True) -> FeatureMap:
        """Return the map, made on the first event that is learned, with room for ``outputs``.

        A block of features that is due is opened if ``opens``.
        """
        made = self._map
        if made is None:
            seed = self._draw_seed()
            structured = self._codec.inputs.directions == STRUCTURED
            made = self._make_map(seed, rows.most_slots() if structured else None)
            self._grow(max(outputs, 1), made.features)
            self._arguments = None
        elif outputs > self._outputs:
            self._grow(outputs, made.features)
            self._arguments = None
        if opens:
            self._open_due()
        return made

    def _open_due(self) -> None:
        """Open the block of features that is due."""
        growth = self._growth
        if self._map is not None and growth.due(self._codec.counts[EVENTS]):
            fresh = growth.open(self.events)
            self._grow(self._outputs, growth.blocks * growth.size)
            for expert in self._experts:
                expert.opened(growth.openings, growth.columns, fresh)
            self._arguments = None

    def _all_but_rows(self, e: FeatureMap) -> tuple[Any, ...]:
        """Return codec, source, map, experts and combiner as compiled code sees them."""
        found = self._arguments
        if (
            found is None
            or found[0].statistics is not self._codec.inputs.statistics
            or found[2] is not e.record
        ):
            coding = self._codec.coding(np.array(e.exponents))
            groups = tuple(
                tuple(expert.record for expert in group)
                for _, group in itertools.groupby(self._experts, key=type)
            )
            found = self._arguments = (coding, e.source, e.record, groups, self._combiner.record)
            self._loans = None
            self._goal, self._out = np.zeros((2, 1)), np.zeros((1, self._outputs))
        return found

    def _lent(self, e: FeatureMap) -> Any:
        """Return whether labels come late, and handles of these as they are, as when asked, and as copied."""
        coding, source, record, groups, combiner = self._all_but_rows(e)
        if self._loans is None:
            sections = e.sections
            tests = None if sections is None or not sections.learned else sections.exchange_record
            lent = tuple(tuple(lend(expert) for expert in group) for group in groups)
            loan = lend(Whole(coding, source, record, lent, combiner, tests))
            late, asked = self._asked is not None, loan
            if self._asked is not None:
                known = iter(self._asked.arrays)
                before = tuple(
                    tuple(lend(_with(expert, next(known))) for expert in group) for group in groups
                )
                combiner = self._combiner.before(list(known))
                asked = lend(Whole(coding, source, record, before, combiner, tests))
            self._loans = late, loan, asked, loan
            if self._stale is not None:
                known = iter(self._stale.arrays)
                copied = tuple(
                    tuple(lend(_with(expert, next(known))) for expert in group) for group in groups
                )
                record_of = self._stale.combiner.record
                self._loans = late, loan, asked, lend(Whole(coding, source, record, copied, record_of, tests))
        return self._loans

    def _learned(self) -> None:
        """Keep what is known now, if it will be asked for."""
        if self._asked is not None:
            self._asked.keep(self._live(), self.events)
        if self._stale is not None:
            self._stale.copy(self._coefficients(), self._combiner, self.events)

    def _until_due(self) -> float:
        """Return how many events may be learned at once."""
        events = self._codec.counts[EVENTS]
        until: float = self._growth.next - events
        for copies in (self._asked, self._stale):
            until = until if copies is None else min(until, copies.until(events))
        return until

    def _encode_learned(self, x: Event) -> Rows:
        """Return an event, checked, with its names registered and its directions settled."""
        inputs = self._codec.inputs
        rows = inputs.encode_checked(x, True)
        return inputs.encode_checked(x, True) if self._settles(rows) else rows

    def _settles(self, rows: Rows) -> bool:
        """Choose automatic directions by the first event learned; return whether it must be encoded again."""
        if self._codec.inputs.settled:
            return False
        chosen = choose_for(rows, self.scale_inputs, self.features, len(self.scales), self._together)
        self._codec.inputs.settle(chosen)
        return chosen == KEYED

    def _run_event(
        self,
        e: FeatureMap,
        learning: bool,
        rows: Rows,
        target: float = 0.0,
        weight: float = 1.0,
        out: Array | None = None,
    ) -> int:
        """Run the compiled loop on one row; return −1, or the place of a value that cannot be taken.

        The prediction is in ``out``, or in ``_out`` if there is none.
        It is entered directly, since finding out the types of its arguments would take as long as an event.
        """
        if e.slots is not None:
            self._cover(e, rows)
        encoded, rows = rows, self._codec.inputs.transform(rows)
        late, loan, before, stale = self._lent(e)
        rarely = 0 if self._stale is None else self._stale.rarely
        goal, given = self._goal, self._out if out is None else out  # made with it
        if learning:
            goal[0, 0] = target
            goal[1, 0] = weight
        if self._entry is None:
            everything = learning, late, rarely, rows, loan, before, stale, goal, given
            code = compiled(*everything)
            # in a class, lest who walks a learner's objects to weigh them walks through Numba
            entry = compiled.overloads[tuple(map(typeof, everything))].entry_point
            self._entry = type("Entry", (), {"run": entry})
        else:
            code = self._entry.run(learning, late, rarely, rows, loan, before, stale, goal, given)
        if code == DONE or code >= 0:
            return int(code)
        if self._makes_room(e, code):
            return self._run_event(e, learning, encoded, target, weight, out)
        return DONE

    def _run(self, e: FeatureMap, learning: bool, rows: Rows, goal: Array, out: Array) -> None:
        """Run the compiled loop on rows whose values have been checked."""
        self._cover(e, rows)
        if not len(out):
            out = np.zeros((0, self._outputs))
        encoded, rows = rows, self._codec.inputs.transform(rows)
        late, loan, before, stale = self._lent(e)
        rarely = 0 if self._stale is None else self._stale.rarely
        code = compiled(learning, late, rarely, rows, loan, before, stale, goal, out)
        if code >= 0:
            raise RuntimeError("rows reached the compiled loop unchecked; please report this")
        if code != DONE and self._makes_room(e, code):
            self._run(e, learning, encoded, goal, out)

    def _run_standing(self, e: FeatureMap, rows: Rows, combiner: Any, out: Array) -> None:
        """Fill ``out`` with predictions by another combiner, with the mean of the label memory."""
        coding, source, record, groups, _ = self._all_but_rows(e)
        if coding.memory is not None:
            coding = coding._replace(memory=coding.memory[np.full(len(coding.memory), MEAN)])
        sections = e.sections
        tests = None if sections is None or not sections.learned else sections.exchange_record
        lent = tuple(tuple(lend(expert) for expert in group) for group in groups)
        loan = lend(Whole(coding, source, record, lent, combiner, tests))
        transformed = self._codec.inputs.transform(rows)
        code = compiled(False, False, 0, transformed, loan, loan, loan, np.zeros((2, len(out))), out)
        if code != DONE and self._makes_room(e, code):
            self._run_standing(e, rows, combiner, out)

    def _makes_room(self, e: FeatureMap, code: int) -> bool:
        """Let the frequency cache grow as the compiled loop wishes; return whether it must run again."""
        e.make_room(LACKING - code if code < LACKING else 0)
        return code != OVERFLOWED

    def _cover(self, e: FeatureMap, rows: Rows) -> None:
        """Open the slots that these rows have."""
        if e.slots is not None:
            e.cover(len(self._codec.inputs.numbers) if self.scale_inputs else rows.most_slots())


def _with(expert: Any, coefficients: NDArray[np.float32]) -> Any:
    """Return the record of an expert with other coefficients, if it has any."""
    return expert._replace(coefficients=coefficients) if "coefficients" in expert._fields else expert
