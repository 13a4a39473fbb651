"""What can be set of a daemon: the tables of its file, their keys and defaults.

Unknown keys are refused, and secrets are never shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from connectors.decoding import Decoder, EventFormat
from connectors.learners import DEFAULT, LEARNERS, build
from connectors.stream import DEAD_LETTERS, PREDICTIONS, USAGE, Failure
from connectors.values import MISSING
from streamk import learners


class Section(BaseModel):
    """A table of the file."""

    # a validation error that nobody catches must not print a password
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _possible(path: Path) -> Path:
    if "\0" in str(path) or any(len(part.encode(errors="replace")) > _LONGEST for part in path.parts):
        raise ValueError(
            f"no file can have such a name: it has a NUL, or a part of more than {_LONGEST} bytes"
        )
    return path


_LONGEST = 255  # bytes of a name of a file
FilePath = Annotated[Path, AfterValidator(_possible)]


class Kafka(Section):
    """The brokers, and how to be let in."""

    servers: list[str] = Field(
        ["localhost:9092"], min_length=1, description="brokers to ask first, host:port"
    )
    tls: bool = Field(False, description="whether to encrypt the connection")
    ca: FilePath | None = Field(None, description="authority that signed the brokers' certificates (PEM)")
    certificate: FilePath | None = Field(None, description="this client's certificate (PEM)")
    certificate_key: FilePath | None = Field(None, description="the key of this client's certificate (PEM)")
    certificate_password: SecretStr | None = Field(None, description="what that key is locked with")
    check_hostname: bool = Field(True, description="whether the certificate must name the host")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    )
    username: str | None = Field(None, description="of SASL")
    password: SecretStr | None = Field(None, description="of SASL; better in STREAMK_KAFKA__PASSWORD")
    session_seconds: float = Field(
        10.0, ge=1.0, le=1800.0, description="silence after which the group gives the partitions to others"
    )
    away_seconds: float = Field(300.0, gt=0.0, description="absence of the brokers that ends the daemon")
    producer: Literal["kafka-python", "confluent-kafka"] = Field(
        "kafka-python", description="what writes to topics: kafka-python, or confluent-kafka, which is faster"
    )

    _servers = field_validator("servers", mode="before")(_split)

    @field_validator("servers", mode="after")
    @classmethod
    def _without_secrets(cls, servers: list[str]) -> list[str]:
        if any("@" in server for server in servers):
            raise ValueError(
                "an address holds a user name or a password; write host:port here, and set kafka.username "
                "and kafka.password"
            )
        return servers

    @property
    def secrets(self) -> list[str]:
        """The values that no message and no log line may show."""
        found = (self.password, self.certificate_password)
        return [secret.get_secret_value() for secret in found if secret is not None]

    @model_validator(mode="after")
    def _together(self) -> Kafka:
        if self.mechanism and (self.username is None or self.password is None):
            raise ValueError("mechanism needs username and password")
        if self.certificate_key and not self.certificate:
            raise ValueError("certificate_key needs certificate")
        if (self.ca or self.certificate) and not self.tls:
            raise ValueError("ca and certificate need tls = true")
        return self


class TopicSource(Section):
    """Events from a topic."""

    kind: Literal["topic"]
    topic: str = Field(min_length=1, description="its name")
    group: str = Field(
        min_length=1, description="consumer group of this model alone; its daemons share the partitions"
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest", description="where to begin if nobody has read the topic: earliest or latest"
    )
    expired: Literal["fail", "earliest", "latest"] = Field(
        "fail",
        description="what to do if events were deleted before they were read, or the topic was made anew: "
        "fail, earliest or latest",
    )
    blank: bool = Field(
        False, description="whether a model that knows nothing may go on where the group's others ended"
    )


class FileSource(Section):
    """Events from a log on disk."""

    kind: Literal["file"]
    path: FilePath = Field(description="JSON lines or CSV, plain, gzip or zstd")
    follow: bool = Field(False, description="whether to wait for more lines at the end, as tail -f does")


class TopicSink(Section):
    """Into a topic."""

    kind: Literal["topic"]
    topic: str = Field(min_length=1, description="its name")


class FileSink(Section):
    """Into JSON lines on disk."""

    kind: Literal["file"]
    path: FilePath = Field(description="the file; lines are added")


Sink = Annotated[TopicSink | FileSink, Field(discriminator="kind")]
TOP = 20  # labels of a prediction


class PredictionTopic(TopicSink):
    """Into a topic."""

    top: int = Field(TOP, ge=0, description="probabilities of so many most probable labels; 0 for none")
    headers: Any = Field(
        [], description="names of the headers to copy from the event's record, or true for all"
    )

    @field_validator("headers", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if isinstance(value, str):  # a variable has no other type
            value = {"true": True, "false": False}.get(value.lower(), _split(value))
        value = [] if value is False else value
        if value is not True and not (isinstance(value, list) and all(type(v) is str for v in value)):
            raise ValueError("must be a list of names of headers, or true for all of them")
        return value


class PredictionFile(FileSink):
    """Into JSON lines on disk."""

    top: int = Field(TOP, ge=0, description="probabilities of so many most probable labels; 0 for none")

    @model_validator(mode="before")
    @classmethod
    def _without_headers(cls, values: Any) -> Any:
        if isinstance(values, dict) and "headers" in values:
            raise ValueError("predictions in a file have no headers; leave headers out, or name a topic")
        return values


Predictions = Annotated[PredictionTopic | PredictionFile, Field(discriminator="kind")]


class Events(Section):
    """What the bytes mean."""

    format: Literal["json", "csv", "msgpack"] = Field("json", description="json, csv or msgpack")
    columns: list[str] | None = Field(
        None, description="names of the values of a CSV line; a log on disk names them in its first line"
    )
    target: str = Field(min_length=1, description="field to predict; an event without it is predicted only")
    features: Any = Field(
        None, description="fields to learn from, or a table of names and fields; every other field by default"
    )
    ignore: list[str] = Field([], description="fields not to learn from")
    key: str | None = Field(
        None, min_length=1, description="field that names the event; by default the record's key"
    )
    time: str | None = Field(
        None, min_length=1, description="field that says when; the record's time by default"
    )
    weight: str | None = Field(None, min_length=1, description="field that says how much the event counts")
    tombstones: Literal["dead", "skip"] = Field(
        "dead", description="what to do with records without a value: dead (letters) or skip"
    )

    @field_validator("features", mode="after")
    @classmethod
    def _named(cls, value: Any) -> Any:
        texts = value.values() if isinstance(value, dict) else value
        if value is not None and not (isinstance(value, (list, dict)) and all(type(v) is str for v in texts)):
            raise ValueError("must be a list of fields, or a table of names and fields")
        return value

    _lists = field_validator("columns", "features", "ignore", mode="before")(_split)


class Schema(Section):
    """How values are read; a log on disk decides what is not set."""

    delimiter: str | None = Field(None, min_length=1, max_length=1, description="between the values of CSV")
    decimal: Literal[".", ","] | None = Field(None, description="before fractions: . or ,")
    encoding: str | None = Field(None, min_length=1, description="of a log on disk")
    missing: list[str] = Field(list(MISSING), description="strings of CSV that are no value")
    types: dict[str, str] = Field(
        {},
        description="of fields: number, boolean, datetime, category, text, identifier or ignored. Those of a "
        "log on disk are inferred where they are not set; a topic has none",
    )

    _lists = field_validator("missing", mode="before")(_split)

    @model_validator(mode="after")
    def _readable(self) -> Schema:
        EventFormat(**dict(self))
        return self


class Learner(Section):
    """What learns."""

    name: str = Field(DEFAULT, description=" or ".join(LEARNERS))
    task: str = Field("classification", description="classification or regression")
    parameters: dict[str, Any] = Field({}, description="of the learner; seed is 0 if it is not given")

    @model_validator(mode="after")
    def _buildable(self) -> Learner:
        self.build()
        return self

    def build(self) -> learners.Learner:
        """Return a new learner.

        Raises
        ------
        ValueError
            If the name, the task or a parameter is not one.
        """
        return build(self.name, self.task, self.parameters)


class Checkpoints(Section):
    """Where the model and the positions are kept, and how often."""

    directory: FilePath = Field(Path("checkpoints"), description="one for each daemon")
    events: int = Field(100_000, ge=1, description="so many events after the last one")
    seconds: float = Field(60.0, gt=0.0, description="or so many seconds")
    keep: int = Field(3, ge=2, description="how many stay")


class Snapshots(Section):
    """A model for every partition, which moves with it, kept in a topic and not in checkpoints."""

    topic: str = Field(min_length=1, description="its name; it must be compacted")


class Limits(Section):
    """How much may be refused, known or tried in vain before the daemon stops."""

    consecutive: int = Field(1000, ge=1, description="events refused one after the other")
    ratio: float = Field(0.5, gt=0.0, le=1.0, description="share of the window that is refused")
    window: int = Field(10_000, ge=1, le=10**6, description="events over which the ratio is taken")
    labels: int = Field(1000, ge=1, description="classes; an event with one more is refused")
    names: int = Field(10_000, ge=1, description="names of numbers; an event with one more is refused")
    without_target: int = Field(
        1000, ge=0, description="events without a target before the first that has it; 0 for any number"
    )
    restarts: int = Field(10, ge=1, description="sessions in a row without progress that are borne")


class Telemetry(Section):
    """What the outside sees."""

    port: int | None = Field(
        None, ge=0, le=65_535, description="of /healthz, /ready and /metrics; none without it"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    stall_seconds: float = Field(
        60.0, gt=0.0, description="time without an advance, while events wait, after which /healthz fails"
    )
    window: int = Field(1000, ge=1, le=10**7, description="events over which the running loss is taken")


class Log(Section):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is written: debug, info, warning or error"
    )
    client: Literal["off", "debug", "info", "warning", "error"] = Field(
        "off", description="the same for the Kafka client's own log, or off"
    )
    form: Literal["text", "json"] = Field("text", description="text or json")


class Settings(Section):
    """Everything."""

    kafka: Kafka = Kafka()
    source: Annotated[TopicSource | FileSource, Field(discriminator="kind")]
    events: Events
    schema_: Schema = Field(Schema(), alias="schema")
    learner: Learner = Learner()
    predictions: Predictions | None = None
    dead_letters: Sink | None = None
    limits: Limits = Limits()
    checkpoints: Checkpoints = Checkpoints()
    snapshots: Snapshots | None = None
    telemetry: Telemetry = Telemetry()
    log: Log = Log()

    @property
    def format(self) -> EventFormat:
        """Which field of an event is what, and how values are read."""
        events, schema = dict(self.events), dict(self.schema_)
        del events["tombstones"], events["format"]
        return EventFormat(**events, **schema, numbers=self.learner.task == "regression")

    def decoder(self) -> Decoder:
        """Return the decoder of the records of a topic.

        Raises
        ------
        Failure
            If the columns of CSV have no target.
        """
        try:
            return self.format.decoder(self.events.format)
        except ValueError as error:
            raise Failure(USAGE, f"events: {error}") from None

    @property
    def sinks(self) -> dict[str, TopicSink | FileSink]:
        """Where outputs go, by their kind."""
        found = {PREDICTIONS: self.predictions, DEAD_LETTERS: self.dead_letters}
        return {kind: place for kind, place in found.items() if place is not None}

    @model_validator(mode="after")
    def _fit(self) -> Settings:
        topic = self.source.kind == "topic"
        if self.events.format == "csv" and topic and not self.events.columns:
            raise ValueError("events.columns must name the values of a CSV line, since a topic does not")
        if self.events.format == "msgpack" and not topic:
            raise ValueError("events.format = 'msgpack' is for topics; a log on disk is JSON lines or CSV")
        predictions = self.predictions
        if not topic and predictions is not None and predictions.kind == "topic" and predictions.headers:
            raise ValueError("predictions.headers is for topics; events of a log on disk have no headers")
        parts = {"source": self.source, **self.sinks}
        found = {k: (p.kind, str(p.topic if p.kind == "topic" else p.path)) for k, p in parts.items()}
        if self.snapshots is not None:
            self._require_partitions()
            found["snapshots"] = "topic", self.snapshots.topic
        places: dict[tuple[str, str], str] = {}
        for name, place in found.items():
            if place in places:
                raise ValueError(f"{name} and {places[place]} are the same {place[0]}, {place[1]}")
            places[place] = name
        return self

    def _require_partitions(self) -> None:
        """Refuse what does not go with a model for every partition."""
        if self.source.kind != "topic":
            raise ValueError(
                "snapshots are of the partitions of a topic, and source.kind is 'file'; leave [snapshots] out"
            )
        for name, place in self.sinks.items():
            if place.kind == "file":
                raise ValueError(
                    f"{name}.kind = 'file' does not go with snapshots, since partitions move between "
                    "machines; name a topic"
                )
        if self.learner.build().seed is None:
            raise ValueError(
                "learner.parameters.seed = none does not go with snapshots, since models whose seeds differ "
                "cannot be merged; give a number, or leave it out, which is 0"
            )
