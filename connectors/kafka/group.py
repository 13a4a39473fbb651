"""The group of a consumer, as its coordinator describes it to anybody."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import MemberToRemove

from connectors.errors import USAGE, Failure
from connectors.kafka.client import MEMBER, administrator, explained

log = logging.getLogger(__name__)


class Group:
    """A group, and one member of it.

    Parameters
    ----------
    found
        What :func:`connectors.kafka.client.options` gave.
    name
        Of the group.
    member
        The name that the member keeps over restarts; empty for somebody who only looks.
    """

    def __init__(self, found: Mapping[str, Any], name: str, member: str = "") -> None:
        self._options, self.name, self._member = dict(found), name, member

    def _describe(self) -> dict[str, Any]:
        with explained("source.group"), contextlib.closing(administrator(self._options)) as admin:
            found: dict[str, Any] = admin.describe_groups([self.name])[self.name]
        return found

    def members(self) -> list[dict[str, Any]]:
        """Return the members, as the coordinator describes them."""
        return list(self._describe()["members"])

    def alone(self) -> bool:
        """Return whether nobody else is in the group."""
        return all(member["group_instance_id"] == self._member for member in self.members())

    def require_daemons(self) -> None:
        """Raise Failure if a member is no daemon."""
        for member in self.members():
            if not (member["group_instance_id"] or "").startswith(MEMBER):
                raise Failure(
                    USAGE,
                    f"source.group: {member['client_id']!r} at {member['client_host']} is a member of "
                    f"{self.name!r} and no streamk daemon, so each reads a part of the topic; choose a "
                    "source.group of its own for this model",
                )

    def given(self, topic: str) -> int | None:
        """Return how many partitions of a topic the members have, None if the group is rebalancing."""
        group = self._describe()
        if group["group_state"] != "Stable":
            return None
        return sum(
            len(entry["partitions"])
            for member in group["members"]
            for entry in (member["member_assignment"] or {}).get("assigned_partitions", ())
            if entry["topic"] == topic
        )

    def require_identity(self, mine: str) -> None:
        """Raise Failure if another process than the one with this identifier has the member's name."""
        with explained("source.group"):
            for member in self.members():
                if member["group_instance_id"] == self._member and member["member_id"] != mine:
                    raise kafka_errors.FencedInstanceIdError

    def move(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, str]:
        """Set the positions of a group without members; return where that failed, and why."""
        with contextlib.closing(administrator(self._options)) as admin:
            errors = admin.alter_group_offsets(self.name, dict(offsets))
        return {place: e.__name__ for place, e in errors.items() if e is not kafka_errors.NoError}

    def leave(self) -> None:
        """Give up the place that the group keeps for the member's name."""
        try:
            with contextlib.closing(administrator(self._options)) as admin:
                admin.remove_group_members(self.name, [MemberToRemove(group_instance_id=self._member)])
        except kafka_errors.KafkaError as error:
            log.warning("the group was not left (%s): others wait for kafka.session_seconds", error)
