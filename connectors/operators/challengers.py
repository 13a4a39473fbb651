"""Challengers: other learners that predict and learn the events of the model, to take its place if better.

Their predictions are scored and go nowhere else. Each event is predicted and learned by the model first, so
what the model refuses no challenger learns. Models, comparisons and positions are stored together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.events.learners import Model, labels_of
from connectors.events.values import Fields, Target
from connectors.operators.outputs import DecodedBatch, Prediction, losses_of, losses_of_each
from connectors.operators.waiting import WaitingEvent, ask, shortened
from connectors.settings.tables import ChallengerSection
from connectors.state.checkpoint import CHALLENGER, COMPARED, restored
from streamk.encoding.rows import RowError
from streamk.evaluation.sequential import SequentialComparison
from streamk.learners.loading import MODEL

Losses = NDArray[np.float64]  # losses and errors, two rows


class Challenger(NamedTuple):
    """A learner, and how much smaller its errors are than those of the model."""

    learner: Model
    comparison: SequentialComparison


class ChallengerTelemetry(Protocol):
    """Follows challengers."""

    def challenged(self, name: str, losses: Losses, comparison: SequentialComparison, place: str) -> None:
        """Follow the losses of a challenger, and its comparison with the model of a place."""


class Challengers:
    """The challengers of one model.

    Parameters
    ----------
    sections
        Of the settings.
    task
        ``"classification"`` or ``"regression"``.
    telemetry
        Follows them.
    place
        The name of the model in telemetry, where there are several.
    """

    def __init__(
        self, sections: Sequence[ChallengerSection], task: str, telemetry: ChallengerTelemetry, place: str
    ) -> None:
        self._telemetry, self._place = telemetry, place
        self._by_name = {
            section.name: Challenger(section.build(task), SequentialComparison()) for section in sections
        }

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def snapshot(self) -> Mapping[str, bytes]:
        """Return models and comparisons, as parts of a checkpoint."""
        parts: dict[str, bytes] = {}
        for name, (learner, comparison) in self._by_name.items():
            parts[CHALLENGER + name] = learner.to_bytes()
            parts[CHALLENGER + name + COMPARED] = msgspec.json.encode(comparison)
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Continue with the parts of a checkpoint; a new challenger, or one with other parameters, starts."""
        for name, (blank, _) in self._by_name.items():
            try:
                learner = restored({MODEL: parts[CHALLENGER + name]}, blank)
            except (KeyError, ValueError):
                continue
            stored = parts.get(CHALLENGER + name + COMPARED)  # promote has removed it
            comparison = (
                SequentialComparison()
                if stored is None
                else msgspec.json.decode(stored, type=SequentialComparison)
            )
            self._by_name[name] = Challenger(learner, comparison)
            self._telemetry.challenged(name, np.empty((2, 0)), comparison, self._place)

    def learn(
        self,
        xs: Sequence[Fields],
        targets: Sequence[Target],
        weights: Sequence[float] | None,
        losses: Losses,
    ) -> None:
        """Predict and learn events that the model has learned.

        Parameters
        ----------
        xs, targets, weights
            The events; a target is None where there is none.
        losses
            Of the model's predictions of those with a target.
        """
        for name, (learner, comparison) in self._by_name.items():
            others = _learn(learner, xs, targets, weights)
            comparison.add((losses - others)[1, np.isfinite(others[1])])
            self._telemetry.challenged(name, others, comparison, self._place)

    def ask(self, key: str, x: Fields) -> Mapping[str, Prediction]:
        """Return predictions of an event, by names; it waits for its label."""
        predictions = {}
        for name, (learner, _) in self._by_name.items():
            with suppress(ValueError):  # of a learner that refuses it
                predictions[name] = shortened(ask(learner, key, x))
        return predictions

    def tell(self, key: str, label: Target, event: WaitingEvent | None = None) -> None:
        """Learn the label of an event, and compare its predictions; forget the event if the label is None."""
        for name, (learner, comparison) in self._by_name.items():
            if key not in learner.waiting:
                continue
            learner.tell_one(key, label, 1.0 if event is None else event.weight)
            if event is not None and name in event.others:
                model, other = losses_of_each([label] * 2, [event.prediction, event.others[name]]).T
                comparison.add(model[1:] - other[1:])
                self._telemetry.challenged(name, other[:, None], comparison, self._place)

    def set_aside(self, key: str) -> Mapping[str, bytes]:
        """Return an event that waits no longer, as the bytes of each challenger."""
        there = {name: each.learner for name, each in self._by_name.items() if key in each.learner.waiting}
        return {name: learner.set_aside(key) for name, learner in there.items()}

    def take_back(self, key: str, stored: Mapping[str, bytes]) -> None:
        """Let an event wait again that :meth:`set_aside` returned."""
        for name in stored.keys() & self._by_name.keys():
            with suppress(ValueError):  # of a challenger that has started again since
                self._by_name[name].learner.take_back(key, stored[name])


def _learn(
    learner: Model, xs: Sequence[Fields], targets: Sequence[Target], weights: Sequence[float] | None
) -> Losses:
    """Predict and learn events; return the losses of those with a target, NaN of an event that is refused."""
    try:
        predictions = learner.predict_learn_array(xs, targets, weights)
    except RowError:
        if len(xs) == 1:
            return np.full((2, int(targets[0] is not None)), np.nan)
        of_each = [
            _learn(learner, [x], [target], None if weights is None else [weights[k]])
            for k, (x, target) in enumerate(zip(xs, targets, strict=True))
        ]
        return np.concatenate(of_each, axis=1)
    return losses_of(DecodedBatch([], list(targets), predictions, labels_of(learner)))
