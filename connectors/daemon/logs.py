"""The log on standard error, as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from connectors.settings.file import load
from connectors.settings.tables import LogSection, Settings

_HIDDEN = "********"  # as pydantic shows a secret


class _Lines(logging.Formatter):
    """Formats records without the secrets in them, which the Kafka client writes at the level debug."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        forms = {form for secret in secrets if secret for form in _forms(secret)}
        self._secrets = sorted(forms, key=len, reverse=True)  # a secret may be a part of another one

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text

    def _message(self, record: logging.LogRecord) -> str:
        return self._masked(record.getMessage())

    def _exception(self, record: logging.LogRecord) -> str:
        return self._masked(self.formatException(record.exc_info)) if record.exc_info else ""


def _forms(secret: str) -> set[str]:
    """Return a secret as it is, and as Python shows it in a string and in bytes."""
    shown = {repr(secret)[1:-1], repr(secret.encode())[2:-1]}
    plain = {form.replace("\\'", "'") for form in shown}
    return {secret, *shown, *plain, *(form.replace("'", "\\'") for form in plain)}


class _JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": self._message(record),
            **getattr(record, "fields", {}),
        }
        if exception := self._exception(record):
            fields["exception"] = exception
        return json.dumps(fields)


class _Text(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        moment = datetime.fromtimestamp(record.created).isoformat(" ", "seconds")
        text = f"{moment} {record.levelname.lower():7} {self._message(record)}{fields}"
        exception = self._exception(record)
        return f"{text}\n{exception}" if exception else text


def log_to_stderr(log: LogSection | None = None, secrets: Iterable[str] = ()) -> None:
    """Write the logs of the connectors, of learners and of the Kafka client to standard error.

    Parameters
    ----------
    log
        Levels and form; the defaults if None, without learners. The client's log is off by default, since it
        has a line for every retry, and the daemon logs once what matters.
    secrets
        Values that no line shows.
    """
    learners = {} if log is None else {"streamk": log.level}
    log = log or LogSection()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((_JsonLines if log.form == "json" else _Text)(secrets))
    # librdkafka logs below "kafka", too
    levels = {"connectors": log.level, "kafka": log.client} | learners
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(logging.CRITICAL + 1 if level == "off" else level.upper())


def load_and_log(config: Path) -> Settings:
    """Return the settings, and log as they say, first the warnings of reading them."""
    warnings: list[str] = []
    log_to_stderr()
    try:
        settings = load(config, warn=warnings.append)
        log_to_stderr(settings.log, settings.kafka.secrets)
    finally:
        for sentence in warnings:
            logging.getLogger(__name__).warning(sentence)
    return settings
