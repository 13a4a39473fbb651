"""The log that a command names, and how late its labels come."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from connectors.contract.errors import Interruption
from connectors.contract.records import Log
from connectors.events.decoding import EventFormat
from connectors.events.model_files import LearnedFields
from connectors.events.names import suggestion
from connectors.files.log import ReplayLog
from connectors.formats.open_file import is_pipe
from connectors.kafka.sections import Kafka
from connectors.replay.labels import ByLabels, Joined, KeyedLog
from connectors.replay.progress import refuse_pipe
from connectors.settings.connector import connector_of
from connectors.settings.file import load
from connectors.settings.tables import LearnerSection
from streamk.evaluation import DelayByChunks, DelayByTime
from streamk.evaluation.label_delay import LabelDelay, check_delay

_PLAIN = EventFormat()
_OF_FORMAT = {
    "delimiter": "delimiter", "decimal": "decimal", "missing": "missing", "type": "types", "ignore": "ignore",
    "only": "features", "encoding": "encoding", "columns": "columns", "skip": "skip", "comment": "comment",
}  # fmt: skip
_DIALECT = "delimiter", "decimal", "encoding", "columns", "skip", "comment"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_KAFKA = "kafka://"
CHUNKS = "chunks"
PROTOCOLS = ("prompt", "100", "1000", CHUNKS)


class Reading(NamedTuple):
    """The options of the command for reading a log, by their names, the roles of fields, and the models'."""

    format: EventFormat = EventFormat()
    start: str | None = None
    end: str | None = None
    strict: bool = False
    labels: str | None = None
    key: str | None = None
    time: str | None = None
    form: str | None = None
    learned: LearnedFields | None = None

    @property
    def target(self) -> str | None:
        """The field to predict."""
        return self.format.target

    def joined(self, labelled: bool) -> EventFormat:
        """Return the format of events or labels that a key joins; key and time stay verbatim."""
        verbatim = [name for name in (self.key, self.time) if name is not None]
        base = self.format if not labelled else EventFormat(self.format.target, missing=self.format.missing)
        return replace(base, verbatim=verbatim, labelled=labelled)

    @property
    def timed(self) -> EventFormat:
        """The format of a log whose labels are in it, and come by a field of times."""
        return self.format if self.time is None else replace(self.format, moments=(self.time,))

    def refuse(self, why: str, *names: str) -> None:
        """Refuse options that are set, and do not go with the log."""
        for name in names:
            if getattr(self, name) is not None:
                option = {"start": "from", "end": "to", "form": "format"}.get(name, name)
                raise ValueError(f"--{option}: {why}")

    def refuse_format(self, why: str, *options: str) -> None:
        """Reject options for the format of values."""
        for option, key in _OF_FORMAT.items():
            if option in options and getattr(self.format, key) != getattr(_PLAIN, key):
                raise ValueError(f"--{option}: {why}")


@contextlib.contextmanager
def opened(files: Sequence[str], how: Reading) -> Iterator[tuple[Log, LearnerSection]]:
    """Open a log, a topic, or what the settings in a TOML file read; give the learner of the settings too.

    Raises
    ------
    ValueError
        If an option does not go with the log, or the log is not there.
    """
    if files[0].endswith(".toml"):
        with _of_settings(files, how) as log_and_learner:
            yield log_and_learner
        return
    if how.target is None:
        raise ValueError("--target: name the field to predict")
    if files[0].startswith(_KAFKA):
        with _of_topic(files, how) as log:
            yield log, LearnerSection()
        return
    how.refuse("it is for a topic, of a kafka:// address or a .toml", "start", "end")
    how.refuse("it is for a kafka:// address; the format of a file is detected from its first bytes", "form")
    if how.labels is None or how.key is None:
        log = ReplayLog(list(files), how.timed, strict=how.strict)
    else:
        log = KeyedLog(list(files), how.joined(labelled=False), how.strict)
    log.learned = how.learned
    yield log, LearnerSection()


@contextlib.contextmanager
def _of_topic(files: Sequence[str], how: Reading) -> Iterator[Log]:
    address, more = files[0], "security is for the [kafka] of a .toml"
    servers, _, topic = address.removeprefix(_KAFKA).partition("/")
    if len(files) > 1:
        raise ValueError(f"{address}: a topic stands alone")
    if not servers or not topic or set(address.removeprefix(_KAFKA)) & set("@?#") or "/" in topic:
        raise ValueError(f"{address}: write kafka://HOST:PORT/TOPIC, with commas between brokers; {more}")
    if how.form not in (None, "json", "msgpack"):
        raise ValueError(f"--format {how.form}: it is json or msgpack")
    how.refuse("it is for logs on disk", "labels")
    how.refuse_format("it is for logs on disk", *_DIALECT)
    from connectors.kafka.topic_range import TopicLog, TopicRange

    try:
        records = TopicRange(topic, Kafka(servers=servers.split(",")), how.start, how.end)
    except Interruption as error:
        raise Interruption(f"{error}; it was requested in plain text and without a login: {more}") from None
    with contextlib.closing(records):
        yield TopicLog(records, how.timed.decoder(how.form or "json"), how.target or "")


@contextlib.contextmanager
def _of_settings(files: Sequence[str], how: Reading) -> Iterator[tuple[Log, LearnerSection]]:
    file = files[0]
    if len(files) > 1:
        raise ValueError(f"{file}: the settings of a daemon stand alone")
    how.refuse(f"{file} says it, as events.target", "target")
    how.refuse(f"{file} says it, as events.format", "form")
    how.refuse(f"it does not go with {file}, whose events have their targets; name the log itself", "labels")
    how.refuse_format(f"{file} says it, in [events] and [schema]", *_OF_FORMAT)
    settings = load(Path(file))
    settings.require_targets()
    with connector_of(settings.source.kind).open_log(settings, how.start, how.end, how.strict) as log:
        yield log, settings.learner


def delay_of(
    log: Log, how: Reading, delay: str | None, protocol: str | None, count: Callable[[], int]
) -> tuple[Log, int | LabelDelay]:
    """Return a log, joined with its labels if they are in another one, and how late they come.

    Parameters
    ----------
    log, how
        The log, and the options for reading it.
    delay, protocol
        The options of these names.
    count
        Returns the number of events, for chunks.

    Raises
    ------
    ValueError
        If the options do not go together, or the labels cannot be read.
    """
    if protocol is not None:
        delay = _by_protocol(protocol, delay, how.time)
    time, labels, key = how.time, how.labels, how.key
    late = DelayByChunks(count()) if protocol == CHUNKS else _delayed(delay or "0", time)
    if labels is None or key is None:
        return log, late
    format = how.joined(labelled=True)
    if time is None:
        return Joined(log, labels, format, how.strict), late
    if delay not in (None, "0"):
        raise ValueError("--delay: with --labels and --time, labels come when their log says")
    if is_pipe(labels):
        raise ValueError(f"--labels {labels}: with --time labels are read twice; give a file, not a pipe")
    return log, ByLabels(labels, format, time)


def _by_protocol(protocol: str, delay: str | None, time: str | None) -> str:
    """Return the delay of a protocol, which is the number of events that it names."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"--protocol {protocol}: no such protocol{suggestion(protocol, PROTOCOLS)}")
    if delay is not None:
        raise ValueError("--protocol and --delay exclude each other: both set how late labels come")
    if time is not None:
        raise ValueError(
            f"--protocol {protocol}: with --time, labels come by that clock; use --delay SECONDS"
        )
    return protocol if protocol.isdigit() else "0"


def event_count(files: Sequence[str], how: Reading, limit: int | None) -> int:
    """Return the number of events of a log, at most ``limit``; the log is read for it.

    Raises
    ------
    ValueError
        If a file is a pipe, which cannot be read twice.
    """
    for path in files:
        refuse_pipe(f"--protocol {CHUNKS}", path)
    with opened(files, how._replace(strict=False)) as (log, _):
        log, _ = delay_of(log, how, None, None, int)
        count = sum(map(len, log.batches()))
    return count if limit is None else min(count, limit)


def period(text: str) -> timedelta | None:
    """Return the time that ``30s``, ``30m``, ``6h`` or ``1d`` name, None if it is none."""
    parts = re.fullmatch(r"(\d{1,9})([smhd])", text)
    return timedelta(**{_UNITS[parts[2]]: int(parts[1])}) if parts else None


def _delayed(delay: str, time: str | None) -> int | LabelDelay:
    late = period(delay)
    if late is not None and time is None:
        raise ValueError(f"--delay {delay}: a time needs --time FIELD, which says when an event was")
    try:
        number = float(delay) if late is None else late.total_seconds()
    except ValueError:
        raise ValueError(
            f"--delay {delay}: it is a number of events, or with --time a time, as 1d or 6h, or seconds"
        ) from None
    if time is not None:
        return DelayByTime(time, number)
    if not number.is_integer():
        raise ValueError(f"--delay {delay}: it is a whole number of events, unless there is a --time")
    return check_delay(int(number))
