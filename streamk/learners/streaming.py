"""The streaming learner: a codec, a map, experts and a combiner, and how events pass through them.

An event passes codec → map → experts → combiner once, in one compiled loop
(:mod:`streamk.learners.kernel_loop`). Learners of blocks gather events and learn from matrix products.

A model file holds a seed, coefficients, the names and scales of inputs, and a few counters. Features are
regenerated from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numba import typeof

from streamk.arrays import AnyArray, Array, Arrays, Floats, Json, Places, padded
from streamk.combining.calibration import Calibration
from streamk.combining.combiner import Mean
from streamk.encoding.batches import Batch, portions, prepare_whole
from streamk.encoding.codec import EVENTS, KNOWN, Codec, Coding, outputs_after
from streamk.encoding.event_buffer import EventBuffer
from streamk.encoding.fields import Event
from streamk.encoding.inputs import Inputs
from streamk.encoding.label_history import COLUMNS, MEAN, NOW
from streamk.encoding.labels import Labels
from streamk.encoding.rows import MOST_SLOTS, EncodedRows, slices
from streamk.encoding.scaling import horizon_of, kept_numbers
from streamk.experts.blocks import forward
from streamk.experts.expert import FINAL, Expert, Lesson
from streamk.features.map import KEYED, STRUCTURED, FeatureMap, choose_for, largest_unscaled
from streamk.features.sections import Sections
from streamk.handles import Handle, make_group, make_handle
from streamk.learners.kernel_loop import (
    DONE,
    EVERYTHING,
    NOTHING,
    OVERFLOWED,
    TOO_SMALL,
    Buffers,
    ModelView,
    Scratch,
    adapt_many,
    combine_many,
    observe_block,
    process_rows,
)
from streamk.learners.learner import Learner, with_prefix
from streamk.learners.stale import StaleExperts
from streamk.learners.waiting import AtPrediction
from streamk.losses import CODES
from streamk.parameters import check_map, check_parameters, directions_of, kernels_of
from streamk.schedules import Growth
from streamk.state import Live
from streamk.threads import on_threads, one_blas_thread

_OF_MAP = ("kernel", "bandwidth", "scales", "features", "directions")
_SCRATCH = ("_arguments", "_handles", "_entry")
compiled: Any = process_rows
_PIECE = 4096  # rows encoded at once
_VIEWS = 6  # place among the arguments of the compiled loop
Shared = tuple[Handle, object, Handle, Handle | None]  # of codec, source and map, and tests of fields
_Groups = Sequence[Sequence[NamedTuple]]  # records of experts, by update rule
_NOTHING = np.zeros(0)
_KINDS = np.int32, np.uint64, np.float64, np.float64, np.float64  # of rows, goal and predictions
_ROWS = 64  # rows a thread predicts at once


@dataclass(slots=True)
class Handles:
    """Arguments of the compiled loop that stay the same from event to event.

    Attributes
    ----------
    parameters
        The handle of present parameters.
    views
        The handle of present parameters, those of an event that waited, and copied ones.
    goal, out
        Of a single event: target and weight, ``(2, 1)``, and prediction, ``(1, outputs)``.
    statistics, record
        The arrays of the codec and the record of the map that these are handles of.
    scratch
        Scratch arrays.
    rows, buffers
        The row of the last event, and its scratch arrays.
    predicted
        Number of the encoding whose prediction ``out`` and ``buffers`` hold, until something is learned.
    unlabelled
        The handle of parameters for predictions without new labels.
    """

    parameters: Handle
    views: Handle
    goal: Array
    out: Array
    statistics: Array
    record: object
    scratch: Scratch
    rows: EncodedRows | None = None
    buffers: Handle | None = None
    predicted: int | None = None
    unlabelled: Handle | None = None


class StreamingLearner(Learner):
    """A learner of events one by one, many at once, or gathered into blocks.

    A public learner is a dataclass of parameters whose ``__post_init__`` names its experts to :meth:`_begin`.
    The map is made with the first event that is learned.
    """

    kernel: str | tuple[str, ...]
    bandwidth: float | None
    scales: tuple[float, ...]
    features: int
    growth: str
    max_features: int
    loss: str
    regularization: float
    average: bool
    scale_inputs: bool
    directions: str
    scale_target = True  # a parameter of regressors
    _losses: ClassVar[dict[bool, tuple[str, ...]]]  # by whether it classifies
    _is_frozen = False
    _compared_with: EncodedRows | None = None  # by explanations of a frozen learner; not saved
    _teaches = EVERYTHING  # what learns from many rows (:func:`streamk.learners.kernel_loop.process_rows`)
    _arguments: tuple[Any, ...] | None = None  # of the compiled loop; None: to be made again
    _handles: Handles | None = None  # of these
    _entry: Any = None  # the compiled loop for arguments of these types
    _due = -np.inf  # the number of events at which a block opens or parameters are copied, if not earlier

    def _check(self) -> int:
        """Check the parameters; return the code of the loss."""
        self._make_plain()
        check_parameters(self._get_params(), self._losses[self.classifies])
        return CODES["class" if self.classifies else "number", self.loss]

    def _begin(
        self,
        experts: Sequence[Expert],
        growth: Growth,
        together: int = 1,
        gathers: bool = False,
        memory: int | None = None,
        combiner: Any = None,
        label_memory: bool = False,
        mixture: bool = False,
        rules: Sequence[Expert] = (),
    ) -> None:
        """Initialise the untrained learner.

        Parameters
        ----------
        experts
            At least one, grouped by update rule.
        growth
            The schedule of features.
        together, gathers
            Events of a block, and whether events wait for their block even if it is a single event.
        memory
            Events after which scales forget; None never does.
        combiner
            Of expert outputs; by default a calibration for the loss of the first expert, or the mean.
        label_memory
            Whether labels are inputs.
        mixture
            As for :class:`streamk.encoding.codec.Codec`.
        rules
            Experts of all update rules that learners of this class may have, in order; those of ``experts``
            by default.
        """
        kernels = kernels_of(self.kernel)
        largest = largest_unscaled(kernels, self.bandwidth, tuple(self.scales))
        kept = kept_numbers(horizon_of(memory))
        inputs = Inputs(
            directions_of(kernels, self.directions), self.scale_inputs, largest, kept, evicts=True
        )
        self._growth, self._together, self._gathers = growth, together, gathers or together > 1
        self._experts = list(experts)
        self._rules = {type(expert): expert for expert in (*rules, *experts)}
        grouped = [expert for rule in self._rules for expert in experts if type(expert) is rule]
        assert self._experts == grouped, "experts of a rule do not stand side by side"
        if combiner is None:
            combiner = Calibration(experts[0].loss) if self.classifies else Mean(len(experts))
        self._combiner = combiner
        self._map: FeatureMap | None = None
        self._pending = inputs.waiting = EventBuffer()
        labels = Labels() if self.classifies else None
        self._codec = Codec(inputs, labels, memory, self.scale_target, label_memory, mixture)
        self._stale: StaleExperts | None = None
        self._at_prediction = AtPrediction()

    def _make_map(self, seed: int, slots: int | None) -> FeatureMap:
        made = FeatureMap(
            kernels_of(self.kernel), self.bandwidth, tuple(self.scales), self.features, seed, slots,
            self._make_sections(),
        )  # fmt: skip
        self._map = made
        if made.sections is not None:
            self._codec.inputs.samples = (made.sections.sample,)
        return made

    def _make_sections(self) -> Sections | None:
        """Return the sections of the map, if it has several."""
        return None

    def _grow(self, outputs: int, features: int) -> None:
        """Resize the map, the experts and all copies for so many outputs and features."""
        assert self._map is not None
        self._map.grow(features)
        self._map.follow(outputs)
        for expert in self._experts:
            before = self._map.columns - self._map.width
            expert.grow(outputs, before + self._map.features, self._map.columns)
        if self._stale is not None:
            self._stale.grow(self._coefficients())
        self._at_prediction.grow(len(self._experts), outputs, self._codec.memory, self._combiner.live)

    @property
    def _labels_learned(self) -> int:
        """The labels with which an event is learned, for the compiled loop."""
        return NOW

    def _coefficients(self) -> Live:
        """Return the coefficients of all experts."""
        return [pair for expert in self._experts for pair in expert.live]

    @property
    def _outputs(self) -> int:
        """The number of outputs that coefficients have."""
        return int(self._experts[0].coefficients.shape[1])

    @property
    def feature_count(self) -> int:
        """Random features in use now: 0 before any learning, then ``features`` and more if they grow."""
        return 0 if self._map is None else self._map.features

    @property
    def pending(self) -> int:
        """Events waiting for their block to fill; always 0 for ``block_size=1``."""
        return len(self._pending)

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
        if out is None:
            assert self._handles is not None
            out = self._handles.out
        prediction: Array = out[0]
        return prediction

    def _outputs_for(self, x: Event) -> Floats:
        """Return the outputs of all experts for an event, ``(E, K)``; it may be the one predicted last."""
        self._codec.inputs.encode(x, False)  # counts an event that is not the last one
        if self._handles is None or self._handles.predicted != self._codec.inputs.encoded:
            StreamingLearner._predict_event(self, x)
        assert self._handles is not None
        assert self._handles.buffers is not None
        buffers = cast(tuple[Handle, Handle], self._handles.buffers.referred)[0].referred
        return cast(Buffers, buffers).outputs[:, FINAL].copy()

    def _learn_event(self, x: Event, target: float, weight: float, outputs: int) -> None:
        """Learn one event whose target has been checked; nothing changes if ``x`` is invalid."""
        if self._is_frozen:
            self._check_learns()
        if self._gathers:
            self._pending.put(self._encode_learned(x).copy(), np.array([[target], [weight]]))
            if len(self._pending) == self._together:
                self.flush()
            return
        made, handles, counts = self._map, self._handles, self._codec.counts
        if made is None or handles is None or outputs > handles.out.shape[1] or counts[EVENTS] >= self._due:
            rows = self._encode_learned(x)
            made = self._ready(rows, outputs)
        else:
            rows = self._codec.inputs.encode(x, True)
        if self._run_event(made, True, rows, target, weight) >= 0:
            self._run_event(made, True, self._codec.inputs.with_missing(x, rows), target, weight)
        if counts[EVENTS] >= self._due:
            self._learned()

    def _observe_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        if self._handles is not None:
            self._handles.predicted = None  # under other scales
        return super()._observe_batch(rows, goal, outputs, wanted)

    def _predict_batch(self, rows: Batch, more: int = 0) -> Array:
        """Return predictions of every row, ``(n, K + more)``; K is 0 before any learning."""
        inputs = self._codec.inputs
        rows.prepare(inputs, None)
        if self._map is None:
            return np.zeros((len(rows), 0))
        out = np.zeros((len(rows), self._outputs + more))
        for part in slices(len(rows), _PIECE):
            self._predict_portion(rows.rows(inputs, part.start, part.stop), out[part], part.start)
        return out

    def _predict_portion(self, rows: EncodedRows, out: Array, first: int) -> None:
        """Fill ``out`` with predictions of rows from number ``first`` of a call on."""
        self._predict_rows(rows, out, first)

    def _predict_alike(self, rows: EncodedRows) -> Array:
        out = np.zeros((len(rows.values), self._outputs))
        self._predict_rows(rows, out)
        return out

    def _background(self) -> EncodedRows | None:
        if self._compared_with is not None:
            return self._compared_with
        if self._map is None or self._map.sections is None:
            return None
        return self._codec.inputs.restore_values(self._map.sections.sample.events().rows)

    def _learn_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        """Learn the rows in order and, if ``wanted``, return the predictions made before each.

        ``goal`` is ``(2, n)``: target and weight. Targets and rows have been checked.
        """
        most = max(outputs, self._outputs)
        if self._is_frozen and wanted and not (goal[1] > 0.0).any():
            return padded(self._predict_batch(rows), (len(rows), most))
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

    def _learn_rows(self, rows: EncodedRows, goal: Array, learned: Places, out: Array) -> None:
        """Learn rows one by one, in runs up to the next block or copy; ``learned`` are those with weight."""
        start, done, growth = 0, 0.0, self._growth
        while start < goal.shape[1]:
            stop, filled = goal.shape[1], out
            if done < len(learned):
                if len(out) and growth.openings and growth.due(self._codec.counts[EVENTS]):
                    # the event with which a block of features opens is predicted without it
                    stop, filled, done = int(learned[int(done)]) + 1, out[:0], done + 1.0
                    self._predict_rows(rows.select(slice(start, stop)), out[start:stop])
                    self._open_due()
                else:
                    self._open_due()
                    done += self._until_due()
                    if done < len(learned):
                        stop = int(learned[int(done)])
            part = slice(start, stop)
            assert self._map is not None
            self._run(self._map, True, rows.select(part), np.ascontiguousarray(goal[:, part]), filled[part])
            self._learned()
            start = stop

    def _predict_rows(self, rows: EncodedRows, out: Array, first: int = 0) -> None:
        """Fill ``out`` with predictions of rows from number ``first`` of a call on.

        They are matrix products for learners of blocks with a frequency table.
        """
        e = self._map
        if e is None:
            return
        if self.classifies and out.shape[1] > self._outputs:
            narrow = np.zeros((len(out), self._outputs))
            StreamingLearner._predict_rows(self, rows, narrow)
            out[:, : self._outputs] = narrow
            return
        self._cover(e, rows)
        if self._gathers and e.source is None:
            statistics = self._codec.inputs.statistics
            outputs, _ = forward(e, rows, statistics, self._experts, False)
            combine_many(*self._combining(e), _both(outputs), out)
        elif e.needs_cache(rows):
            self._run(e, False, rows, np.zeros((2, len(out))), out)
        else:
            self._handles_of(e)  # once, before threads ask for it

            def work(part: slice) -> None:
                self._run(e, False, rows.select(part), np.zeros((2, part.stop - part.start)), out[part])

            on_threads(work, slices(len(out), _ROWS))

    def _gather(self, rows: EncodedRows, goal: Array, out: Array | None) -> None:
        """Cut rows into blocks: predict the rows of each part, add them, learn each full block."""
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

        Inputs and targets are scaled by the statistics of the blocks before this one, those of the first
        block by its own.
        """
        if len(self._pending):
            with one_blas_thread():
                self._learn_block(None)

    def _learn_block(self, out: Array | None) -> None:
        """Learn the waiting events; fill ``out`` with predictions from the same features."""
        rows, goal = self._pending.pop()
        targets, weights = np.ascontiguousarray(goal[0]), goal[1].copy()
        codec = self._codec
        known = outputs_after(make_handle(codec.coding(_NOTHING)), targets.max())
        e = self._ready(rows, known)
        self._cover(e, rows)
        combining, counts = self._combining(e), codec.counts.copy()
        coding = combining[0]
        if first := counts[EVENTS] == 0.0:
            observe_block(coding, rows, targets, goal[1])
            after = codec.counts.copy()
            codec.counts[:] = counts
        aims = np.empty(len(targets))
        outputs, kept = forward(e, rows, codec.inputs.statistics, self._experts, True)
        if out is not None:
            combine_many(*combining, _both(outputs), out)
        adapt_many(*combining, _both(outputs), targets, weights, aims)
        for expert, output, features in zip(self._experts, outputs, kept, strict=True):
            expert.step_many(Lesson(output, features, aims, weights, known))
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

    def _waits_with(self) -> tuple[int, Live]:
        return len(self._experts), self._combiner.live

    @property
    def _has_begun(self) -> bool:
        return self._map is not None

    def _ready(self, rows: EncodedRows, outputs: int, opens: bool = True) -> FeatureMap:
        """Return the map, made at the first event that is learned, after resizing to ``outputs``.

        If ``opens``, a block of features that is due is opened.
        """
        made = self._map
        if made is None:
            seed = self._draw_seed()
            structured = self._codec.inputs.directions == STRUCTURED
            made = self._make_map(seed, rows.most_slots() if structured else None)
            self._grow(max(outputs, 1), made.features)
            self._renew_arguments()
        elif outputs > self._outputs:
            self._grow(outputs, made.features)
            self._renew_arguments()
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
                expert.start_block(growth.openings, growth.columns, fresh)
            self._renew_arguments()

    def _renew_arguments(self) -> None:
        """Let the arguments of the compiled loop be made again, since arrays were replaced."""
        self._arguments = self._handles = None

    def _all_but_rows(self, e: FeatureMap) -> tuple[Any, ...]:
        """Return the records of codec, source, map, experts and combiner for compiled code."""
        records = self._arguments
        if (
            records is None
            or records[0].statistics is not self._codec.inputs.statistics
            or records[2] is not e.record
        ):
            coding = self._codec.coding(np.array(e.exponents))
            groups = tuple(
                tuple(expert.record for expert in self._experts if type(expert) is rule)
                for rule in self._rules
            )
            records = self._arguments = (coding, e.source, e.record, groups, self._combiner.record)
            self._handles = None
        return records

    def _combining(self, e: FeatureMap) -> tuple[Handle, Handle, Handle]:
        """Return handles of the codec, the combiner and its scratch arrays."""
        coding, _, _, _, combiner = self._all_but_rows(e)
        return make_handle(coding), make_handle(combiner), self._combiner.scratch(self._outputs)

    def _handles_of(self, e: FeatureMap) -> Handles:
        """Return the arguments of the compiled loop that stay the same."""
        records = self._all_but_rows(e)
        if self._handles is None:
            groups, combiner = records[3:]
            shared = self._shared(e, *records[:3])
            now = before = frozen = self._view(shared, groups, combiner)
            if self._stale is not None:
                coding = records[0]._replace(memory=self._at_prediction.memory)
                combiner_then = self._combiner.before(self._at_prediction.weights)
                before = self._view(self._shared(e, coding, *records[1:3]), groups, combiner_then)
                copies = _with_coefficients(groups, iter(self._stale.arrays))
                frozen = self._view(shared, copies, self._stale.combiner.record)
            goal, out = np.zeros((2, 1)), np.zeros((1, self._outputs))
            views, statistics = (
                make_handle((now, before, frozen, self._at_prediction.outputs)),
                self._codec.inputs.statistics,
            )
            if self._entry is not None and self._entry.views != views._numba_type_:
                self._entry = None
            scratch = Scratch(e, len(self._experts), self._outputs, self._combiner)
            self._handles = Handles(now, views, goal, out, statistics, e.record, scratch)
        return self._handles

    def _shared(self, e: FeatureMap, coding: Coding, source: object, features: Any) -> Shared:
        """Return handles of the codec and the map."""
        sections, tests = e.sections, None
        if sections is not None:
            features = features._replace(sections=make_handle(features.sections))
            tests = make_handle(sections.exchange_record)
        return make_handle(coding), source, make_handle(features), tests

    def _view(self, shared: Shared, groups: _Groups, combiner: tuple[object, ...]) -> Handle:
        """Return the handle of a :class:`ModelView`."""
        coding, source, features, tests = shared
        experts = tuple(
            make_group(group[0] if group else rule.record, [make_handle(record) for record in group])
            for rule, group in zip(self._rules.values(), groups, strict=True)
        )
        return make_handle(ModelView(coding, source, features, experts, make_handle(combiner), tests))

    def _learned(self) -> None:
        """Copy coefficients for stale experts, if copies are due."""
        if self._stale is not None and self._stale.is_due(self.events):
            self._stale.copy(self._coefficients(), self._combiner, self.events)
        self._due = self._codec.counts[EVENTS] + self._until_due()

    def _until_due(self) -> float:
        """Return how many events may be learned at once."""
        events = self._codec.counts[EVENTS]
        until: float = self._growth.next - events
        return until if self._stale is None else min(until, self._stale.until(events))

    def _encode_learned(self, x: Event) -> EncodedRows:
        """Return an event, checked, with its names registered and its directions settled."""
        inputs = self._codec.inputs
        rows = inputs.encode_checked(x, True)
        return inputs.encode_checked(x, True) if self._settles(rows) else rows

    def _settles(self, rows: EncodedRows) -> bool:
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
        rows: EncodedRows,
        target: float = 0.0,
        weight: float = 1.0,
        out: Array | None = None,
    ) -> int:
        """Run the compiled loop on one row; return −1, or the flat index of an invalid value.

        The prediction is in ``out``, or in that of the handles if there is none.
        """
        if e.slots is not None:
            self._cover(e, rows)
        inputs, reuse, encoded, handles = self._codec.inputs, False, rows, self._handles
        if inputs.transforms:
            rows = inputs.transform(rows)
        if handles is None or not (handles.statistics is inputs.statistics and handles.record is e.record):
            handles = self._handles_of(e)
        if handles.rows is not rows:
            handles.rows, handles.buffers = rows, handles.scratch.of_row(rows.values.shape[1])
        goal, filled = handles.goal, handles.out if out is None else out
        if learning:
            goal[0, 0] = target
            goal[1, 0] = weight
            reuse = handles.predicted == inputs.encoded
        # buffers and ``out`` of the handles hold this prediction until the next call
        handles.predicted = None if learning or out is not None else inputs.encoded
        rarely = self._stale.rarely if learning and self._stale is not None else 0
        arguments = (
            EVERYTHING if learning else NOTHING,
            self._labels_learned,
            rarely,
            reuse,
            handles.buffers,
            rows,
            handles.views,
            goal,
            filled,
        )
        run = self._run_first if self._entry is None else self._entry.run
        code: int = run(*arguments)
        if code == DONE or code >= 0:
            return code
        if self._makes_room(e, code):
            return self._run_event(e, learning, encoded, target, weight, out)
        return DONE

    def _run_first(self, *arguments: object) -> int:
        """Run the compiled loop and return its code; later calls are at its entry point for the same types.

        Numba takes a millisecond to find the types of all arguments.
        """
        code: int = compiled(*arguments)
        # in a class, so that river's memory measurement of a learner does not traverse Numba
        kinds = tuple(map(typeof, arguments))
        self._entry = type(
            "Entry", (), {"run": compiled.overloads[kinds].entry_point, "views": kinds[_VIEWS]}
        )
        return code

    def _run(self, e: FeatureMap, learning: bool, rows: EncodedRows, goal: Array, out: Array) -> None:
        """Run the compiled loop on rows whose values have been checked."""
        self._cover(e, rows)
        if not len(out):
            out = np.zeros((0, self._outputs))
        encoded, rows = rows, self._codec.inputs.transform(rows)
        handles = self._handles_of(e)
        handles.predicted = None
        how = self._teaches if learning else NOTHING, self._labels_learned
        code = self._run_rows(handles.scratch, handles.views, how, rows, goal, out)
        if code >= 0:
            raise RuntimeError("rows reached the compiled loop unchecked; please report this")
        if code != DONE and self._makes_room(e, code):
            self._run(e, learning, encoded, goal, out)

    def _run_rows(
        self,
        scratch: Scratch,
        views: Handle,
        how: tuple[int, int],
        rows: EncodedRows,
        goal: Array,
        out: Array,
    ) -> int:
        """Run the compiled loop on arrays of any layout; it is compiled for that of a single event."""
        filled = out
        if not _has_layout(rows, goal, out):
            usual = [
                np.require(array, kind, ["C", "A", "W"])
                for array, kind in zip((*rows, goal, out), _KINDS, strict=True)
            ]
            rows, (goal, filled) = EncodedRows(*usual[:3]), usual[3:]
        rarely, width = 0 if self._stale is None else self._stale.rarely, rows.values.shape[1]
        buffers = scratch.take(width)
        run = self._run_first if self._entry is None else self._entry.run
        code: int = run(*how, rarely, False, buffers, rows, views, goal, filled)
        scratch.put_back(width, buffers)
        if filled is not out:
            out[:] = filled
        return code

    def _run_stale(self, e: FeatureMap, rows: EncodedRows, combiner: tuple[object, ...], out: Array) -> None:
        """Fill ``out`` with predictions by another combiner, with the mean of the label memory."""
        handles, transformed = self._handles_of(e), self._codec.inputs.transform(rows)
        if handles.unlabelled is None:
            *shared, groups, _ = self._all_but_rows(e)
            view = self._view(self._shared(e, *shared), groups, combiner)
            handles.unlabelled = make_handle((view, view, view, self._at_prediction.outputs))
        views, goal = handles.unlabelled, np.zeros((2, len(out)))
        code = self._run_rows(handles.scratch, views, (NOTHING, MEAN), transformed, goal, out)
        if code != DONE and self._makes_room(e, code):
            self._run_stale(e, rows, combiner, out)

    def _makes_room(self, e: FeatureMap, code: int) -> bool:
        """Enlarge the frequency cache as the compiled loop requested; return whether it must run again."""
        e.make_room(TOO_SMALL - code if code < TOO_SMALL else 0)
        return code != OVERFLOWED

    def _cover(self, e: FeatureMap, rows: EncodedRows) -> None:
        """Extend a structured map to the slots of these rows."""
        if e.slots is not None:
            e.cover(len(self._codec.inputs.numbers) if self.scale_inputs else rows.most_slots())

    def averaged(self) -> Self:
        """Return a learner whose coefficients are this one's average, and which averages no more.

        It predicts the same, is half the size or less, and can continue learning from the average; an open
        block is then opened again.
        """
        header, arrays = self._to_parts(closed=True)
        if self.average:
            header["parameters"] = {**header["parameters"], "average": False}
            for k, expert in enumerate(self._experts):
                arrays[f"expert{k}.coefficients"] = expert.coefficients[-1:]
        return self._copied(header, arrays)

    def closed(self) -> Self:
        """Return a learner that predicts the same, without the matrix of an open block, if it has one.

        It is as small as its coefficients. If it continues learning, it opens the block again and starts from
        the present coefficients.
        """
        return self._copied(*self._to_parts(closed=True))

    def frozen(self) -> Self:
        """Return the model to deploy where no labels come: it predicts, and does not learn.

        It is as small as that of :meth:`closed`. A frozen ``Kernel…`` learner uses the weights and intervals
        learned for stale experts (:mod:`streamk.learners.stale`), and the mean of its label memory; other
        frozen learners predict as before.

        Examples
        --------
        >>> import streamk
        >>> learner = streamk.KernelRegressor(seed=7)
        >>> learner.learn_many([{"a": float(i % 7)} for i in range(200)], [float(i % 7) for i in range(200)])
        >>> model = learner.frozen()
        >>> round(model.predict_one({"a": 3.0}), 1)
        3.0
        >>> model.learn_one({"a": 3.0}, 3.0)
        Traceback (most recent call last):
        ValueError: the learner is frozen; let the learner learn that frozen() was called on
        """
        made = self.closed()
        made._freeze(self)
        made._is_frozen, made._compared_with = True, self._background()
        return made

    def _freeze(self, learner: Self) -> None:
        """Prepare for predictions without new labels, with the state that ``learner`` has for them."""

    def _check_learns(self) -> None:
        """Raise a ValueError if it is frozen."""
        if self._is_frozen:
            raise ValueError("the learner is frozen; let the learner learn that frozen() was called on")

    def _to_parts(self, closed: bool = False) -> tuple[Json, Arrays]:
        """Return the header and the arrays of a model file; without those that :meth:`closed` drops."""
        arrays = {f"codec.{name}": array for name, array in self._codec.state_dict().items()}
        arrays |= self._combiner.state_dict()
        if self._map is not None:
            if self._map.sections is not None:
                arrays |= self._map.sections.state_dict() | self._map.sections.sample.arrays()
            for k, expert in enumerate(self._experts):
                arrays |= {f"expert{k}.{name}": array for name, array in expert.state_dict().items()}
            if self._stale is not None and not self._is_frozen:  # which has their weights already
                arrays |= self._stale.state_dict(self._coefficients(), self.events, closed)
        header = {
            "class": type(self).__name__,
            "parameters": self._parameters(),
            "seed": None if self._map is None else self._map.seed,
            "slots": None if self._map is None else self._map.slots,
            "openings": self._growth.openings,
            "events": self.events,
            "pending": self.pending,
            **({"frozen": True} if self._is_frozen else {}),
            **self._codec.header(),
        }
        waiting = self._waiting.parts(self._combiner.live, self._codec.inputs.scaled)
        return header, arrays | self._pending.arrays() | waiting

    @classmethod
    def _from_parts(cls, header: Json, arrays: Arrays, closed: bool = False) -> Self:
        self = cls._with_parameters(header["parameters"])
        self._is_frozen = header.get("frozen") is True
        self._codec.restore(header, with_prefix(arrays, "codec."))
        self._combiner.load_state_dict(arrays)
        if header["seed"] is not None:
            self._restore_experts(header, arrays, closed)
        elif self._codec.events:
            raise ValueError("it has learned, and has no seed")
        if "pending.goal" in arrays:
            inputs = self._codec.inputs
            waiting = EventBuffer.from_arrays(arrays, inputs.slots, self._together, inputs.largest)
            self._pending = inputs.waiting = waiting
        self._check_labels(self._pending.targets())
        if not closed:
            shape, columns = (len(self._experts), self._outputs), COLUMNS if len(self._codec.memory) else 0
            live = self._combiner.live
            self._waiting.load(arrays, self._codec.inputs, live, shape, self.events, columns)
            self._check_whole(header, arrays)
        return self

    def _restore_experts(self, header: Json, arrays: Arrays, closed: bool) -> None:
        inputs, slots, openings = self._codec.inputs, header["slots"], header["openings"]
        if not inputs.settled:
            raise ValueError("it has learned, and its directions are not chosen")
        structured = inputs.directions == "structured"
        if (not isinstance(slots, int) or not 0 <= slots <= MOST_SLOTS) if structured else slots is not None:
            raise ValueError(f"its slots are {slots!r}")
        if not isinstance(openings, int) or not 1 <= openings <= max(
            1, self._growth.openings_at(self.events)
        ):
            raise ValueError(f"its openings are {openings!r}")
        check_map({**{name: getattr(self, name) for name in _OF_MAP}, "seed": header["seed"]})
        self._growth.count(openings)
        features = self._growth.blocks * self._growth.size
        outputs = arrays["expert0.coefficients"].shape[1]
        made = self._make_map(header["seed"], slots)
        if not max(1, self._codec.counts[KNOWN]) <= outputs <= self._codec.outputs:
            raise ValueError(f"coefficients of {outputs} outputs do not fit")
        if made.sections is not None:
            self._restore_sections(made.sections, arrays, outputs, closed)
            made.renew()
        self._grow(outputs, features)
        for k, expert in enumerate(self._experts):
            expert.start_block(openings, self._growth.columns, False)
            expert.load_state_dict(with_prefix(arrays, f"expert{k}."))
            if closed:
                expert.close()
        if self._stale is not None:
            self._stale.load_state_dict(arrays, self._coefficients(), self.events, closed)
        if not all(expert.is_open for expert in self._experts):
            self._growth.open_again()

    def _restore_sections(self, sections: Sections, arrays: Arrays, outputs: int, closed: bool) -> None:
        sections.load_state_dict(arrays)
        if len(sections.cross.squares) > outputs:
            raise ValueError(f"moments of more than {outputs} outputs do not fit")
        if closed:
            sections.close()
        else:
            self._restore_sample(sections, arrays)

    def _restore_sample(self, sections: Sections, arrays: Arrays) -> None:
        inputs = self._codec.inputs
        sections.sample.load_state_dict(arrays, inputs.slots, inputs.largest)
        self._check_labels(sections.sample.events().goal[0].tolist())

    def __getstate__(self) -> Json:
        return {k: v for k, v in self.__dict__.items() if k not in _SCRATCH}


def _has_layout(rows: EncodedRows, goal: Array, out: Array) -> bool:
    """Return whether arrays have the layout of those of a single event."""
    arrays: list[AnyArray] = [rows.slots, rows.keys, rows.values, goal, out]
    return all(array.dtype == kind and array.flags.carray for array, kind in zip(arrays, _KINDS, strict=True))


def _with_coefficients(groups: _Groups, arrays: Iterator[AnyArray]) -> _Groups:
    """Return the records of experts with other coefficients, the next array for each that has any."""

    def replaced(expert: NamedTuple) -> NamedTuple:
        coefficients = next(arrays)
        return expert._replace(coefficients=coefficients) if "coefficients" in expert._fields else expert

    return tuple(tuple(replaced(expert) for expert in group) for group in groups)


def _both(outputs: Sequence[Floats]) -> Floats:
    """Return outputs of experts, ``(sets, m, K)``, as ``(E, 2, m, K)``."""
    return np.array([output if len(output) > FINAL else output.repeat(2, axis=0) for output in outputs])
