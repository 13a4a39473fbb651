"""What can be set of a daemon: the tables of its file, their keys and defaults.

Unknown keys are refused, and secrets are never shown.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    Field,
    PlainValidator,
    SecretStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from connectors.contract.errors import USAGE, Failure
from connectors.contract.records import DEAD_LETTERS, PREDICTIONS, SNAPSHOTS
from connectors.contract.sections import (
    FilePath,
    LabelSection,
    Limits,
    Section,
    SinkSection,
    SourceSection,
    possible,
    split_names,
)
from connectors.events.decoding import Decoder, EventFormat, Parse
from connectors.events.learners import DEFAULT, LEARNERS, Model, build
from connectors.events.model_files import Stored, with_stored
from connectors.events.schema import DATETIME
from connectors.events.values import MISSING
from connectors.formats.addresses import Place, place_of
from connectors.formats.schema_registry import SchemaRegistry
from connectors.kafka.sections import Kafka, TopicSinkSection
from connectors.settings.registry import AnyLabels, AnyPredictions, AnySink, AnySource
from streamk.arrays import Json

MOST_CHALLENGERS = 8


class Events(Section):
    """How records become events."""

    format: Literal["json", "csv", "msgpack", "avro"] = Field(
        "json", description="json, csv, msgpack, or avro by the schemas of [registry]"
    )
    columns: list[str] | None = Field(
        None, description="names of the values of a CSV line; a log on disk may name them in its first line"
    )
    target: str = Field(min_length=1, description="field to predict; an event without it is predicted only")
    features: list[str] | dict[str, str] | None = Field(
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
    record: dict[str, str] = Field(
        {},
        description='fields made of the record: names; key, time, topic or headers.NAME, as {shop = "key"}',
    )
    repeats: int = Field(
        0,
        ge=0,
        le=10**6,
        description="keys of so many events of a partition are known, and another event of one is skipped",
    )

    @field_validator("features", mode="wrap")
    @classmethod
    def _named(cls, value: object, read: ValidatorFunctionWrapHandler) -> object:
        try:
            return read(split_names(value))
        except ValidationError:
            raise ValueError("must be a list of fields, or a table of names and fields") from None

    _lists = field_validator("columns", "ignore", mode="before")(split_names)

    @field_validator("record", mode="after")
    @classmethod
    def _parts(cls, record: dict[str, str]) -> dict[str, str]:
        for name, part in record.items():
            if part not in ("key", "time", "topic") and not (part.startswith("headers.") and part[8:]):
                raise ValueError(f"{name} is {part!r}; a field is made of key, time, topic or headers.NAME")
        return record


class Registry(Section):
    """Schemas of records that begin with the number of one; of format json or avro."""

    url: str = Field(pattern="^https?://[^/@]+(/|$)", description="its address, as http://localhost:8081")
    username: str | None = Field(None, description="of basic authentication")
    password: SecretStr | None = Field(None, description="better in STREAMK_REGISTRY__PASSWORD")
    ca: FilePath | None = Field(None, description="authority that signed its certificate (PEM)")

    @property
    def client(self) -> SchemaRegistry:
        """What requests schemas."""
        password = "" if self.password is None else self.password.get_secret_value()
        return SchemaRegistry(self.url, self.username or "", password, self.ca)


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

    _lists = field_validator("missing", mode="before")(split_names)

    @model_validator(mode="after")
    def _readable(self) -> Schema:
        EventFormat(**dict(self))
        return self


class LearnerSection(Section):
    """The learner."""

    name: str = Field(DEFAULT, description=" or ".join(LEARNERS))
    task: str = Field("classification", description="classification or regression")
    parameters: Json = Field({}, description="of the learner; seed is 0 if it is not given")
    start: FilePath | None = Field(
        None, description="model file, as of streamk train, with which a daemon without checkpoints starts"
    )
    learn: bool = Field(True, description="false to predict only, with the model that is there")
    follow: str | None = Field(
        None,
        min_length=1,
        description="topic, or path with a /, whose newest published model predicts; nothing is learned",
    )
    model: str | None = Field(
        None, min_length=1, description="name of the published model, if the topic has several"
    )

    @model_validator(mode="after")
    def _buildable(self) -> LearnerSection:
        if self.start is not None and not self.learns:
            raise ValueError("start names a model that is to learn, and learn is false or follow is set")
        if self.follow is not None and self.parameters:
            raise ValueError("parameters are those of the model that learner.follow names; leave them out")
        self.build()
        if self.model is not None and (self.follow is None or self.follows_file):
            raise ValueError("model names one of the models in a topic, and learner.follow names no topic")
        return self

    @property
    def learns(self) -> bool:
        """Whether events are learned."""
        return self.learn and self.follow is None

    @property
    def follows_file(self) -> bool:
        """Whether the model to follow is in a file; no name of a topic has a slash."""
        return self.follow is not None and "/" in self.follow

    def build(self) -> Model:
        """Return a new learner.

        Raises
        ------
        ValueError
            If the name, the task or a parameter is not one.
        """
        return build(self.name, self.task, self.parameters)


class ChallengerSection(Section):
    """Another learner of the same events, to compare with; a table for each."""

    name: str = Field(pattern=r"^[\w.-]{1,40}$", description="in metrics, and for streamk promote")
    learner: str = Field(DEFAULT, description="as learner.name")
    parameters: Json = Field({}, description="as learner.parameters")

    def build(self, task: str) -> Model:
        """Return a new learner; a ValueError says what is wrong."""
        return build(self.learner, task, self.parameters)


def _place(value: object) -> Place:
    if not isinstance(value, str | Path):
        raise ValueError("must be a path, or an address as s3://bucket/prefix")
    directory = place_of(value) if isinstance(value, str) else value
    return possible(directory) if isinstance(directory, Path) else directory


class Checkpoints(Section):
    """Where the model and the positions are stored, and how often."""

    directory: Annotated[Place, PlainValidator(_place)] = Field(
        Path("checkpoints"), description="one for each daemon; a path, or an address as s3://bucket/prefix"
    )
    events: int = Field(100_000, ge=1, description="so many events after the last one")
    seconds: float = Field(60.0, gt=0.0, description="or so many seconds")
    keep: int = Field(3, ge=2, description="how many stay")
    hours: int = Field(0, ge=0, le=10**4, description="and the last of each of so many hours")
    days: int = Field(0, ge=0, le=10**4, description="and the last of each of so many days")


class SnapshotSection(Section):
    """A model for every partition, which moves with it, stored in a topic and not in checkpoints."""

    topic: str = Field(min_length=1, description="its name; it must be compacted")


class TelemetrySection(Section):
    """Metrics and health."""

    port: int | None = Field(
        None, ge=0, le=65_535, description="of /metrics, /report, /healthz and /ready; none without it"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    stall_seconds: float = Field(
        60.0, gt=0.0, description="time without an advance, while events wait, after which /healthz fails"
    )
    window: int = Field(1000, ge=1, le=10**7, description="events over which the running loss is taken")


class LogSection(Section):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is written: debug, info, warning or error"
    )
    client: Literal["off", "debug", "info", "warning", "error"] = Field(
        "off", description="the same for the Kafka client's own log, or off"
    )
    form: Literal["text", "json"] = Field("text", description="text or json")


AnyPlace = SourceSection | LabelSection | SinkSection


class Settings(Section):
    """Everything."""

    kafka: Kafka = Kafka()
    source: AnySource
    labels: AnyLabels | None = None
    events: Events
    schema_: Schema = Field(Schema(), alias="schema")
    registry: Registry | None = None
    learner: LearnerSection = LearnerSection()
    challengers: tuple[ChallengerSection, ...] = ()
    predictions: AnyPredictions | None = None
    dead_letters: AnySink | None = None
    limits: Limits = Limits()
    checkpoints: Checkpoints = Checkpoints()
    snapshots: SnapshotSection | None = None
    telemetry: TelemetrySection = TelemetrySection()
    log: LogSection = LogSection()

    @property
    def format(self) -> EventFormat:
        """Which field of an event is what, and how values are read."""
        events, schema = dict(self.events), dict(self.schema_)
        del events["tombstones"], events["format"], events["repeats"]
        times = {name: f"{DATETIME}:epoch-ms" for name, part in self.events.record.items() if part == "time"}
        schema["types"] = times | self.schema_.types
        events["ignore"], schema["missing"] = tuple(self.events.ignore), tuple(self.schema_.missing)
        labelled = self.learner.learns and self.labels is None  # else a log of CSV needs no target
        return EventFormat(**events, **schema, numbers=self.learner.task == "regression", labelled=labelled)

    def decoder(self) -> Decoder:
        """Return the decoder of the records of a topic.

        Raises
        ------
        Failure
            If the columns of CSV have no target.
        """
        return self._decoder(self.format, "events")

    def label_decoder(self) -> Decoder:
        """Return the decoder of labels, raising Failure if the columns of CSV have no target."""
        return self._decoder(self.label_format, "labels")

    def _decoder(self, format: EventFormat, table: str) -> Decoder:
        try:
            return format.decoder(self.events.format, parse=self.parser)
        except ValueError as error:
            raise Failure(USAGE, f"{table}: {error}") from None

    @property
    def parser(self) -> Parse | None:
        """What reads the bytes of records, where schemas are in a registry."""
        return None if self.registry is None else _parser(self.registry.client, self.events.format)

    @property
    def label_format(self) -> EventFormat:
        """Which field of a label is what; its values are read as those of events."""
        labels, format = self.labels, self.format
        if labels is None:
            raise ValueError("the settings have no [labels]")
        return replace(
            format, target=labels.target or format.target, key=labels.key or format.key, time=labels.time,
            weight=None, features=(), ignore=(), columns=labels.columns, labelled=True, record={},
        )  # fmt: skip

    def require_targets(self) -> None:
        """Raise Failure if the labels are in separate records, which only a daemon reads by its settings."""
        if self.labels is not None:
            raise Failure(
                USAGE,
                "labels: only streamk run reads them by settings; replay the logs themselves, with --labels, "
                "--key and --time",
            )

    def events_of(self, partition: str) -> str | None:
        """Return the partition of events whose labels are in this partition; None if it has no labels."""
        return None if self.labels is None else self.labels.events_of(partition, self.source.name)

    @property
    def reader(self) -> str:
        """Who reads the source: the consumer group, or the source itself if that has no groups."""
        return self.source.start_policy.group or self.source.name

    @property
    def sinks(self) -> dict[str, SinkSection]:
        """Where predictions and dead letters go, by their kind."""
        by_kind = {PREDICTIONS: self.predictions, DEAD_LETTERS: self.dead_letters}
        return {kind: section for kind, section in by_kind.items() if section is not None}

    @property
    def outputs(self) -> dict[str, SinkSection]:
        """Where everything goes that a run writes, by its kind: predictions, dead letters, snapshots."""
        if self.snapshots is None:
            return self.sinks
        return {**self.sinks, SNAPSHOTS: TopicSinkSection(kind="topic", topic=self.snapshots.topic)}

    @property
    def sections(self) -> dict[str, AnyPlace]:
        """The source, the labels and all outputs, by key."""
        labels = {} if self.labels is None else {"labels": self.labels}
        return {"source": self.source, **labels, **self.outputs}

    @model_validator(mode="after")
    def _fit(self) -> Settings:
        source = self.source
        if self.events.format == "csv" and not source.has_header and not self.events.columns:
            raise ValueError(
                f"events.columns must name the values of a CSV line, since a {source.kind} does not"
            )
        predictions = self.predictions
        if predictions is not None and predictions.record_headers and not source.has_record_headers:
            raise ValueError("predictions.headers is for topics; events of a log on disk have no headers")
        self._require_records()
        if self.snapshots is not None:
            self._require_partitions()
        if self.labels is not None:
            self._require_join(self.labels)
        if self.learner.follow is not None and self.snapshots is not None:
            raise ValueError("snapshots are of models that learn; leave them out, or learner.follow")
        if not self.learner.learns and self.labels is not None:
            raise ValueError("labels are learned, and learner.learn is false or learner.follow is set")
        self._require_challengers()
        locations = {key: (section.kind, section.place) for key, section in self.sections.items()}
        if self.learner.follow is not None:
            kind = "file" if self.learner.follows_file else "topic"
            locations["learner.follow"] = kind, self.learner.follow
        places: dict[tuple[str, str], str] = {}
        for name, place in locations.items():
            if place[0] == source.kind and source.reads(place[1]) and place[1] != source.place:
                raise ValueError(
                    f"source.topic names or matches {place[1]}, the topic of {name}, which holds no events; "
                    "exclude it there, or give it another name"
                )
            if place in places:
                raise ValueError(f"{name} and {places[place]} are the same {place[0]}, {place[1]}")
            places[place] = name
        return self

    def _require_records(self) -> None:
        """Refuse parts of records that the source does not have, and a registry that is not used."""
        if (self.events.record or self.registry is not None) and not self.source.has_record_headers:
            raise ValueError("events.record and [registry] are for topics, and this source is none")
        if self.events.repeats and not (self.source.has_record_headers or self.events.key):
            raise ValueError("events.repeats needs events.key, since records of this source have no key")
        if self.events.format == "avro" and self.registry is None:
            raise ValueError("events.format = avro needs [registry], with the url of the schemas")
        if self.registry is not None and self.events.format not in ("json", "avro"):
            raise ValueError(
                f"[registry] goes with events.format = json or avro, and it is {self.events.format}"
            )

    def _require_challengers(self) -> None:
        """Refuse challengers that cannot learn the events of the model."""
        names = [section.name for section in self.challengers]
        if len(names) > MOST_CHALLENGERS:
            raise ValueError(f"there are {len(names)} [[challengers]]; name at most {MOST_CHALLENGERS}")
        for name, section in zip(names, self.challengers, strict=True):
            if names.count(name) > 1:
                raise ValueError(f"two [[challengers]] have the name {name!r}; rename one of them")
            try:
                section.build(self.learner.task)
            except ValueError as error:
                raise ValueError(f"the challenger {name!r}: {error}") from None
        if names and not self.learner.learns:
            raise ValueError("challengers learn, and learner.learn is false or learner.follow is set")

    def _require_join(self, labels: LabelSection) -> None:
        """Refuse labels that cannot be joined with the events of the source."""
        source, events = self.source, self.events
        if source.several:
            raise ValueError(
                "labels go with one topic of events; name one in source.topic, without a pattern"
            )
        if labels.kind != source.kind:
            raise ValueError(f"labels.kind is {labels.kind!r} and source.kind {source.kind!r}; use one kind")
        if labels.events_of(source.name, source.name) is not None:
            raise ValueError(f"labels and source are both named {source.name!r}; rename one of them")
        if events.format == "csv" and not source.has_header and not labels.columns:
            raise ValueError("labels.columns must name the values of a CSV line")
        if not source.partitioned and not (events.key and labels.time):
            raise ValueError(
                "labels of a log on disk need events.key and events.time, and labels.time: name the fields "
                "of events and labels by which they are joined"
            )
        if (events.time is None) != (labels.time is None):
            raise ValueError(
                "events.time and labels.time belong together: name a field in both, or leave both out to use "
                "the times of the records"
            )

    def _require_partitions(self) -> None:
        """Refuse what does not go with a model for every partition."""
        if not self.source.partitioned:
            raise ValueError(
                f"snapshots are of the partitions of a topic, and source.kind is {self.source.kind!r}; leave "
                "[snapshots] out"
            )
        for name, section in self.sinks.items():
            if not section.movable:
                raise ValueError(
                    f"{name}.kind = {section.kind!r} does not go with snapshots, since partitions move "
                    "between machines; name a topic"
                )
        if self.learner.start is not None:
            raise ValueError(
                "learner.start does not go with snapshots: the events of its model would count once for each "
                "partition when models are merged"
            )
        if self.learner.build().seed is None:
            raise ValueError(
                "learner.parameters.seed = none does not go with snapshots, since models whose seeds differ "
                "cannot be merged; give a number, or leave it out, which is 0"
            )


@cache
def _parser(registry: SchemaRegistry, form: str) -> Parse:
    return registry.parser(form)


def read_as_stored(settings: Settings, stored: Stored | None) -> Settings:
    """Return settings that read events as a model file says, where they have only defaults."""
    before = settings.format
    format = with_stored(before, stored)
    changed = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(format).items()
        if value != getattr(before, key) and key != "target"
    }
    of_events = {key: value for key, value in changed.items() if key in Events.model_fields}
    of_schema = {key: value for key, value in changed.items() if key in Schema.model_fields}
    tables = {
        "events": settings.events.model_copy(update=of_events),
        "schema_": settings.schema_.model_copy(update=of_schema),
    }
    return settings.model_copy(update=tables)
