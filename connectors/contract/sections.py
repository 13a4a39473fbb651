"""Tables of the settings: what all have in common, limits, and what those of sources and sinks answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

EARLIEST, LATEST, FAIL = "earliest", "latest", "fail"
BY_GROUP, BY_CHECKPOINT = "group", "checkpoint"  # to what `streamk reset` sets a position
TOP = 20  # labels of a prediction


class Section(BaseModel):
    """A table of the file."""

    # an uncaught validation error must not print a password
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def of(cls, section: Section | None) -> Self:
        """Return a section of this class, which it must be."""
        if not isinstance(section, cls):
            raise TypeError(f"this is a {type(section).__name__}, and a {cls.__name__} is needed")
        return section


def split_names(value: object) -> object:
    """Return the names in a string with commas between them; anything else as it is."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def possible(path: Path) -> Path:
    """Return a path, raising ValueError if no file can have it."""
    if "\0" in str(path) or any(len(part.encode(errors="replace")) > _LONGEST for part in path.parts):
        raise ValueError(
            f"no file can have such a name: it has a NUL, or a part of more than {_LONGEST} bytes"
        )
    return path


_LONGEST = 255  # bytes of a name of a file
FilePath = Annotated[Path, AfterValidator(possible)]


class Limits(Section):
    """How much may be refused, learned or retried before the daemon stops."""

    consecutive: int = Field(1000, ge=1, description="events refused one after the other")
    ratio: float = Field(0.5, gt=0.0, le=1.0, description="share of the window that is refused")
    window: int = Field(10_000, ge=1, le=10**6, description="events over which the ratio is taken")
    labels: int = Field(1000, ge=1, description="classes; an event with one more is refused")
    names: int = Field(10_000, ge=1, description="names of numbers; an event with one more is refused")
    without_target: int = Field(
        1000, ge=0, description="events without a target before the first that has it; 0 for any number"
    )
    without_inputs: int = Field(
        1000,
        ge=0,
        description="events in a row with a target and no input; 0 learns them until one has inputs",
    )
    restarts: int = Field(10, ge=1, description="sessions in a row that may end without progress")


class StartPolicy(NamedTuple):
    """Where a run starts reading, if no checkpoint says so.

    Attributes
    ----------
    start
        Where to start if no member has read the source: ``"earliest"`` or ``"latest"``.
    expired
        What to do if the position is no longer there: ``"fail"``, ``"earliest"`` or ``"latest"``.
    blank
        Whether a model without events may start where others of the group stopped.
    group
        Name of the consumer group; empty if the source has none.
    digest
        Of the settings that the model is trained with; empty if it does not count.
    digest_before
        The same as versions up to 0.5 wrote it.
    """

    start: str = EARLIEST
    expired: str = FAIL
    blank: bool = False
    group: str = ""
    digest: str = ""
    digest_before: str = ""


class SourceSection(Section):
    """Where events come from."""

    has_header: ClassVar[bool] = False  # whether a log of CSV names its columns
    has_record_headers: ClassVar[bool] = False
    partitioned: ClassVar[bool] = False  # whether several daemons can share it
    kind: str

    @property
    def place(self) -> str:
        """The topic or the path."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """How checkpoints name it."""
        return self.place

    @property
    def several(self) -> bool:
        """Whether it may be several topics."""
        return False

    def reads(self, place: str) -> bool:
        """Return whether events are read from a place."""
        return place == self.place

    def continues(self, source: str, partitions: Iterable[str]) -> bool:
        """Return whether it has a part of what another source of this name, with these partitions, had."""
        return source == self.name

    @property
    def start_policy(self) -> StartPolicy:
        """Where to start reading, if no checkpoint says so."""
        return StartPolicy()

    def with_blank(self) -> Self:
        """Return the same source, which a model without events may read from where others stopped."""
        return self


class LabelSection(Section):
    """Labels in separate records, each under the key of its event."""

    kind: str
    key: str | None = Field(
        None, min_length=1, description="field that names the event; events.key, or the record's key"
    )
    target: str | None = Field(None, min_length=1, description="field with the label; events.target")
    time: str | None = Field(
        None, min_length=1, description="field that says when the label came; the record's time by default"
    )
    wait: float | None = Field(
        None, gt=0.0, description="seconds that an event waits for its label; any time without it"
    )
    columns: list[str] | None = Field(
        None, description="names of the values of a CSV line; a log on disk names them in its first line"
    )

    _lists = field_validator("columns", mode="before")(split_names)

    @property
    def place(self) -> str:
        """The topic or the path."""
        raise NotImplementedError

    def events_of(self, partition: str, source: str) -> str | None:
        """Return the partition of a source whose labels are in this partition; None if it has no labels."""
        raise NotImplementedError


class SinkSection(Section):
    """Where predictions or dead letters go."""

    movable: ClassVar[bool] = False  # whether daemons on other machines can continue to write it
    kind: str

    @property
    def place(self) -> str:
        """The topic or the path."""
        raise NotImplementedError


class PredictionSection(SinkSection):
    """Where predictions go."""

    top: int = Field(TOP, ge=0, description="probabilities of so many most probable labels; 0 for none")

    @property
    def record_headers(self) -> list[str] | Literal[True]:
        """Names of the headers to copy from the event's record, or True for all."""
        return []
