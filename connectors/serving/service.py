"""What requests do: predict, learn, and learn late labels, by a learner or by a published model.

A service that learns is a daemon whose records are requests: the operator, labels that come later,
checkpoints and limits are the same (:mod:`connectors.operators.learning`), and the log of requests takes the
place of the source. One thread works, a slice of a few milliseconds at a time, so that predictions are
answered between events that are learned.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from connectors.contract.errors import Failure
from connectors.contract.records import DEAD_LETTERS, Output, Processed, Raw
from connectors.contract.sections import TOP
from connectors.daemon.telemetry import Telemetry
from connectors.events.decoding import Decoder, Event, EventFormat
from connectors.events.joining import LEARNED
from connectors.events.learners import Model, labels_of
from connectors.events.model_files import with_stored
from connectors.events.values import Target, label_name
from connectors.kafka.sections import LabelTopic, PredictionTopic, TopicSinkSection, TopicSourceSection
from connectors.operators.late_labels import late_labels
from connectors.operators.learning import SingleLearning
from connectors.operators.outputs import Origin, most_probable
from connectors.publish.following import Follower
from connectors.serving.request_log import EVENTS, LABELS, Request, RequestLog
from connectors.settings.tables import Settings
from connectors.state.aside import AsideStore
from connectors.state.checkpoint import Checkpoint, Progress
from connectors.state.disk import CheckpointStore
from connectors.state.training import first_model
from streamk.encoding.rows import RowError, slices
from streamk.evaluation.metric import decide
from streamk.learners.loading import MODEL
from streamk.learners.summary import Summary

log = logging.getLogger(__name__)
_TOGETHER = 4  # events that are learned before other requests get their turn
_TURNS = 8  # of the loop, which a prediction needs from its first byte to its answer
DUPLICATE, WAITING, REFUSED = "duplicate", "waiting", "refused"
Answer = dict[str, object]


class RequestError(ValueError):
    """A request that cannot be obeyed; the sentence says why."""


class Using(NamedTuple):
    """The model that answers, and where it comes from."""

    learner: Model
    origin: Origin


class Service:
    """Predicts with a published model.

    Parameters
    ----------
    follower
        Reads the model, and how its events were read.
    telemetry
        Counts.
    format
        How events are read where the model does not say so.
    top
        How many labels are answered with their probabilities.
    """

    learns = False

    def __init__(
        self,
        follower: Follower,
        telemetry: Telemetry,
        format: EventFormat = EventFormat(),  # noqa: B008
        top: int = TOP,
    ) -> None:
        self._follower, self.telemetry, self._format, self._top = follower, telemetry, format, top
        self._decoder: Decoder | None = None

    @property
    def using(self) -> Using | None:
        """The model that answers now, None before the first one."""
        current = self._follower.current
        if current is None:
            return None
        self.telemetry.predicts_with(current.origin.version)
        return Using(current.learner, current.origin)

    def summary(self) -> Summary:
        """Return the summary of the model that answers now; it is empty before the first one."""
        current = self._follower.current
        return Summary() if current is None else current.summary()

    @property
    def decoder(self) -> Decoder:
        """The decoder of events, which reads them as the model's were read."""
        if self._decoder is None:
            self._decoder = with_stored(self._format, self._follower.stored).unlabelled().decoder("json")
        return self._decoder

    def _decoded(self, events: Sequence[bytes]) -> list[Event]:
        decoded = []
        for k, event in enumerate(events):
            try:
                decoded.append(self.decoder(event))
            except ValueError as error:
                raise RequestError(f"events[{k}]: {error}") from None
            if not decoded[-1].fields:
                raise RequestError(f"events[{k}]: it has no input")
        return decoded

    def predict(self, events: Sequence[bytes]) -> list[Answer]:
        """Return a prediction of every event, which leaves no trace in the model.

        Raises
        ------
        RequestError
            If an event cannot be read or predicted.
        """
        using, xs = self.using, [event.fields for event in self._decoded(events)]
        if using is None:
            raise RequestError("no model is published yet")
        try:
            predicted = using.learner.view_array(xs)
        except RowError as error:
            raise RequestError(f"events[{error.row}]: {error.reason}") from None
        labels = labels_of(using.learner)
        if labels is None:
            return [{"prediction": number} for number in predicted.tolist()]
        return [self._answer(dict(zip(labels, row, strict=True))) for row in predicted.tolist()]

    def _answer(self, chances: Mapping[Target, float]) -> Answer:
        known = {label: chance for label, chance in chances.items() if chance > 0.0}
        shown = most_probable(known, self._top)
        probabilities = {label_name(label): round(chance, 6) for label, chance in shown.items()}
        return {"prediction": decide(known), "probabilities": probabilities}

    def about(self) -> Answer:
        """Return what the model is, and how good."""
        using = self.using
        if using is None:
            return {"model": None}
        learner, figures = using.learner, self.telemetry.figures()
        labels = labels_of(learner)
        return {
            **using.origin._asdict(),
            "learner": type(learner).__name__,
            "events": learner.events,
            "target": self.decoder.format.target,
            "numbers": learner.number_names,
            "labels": None if labels is None else labels,
            "relevance": self.summary().by_field(),
            "learns": self.learns,
            "waiting": len(learner.waiting),
            **{name: figures[name] for name in ("loss", "error") if name in figures},
        }


def requested(settings: Settings) -> Settings:
    """Return the settings of a service: a source and labels that requests stand for, with separate keys."""
    events, wait = settings.events, None if settings.labels is None else settings.labels.wait
    ignored = [*events.ignore, *filter(None, (events.key, events.time))]
    top = {} if settings.predictions is None else {"top": settings.predictions.top}
    return settings.model_copy(
        update={
            "source": TopicSourceSection(kind="topic", topic="events", group="requests"),
            "labels": LabelTopic(kind="topic", topic="labels", wait=wait),
            "events": events.model_copy(
                update={
                    "format": "json", "key": None, "time": None, "ignore": ignored, "columns": None,
                    "record": {}, "repeats": 0,
                }
            ),
            "registry": None,
            "predictions": PredictionTopic(kind="topic", topic="predictions", **top),
            "dead_letters": TopicSinkSection(kind="topic", topic="refused"),
            "snapshots": None,
        }
    )  # fmt: skip


class LearningService(Service):
    """Predicts and learns; what it has confirmed is learned once, whatever happens to the process.

    Parameters
    ----------
    settings
        Of the learner and of events; see :func:`requested`.
    store
        Of checkpoints, locked.
    telemetry
        Counts.
    """

    learns = True

    def __init__(self, settings: Settings, store: CheckpointStore, telemetry: Telemetry) -> None:
        self._settings = settings = requested(settings)
        top = TOP if settings.predictions is None else settings.predictions.top
        super().__init__(Follower(settings, telemetry), telemetry, settings.format, top)
        self._store, self._due = store, settings.checkpoints
        late = late_labels(settings, aside=AsideStore(store))
        self._decoder = settings.decoder()
        self._operator = SingleLearning(settings, self._decoder, telemetry, late=late)
        self._checkpoint = store.newest() or Checkpoint("requests")
        self._operator.restore(self._checkpoint.parts or {MODEL: first_model(settings)})
        self._log = RequestLog(store.local)
        self._position = self._checkpoint.partitions.get("requests", Progress(0)).position
        self._positions = deque[int](maxlen=self._due.keep)  # of the checkpoints
        self._unsaved, self._saved_at = 0, time.monotonic()
        self._writing = asyncio.Lock()
        for partition in (EVENTS, LABELS):
            telemetry.begin(partition, 0, 2**62)
        again = 0
        telemetry.replays(True)
        for partition, raw in self._log.after(self._position):
            self._learn(partition, [raw])
            again += 1
        telemetry.replays(False)
        telemetry.ready = True
        log.info(
            "%d events learned, %d of them again from the log of requests", self.using.learner.events, again
        )

    @property
    def using(self) -> Using:
        """The learner."""
        learner = self._operator.learner
        return Using(learner, Origin(self._settings.events.target, str(learner.events), "requests"))

    def summary(self) -> Summary:
        """Return the summary of the learner."""
        return self._operator.learner.summary()

    def _learn(self, partition: str, records: Sequence[Raw]) -> Processed:
        processed = self._operator.process(partition, records)
        self._position = records[-1].offset + 1
        self.telemetry.count(partition, self._position, processed)
        self._unsaved += len(records)
        return processed

    async def _taught(self, partition: str, requests: Sequence[Request]) -> dict[int, Answer]:
        """Write requests to the log, then process them; return the answers to new ones, by their numbers.

        A client that hangs up does not end it: what is in the log is learned in its order.
        """
        return await asyncio.shield(asyncio.ensure_future(self._teach(partition, requests)))

    async def _teach(self, partition: str, requests: Sequence[Request]) -> dict[int, Answer]:
        done: dict[int, Answer] = {}
        async with self._writing:
            moment = int(time.time() * 1000)
            records = await asyncio.to_thread(self._log.append, partition, requests, moment)
            new = [(k, raw) for k, raw in enumerate(records) if raw is not None]
            for place in slices(len(new), 1 if partition == LABELS else _TOGETHER):
                part = new[place]
                processed = self._learn(partition, [raw for _, raw in part])
                if partition == LABELS:
                    done[part[0][0]] = {**_reason(processed), "fate": _fate_of(processed)}
                else:
                    numbers = {raw.offset: k for k, raw in part}
                    done |= {numbers[each.raw.offset]: _answer_of(each) for each in processed.outputs}
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
            self._save_if_due()
        return done

    async def ask(self, ids: Sequence[str], events: Sequence[bytes]) -> list[Answer]:
        """Return predictions of events, which then wait under their ids for their labels.

        Raises
        ------
        RequestError
            If an event cannot be read, or has its target; nothing waits then.
        """
        for k, event in enumerate(self._decoded(events)):
            if event.target is not None:
                raise RequestError(f"events[{k}]: it has its target; send it to /v1/learn, or leave it out")
        requests = list(map(Request, ids, events))
        done = await self._taught(EVENTS, requests)
        return [
            done[k] if k in done else {**self.predict([event])[0], "fate": DUPLICATE}
            for k, event in enumerate(events)
        ]

    async def learn(self, ids: Sequence[str] | None, events: Sequence[bytes]) -> list[Answer]:
        """Learn events that have their targets; under an id, each once.

        Raises
        ------
        RequestError
            If an event cannot be read, or has no target; nothing is learned then.
        """
        target = self._settings.events.target
        for k, event in enumerate(self._decoded(events)):
            if event.target is None:
                raise RequestError(f"events[{k}]: it has no target, the field {target!r}")
        keys: Sequence[str | None] = [None] * len(events) if ids is None else ids
        requests = [Request(key, event) for key, event in zip(keys, events, strict=True)]
        done = await self._taught(EVENTS, requests)
        return [done.get(k, {"fate": DUPLICATE}) for k in range(len(events))]

    async def label(self, ids: Sequence[str], targets: Sequence[object]) -> list[Answer]:
        """Learn the labels of events that wait; one that comes before its event waits itself."""
        target = self._settings.events.target
        values = [msgspec.json.encode({target: value}) for value in targets]
        done = await self._taught(LABELS, list(map(Request, ids, values)))
        return [done[k] for k in range(len(ids))]

    def _save_if_due(self) -> None:
        seconds = time.monotonic() - self._saved_at
        if self._unsaved >= self._due.events or (self._unsaved and seconds >= self._due.seconds):
            try:
                self.save()
            except Failure as failure:  # the log of requests has what the checkpoint would
                self._saved_at = time.monotonic()
                log.error("%s", failure)

    def save(self) -> None:
        """Write a checkpoint."""
        checkpoint = self._checkpoint
        checkpoint.parts = dict(self._operator.snapshot())
        checkpoint.partitions = {"requests": Progress(self._position)}
        self.telemetry.checkpointed(self._store.write(checkpoint))
        self._store.prune()
        self._positions.append(self._position)
        if len(self._positions) == self._positions.maxlen:  # no checkpoint that is there begins before
            self._log.prune(self._positions[0])
        self._unsaved, self._saved_at = 0, time.monotonic()

    def close(self) -> None:
        """Write a checkpoint, if anything is new, and close the files."""
        if self._unsaved:
            self.save()
        self._log.close()


def _reason(processed: Processed) -> Answer:
    letters = [output.body.decode() for output in processed.outputs if output.kind == DEAD_LETTERS]
    return {"reason": letters[0]} if letters else {}


def _fate_of(processed: Processed) -> str:
    """Return what became of a label, ``early`` if it waits for its event."""
    if processed.tally.learned:
        return LEARNED
    return next((fate for fate, count in processed.fates.items() if count), "early")


def _answer_of(output: Output) -> Answer:
    """Return the prediction that was made, and what became of the event."""
    if output.kind == DEAD_LETTERS:
        return {"reason": output.body.decode(), "fate": REFUSED}
    body = msgspec.json.decode(output.body)
    shown = {key: body[key] for key in ("prediction", "probabilities") if key in body}
    return {**shown, "fate": LEARNED if "target" in body else WAITING}


@contextmanager
def learning(settings: Settings, telemetry: Telemetry) -> Iterator[LearningService]:
    """Open the service that learns into the directory of the settings' checkpoints."""
    store = CheckpointStore(settings.checkpoints.directory, settings.checkpoints.keep)
    store.local  # noqa: B018 (an address has none)
    with store.locked():
        service = LearningService(settings, store, telemetry)
        try:
            yield service
        finally:
            service.close()
