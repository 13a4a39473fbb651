"""Learners with nothing to tune: many experts on one map of random features, weighed by a stacked combiner.

The experts are those of :mod:`streamk.learners.mixture`.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray
from river.conf.interval import Interval

from streamk.arrays import Array, Arrays, Json, Places, Table, padded
from streamk.combining.stacking import Stacking
from streamk.encoding.batches import Batch
from streamk.encoding.codec import EVENTS, no_targets
from streamk.encoding.fields import Event
from streamk.encoding.frames import batch
from streamk.encoding.keys import category_tag
from streamk.encoding.label_history import HELD, NOW
from streamk.encoding.label_history import MEAN as MEAN_LABELS
from streamk.encoding.labels import Label
from streamk.encoding.rows import EncodedRows
from streamk.encoding.scaling import MEAN, WIDE_CLIP, spread
from streamk.encoding.seen import SeenValues
from streamk.experts.least_squares import LeastSquares
from streamk.experts.neighbours import Neighbours
from streamk.experts.tables import Share, Tables
from streamk.experts.values import Values
from streamk.features.map import FeatureMap
from streamk.features.plans import BUDGETS, WITHOUT
from streamk.features.ranks import FIRST as FIRST_RANKS
from streamk.features.relevance import BLOCKS
from streamk.features.reservoir import Reservoir, Sample
from streamk.features.sample import Sampled
from streamk.features.sections import COARSE, UNIT, Sections
from streamk.learners.classifier import Classifier
from streamk.learners.earlier import with_rows
from streamk.learners.few_events import FEW, FewEvents, LabelsSoFar
from streamk.learners.level import Level
from streamk.learners.merging import merge_into, merge_streaming
from streamk.learners.mixture import RELEVANT, error_scale, experts_on, rules_of, saturated_among
from streamk.learners.regressor import Regressor
from streamk.learners.rehearsal import LATE, PART, Rehearsal
from streamk.learners.shuffled import NONE, Made, Shuffled, predictions_of, share_of
from streamk.learners.stale import PERIOD, TRUSTED, StaleExperts, unlabelled_before
from streamk.learners.streaming import StreamingLearner
from streamk.learners.summary import Summary, calendar_field, shares_of
from streamk.learners.tails import EARLY, WHOLE, look
from streamk.learners.time_like import TimeLike
from streamk.learners.waiting import Held, Seen
from streamk.losses import LOGISTIC
from streamk.parameters import check_level, check_mixture
from streamk.schedules import DOUBLING, Growth

_FIRST = 1000  # events before relevance is used
_AFTER_CHANGE = 0.02  # of earlier relevance
_HORIZON = 10_000_000  # events that scales count: they follow a shift or another unit, and fade hardly at all
# More features pay where those under relevance leave less than so much of the other experts' error, and yet
# more than so much of the target's variance.
_OF_OTHERS, _LEFT = 0.5, 0.05
_NO_COSINES = Tables.rule, Share.rule, Values.rule, Neighbours.rule  # not among the others
_NOTHING = np.zeros(0)
_COMPARED = 32  # events at least for mean errors
_UNKNOWN = 0.0, 0.0  # prediction and logarithm of the size of errors, before any learning


@dataclass(eq=False, repr=False)
class _Kernel(StreamingLearner):
    features: int = 1536
    label_memory: bool = True
    relevance: bool = True
    binning: bool = True
    neighbours: bool = True
    budget: str = "default"
    seed: int | None = None
    retired: bool = False
    products = logarithm = False
    family = "kernel"
    kernel = ("laplacian", "gaussian")
    bandwidth = None
    scales = COARSE  # of the first section
    directions, average, scale_inputs = "keyed", False, True
    _looked = _ranked = 0  # events at the last check of tails, and when ranks last moved

    def __post_init__(self) -> None:
        self._make_plain()
        check_mixture(self._get_params(), UNIT * len(self.kernel))
        target = None if self.classifies else no_targets(_HORIZON)
        sections, switches = self._make_sections(), (self.label_memory, self.binning, self.neighbours)
        named = experts_on(sections, target, *switches, self.retired, self.logarithm)
        self._names, experts = list(named), list(named.values())
        count, logits = len(experts), [expert.loss == LOGISTIC for expert in experts]
        saturated = saturated_among(self._names) if self.classifies else {}
        groups = list(saturated.values())
        combiner = Stacking(count, self.classifies, logits, saturated=groups)
        if combiner.intervals is not None:
            experts.append(error_scale(combiner.intervals.response))
        self._begin(
            experts,
            Growth(DOUBLING if self.relevance else "fixed", _FIRST, self.features, self.features),
            combiner=combiner,
            label_memory=self.label_memory,
            mixture=True,
            memory=_HORIZON,
            rules=rules_of(sections, target),
        )
        if target is not None:
            self._codec.target = target  # an expert of logarithms refers to it
        self._stale = StaleExperts(count, self.classifies, logits, groups)
        self._rehearsal, self._shuffled, self._time_like = Rehearsal(), Shuffled(), TimeLike()
        self._few_events, self._level = FewEvents(), Level()
        self._both = -1, np.zeros((2, 0))  # number of an encoding, and predictions by both combiners
        self._saturated = list(saturated)
        self._stale.combiner.reach = self._combiner.reach  # one for both

    def summary(self) -> Summary:
        """Return a summary of the learner's state: a dict of JSON values that prints as a table.

        Returns
        -------
        Summary
            ``events``; ``features``; ``bytes`` of the model file. ``experts``: for each its name, the
            ``weight`` of its outputs, and its mean squared ``error`` over the last thousand events (for
            numbers of standardised targets; for classes of outputs, or of the softmax of logits, whose target
            is 1 for the class and 0 for others); for experts that restart when their error rises, also their
            number of ``restarts``. For classes, saturated outputs come last
            (:mod:`streamk.combining.stacking`). ``fields``: the relevance of every field, highest first, in
            shares of their sum. It is by how much squared errors grow where a field has its value of another
            event (:mod:`streamk.features.exchange`), so a field without effect has almost none, however many
            values it has. ``relevance`` of every input that has one, in the two blocks
            of features (:mod:`streamk.features.relevance`). ``transformed``: the names of inputs with heavy
            tails, and ``robust``: whether the learner limits errors with heavy tails
            (:mod:`streamk.learners.tails`). ``time_like``: numbers that have risen or fallen steadily; where
            no labels come, they are at their last value (:mod:`streamk.learners.time_like`). ``errors``
            ``with_labels`` and ``without_labels``: of predictions of recent events, and what they would be by
            the copies for stale experts (:mod:`streamk.learners.stale`), which have not learned these events.
            The ``measure`` is the RMSE in the target's unit; for classes the squared error of probabilities,
            with labels that of the best expert. They are empty until the learner has about 500 events, and
            for a frozen one; :meth:`streamk.learners.summary.Summary.warning` compares them.
            ``plot()`` draws relevance and weights, :func:`streamk.learners.summary.plot_weights` weights over
            events.
        """
        stacking = self._combiner
        weights = stacking.mean_weights
        experts: list[Json] = [
            {"expert": name, "weight": round(float(weight), 4), "error": float(f"{error:.4g}")}
            for name, weight, error in zip(
                [*self._names, *self._saturated], weights, stacking.losses, strict=True
            )
        ]
        for shown, expert in zip(experts, self._experts, strict=False):
            if isinstance(expert, LeastSquares) and expert.watched:
                shown["restarts"] = expert.restarts
        summary, time_like = super().summary(), self._look().last[:, 0].tolist()
        summary |= {
            "experts": experts,
            "fields": {} if self._map is None else self._field_relevance(),
            "relevance": {} if self._map is None else self._relevance(),
            "transformed": sorted(self._codec.inputs.transforms),
            "robust": stacking.is_robust,
            "time_like": [name for slot, name in enumerate(self._codec.inputs.numbers) if slot in time_like],
            "errors": self._errors(),
        }
        return summary

    def _errors(self) -> Json:
        """Return the errors with labels and without new ones; none for few events."""
        stale, sections = self._stale_experts, None if self._map is None else self._map.sections
        if self._is_frozen or sections is None or stale.combiner.error[-1] < _COMPARED:
            return {}
        measure = "squared error of probabilities" if self.classifies else "RMSE"
        unit = 1.0 if self.classifies else float(spread(self._codec.target, 0)) ** 2
        errors = unit * self._combiner.mean_error, unit * stale.combiner.mean_error
        count = min(int(self.events - stale.since) if stale.since >= 0.0 else 0, len(sections.sample))
        if count >= _COMPARED:
            last = sections.sample.events().select(sections.sample.latest(self.events)[:count])
            errors = self._errors_of(last, errors[0])
        shown = errors if self.classifies else [math.sqrt(error) for error in errors]
        return {"measure": measure, "with_labels": shown[0], "without_labels": shown[1]}

    def _errors_of(self, sampled: Sampled, with_labels: float) -> tuple[float, float]:
        """Return the mean squared errors of events that the copies for stale experts have not learned."""
        past, out = copy.deepcopy(self), np.zeros((len(sampled), self._outputs))
        past._shuffled, past._rehearsal.reservoir = Shuffled(), None  # it has learned these events
        for (_, array), copied in zip(past._coefficients(), self._stale_experts.arrays, strict=True):
            array[:] = copied
        past.frozen()._predict_rows(self._codec.inputs.restore_values(sampled.rows), out)
        if self.classifies:
            out[np.arange(len(out)), sampled.goal[0].astype(int)] -= 1.0
            return with_labels, float((out**2).sum(axis=1).mean())
        predicted, actual = sampled.outcomes
        return float(np.mean((predicted - actual) ** 2)), float(np.mean((out[:, 0] - actual) ** 2))

    def _relevance(self) -> dict[str, list[float]]:
        """Return the relevance of inputs by name; for a category whose name is not in memory, by its key."""
        inputs = self._codec.inputs
        names = {inputs.entry(name)[1]: name for name in inputs.numbers}
        names |= {key: "=".join(pair) for pair, key in inputs.known_categories()}
        assert self._map is not None
        assert self._map.sections is not None
        relevance = self._map.sections.relevance()
        return {
            names.get(key, f"#{key:016x}"): [round(r, 4) for r in values] for key, values in relevance.items()
        }

    def _field_relevance(self) -> dict[str, float]:
        """Return the shares of fields; a category is known by its tag if its name is not in memory."""
        inputs, names = self._codec.inputs, dict[int, str]()
        names |= {inputs.entry(name)[1]: name for name in inputs.numbers}
        names |= {category_tag(name): name for (name, _), _ in inputs.known_categories()}
        assert self._map is not None
        assert self._map.sections is not None
        uses = self._map.sections.exchanges.use()
        values = {names.get(tag, f"#{tag:016x}"): use * moved for tag, (use, moved) in uses.items()}
        return shares_of(values, calendar_field, max)

    def _make_sections(self) -> Sections:
        grows = self.relevance and not self.classifies
        plan = BUDGETS[self.budget] if self.binning else WITHOUT
        return Sections(self.features, self.relevance, grows, plan, self.products)

    def _may_learn_apart(self, copies: int) -> float:
        """Return how many events remain until the next block under relevance opens."""
        return self._growth.until_next(self.events)

    def _pass_by(self, counts: bool) -> None:
        if counts and self._map is not None and not self._is_frozen:
            self._rehearsal.no_label_comes(1)
            stale = self._stale_experts
            stale.count_unlabelled(stale.unlabelled(self.events) + 1, self.events)

    def _seen(self, x: Event) -> Seen | None:
        stale, rehearsal, codec = self._stale_experts, self._rehearsal, self._codec
        if self._is_frozen:
            return None
        stale.count_unlabelled(stale.unlabelled(self.events) + 1, self.events)
        if self._map is None or rehearsal.lateness:
            return None
        labels = codec.memory[NOW].copy() if len(codec.memory) else _NOTHING
        outputs = self._outputs_for(x)
        weights = self._at_prediction.snapshot(self.events)
        answers = self._answers(x) if self._answers_by_both else np.zeros((2, self._outputs))
        return Seen(labels, outputs, answers, weights)

    def _answers(self, x: Event) -> Array:
        """Return the predictions ``(2, K)`` of an event, perhaps the last one, by both combiners."""
        made, inputs = self._map, self._codec.inputs
        inputs.encode(x, False)  # counts an event that is not the last one
        number, answers = self._both
        predicted = None if self._handles is None else self._handles.predicted  # None after learning
        if number != inputs.encoded or number != predicted:
            super()._predict_event(x)
            assert made is not None
            assert self._handles is not None
            answers = np.array([self._handles.out[0], np.zeros(self._outputs)])
            self._run_stale(
                made, inputs.encode_checked(x, False), self._stale_experts.combiner.record, answers[1:]
            )
            self._both = inputs.encoded, answers
        return answers

    def _tell(self, held: Held, y: object, w: float) -> None:
        rehearsal, before = self._rehearsal, self.events
        if held.events < before and not rehearsal.lateness:  # else it is learned at once
            self._at_prediction.begin(held.seen)
        try:
            super()._tell(held, y, w)
        finally:
            self._at_prediction.end()
        if self.events > before and not rehearsal.lateness:
            if rehearsal.label_of(self._waiting.lateness(held)):
                self._follow_lateness()
            if held.seen is not None and held.seen.answers.any():
                self._stale_experts.label_of(*self._compared(held.seen.answers, y))

    def _label_comes(self, predicted: int) -> None:
        """See a label after so many events were predicted."""
        rehearsal = self._rehearsal
        if predicted >= PART:
            self._shuffled.store(self._latest_shuffled if rehearsal.in_parts else NONE)
        before = rehearsal.rehearses, rehearsal.lateness > 0
        rehearsal.label_comes(predicted, self._values)
        if not rehearsal.lateness:
            self._level.forget()
        elif predicted and not self.classifies:
            middle, reach = self._codec.target[0, MEAN], WIDE_CLIP * spread(self._codec.target, 0)
            self._level.begin(float(middle - reach), float(middle + reach))
        if (rehearsal.rehearses, rehearsal.lateness > 0) != before:
            self._follow_lateness()
            self._stale_experts.begin_parts()

    def _follow_lateness(self) -> None:
        """Let weights follow slowly where labels come late."""
        self._combiner.set_delay(self._rehearsal.usual)
        self._stale_experts.set_late(self._rehearsal.rehearses, self._rehearsal.lateness > 0)
        self._renew_arguments()

    def _compared(self, answers: Array, y: object) -> tuple[Array, Array]:
        """Return predictions as in :meth:`StaleExperts.label_of`, and the target of one of them."""
        if self._codec.labels is not None:
            answers = padded(answers, (2, self._outputs))
            target = np.zeros(self._outputs)
            target[self._codec.labels.codes[cast(Label, y)]] = 1.0
            return answers, target
        unit, target = self._codec.target, np.array([float(cast(float, y))])
        deviation = float(spread(unit, 0)) or 1.0
        return (answers - unit[0, MEAN]) / deviation, (target - unit[0, MEAN]) / deviation

    def _waits_no_longer(self, held: Held) -> None:
        self._rehearsal.no_label_comes(int(held.events == self.events))

    def _learn_event(self, x: Event, target: float, weight: float, outputs: int) -> None:
        rehearsal = self._rehearsal
        count = rehearsal.predicted
        if self._is_frozen or not (rehearsal.samples or count >= LATE):
            super()._learn_event(x, target, weight, outputs)
            rehearsal.label_comes(count, self._values)
            return
        rows, goal = self._encode_learned(x), np.array([[target], [weight]])
        self._label_comes(count)
        self._level.learn(goal[0])
        made = self._ready(rows, outputs)
        for part, goals in self._rehearse(rows, goal) if rehearsal.samples else [(rows, goal)]:
            self._handles_of(made).predicted = None  # its inputs may be others now
            self._run_event(made, True, part, *goals[:, 0].tolist())
        if self._codec.counts[EVENTS] >= self._due:
            self._learned()

    def _learn_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        learned, without = goal[1] > 0.0, np.isnan(goal[0])
        first = int(learned.argmax()) if learned.any() else len(learned)
        rehearsal = self._rehearsal
        # the first label to come ends lateness; what is predicted before it is late
        late = self._predict_batch(rows)[: first + 1] if wanted and rehearsal.lateness else None
        rehearsal.no_label_comes(0 if wanted else int(without[:first].sum()))
        if first < len(learned):
            self._label_comes(1 if wanted else rehearsal.predicted)
            self._level.learn(goal[0, learned & ~without])
        out = super()._learn_batch(rows, goal, outputs, wanted)
        if late is not None:
            out[: first + 1] = padded(late, out[: first + 1].shape)
        return out

    @property
    def _labels_learned(self) -> int:
        if self._rehearsal.lateness:
            return MEAN_LABELS
        return HELD if self._at_prediction.is_learned else super()._labels_learned

    def _grow(self, outputs: int, features: int) -> None:
        halved = [isinstance(expert, Tables) and expert.kinds[2] for expert in self._experts]
        super()._grow(outputs, features)
        for expert, before, copied in zip(self._experts, halved, self._stale_experts.arrays, strict=True):
            if before and isinstance(expert, Tables):
                expert.separate(copied)

    def _make_map(self, seed: int, slots: int | None) -> FeatureMap:
        made = super()._make_map(seed, slots)
        self._codec.inputs.samples += self._rehearsal, self._shuffled
        return made

    def _rehearse(self, rows: EncodedRows, goal: Array) -> list[tuple[EncodedRows, Array]]:
        """Sample events; return those to learn in parts, each with an earlier one if labels come late."""
        rehearsal = self._rehearsal
        if rehearsal.reservoir is None:
            assert self._map is not None
            _, earlier, goals = self._sampled()
            rehearsal.begin(self._map.seed, rows, earlier, goals)
        if not rehearsal.rehearses:
            rehearsal.take(rows, goal)
            return [(rows, goal)]
        return rehearsal.follow(rows, goal, self._values)

    @property
    def _values(self) -> SeenValues:
        """The record of values of categories that were learned."""
        assert self._codec.seen is not None
        return self._codec.seen

    def _learn_rows(self, rows: EncodedRows, goal: Array, learned: Places, out: Array) -> None:
        """Learn rows one by one; a row whose target is NaN has no label."""
        stale, unlabelled = self._stale_experts, np.isnan(goal[0])
        before = stale.unlabelled(self.events)
        counts = None
        if before or unlabelled.any():
            counts = unlabelled_before(unlabelled, goal[1] > 0.0, before)
        if self._rehearsal.samples and not len(out) and len(learned):
            for part, goals in self._rehearse(rows.select(learned), goal[:, learned]):
                super()._learn_rows(part, goals, np.flatnonzero(goals[1] > 0.0), out)
        elif counts is None:
            self._learn_in_turn(rows, goal, out)
        else:
            self._learn_between(rows, goal, stale.share(counts[:-1]), out)
        if counts is not None:
            stale.count_unlabelled(int(counts[-1]), self.events)

    def _learn_between(self, rows: EncodedRows, goal: Array, shares: Array, out: Array) -> None:
        """Learn rows between which there are events without a label; for ``shares`` see below."""
        cuts = np.flatnonzero(np.diff(shares > 0.0)) + 1
        for start, stop in itertools.pairwise([0, *cuts.tolist(), len(shares)]):
            part = slice(start, stop)
            selected, goals, filled = rows.select(part), np.ascontiguousarray(goal[:, part]), out[part]
            if shares[start] > 0.0 and len(out):
                filled = np.zeros((stop - start, self._outputs))
                self._predict_rows(selected, filled, shares=shares[part])
                out[part, : filled.shape[1]] = filled
                filled = np.zeros((0, out.shape[1]))
            self._learn_in_turn(selected, goals, filled)

    def _learn_in_turn(self, rows: EncodedRows, goal: Array, out: Array) -> None:
        """Learn rows, and fill ``out`` with the prediction before each unless it is empty."""
        start = 0
        while start < len(out) and self._has_few_events:
            part = slice(start, start + 1)
            row, goals = rows.select(part), np.ascontiguousarray(goal[:, part])
            self._predict_rows(row, out[part], shares=np.zeros(1))
            if goals[1, 0] > 0.0:
                super()._learn_rows(row, goals, np.zeros(1, dtype=np.intp), out[:0])
            start += 1
        left, goals = rows.select(slice(start, None)), np.ascontiguousarray(goal[:, start:])
        super()._learn_rows(left, goals, np.flatnonzero(goals[1] > 0.0), out[start:])

    @property
    def _has_few_events(self) -> bool:
        """Whether the sample holds all events, and they are few."""
        events = self._codec.counts[EVENTS]
        sections = None if events >= FEW or self._map is None else self._map.sections
        return sections is not None and len(sections.sample) == events

    def _with_few(self, rows: EncodedRows, recent: NDArray[np.bool_], out: Array) -> Array:
        """Return predictions in which the solution of few events has its share.

        ``recent`` rows have the label memory of now, and others its mean.
        """
        assert self._map is not None
        assert self._map.sections is not None
        least = self._combiner.least_error if self.classifies else None
        late = self._rehearsal.are_late or len(self._waiting) > 0
        labels = LabelsSoFar(self._codec.memory, recent, late)
        return self._few_events.mixed(out, rows, labels, self._map.sections, least)

    def _predict_event(self, x: Event, out: Array | None = None) -> Array | None:
        stale, rehearsal = self._stale_experts, self._rehearsal
        rehearsal.predicted += 1
        alone = stale.passed and stale.unlabelled(self.events) > TRUSTED
        if self._map is None or not (alone or self._has_few_events):
            if not rehearsal.rehearses and not (self._is_frozen and len(self._look().last)):
                predicted = super()._predict_event(x, out)
                if predicted is not None and rehearsal.in_parts:
                    self._note(predicted[None], np.zeros(1))
                return predicted
            if self._answers_by_both and out is None and not (rehearsal.lateness or self._is_frozen):
                first, second = self._answers(x)
                between: Array = first + stale.part * (second - first)
                return between
        rows = self._codec.inputs.encode_checked(x, False)
        predictions = np.empty((1, self._outputs)) if out is None else out
        predictions[:] = 0.0
        self._predict_rows(rows, predictions)
        self._note(predictions, self._shares(1))
        return cast(Array, predictions[0])

    @contextmanager
    def _without_labels(self) -> Iterator[Self]:
        """Return a context with a learner that predicts many rows as :meth:`frozen`: itself, not a copy.

        After few events it is the frozen learner, which may hold none of them.
        """
        if self.events < FEW:
            yield self.frozen()
        else:
            with self._stale_experts.alone(self.events):
                yield self

    @contextmanager
    def _leave_no_trace(self) -> Iterator[None]:
        predicted, since = self._rehearsal.predicted, self._level.since.copy()
        try:
            yield
        finally:
            self._rehearsal.predicted, self._level.since = predicted, since

    def _predict_batch(self, rows: Batch, more: int = 0) -> Array:
        self._rehearsal.predicted += len(rows)
        return super()._predict_batch(rows, more)

    def _predict_portion(self, rows: EncodedRows, out: Array, first: int) -> None:
        """Fill ``out`` with predictions; rows that are not among the next events are without labels."""
        shares = self._shares(len(out), first)
        if not self._is_frozen:
            shares[self._look().are_away(rows, self._codec.statistics)] = 1.0
        self._predict_rows(rows, out, first, shares)
        self._note(out, shares)

    def _note(self, out: Array, shares: Array) -> None:
        """Note what was predicted without the correction, where labels of numbers come in parts."""
        rehearsal = self._rehearsal
        if (rehearsal.in_parts or rehearsal.lateness) and not (self._is_frozen or self.classifies):
            self._level.predict(out[:, 0] - shares * self._correction)

    def _shares(self, rows: int, first: int = 0) -> Array:
        """Return the part of the combiner of stale experts in predictions of rows from ``first`` on."""
        stale = self._stale_experts
        if self._is_frozen:
            return np.zeros(rows)
        passed = stale.unlabelled(self.events) + first + np.arange(rows)
        return np.maximum(stale.share(np.maximum(passed, self._rehearsal.lateness)), self._usual_share)

    @property
    def _usual_share(self) -> float:
        """The least part of the combiner of stale experts, where labels usually come late."""
        return self._stale_experts.part if self._answers_by_both else 0.0

    @property
    def _answers_by_both(self) -> bool:
        """Whether labels usually come late, one by one, so that predictions are by both combiners."""
        return self._rehearsal.usual >= LATE and self._stale_experts.combiner.has_learned

    def _predict_rows(
        self, rows: EncodedRows, out: Array, first: int = 0, shares: Array | None = None
    ) -> None:
        """Fill ``out`` with predictions; ``shares`` are the parts that the combiner of stale experts has."""
        if shares is None:
            shares = self._shares(len(out), first)
        unlabelled = self._is_frozen or bool((shares > self._usual_share).any())
        statistics = self._codec.statistics if self._rehearsal.lateness else None
        still = self._look().steady(rows, statistics) if unlabelled else rows
        rows = still if self._is_frozen else rows
        live = np.flatnonzero(shares < 1.0)
        if len(live):
            before = int(live[-1]) + 1
            super()._predict_rows(rows.select(slice(before)), out[:before])
        if self._is_frozen:
            self._average(rows, out)
        if self._map is not None and shares.any():
            by_stale = np.zeros_like(out)
            self._run_stale(self._map, still, self._stale_experts.combiner.record, by_stale)
            if (far := np.flatnonzero(shares == 1.0)).size:
                by_stale[far] = self._average(rows.select(far), by_stale[far])
            out += shares[:, None] * (by_stale - out)
        if self._has_few_events:
            recent = (shares <= self._usual_share) & (not self._is_frozen)
            for which, encoded in ((recent, rows), (~recent, still)):
                if (places := np.flatnonzero(which)).size:
                    out[places] = self._with_few(encoded.select(places), recent[places], out[places])
        if correction := self._correction:
            out[:, 0] += correction * (1.0 if self._is_frozen else shares)

    def _average(self, rows: EncodedRows, out: Array) -> Array:
        """Give the shuffled learner its share in predictions ``(n, K)``, if there is one; return them."""
        model = self._latest_shuffled[1]
        if model is not None:
            share = share_of(self._rehearsal.part, self.events)
            rows = self._look().without(rows)
            by_model = predictions_of(model, rows, self._codec.inputs.slots, self._outputs)
            of_targets = out[:, : self._outputs]
            of_targets += share * (by_model - of_targets)
        return out

    @property
    def _latest_shuffled(self) -> Made:
        """The shuffled learner, if labels come in parts or it has learned most events."""
        shuffled, rehearsal = self._shuffled, self._rehearsal
        if rehearsal.in_parts and rehearsal.reservoir is not None:
            return shuffled.latest(self, rehearsal.reservoir.seen, rehearsal.reservoir.sample)
        sections = None if self._map is None else self._map.sections
        few = sections is not None and len(sections.sample) >= WHOLE * self.events
        if few and not rehearsal.samples:
            return shuffled.latest(self, self.events, self._sampled)
        return shuffled.stored if rehearsal.in_parts or shuffled.stored[0] >= WHOLE * self.events else NONE

    def _sampled(self) -> Sample:
        """Return the last events, in a sample of earlier events."""
        assert self._map is not None
        assert self._map.sections is not None
        sampled = self._map.sections.sample.events()
        reservoir = Reservoir(max(len(sampled), 1), self._map.seed)
        reservoir.add(self._codec.inputs.restore_values(sampled.rows), sampled.goal)
        return reservoir.sample()

    def _predict_alike(self, rows: EncodedRows) -> Array:
        out = np.zeros((len(rows.values), self._outputs))
        self._predict_rows(rows, out, shares=self._shares(1).repeat(len(out)))
        return out

    def _look(self) -> TimeLike:
        """Return the time-like numbers so far."""
        if self._map is not None and self._map.sections is not None:
            target = None if self.classifies else self._codec.target
            self._time_like.look(self._map.sections.sample, self._codec.inputs, target, self.events)
        return self._time_like

    @property
    def _correction(self) -> float:
        """What is added to predictions of the next part."""
        return self._level.correction(self._time_like.target)

    @property
    def _stale_experts(self) -> StaleExperts:
        assert self._stale is not None
        return self._stale

    def _learned(self) -> None:
        """Check the tails of inputs and errors once when that is due; copy coefficients."""
        events = self.events
        if (events == EARLY or self._growth.due(events)) and events > self._looked:
            self._looked = events
            look(self)
        if self._moves_ranks and events == _doubling(events) and events > self._ranked:
            self._ranked, sections = events, None if self._map is None else self._map.sections
            assert sections is not None
            sections.move_ranks(self._codec.inputs.statistics, events)
        self._follow_changes()
        super()._learned()

    @property
    def _moves_ranks(self) -> bool:
        return self.relevance and self.binning and BUDGETS[self.budget].by_size

    @classmethod
    def _from_parts(cls, header: Json, arrays: Arrays, closed: bool = False) -> Self:
        if header["parameters"].get("budget") == "small":
            arrays = with_rows(arrays, cls._with_parameters(header["parameters"])._experts)
        made = super()._from_parts(header, arrays, closed)
        made._looked = made._ranked = made.events
        made._rehearsal.predicted = made._waiting.waiting_since(made.events)
        return made

    def _until_due(self) -> float:
        until, events = super()._until_due(), self._codec.counts[EVENTS]
        if self._moves_ranks:
            until = min(until, _doubling(events + 1) - events)
        return min(until, EARLY - events) if events < EARLY else until

    def _open_due(self) -> None:
        """Restart the block whose turn it is, under the current relevance."""
        growth = self._growth
        if self._map is None or not growth.due(self._codec.counts[EVENTS]):
            return
        begun = growth.openings > 0
        growth.open(self.events)
        if begun and self._map.sections is not None:
            self._grows()
            self._open_block(self._map.sections, growth.openings % BLOCKS)
        self._renew_arguments()

    def _open_block(self, sections: Sections, block: int) -> None:
        """Restart a block of features, and the experts on it, under the current relevance."""
        assert self._map is not None
        losses, stale = self._combiner.losses, self._stale_experts
        columns = sections.renew(block, self._relevant_losses().tolist(), float(losses.min()))
        self._map.renew()
        stale.forget()
        for expert in self._experts:
            expert.forget(columns)
        again = [k for k, expert in enumerate(self._experts) if expert.within(columns)]
        self._combiner.skip(again)
        stale.combiner.skip(again)
        self._waiting.exchange(again, self.events)

    def _follow_changes(self) -> None:
        """After errors have doubled, learn relevance again, and then open blocks where it has moved.

        Where labels come late, errors rise with each part of the stream, since its first events are far off;
        and at the end of a fit to a table no block opens.
        """
        sections = None if self._map is None else self._map.sections
        stays = self._rehearsal.rehearses or self._growth.next == math.inf
        if sections is None or self.events % PERIOD or stays or not sections.learned:
            return
        since = min(cast(LeastSquares, self._experts[k]).since_sharp_rise for k in self._relevant())
        if since < PERIOD:
            sections.fade(_AFTER_CHANGE)
        elif since < 2 * PERIOD:
            moved = [block for block in range(BLOCKS) if sections.has_moved(block)]
            for block in moved:
                self._open_block(sections, block)
            self._renew_arguments()

    def _to_parts(self, closed: bool = False) -> tuple[Json, Arrays]:
        header, arrays = super()._to_parts(closed)
        arrays |= self._rehearsal.state_dict() | self._shuffled.state_dict() | self._level.state_dict()
        sections = None if self._map is None else self._map.sections
        if sections is not None and not len(sections.sample):  # else they follow from it
            arrays |= self._time_like.state_dict()
        return header, arrays

    def _copied(self, header: Json, arrays: Arrays) -> Self:
        made = super()._copied(header, arrays | self._look().state_dict())
        made._shuffled.store(self._latest_shuffled)
        return made

    def _restore_sections(self, sections: Sections, arrays: Arrays, outputs: int, closed: bool) -> None:
        super()._restore_sections(sections, arrays, outputs, closed)
        if closed and self.neighbours and self.events < FEW:  # else a closed model holds no events
            self._restore_sample(sections, arrays)

    def _restore_experts(self, header: Json, arrays: Arrays, closed: bool) -> None:
        super()._restore_experts(header, arrays, closed)
        inputs, rehearsal = self._codec.inputs, self._rehearsal
        self._time_like.load_state_dict(arrays, inputs.slots)
        rehearsal.load_state_dict(arrays, header["seed"], inputs.slots, inputs.largest, closed)
        self._shuffled.load_state_dict(arrays, self)
        self._level.load_state_dict(arrays)
        self._follow_lateness()
        if rehearsal.reservoir is not None:
            self._check_labels(rehearsal.reservoir.rows()[1][0].tolist())

    def _freeze(self, learner: _Kernel) -> None:
        """Use the weights and intervals for stale experts, and the mean of the label memory."""
        assert learner._stale is not None
        stale = learner._stale.combiner
        if stale.has_learned:
            self._combiner.load_state_dict(stale.final_state())
        self._combiner.forget_shift()
        self._codec.average_labels()

    def _relevant_losses(self) -> Array:
        """Return the mean squared errors of least squares on the blocks under relevance."""
        losses: Array = self._combiner.losses[self._relevant()]
        return losses

    def _relevant(self) -> list[int]:
        return [self._names.index(f"least squares, {name}") for name in RELEVANT]

    def _grows(self) -> bool:
        """Grow the blocks under relevance if that pays; return whether they grew in this call."""
        assert self._map is not None
        assert self._map.sections is not None
        losses, sections = self._combiner.losses, self._map.sections
        relevant, grown = self._relevant_losses(), sections.grown
        apart = [*self._relevant(), *(k for k, e in enumerate(self._experts) if e.rule in _NO_COSINES)]
        if _LEFT < relevant.min() < _OF_OTHERS * np.delete(losses, apart).min():
            sections.grow()
            self._map.grow(sections.features)
        return bool(sections.grown and not grown)

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 768, "seed": 7}
        yield {"features": 768, "label_memory": False, "relevance": False, "seed": 7}
        yield {"features": 768, "binning": False, "neighbours": False, "seed": 7}


def _doubling(events: float) -> int:
    """Return the least power of two, from 128 on, that is not below a number of events."""
    return max(FIRST_RANKS, 1 << max(int(events) - 1, 0).bit_length())


@merge_into.register
def _merge_mixtures(
    merged: _Kernel, parts: Sequence[_Kernel], shares: Sequence[float], base: _Kernel | None
) -> None:
    merge_streaming(merged, parts, shares, base)
    merged._looked = merged._ranked = merged.events


@dataclass(eq=False, repr=False)
class KernelClassifier(_Kernel, Classifier):
    """Kernel classifier with nothing to tune: a mixture of more than a dozen learners on one feature map.

    Parameters
    ----------
    features
        Number of random features, a multiple of 768: a budget of time and memory.
    label_memory
        Whether recent labels are inputs of the next events: the last label, and the recent frequency of each
        (:mod:`streamk.encoding.label_history`). Successive events often have like labels; where they do not,
        these inputs do no harm.
    relevance
        Whether features follow the learned relevance of inputs (:mod:`streamk.features.relevance`).
    binning
        Whether experts have a coefficient for every cell of random grids
        (:mod:`streamk.features.columns.cells`).
    budget
        How many grids there are, and how many cells: ``"small"``, ``"default"`` or ``"large"``. A large
        one takes several times the time and memory, and has larger files (:mod:`streamk.features.plans`).
    neighbours
        Whether one expert predicts by the nearest of the last 512 learned events, whose scaled inputs and
        labels are then in the model file (:mod:`streamk.experts.neighbours`); models of fewer than 256 events
        then hold these (:mod:`streamk.learners.few_events`), also closed and frozen ones.
    seed
        The only source of randomness. None draws a new one at the first event.
    retired
        Whether the mixture has four experts more, as models of formats before 10 do. They cost time, and
        predictions are as good without them.

    Attributes
    ----------
    labels : list
        Classes known so far.
    events : int
        Events learned so far.

    Notes
    -----
    Probabilities are calibrated: the weights of the experts minimise their log loss.
    There is no ``class_weight``: pass the weight of an event's class as ``w``. Costs of errors need no
    weights: decide by the threshold that they imply (:class:`streamk.evaluation.Costs`).
    A learner must not be used by several threads at once.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.
    [^2]: Herbster, M. and Warmuth, M., 1998. Tracking the best expert. Machine Learning 32.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.KernelClassifier(seed=7)
    >>> evaluate.progressive_val_score(datasets.Bananas(), learner, metrics.Accuracy())
    Accuracy: 89.51%
    """


@dataclass(eq=False, repr=False)
class KernelRegressor(_Kernel, Regressor):
    """Kernel regressor with nothing to tune: a mixture of more than a dozen learners on one feature map.

    The target is standardised by the events before, and predictions are in its units. A target without
    precedent is not learned; others are, as if they were at most 12 deviations off the prediction.

    Parameters
    ----------
    features
        Number of random features to begin with, a multiple of 768. There are more of them than for classes,
        since numbers gain more by them; and where they pay, about a fifth is added, once. An event then takes
        twice the time.
    relevance, neighbours, budget, seed, retired
        As for :class:`KernelClassifier`.
    binning
        As for :class:`KernelClassifier`, with one expert more, which learns the target's logarithm.
    products
        Whether one expert is linear in products of two inputs (:mod:`streamk.features.columns.products`).
    logarithm
        Whether one expert is linear in the inputs, and learns the target's logarithm: effects on prices,
        loads or counts multiply (:mod:`streamk.experts.logarithm`). Models of formats before 12 have none.
    label_memory
        Whether targets that have arrived are inputs of the events after them: the last, the one before, and
        two running means (:mod:`streamk.encoding.label_history`).

    Attributes
    ----------
    events : int
        Events learned so far.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.
    [^2]: Herbster, M. and Warmuth, M., 1998. Tracking the best expert. Machine Learning 32.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.KernelRegressor(seed=7)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), learner, metrics.MAE())
    MAE: 0.193509
    >>> x, y = next(iter(datasets.TrumpApproval()))
    >>> interval = learner.predict_interval_one(x, level=0.8)
    >>> interval.lower < learner.predict_one(x) < interval.upper
    True
    """

    features: int = 2304
    products: bool = True
    logarithm: bool = True

    def predict_interval_one(self, x: Event, level: float = 0.9) -> Interval:
        """Return an interval that holds the target with probability ``level``.

        Of the targets that come, a part ``level`` lies within such intervals, also where the stream drifts
        (:mod:`streamk.combining.intervals`). The width depends on the prediction, on the inputs and on the
        last errors, as far as errors do.

        Parameters
        ----------
        x
            Field names to values.
        level
            Above 0 and at most 0.99.

        Returns
        -------
        river.conf.interval.Interval
            ``lower`` and ``upper``, infinite until two events are learned.

        Raises
        ------
        ValueError
            If the level or a value cannot be taken.
        """
        check_level(level)
        prediction = self._predict_event(x, np.empty((1, 2)))
        predicted, size = _UNKNOWN if prediction is None else prediction.tolist()
        return Interval(*self._around(predicted, size, level, float(self._shares(1)[0])))

    def predict_interval_many(
        self, X: Table, level: float = 0.9, names: Sequence[str] | None = None
    ) -> Table:
        """Return ``lower`` and ``upper`` of every row, as a table that goes with ``X``.

        A frame gives a frame, an array an array ``(n, 2)``, a list of dicts a list of dicts.
        """
        check_level(level)
        rows = batch(X, names)
        predictions = self._predict_batch(rows, 1)
        pairs = predictions.tolist() if predictions.size else [_UNKNOWN] * len(rows)
        shares = self._shares(len(rows)).tolist()
        ends = [
            self._around(predicted, size, level, share)
            for (predicted, size), share in zip(pairs, shares, strict=True)
        ]
        table = rows.table(("lower", "upper"), np.array(ends, dtype=np.float64).reshape(len(rows), 2))
        return cast(Table, table)

    def _around(self, predicted: float, size: float, level: float, share: float) -> tuple[float, float]:
        """Return the ends of the interval of a prediction, in the units of the target.

        ``size`` is the logarithm of how large errors are, by the expert for it. The combiner of stale experts
        has a ``share`` in the interval.
        """
        if self.events < 2:
            return -math.inf, math.inf
        unit = self._codec.target
        deviation = float(spread(unit, 0))
        if deviation == 0.0:
            return predicted, predicted
        standard = (predicted - unit[0, MEAN]) / deviation
        stale_intervals = self._stale_experts.combiner.intervals
        below, above = self._combiner.intervals.around(standard, level, size)
        if stale_intervals is not None and share:
            still_below, still_above = stale_intervals.around(standard, level, size)
            below += share * (still_below - below)
            above += share * (still_above - above)
        return predicted - deviation * below, predicted + deviation * above
