"""The operator that only predicts, always with the newest published model.

Between two batches of events it takes the model that a follower has read
(:mod:`connectors.publish.following`). It stores no model: a checkpoint has the positions alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from connectors.contract.errors import REFUSED_EVENTS, Failure
from connectors.contract.records import Processed, Raw
from connectors.events.decoding import Decoder
from connectors.events.learners import Model
from connectors.events.model_files import LearnedFields
from connectors.events.values import Fields, Target
from connectors.operators.learning import LearningTelemetry, SingleLearning
from connectors.operators.outputs import Origin
from connectors.settings.tables import Settings
from streamk.learners.loading import MODEL
from streamk.learners.summary import Summary

log = logging.getLogger(__name__)
_COMPARED = 64  # events whose fields are compared with those learned; so many the first batch may have


class ModelInUse(NamedTuple):
    """A published model that predicts, its name and version, the fields that it has learned, and its summary.

    The learner is frozen; the summary is of before that, and takes time when it is first made.
    """

    learner: Model
    origin: Origin
    fields: LearnedFields
    summary: Callable[[], Summary]


class Scorer(SingleLearning):
    """Decodes and predicts.

    Parameters
    ----------
    settings, decoder, telemetry
        As of :class:`connectors.operators.learning.SingleLearning`.
    newest
        Returns the newest model that was read.
    """

    def __init__(
        self,
        settings: Settings,
        decoder: Decoder,
        telemetry: LearningTelemetry,
        newest: Callable[[], ModelInUse],
    ) -> None:
        super().__init__(settings, decoder, telemetry)
        self._newest, self._name = newest, settings.source.name
        self._replaced = False  # whether another model has taken the place of the first
        self._named: set[str] = set()  # sentences about fields that are in the log
        self._take(newest())

    def _take(self, model: ModelInUse) -> None:
        self._origin, self._learned = model.origin, model.fields
        self._seen: dict[str, None] = {}  # fields of the first events
        self._compared = 0
        self._use(model.learner)
        self._telemetry.predicts_with(model.origin.version)

    def snapshot(self) -> Mapping[str, bytes]:
        """Return what is known of the stream, and how many events were refused in a row, if any."""
        return self._counts()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Continue to count what is refused.

        Raises
        ------
        ValueError
            If the parts are those of a model that learns.
        """
        if MODEL in parts:
            raise ValueError("holds a model that learns, and learner.follow is set")
        self._restore_counts(parts)

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Take the newest model, then predict each event; what is refused becomes a dead letter."""
        if (model := self._newest()).origin != self._origin:
            self._replaced = True
            self._take(model)
        return super().process(partition, records)

    def _watch(
        self, events: Sequence[Fields], targets: Sequence[Target], decided: Callable[[int], object]
    ) -> None:
        super()._watch(events, targets, decided)
        if self._compared < _COMPARED:
            self._compared += len(events)
            self._seen |= dict.fromkeys(name for event in events for name in event)
            if self._compared >= _COMPARED:
                self._compare()

    def _compare(self) -> None:
        """Log which fields events lack, or have more than the model; all of them end a run that begins."""
        names = list(self._seen)
        try:
            sentences = self._learned.compare(self._name, names, names)
        except ValueError as error:
            if not self._replaced:
                raise Failure(REFUSED_EVENTS, str(error)) from None
            sentences = [str(error)]
        for sentence in sentences:
            if sentence not in self._named:
                self._named.add(sentence)
                log.warning("%s", sentence)
