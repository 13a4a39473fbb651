"""The log on standard error, as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        moment = datetime.fromtimestamp(record.created).isoformat(" ", "seconds")
        text = f"{moment} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def log_to_stderr(form: str) -> None:
    """Write the log of the connectors to standard error, as ``text`` or as ``json`` lines.

    Kafka's client tells every retry; what matters of it is said by the daemon, once.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _Text())
    logger = logging.getLogger("connectors")
    logger.handlers[:], logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
