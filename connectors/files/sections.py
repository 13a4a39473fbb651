"""Tables of the settings that name files."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from connectors.contract.sections import (
    FilePath,
    LabelSection,
    PredictionSection,
    SinkSection,
    SourceSection,
)


class FileSourceSection(SourceSection):
    """Events from a log on disk."""

    has_header: ClassVar[bool] = True
    kind: Literal["file"]
    path: FilePath = Field(description="JSON lines, CSV or MessagePack; plain or compressed")
    follow: bool = Field(False, description="whether to wait for more lines at the end, as tail -f does")

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name


class LabelFile(LabelSection):
    """Labels from a log on disk."""

    kind: Literal["file"]
    path: FilePath = Field(description="JSON lines, CSV or MessagePack; plain or compressed")

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    def events_of(self, partition: str, source: str) -> str | None:
        """Return the one partition of the source."""
        return source if partition == self.path.name else None


class FileSinkSection(SinkSection):
    """Into JSON lines on disk."""

    kind: Literal["file"]
    path: FilePath = Field(description="the file; lines are added")

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)


class PredictionFile(PredictionSection, FileSinkSection):
    """Into JSON lines on disk."""

    kind: Literal["file"]

    @model_validator(mode="before")
    @classmethod
    def _without_headers(cls, values: object) -> object:
        if isinstance(values, dict) and "headers" in values:
            raise ValueError("predictions in a file have no headers; leave headers out, or name a topic")
        return values
