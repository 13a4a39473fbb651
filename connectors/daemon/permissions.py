"""The permissions that a run needs at the broker."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.daemon.store import Store
from connectors.kafka.client import member_name
from connectors.kafka.permissions import READ, WRITE, Permission
from connectors.kafka.sections import TopicSink, TopicSource
from connectors.kafka.sink import place_of_log
from connectors.settings import Settings

_UNKNOWN = "0" * 12  # an identity like those that first runs give


def permissions(settings: Settings) -> Iterator[Permission]:
    """Yield what a run needs at the broker; nothing on the cluster, since every producer is transactional."""
    source = settings.source
    if isinstance(source, TopicSource):
        yield Permission("source.topic", "topic", source.topic, (READ,))
        yield Permission("source.group", "group", source.group, (READ,))
    sinks = settings.sinks.items()
    topics = {f"{key}.topic": sink.topic for key, sink in sinks if isinstance(sink, TopicSink)}
    # the position in a log is committed for one of its topics, in a group of its own
    place = place_of_log(topics.values()).topic if topics and not source.start_policy.group else None
    for key, topic in topics.items():
        yield Permission(key, "topic", topic, (READ, WRITE) if topic == place else (WRITE,))
    if settings.snapshots is not None:
        yield Permission("snapshots.topic", "topic", settings.snapshots.topic, (READ, WRITE))
    elif not topics:
        return
    identity = Store(settings.checkpoints.directory).identity() or _UNKNOWN
    name, prefix = member_name(identity), f"the prefix {member_name('')!r}"
    yield Permission("checkpoints.directory", "transactional id", name, (WRITE,), prefix)
    if place is not None:
        yield Permission("checkpoints.directory", "group", name, (READ,), prefix)
