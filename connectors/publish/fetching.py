"""Published models as readers get them: the newest one that is whole."""

from __future__ import annotations

from typing import Any, NamedTuple

from connectors.errors import USAGE, Failure
from connectors.kafka.client import options
from connectors.kafka.compacted import CompactedTopic
from connectors.kafka.sections import Kafka
from connectors.publish.version import Version, read
from streamk.learners import Learner
from streamk.learners.loading import loads

PARTITION = 0  # of the topic, where all published models are


class Published(NamedTuple):
    """A published model.

    Attributes
    ----------
    model
        The bytes of a model file.
    about
        ``source``, ``partitions`` and ``events``.
    chunks
        How many messages it takes.
    """

    name: str
    model: bytes
    about: dict[str, Any]
    chunks: int

    @property
    def version(self) -> Version:
        """Up to which offset each partition was learned."""
        return read(self.about.get("partitions"))

    def learner(self) -> Learner:
        """Return the model, made anew."""
        return loads(self.model, f"the published model {self.name}")


def fetch(topic: str, kafka: Kafka | None = None, name: str | None = None) -> Published:
    """Return the newest published model that is whole.

    Parameters
    ----------
    topic
        Where ``streamk publish`` writes.
    kafka
        The brokers, and how to be let in.
    name
        Of the model; it may be left out where the topic has but one.

    Raises
    ------
    Failure
        If it is not there.
    Interruption
        If no broker answers.
    """
    with CompactedTopic(topic, "TOPIC", options(kafka or Kafka())) as compacted:
        found = compacted.newest(None if name is None else [name], PARTITION).values
    if name is None and len(found) > 1:
        raise Failure(USAGE, f"--name: {topic} has the models {', '.join(sorted(found))}; say which")
    if not found:
        raise Failure(USAGE, f"{topic} holds no whole model{'' if name is None else ' ' + repr(name)}")
    ((called, value),) = found.items()
    return Published(called, value.body, value.about, value.chunks)


def published(compacted: CompactedTopic, name: str) -> Published | None:
    """Return the newest published model, None if there is none; what transactions may hide is waited for."""
    value = compacted.settled([name], PARTITION).get(name)
    return None if value is None else Published(name, value.body, value.about, value.chunks)
