"""Limits on what is learned: refused events, labels, names, events without inputs, missing targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from connectors.contract.errors import REFUSED_EVENTS, Failure
from connectors.contract.records import NO_INPUT
from connectors.contract.sections import Limits
from connectors.events.decoding import WITHOUT_INPUT, Event, EventFormat
from connectors.events.learners import labels_of
from connectors.events.names import nearest
from connectors.events.values import Fields, Target, label_name
from connectors.operators.outputs import Outcome
from streamk.encoding.fields import name_of
from streamk.learners.learner import Learner

_SHOWN = 20  # fields in a sentence


class UnfitError(ValueError):
    """An event that does not fit what the model has learned."""


class NoInputError(ValueError):
    """An event has a target and no input."""


class LimitError(ValueError):
    """An event has one label, or one name of a number, too many."""


def why_no_input(format: EventFormat, fields: Mapping[str, object]) -> str:
    """Return why an event of these fields has no input, and what to do.

    >>> why_no_input(EventFormat("y", features=["amonut"]), {"amount": 1, "y": 2})
    "events.features names 'amonut' (did you mean 'amount'?), and the fields are 'amount', 'y'"
    """
    there = _listed(fields)
    if not format.sources:
        return (
            f"the fields are {there}; a label in a record of its own is not joined with its event; join "
            "them before this topic"
        )
    near = {name: nearest(name, fields) for name in format.sources}
    meant = [f"{name!r} (did you mean {other!r}?)" if other else repr(name) for name, other in near.items()]
    return f"events.features names {', '.join(meant[:_SHOWN])}, and the fields are {there}"


def _listed(fields: Mapping[str, object]) -> str:
    return ", ".join(map(repr, list(fields)[:_SHOWN])) or "none"


class VocabularyLimit:
    """Refuses labels and names of numbers beyond what the settings allow.

    An identifier as target would otherwise be a class an event, and one as a name a number an event.

    Parameters
    ----------
    limits
        Of the settings.
    classes
        Whether targets are labels.
    """

    def __init__(self, limits: Limits, classes: bool) -> None:
        self.limits, self._classes = limits, classes
        self._labels: Set[Target] = set()
        self._names: set[str] | None = None
        self._inputs = False  # whether events with inputs have come

    def update(self, learner: Learner) -> None:
        """Take the labels and names that a learner holds now."""
        self._labels = set(labels_of(learner) or ())
        names = learner.number_names
        self._names = None if names is None else set(names)
        self._inputs = learner.has_inputs

    def holds(self, xs: Sequence[Fields], labels: Set[Target]) -> bool:
        """Return whether these labels, and all names of numbers in events, were seen before."""
        if not all(xs) or (self._classes and not labels <= self._labels):
            return False
        if self._names is None:
            return True
        if not self._inputs:
            return False
        new = [name for name in set().union(*set(map(tuple, xs))) if name_of(name) not in self._names]
        return not any(type(x.get(name)) in (int, float) for name in new for x in xs)

    def is_new(self, event: Event) -> bool:
        """Return whether an event to be learned has a new label, a new name of a number, or the first inputs.

        Raises
        ------
        NoInputError
            If it has no input; with ``limits.without_inputs = 0``, only if an event with inputs was learned.
        LimitError
            If there would be too many.
        UnfitError
            If it does not fit those before.
        """
        if event.target is None or event.weight == 0.0:
            return False
        if not event.fields and (self._inputs or self.limits.without_inputs):
            raise NoInputError(WITHOUT_INPUT)
        first_inputs = bool(event.fields) and not self._inputs
        new_label = self._is_new_label(event.target)
        if self._names is None or event.fields.keys() <= self._names:
            return new_label or first_inputs
        numbers = {name_of(field) for field, value in event.fields.items() if type(value) in (int, float)}
        new = len(numbers - self._names)
        if new and len(self._names) + new > self.limits.names:
            raise LimitError(
                f"{new} names of numbers are new, and there would be more than {self.limits.names} "
                "(limits.names): is an identifier used as a name?"
            )
        return new_label or first_inputs or new > 0

    def _is_new_label(self, target: Target) -> bool:
        kind = type(target)
        # the learner refuses what is no label
        if not self._classes or kind not in (str, int, float, bool) or target in self._labels:
            return False
        if self._labels and kind is not float and kind not in set(map(type, self._labels)):
            first = min(map(label_name, self._labels))
            raise UnfitError(
                f"the label is {target!r} ({kind.__name__}), and labels before are of another type, as "
                f"{first!r}; if that one came by mistake, run `streamk labels forget SETTINGS {first}`"
            )
        if len(self._labels) >= self.limits.labels:
            raise LimitError(
                f"the label {target!r} would be one more than {self.limits.labels} (limits.labels): "
                "is events.target an identifier?"
            )
        return True


class RefusalLimit:
    """Ends a run if too many events are refused, or none has the target.

    Parameters
    ----------
    limits
        Of the settings.
    target
        Name of the field to predict.

    Attributes
    ----------
    row
        Events in a row that were refused last.
    inputless
        Of the last events with a target, how many in a row have no input.
    """

    def __init__(self, limits: Limits, target: str = "") -> None:
        self.limits, self._target = limits, target
        self.row = self.inputless = self._unlabelled = 0
        self._labelled = False  # whether an event without inputs had the target
        self._seen: list[bool] = []  # of the events in the window, whether each was refused

    def passed(self, count: int, labelled: bool = False) -> None:
        """Count so many events that were not refused; ``labelled`` is whether one of them has a target."""
        self.row = 0
        if labelled:
            self.inputless = 0
        self._seen += [False] * count
        del self._seen[: -self.limits.window]

    def exceeded(self, outcomes: Sequence[Outcome], refused: int) -> str:
        """Count outcomes, and return the sentence that ends the run, empty if there is none."""
        limits = self.limits
        if not refused:
            self.passed(len(outcomes))
            return ""
        for outcome in outcomes:
            self.row = self.row + 1 if outcome.event is None else 0
            if self.row >= limits.consecutive:
                return f"{self.row} events in a row were refused (limits.consecutive): {outcome.reason}"
        self._seen += [outcome.event is None for outcome in outcomes]
        del self._seen[: -limits.window]
        refused = sum(self._seen)
        if len(self._seen) == limits.window and refused > limits.ratio * limits.window:
            reason = next((o.reason for o in reversed(outcomes) if o.event is None), "")
            return f"{refused} of the last {limits.window} events were refused (limits.ratio): {reason}"
        return ""

    def without_inputs(self, outcomes: Sequence[Outcome]) -> str:
        """Count events with a target and no input, and return the sentence that ends the run, if any."""
        most = self.limits.without_inputs
        for outcome in outcomes:
            if outcome.cause == NO_INPUT:
                self._labelled = True
                self.inputless += 1
                if most and self.inputless >= most:
                    return (
                        f"{self.inputless:,} events in a row have a target and no input "
                        f"(limits.without_inputs): {outcome.reason.partition(': ')[2]}"
                    )
            elif outcome.event is not None and outcome.event.target is not None:
                self.inputless = 0
        return ""

    def require_target(self, unlabelled: int, learned: bool, last: Mapping[str, object]) -> None:
        """Count events without a target, as long as no event was learned.

        Parameters
        ----------
        unlabelled
            How many came.
        learned
            Whether the model has learned any event.
        last
            Fields of the last one.

        Raises
        ------
        Failure
            If there are too many: the name of the target is wrong. Once it is right, a daemon reads these
            events again (:mod:`connectors.state.checkpoint`).
        """
        most = self.limits.without_target
        self._unlabelled = 0 if learned or self._labelled else self._unlabelled + unlabelled
        if not most or self._unlabelled < most:
            return
        near = nearest(self._target, last)
        meant = f"did you mean {near!r}? The" if near else "the"
        raise Failure(
            REFUSED_EVENTS,
            f"events.target: none of the first {self._unlabelled:,} events has the field {self._target!r}; "
            f"{meant} fields of the last one are {_listed(last)}. Set limits.without_target to 0 to wait for "
            "labels",
        )
