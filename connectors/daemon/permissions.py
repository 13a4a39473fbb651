"""The permissions that a run needs at the broker."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.daemon.store import Store
from connectors.kafka.client import member_name
from connectors.kafka.permissions import READ, WRITE, Permission
from connectors.kafka.sink import place_of_log
from connectors.settings import Settings

_UNKNOWN = "0" * 12  # an identity like those that first runs give


def permissions(settings: Settings) -> Iterator[Permission]:
    """Yield what a run needs at the broker; nothing on the cluster, since every producer is transactional."""
    source = settings.source
    if source.kind == "topic":
        yield Permission("source.topic", "topic", source.topic, (READ,))
        yield Permission("source.group", "group", source.group, (READ,))
    topics = {f"{key}.topic": place.topic for key, place in settings.sinks.items() if place.kind == "topic"}
    # the position in a log is committed for one of its topics, in a group of its own
    place = place_of_log(topics.values()).topic if topics and source.kind == "file" else None
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
