"""Published models: the newest whole one of a topic, and its version.

A version says up to which offset a model has learned each partition, and of which topic. It is at least
another one if it has learned as much of every partition. So versions have an order that does not depend on
when or by which process a model was merged; the same version is the same model, to the byte.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import NamedTuple

from connectors.contract.errors import USAGE, Failure
from connectors.kafka.client import options
from connectors.kafka.compacted import CompactedTopic
from connectors.kafka.sections import Kafka
from connectors.state.positions import same_identity
from streamk.learners.learner import Learner
from streamk.learners.loading import loads

PARTITION = 0  # of the topic, which holds all published models


class Place(NamedTuple):
    """Up to where a partition was learned, and of which topic (another one if it was recreated)."""

    position: int
    identity: str = ""


Version = dict[str, Place]


def read(values: object) -> Version:
    """Return the version in what :func:`write` returned, empty if it is none.

    >>> read({"clicks-0": [500, "XnT2/q8Lk"]})
    {'clicks-0': Place(position=500, identity='XnT2/q8Lk')}
    """
    if not isinstance(values, dict):
        return {}
    try:
        version = {name: Place(*place) for name, place in values.items()}
    except TypeError:
        return {}
    return version if all(type(place.position) is int for place in version.values()) else {}


def write(version: Mapping[str, Place]) -> dict[str, list[int | str]]:
    """Return a version as values of JSON."""
    return {name: list(version[name]) for name in sorted(version)}


def goes_back(version: Version, before: Version, identities: Collection[str]) -> str:
    """Return what a version has learned less of than the one before, as a sentence; empty if nothing.

    What was learned of a topic that was recreated since does not count: ``identities`` are those of now.

    >>> goes_back({"clicks-0": Place(400, "t1")}, {"clicks-0": Place(500, "t1")}, {"t1"})
    'clicks-0 is known up to 400, and was up to 500'
    >>> goes_back({"clicks-0": Place(400, "t2")}, {"clicks-0": Place(500, "t1")}, {"t2"})
    ''
    """
    for name, place in sorted(before.items()):
        now = version.get(name)
        if now is not None and same_identity(now.identity, place.identity):
            if now.position < place.position:
                return f"{name} is known up to {now.position}, and was up to {place.position}"
        elif any(same_identity(place.identity, identity) for identity in identities):
            return f"{name} is not known, and was up to {place.position}"
    return ""


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
    about: Mapping[str, object]
    chunks: int

    @property
    def version(self) -> Version:
        """Up to which offset each partition was learned."""
        return read(self.about.get("partitions"))

    def learner(self) -> Learner:
        """Return the model, as a new object."""
        return loads(self.model, f"the published model {self.name}")


def fetch(topic: str, kafka: Kafka | None = None, name: str | None = None) -> Published:
    """Return the newest published model that is whole.

    Parameters
    ----------
    topic
        Where ``streamk publish`` writes.
    kafka
        The brokers, and how to log in.
    name
        Of the model; not needed where the topic has only one.

    Raises
    ------
    Failure
        If it is not there.
    Interruption
        If no broker answers.
    """
    with closing(CompactedTopic(topic, "TOPIC", options(kafka or Kafka()))) as compacted:
        newest = newest_of(compacted, name, "--name")
    if newest is None:
        raise Failure(USAGE, f"{topic} holds no whole model{'' if name is None else ' ' + repr(name)}")
    return newest


def newest_of(compacted: CompactedTopic, name: str | None, option: str) -> Published | None:
    """Return the newest published model of a name, or the only one there is; None if there is none.

    Raises
    ------
    Failure
        If there are several, and ``option`` does not name one.
    """
    models = compacted.newest(None if name is None else [name], PARTITION).values
    if len(models) > 1:
        raise Failure(
            USAGE, f"{option}: {compacted.topic} has the models {', '.join(sorted(models))}; name one"
        )
    for published_name, value in models.items():
        return Published(published_name, value.body, value.about, value.chunks)
    return None


def published(compacted: CompactedTopic, name: str) -> Published | None:
    """Return the newest published model once open transactions have ended, None if there is none."""
    value = compacted.settled([name], PARTITION).get(name)
    return None if value is None else Published(name, value.body, value.about, value.chunks)
