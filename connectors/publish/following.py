"""Following: the newest published model of a topic or a file, read on a thread, for daemons that predict."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from connectors.contract.errors import USAGE, Failure, Interruption
from connectors.events.learners import labels_of
from connectors.events.model_files import LearnedFields, ModelFile, Stored, stored_of_extra
from connectors.events.names import TASKS
from connectors.kafka.client import options
from connectors.kafka.compacted import CompactedTopic
from connectors.kafka.sections import Kafka
from connectors.operators.outputs import Origin
from connectors.operators.scoring import ModelInUse
from connectors.publish.fetching import PARTITION, newest_of
from connectors.settings.tables import Settings
from streamk.learners.classifier import Classifier
from streamk.learners.loading import loads_with_extra
from streamk.learners.regressor import Regressor

log = logging.getLogger(__name__)
KEY = "learner.follow"
_LOOK = 1.0  # seconds between two looks
_DIGITS = 8  # of a digest in a version


def version_of(model: bytes, events: int) -> str:
    """Return the version that predictions name: how many events the model has learned, and a digest.

    >>> version_of(b"a model", 120_000)
    '120000-97ff8a35'
    """
    return f"{events}-{hashlib.sha256(model).hexdigest()[:_DIGITS]}"


class _Read(NamedTuple):
    name: str
    model: bytes


class _ModelPlace(Protocol):
    """Where models are published."""

    def look(self) -> _Read | None:
        """Return the newest model, None if there is none, or it is that of the look before."""

    def close(self) -> None:
        """Close the connections."""


class _File:
    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, (0, 0, 0)

    def look(self) -> _Read | None:
        """Read the file if it was replaced."""
        try:
            status = self._path.stat()
            seen = status.st_mtime_ns, status.st_size, status.st_ino
            if seen == self._seen:
                return None
            read = _Read(self._path.stem, self._path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Failure(USAGE, f"{KEY}: {self._path} cannot be read: {error.strerror}") from None
        self._seen = seen
        return read

    def close(self) -> None:
        """Do nothing."""


class _Topic:
    def __init__(self, topic: str, kafka: Kafka, name: str | None) -> None:
        self._name, self._seen = name, -1
        self._topic = CompactedTopic(topic, KEY, options(kafka))

    def look(self) -> _Read | None:
        """Read the topic if its end has moved."""
        end = self._topic.stable(PARTITION)
        if end == self._seen:
            return None
        published = newest_of(self._topic, self._name, "learner.model")
        self._seen = end
        return None if published is None else _Read(published.name, published.model)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()


class FollowingTelemetry(Protocol):
    """Counts models that cannot be used."""

    def refused_model(self) -> None:
        """Count one."""


class Follower:
    """Reads the newest published model, as often as it changes.

    Parameters
    ----------
    settings
        Of a daemon; ``learner.follow`` names the place.
    telemetry
        Counts models that are refused.
    any_task
        Whether the model may be of another task than ``learner.task``.

    Attributes
    ----------
    current : ModelInUse or None
        The newest model that can be used.
    stored
        How its events were read, as far as its file says so.
    """

    def __init__(self, settings: Settings, telemetry: FollowingTelemetry, any_task: bool = False) -> None:
        self._any_task = any_task
        self._settings, self._telemetry = settings, telemetry
        self._learner, self.follow = settings.learner, settings.learner.follow or ""
        self._place: _ModelPlace | None = None
        self._refused = b""  # digest of the last model that was refused
        self.current: ModelInUse | None = None
        self.stored: Stored | None = None

    def _open(self) -> _ModelPlace:
        if self._learner.follows_file:
            return _File(Path(self.follow))
        if Path(self.follow).is_file():
            raise Failure(
                USAGE, f"{KEY}: {self.follow} is a file; write ./{self.follow}, since topics have no /"
            )
        return _Topic(self.follow, self._settings.kafka, self._learner.model)

    def look(self) -> None:
        """Read a model that is newer than the current one.

        Raises
        ------
        Failure
            If the place cannot be read, or the first model there cannot be used.
        Interruption
            If no broker answers.
        """
        try:
            if self._place is None:
                self._place = self._open()
            read = self._place.look()
        except (Failure, Interruption):
            self.close()
            raise
        if read is None:
            return
        try:
            model, stored = self._loaded(read)
        except ValueError as error:
            if self.current is None:
                raise Failure(USAGE, f"{KEY}: {error}") from None
            self._refuse(read, str(error))
            return
        if not model.learner.events:
            return  # as if it were not there
        if self.current is None or model.origin != self.current.origin:
            if self.current is None:
                self.stored = stored
            self.current = model
            log.info("predicting with %s %s", model.origin.model, model.origin.version)

    def _loaded(self, read: _Read) -> tuple[ModelInUse, Stored | None]:
        """Return a model; raise a ValueError if it is damaged, or of another task."""
        where = f"the model {read.name} in {self.follow}"
        learner, extra = loads_with_extra(read.model, where)
        assert isinstance(learner, Classifier | Regressor)
        task = TASKS[labels_of(learner) is None]
        if task != self._learner.task and not self._any_task:
            raise ValueError(f"{where} is for {task}, and learner.task is {self._learner.task!r}")
        stored = stored_of_extra(extra)
        fields = LearnedFields.of([ModelFile(Path(read.name), learner, stored)], self._settings.events.target)
        origin = Origin(read.name, version_of(read.model, learner.events), self._settings.reader)
        return ModelInUse(learner.frozen(), origin, fields, cache(learner.summary)), stored

    def _refuse(self, read: _Read, why: str) -> None:
        if (digest := hashlib.sha256(read.model).digest()) != self._refused:
            self._refused = digest
            self._telemetry.refused_model()
            log.error("%s; the model before it predicts on", why)

    @contextmanager
    def running(self, first: bool = False) -> Iterator[None]:
        """Look once a second on a thread, also for the ``first`` model; a failure is logged, no more."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop, first), name="following", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_LOOK)

    def _run(self, stop: threading.Event, first: bool) -> None:
        logged = ""
        while not stop.wait(_LOOK):
            if self.current is None and not first:
                continue
            try:
                self.look()
                logged = ""
            except (Failure, Interruption) as error:
                if str(error) != logged:
                    logged = str(error)
                    log.warning("%s; the model stays as it is", logged)
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._place is not None:
            self._place.close()
            self._place = None
