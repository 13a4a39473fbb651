"""Tables of the settings that name topics, and how to reach their brokers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from connectors.contract.sections import (
    FilePath,
    LabelSection,
    PredictionSection,
    Section,
    SinkSection,
    SourceSection,
    StartPolicy,
    split_names,
)

# options of kafka-python that a daemon may have in another way than streamk sets them, or the library does
OF_CLIENTS = (
    "client_id", "connections_max_idle_ms", "proxy_url", "receive_buffer_bytes", "reconnect_backoff_ms",
    "retry_backoff_ms", "send_buffer_bytes",
)  # fmt: skip
OF_THE_SOURCE = (
    "client_rack", "fetch_max_bytes", "fetch_max_wait_ms", "fetch_min_bytes", "max_partition_fetch_bytes",
)  # fmt: skip


def is_pattern(name: str) -> bool:
    """Return whether a name in the settings is a regular expression: no name of a topic has a ``^``."""
    return name.startswith("^")


def matching(names: Iterable[str], there: Iterable[str]) -> list[str]:
    """Return, sorted, those topics that names or patterns mean.

    >>> matching(["orders", "^pay.*s$"], ["payments", "orders", "orders-2", "pay"])
    ['orders', 'payments']
    """
    topics = set(there)
    patterns = [re.compile(name) for name in names if is_pattern(name)]
    return sorted(
        topics.intersection(names) | {topic for topic in topics if any(p.search(topic) for p in patterns)}
    )


class Kafka(Section):
    """The brokers, and how to log in."""

    servers: list[str] = Field(
        ["localhost:9092"], min_length=1, description="brokers to ask first, host:port"
    )
    tls: bool = Field(False, description="whether to encrypt the connection")
    ca: FilePath | None = Field(None, description="authority that signed the brokers' certificates (PEM)")
    certificate: FilePath | None = Field(None, description="this client's certificate (PEM)")
    certificate_key: FilePath | None = Field(None, description="the key of this client's certificate (PEM)")
    certificate_password: SecretStr | None = Field(None, description="what that key is locked with")
    check_hostname: bool = Field(True, description="whether the certificate must name the host")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = Field(
        None, description="SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
    )
    username: str | None = Field(None, description="of SASL")
    password: SecretStr | None = Field(None, description="of SASL; better in STREAMK_KAFKA__PASSWORD")
    token_file: FilePath | None = Field(
        None, description="of OAUTHBEARER: holds the token, and is read at each connection"
    )
    session_seconds: float = Field(
        10.0, ge=1.0, le=1800.0, description="silence after which the group gives the partitions to others"
    )
    away_seconds: float = Field(300.0, gt=0.0, description="absence of the brokers that ends the daemon")
    producer: Literal["kafka-python", "confluent-kafka"] = Field(
        "kafka-python", description="what writes to topics: kafka-python, or confluent-kafka, which is faster"
    )

    options: dict[str, int | str] = Field(
        {}, description='of kafka-python, by its names, as {client_rack = "eu-1a"}'
    )

    _servers = field_validator("servers", mode="before")(split_names)

    @field_validator("options", mode="after")
    @classmethod
    def _settable(cls, options: dict[str, int | str]) -> dict[str, int | str]:
        for key in options.keys() - {*OF_CLIENTS, *OF_THE_SOURCE}:
            raise ValueError(
                f"{key} is set by streamk, or is no option of kafka-python; there are "
                f"{', '.join(sorted((*OF_CLIENTS, *OF_THE_SOURCE)))}"
            )
        # a variable has strings only
        read = {key: int(v) if isinstance(v, str) and v.isdigit() else v for key, v in options.items()}
        for key, value in read.items():
            kind = str if key in ("client_id", "client_rack", "proxy_url") else int
            if not isinstance(value, kind):
                raise ValueError(f"{key} must be a {'string' if kind is str else 'whole number'}")
        return read

    @field_validator("servers", mode="after")
    @classmethod
    def _without_secrets(cls, servers: list[str]) -> list[str]:
        if any("@" in server for server in servers):
            raise ValueError(
                "an address holds a user name or a password; write host:port here, and set kafka.username "
                "and kafka.password"
            )
        return servers

    def options_of(self, names: tuple[str, ...]) -> dict[str, int | str]:
        """Return the options with these names."""
        return {key: value for key, value in self.options.items() if key in names}

    def token(self) -> str:
        """Return the token of now; an OSError says why there is none."""
        if self.token_file is None:
            raise FileNotFoundError("kafka.token_file is not set")
        return self.token_file.read_text().strip()

    @property
    def secrets(self) -> list[str]:
        """The values that no message and no log line may show."""
        passwords = (self.password, self.certificate_password)
        return [secret.get_secret_value() for secret in passwords if secret is not None]

    @model_validator(mode="after")
    def _together(self) -> Kafka:
        if (self.mechanism == "OAUTHBEARER") != (self.token_file is not None):
            raise ValueError("token_file and mechanism = OAUTHBEARER belong together")
        if self.mechanism and not self.token_file and (self.username is None or self.password is None):
            raise ValueError("mechanism needs username and password")
        if self.certificate_key and not self.certificate:
            raise ValueError("certificate_key needs certificate")
        if (self.ca or self.certificate) and not self.tls:
            raise ValueError("ca and certificate need tls = true")
        return self


class TopicSourceSection(SourceSection):
    """Events from topics."""

    has_record_headers: ClassVar[bool] = True
    partitioned: ClassVar[bool] = True
    kind: Literal["topic"]
    topic: list[str] = Field(
        min_length=1,
        description="its name; or a list of names and patterns: regular expressions that begin with ^",
    )
    group: str = Field(
        min_length=1, description="consumer group of this model alone; its daemons share the partitions"
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest", description="where to start if no member has read the topic: earliest or latest"
    )
    expired: Literal["fail", "earliest", "latest"] = Field(
        "fail",
        description="what to do if events were deleted before they were read, or the topic was recreated: "
        "fail, earliest or latest",
    )
    blank: bool = Field(
        False,
        description="whether a model without events may continue where others of the group stopped",
    )

    @field_validator("topic", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        return [value] if isinstance(value, str) and is_pattern(value) else split_names(value)

    @field_validator("topic", mode="after")
    @classmethod
    def _patterns(cls, names: list[str]) -> list[str]:
        if not all(names):
            raise ValueError("a name should have at least 1 character")
        for name in filter(is_pattern, names):
            try:
                re.compile(name)
            except re.error as error:
                raise ValueError(f"{name!r} is no regular expression: {error}") from None
        return list(dict.fromkeys(names))

    @property
    def place(self) -> str:
        """The topics, as the settings name them."""
        return ", ".join(self.topic)

    @property
    def several(self) -> bool:
        """Whether there may be several topics."""
        return len(self.topic) > 1 or is_pattern(self.topic[0])

    def reads(self, place: str) -> bool:
        """Return whether a topic is one of these."""
        return bool(matching(self.topic, [place]))

    def continues(self, source: str, partitions: Iterable[str]) -> bool:
        """Return whether one of the topics is named, or one of the partitions is of one."""
        before = {*source.split(", "), *(name.rpartition("-")[0] for name in partitions)}
        return any(name in self.topic or self.reads(name) for name in before)

    @property
    def start_policy(self) -> StartPolicy:
        """Where to start reading a partition, if no checkpoint says so."""
        return StartPolicy(self.start, self.expired, self.blank, self.group)

    def with_blank(self) -> Self:
        """Return the same source, which a model without events may read from where others stopped."""
        return self.model_copy(update={"blank": True})


class LabelTopic(LabelSection):
    """Labels from a topic, each in the partition of the number that its event has."""

    kind: Literal["topic"]
    topic: str = Field(min_length=1, description="its name")

    @property
    def place(self) -> str:
        """The topic."""
        return self.topic

    def events_of(self, partition: str, source: str) -> str | None:
        """Return the partition of the same number."""
        topic, _, number = partition.rpartition("-")
        return f"{source}-{number}" if topic == self.topic else None


class TopicSinkSection(SinkSection):
    """Into a topic."""

    movable: ClassVar[bool] = True
    kind: Literal["topic"]
    topic: str = Field(min_length=1, description="its name")

    @property
    def place(self) -> str:
        """The topic."""
        return self.topic


class PredictionTopic(PredictionSection, TopicSinkSection):
    """Into a topic."""

    kind: Literal["topic"]
    headers: list[str] | Literal[True] = Field(
        [], description="names of the headers to copy from the event's record, or true for all"
    )
    shared: bool = Field(False, description="whether another model may write to the topic, too")

    @field_validator("headers", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, str):  # a variable has no other type
            value = {"true": True, "false": False}.get(value.lower(), split_names(value))
        value = [] if value is False else value
        if value is not True and not (isinstance(value, list) and all(type(v) is str for v in value)):
            raise ValueError("must be a list of names of headers, or true for all of them")
        return value

    @property
    def record_headers(self) -> list[str] | Literal[True]:
        """Names of the headers to copy from the event's record, or True for all."""
        return self.headers
