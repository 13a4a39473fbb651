"""The settings of a daemon, and its log as they say."""

from __future__ import annotations

import logging
from pathlib import Path

from connectors.daemon.logs import log_to_stderr
from connectors.settings import Settings
from connectors.settings_file import load

log = logging.getLogger(__name__)


def load_and_log(config: Path) -> Settings:
    """Return the settings, and log as they say, first what was found while they were read."""
    warnings: list[str] = []
    log_to_stderr()
    try:
        settings = load(config, warn=warnings.append)
        log_to_stderr(settings.log, settings.kafka.secrets)
    finally:
        for sentence in warnings:
            log.warning(sentence)
    return settings
