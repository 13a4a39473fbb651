"""The log that a command names, and how late its labels come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from connectors.events import Decoder
from connectors.files.opening import is_pipe
from connectors.files.replayed import ReplayLog
from connectors.replay.keyed import KeyedLog
from connectors.replay.labels import ByLabels, Joined
from connectors.settings import Kafka, Learner
from connectors.settings_file import load
from connectors.stream import Interruption
from streamk.prequential import ByTime
from streamk.scores import check_delay

_DIALECT = "delimiter", "decimal"
_KAFKA = "kafka://"


class Reading(NamedTuple):
    """How a log is read: the options of the command by their names."""

    target: str | None = None
    start: str | None = None
    end: str | None = None
    strict: bool = False
    labels: str | None = None
    key: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    form: str | None = None

    def refuse(self, why: str, *names: str) -> None:
        """Refuse options that are given, and do not go with the log."""
        for name in names:
            if getattr(self, name) is not None:
                option = {"start": "from", "end": "to", "form": "format"}.get(name, name)
                raise ValueError(f"--{option}: {why}")


@contextlib.contextmanager
def opened(files: Sequence[str], how: Reading) -> Iterator[tuple[Any, Learner]]:
    """Open a log, a topic, or what the settings in a TOML file read; give the learner of the settings too.

    Raises
    ------
    ValueError
        If an option does not go with the log, or the log is not there.
    """
    if files[0].endswith(".toml"):
        with _of_settings(files, how) as found:
            yield found
        return
    if how.target is None:
        raise ValueError("--target: name the field to predict")
    if files[0].startswith(_KAFKA):
        with _of_topic(files, how) as log:
            yield log, Learner()
        return
    how.refuse("it is for a topic, of a kafka:// address or a .toml", "start", "end")
    how.refuse("it is for a kafka:// address; what a file holds is told from its first bytes", "form")
    if how.labels is None or how.key is None:
        delimiter = "\t" if how.delimiter in ("tab", "\\t") else how.delimiter
        log = ReplayLog(list(files), how.target, delimiter=delimiter, decimal=how.decimal, strict=how.strict)
    else:
        how.refuse("a log with --labels is read as it tells, with points before fractions", *_DIALECT)
        if len(files) > 1:
            raise ValueError("--labels is for one log of events")
        log = KeyedLog(files[0], how.target, how.key, lenient=not how.strict)
    yield log, Learner()


@contextlib.contextmanager
def _of_topic(files: Sequence[str], how: Reading) -> Iterator[Any]:
    address, more = files[0], "security is for the [kafka] of a .toml"
    servers, _, topic = address.removeprefix(_KAFKA).partition("/")
    if len(files) > 1:
        raise ValueError(f"{address}: a topic stands alone")
    if not servers or not topic or set(address.removeprefix(_KAFKA)) & set("@?#") or "/" in topic:
        raise ValueError(f"{address}: write kafka://HOST:PORT/TOPIC, with commas between brokers; {more}")
    if how.form not in (None, "json", "msgpack"):
        raise ValueError(f"--format {how.form}: it is json or msgpack")
    how.refuse("it is for logs on disk", "labels", *_DIALECT)
    from connectors.kafka.topic_range import TopicLog, TopicRange

    assert how.target is not None
    try:
        records = TopicRange(topic, Kafka(servers=servers.split(",")), how.start, how.end)
    except Interruption as error:
        raise Interruption(f"{error}; it was asked in plain text and without a login: {more}") from None
    with records:
        yield TopicLog(records, Decoder(how.form or "json", how.target), how.target)


@contextlib.contextmanager
def _of_settings(files: Sequence[str], how: Reading) -> Iterator[tuple[Any, Learner]]:
    file = files[0]
    if len(files) > 1:
        raise ValueError(f"{file}: the settings of a daemon stand alone")
    how.refuse(f"{file} says it, as events.target", "target")
    how.refuse(f"{file} says it, as events.format", "form")
    how.refuse(f"it does not go with {file}, whose events have their targets; name the log itself", "labels")
    how.refuse(f"it does not go with {file}; name the log itself", *_DIALECT)
    settings = load(Path(file))
    events, task = settings.events, settings.learner.task
    if settings.source.kind == "file":
        how.refuse("it is for topics, and the source is a log on disk", "start", "end")

        def decoder_of(form: str, columns: list[str] | None, delimiter: str) -> Decoder:
            return events.decoder(task, columns, delimiter)

        path = settings.source.path
        log = ReplayLog(path, events.target, form=events.format, decoder=decoder_of, strict=how.strict)
        yield log, settings.learner
        return
    from connectors.kafka.topic_range import TopicLog, TopicRange

    with TopicRange(settings.source.topic, settings.kafka, how.start, how.end) as records:
        yield TopicLog(records, events.decoder(task), events.target), settings.learner


def late_of(log: Any, how: Reading, delay: str, time: str | None) -> tuple[Any, Any]:
    """Return a log, joined with its labels if they are in another one, and how late they come.

    Raises
    ------
    ValueError
        If the options do not go together, or the labels cannot be read.
    """
    late, labels, key = _delayed(delay, time), how.labels, how.key
    if labels is None or key is None:
        return log, late
    if time is None:
        return Joined(log, labels, key, how.strict), late
    if delay != "0":
        raise ValueError("--delay: with --labels and --time, labels come when their log says")
    if is_pipe(labels):
        raise ValueError(f"--labels {labels}: with --time labels are read twice; give a file, not a pipe")
    return log, ByLabels(labels, log.target, key, time)


def _delayed(delay: str, time: str | None) -> Any:
    try:
        number = float(delay)
    except ValueError:
        raise ValueError(f"--delay {delay}: it is a number of events, or of seconds with --time") from None
    if time is not None:
        return ByTime(time, number)
    if not number.is_integer():
        raise ValueError(f"--delay {delay}: it is a whole number of events, unless there is a --time")
    return check_delay(int(number))
