"""Size limits of topics: the largest batch of records that brokers append."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from connectors.kafka.client import administrator
from connectors.kafka.producer import COMPRESSION, LARGEST, Headers

log = logging.getLogger(__name__)
_SIZE, _CODEC = "max.message.bytes", "compression.type"  # configs of a topic
_FORMAT = 2  # of record batches


class TopicLimit(NamedTuple):
    """The largest batch that a topic takes.

    Attributes
    ----------
    largest
        Bytes; the brokers' default by default.
    compressed
        Whether brokers keep the compression of the producer. Otherwise they compress a batch themselves, or
        decompress it, and the result must not be larger, either.
    """

    largest: int = 1_048_588
    compressed: bool = True

    def takes(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Return whether a record fits, compressed if it must be.

        The result is independent of the producer: one sixteenth is left for differences between versions of
        zstd.
        """
        size = record_size(key, value, headers)
        if size <= self.largest:
            return True
        if not self.compressed or size > LARGEST:
            return False
        builder = MemoryRecordsBuilder(_FORMAT, DefaultRecordBatchBuilder.CODEC_ZSTD, 0)
        builder.append(None, key, value, headers)
        builder.close()
        return bool(builder.size_in_bytes() <= self.largest * 15 // 16)


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound of the bytes of a batch with one record."""
    # confluent-kafka writes U+FFFD for a NUL in a name
    written = [(name.replace("\0", "\ufffd"), text) for name, text in headers]
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, written))


def topic_limits(options: Mapping[str, Any], topics: Iterable[str]) -> dict[str, TopicLimit]:
    """Return the limits of topics; the brokers' defaults where this client may not describe a topic.

    ``options`` is what :func:`connectors.kafka.client.options` gave.
    """
    names = list(topics)
    wanted = dict.fromkeys((_SIZE, _CODEC))
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, wanted) for name in names]
    try:
        with closing(administrator(dict(options))) as admin:
            found = admin.describe_configs(resources, config_filter="all").get("topic", {})
    except (kafka_errors.AuthorizationError, kafka_errors.UnsupportedVersionError):
        found = {}
    limits = {}
    for name in names:
        configs = found.get(name) or {}
        if configs.keys() >= wanted.keys():
            codec = configs[_CODEC]["value"]
            limits[name] = TopicLimit(int(configs[_SIZE]["value"]), codec in ("producer", COMPRESSION))
        else:
            limits[name] = TopicLimit()
            log.warning(
                "%s: its configuration may not be described; its max.message.bytes is taken to be %d, the "
                "brokers' default",
                name,
                limits[name].largest,
            )
    return limits
