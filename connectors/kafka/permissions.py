"""Permissions: what a run needs, and what the broker authorizes, without a write and without a group.

A broker reports the authorized operations of topics and groups. It reports none of transactional ids, so the
request is to end a transaction of a producer that does not exist: it checks the permission first, and changes
nothing for an unknown producer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.admin.acl import ACLOperation
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import EndTxnRequest

from connectors.contract.errors import DENIED, Failure
from connectors.kafka.client import PATIENCE, Options, administrator, explained, member_name
from connectors.kafka.sections import LabelTopic, TopicSinkSection, TopicSourceSection, is_pattern
from connectors.kafka.sink import place_of_log
from connectors.settings.tables import Settings

READ, WRITE, DESCRIBE = "READ", "WRITE", "DESCRIBE"
_UNKNOWN = "0" * 12  # an identity like those of first runs
_NOBODY = -1  # id and epoch of a producer that does not exist
_AGAIN = 0.1  # seconds between two requests to a coordinator that is not there yet
_NEWEST = 5  # version of DescribeGroups; later ones report no operations on a group that has no members yet


class Permission(NamedTuple):
    """Operations that a run needs on a resource.

    Attributes
    ----------
    setting
        Names the resource, as ``source.topic``.
    kind
        A key of :data:`AUTHORIZED`.
    name
        Of the resource.
    operations
        READ and WRITE include DESCRIBE.
    pattern
        What to allow the operations on, in words.
    """

    setting: str
    kind: str
    name: str
    operations: tuple[str, ...]
    pattern: str = "it"


def require_permissions(client_options: Options, needed: Iterable[Permission]) -> None:
    """Raise Failure if the broker denies an operation, with a sentence for each resource.

    A broker that does not report the operations on a resource is taken to allow them.

    Parameters
    ----------
    client_options
        What :func:`connectors.kafka.client.options` returned.
    needed
        The permissions.
    """
    sentences = []
    with explained("kafka"), closing(administrator(client_options)) as admin:
        for permission in needed:
            if missing := _missing(admin, permission):
                sentences.append(
                    f"{permission.setting}: the broker denies {' and '.join(missing)} on the "
                    f"{permission.kind} {permission.name!r}; allow this client "
                    f"{' and '.join(permission.operations)} on {permission.pattern}"
                )
    if sentences:
        raise Failure(DENIED, "\n".join(sentences))


def _missing(admin: KafkaAdminClient, permission: Permission) -> list[str]:
    """Return the operations that are denied: DESCRIBE alone where the resource cannot be described."""
    try:
        operations = AUTHORIZED[permission.kind](admin, permission.name)
    except kafka_errors.AuthorizationError:
        return [DESCRIBE]
    except kafka_errors.IncompatibleBrokerVersion:
        return []
    return [] if operations is None else [op for op in permission.operations if op not in operations]


def _on_topic(admin: KafkaAdminClient, name: str) -> Collection[str] | None:
    (topic,) = admin.describe_topics([name])
    _require_allowed(topic["error_code"])
    operations: list[str] | None = topic.get("authorized_operations")
    return operations


def _on_group(admin: KafkaAdminClient, name: str) -> Collection[str] | None:
    request = DescribeGroupsRequest(groups=[name], include_authorized_operations=True, max_version=_NEWEST)
    group = _answer(admin, name, CoordinatorType.GROUP, request, lambda answer: answer.groups[0])
    _require_allowed(group.error_code)
    numbers = group.authorized_operations
    return None if numbers is None else [ACLOperation(number).name for number in numbers]


def _on_transactional_id(admin: KafkaAdminClient, name: str) -> Collection[str]:
    request = EndTxnRequest(
        transactional_id=name, producer_id=_NOBODY, producer_epoch=_NOBODY, committed=False
    )
    answer = _answer(admin, name, CoordinatorType.TRANSACTION, request, lambda answer: answer)
    denied = issubclass(kafka_errors.for_code(answer.error_code), kafka_errors.AuthorizationError)
    return [DESCRIBE] if denied else [DESCRIBE, WRITE]


def _require_allowed(code: int) -> None:
    error = kafka_errors.for_code(code)
    if issubclass(error, kafka_errors.AuthorizationError):
        raise error


def _answer(
    admin: KafkaAdminClient,
    name: str,
    kind: CoordinatorType,
    request: DataContainer,
    part: Callable[[DataContainer], DataContainer],
) -> DataContainer:
    """Return the part of a coordinator's answer that has its error; on a new cluster it takes a while."""

    async def ask() -> DataContainer:
        coordinator = await admin._find_coordinator_id(name, kind)
        return await admin._manager.send(request, node_id=coordinator)

    until = time.monotonic() + PATIENCE
    while True:
        try:
            answer = part(admin._manager.run(ask))
            error = kafka_errors.for_code(answer.error_code)
            if not issubclass(error, kafka_errors.RetriableError):
                return answer
            raise error
        except kafka_errors.RetriableError:
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN)


# the operations that are authorized on a resource of each kind; None where the broker reports none
AUTHORIZED: dict[str, Callable[[KafkaAdminClient, str], Collection[str] | None]] = {
    "topic": _on_topic,
    "group": _on_group,
    "transactional id": _on_transactional_id,
}


def permissions(settings: Settings, model: str | None) -> Iterator[Permission]:
    """Yield what a run needs at the broker; nothing on the cluster, since every producer is transactional.

    ``model`` is the name of the model, None before the first run.
    """
    source = settings.source
    if isinstance(source, TopicSourceSection):
        for topic in source.topic:
            if not is_pattern(topic):
                yield Permission("source.topic", "topic", topic, (READ,))
        yield Permission("source.group", "group", source.group, (READ,))
    if isinstance(settings.labels, LabelTopic):
        yield Permission("labels.topic", "topic", settings.labels.topic, (READ,))
    if settings.learner.follow is not None and not settings.learner.follows_file:
        yield Permission("learner.follow", "topic", settings.learner.follow, (READ,))
    sinks = settings.sinks.items()
    topics = {f"{key}.topic": sink.topic for key, sink in sinks if isinstance(sink, TopicSinkSection)}
    # the position in a log is committed for one of its topics, in a separate group
    place = place_of_log(topics.values()).topic if topics and not source.start_policy.group else None
    for key, topic in topics.items():
        yield Permission(key, "topic", topic, (READ, WRITE) if topic == place else (WRITE,))
    if settings.snapshots is not None:
        yield Permission("snapshots.topic", "topic", settings.snapshots.topic, (READ, WRITE))
    elif not topics:
        return
    name, prefix = member_name(model or _UNKNOWN), f"the prefix {member_name('')!r}"
    yield Permission("checkpoints.directory", "transactional id", name, (WRITE,), prefix)
    if place is not None:
        yield Permission("checkpoints.directory", "group", name, (READ,), prefix)
