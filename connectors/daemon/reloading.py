"""The settings of a running daemon, read again on request.

Some settings take effect while the daemon runs. A change of any other one waits for a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from connectors.errors import Failure
from connectors.sections import Section
from connectors.settings import Limits, Log, Settings

log = logging.getLogger(__name__)
LIVE: Mapping[str, Collection[str]] = {  # keys that take effect while the daemon runs, by table
    "limits": Limits.model_fields,
    "checkpoints": ("events", "seconds", "keep"),
    "telemetry": ("window", "stall_seconds"),
    "log": Log.model_fields,
}
Keys = list[tuple[str, str]]


class LiveSettings:
    """The settings in effect.

    Parameters
    ----------
    settings
        Those that the daemon was started with.
    read
        Reads the settings, as at the start; it raises Failure where they are wrong.

    Attributes
    ----------
    current : Settings
        Those in effect.
    """

    def __init__(self, settings: Settings, read: Callable[[], Settings]) -> None:
        self.current, self._read = settings, read

    def reload(self, apply: Callable[[Settings], None]) -> None:
        """Read the settings again, apply what may change while the daemon runs, and log every changed key.

        ``apply`` takes the new settings in effect. Wrong settings change nothing.
        """
        try:
            found = self._read()
        except Failure as failure:
            log.error("SIGHUP: %s; the settings stay as they were", "; ".join(str(failure).splitlines()))
            return
        changed = changed_keys(self.current, found)
        live = [(table, key) for table, key in changed if key in LIVE.get(table, ())]
        if live:
            self.current = _with(self.current, found, live)
            apply(self.current)
            log.info("SIGHUP: changed %s", _names(live))
        refused = [key for key in changed if key not in live]
        if refused:
            log.warning("SIGHUP: restart the daemon to change %s; the old values stay", _names(refused))
        if not changed:
            log.info("SIGHUP: no setting has changed")


def changed_keys(before: Settings, now: Settings) -> Keys:
    """Return the tables and keys whose values differ; the key is empty if a table was added or removed."""
    found: Keys = []
    for table in Settings.model_fields:
        old, new = getattr(before, table), getattr(now, table)
        if old is None or new is None:
            found += [(table, "")] * (old is not new)
            continue
        values, others = dict(old), dict(new)
        keys = dict.fromkeys([*values, *others])
        found += [(table, key) for key in keys if values.get(key) != others.get(key)]
    return found


def _with(settings: Settings, found: Settings, keys: Keys) -> Settings:
    """Return settings with the values of some keys as they are in others."""
    tables: dict[str, Section] = {}
    for table, key in keys:
        section = tables.get(table, getattr(settings, table))
        tables[table] = section.model_copy(update={key: getattr(getattr(found, table), key)})
    return settings.model_copy(update=tables)


def _names(keys: Keys) -> str:
    return ", ".join(f"{table}.{key}" if key else f"[{table}]" for table, key in keys)
