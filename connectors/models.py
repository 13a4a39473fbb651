"""Model files of commands: a learner, and by which types of fields its events were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from connectors.decoding import EventFormat
from connectors.values import Fields
from streamk.learners.learner import Learner
from streamk.learners.loading import loads_with_extra

_KEYS = "target", "types", "ignore", "features", "missing"
Stored = Fields


def stored_of(format: EventFormat) -> Stored:
    """Return what a model file stores of a format: what does not depend on one log."""
    found = {key: getattr(format, key) for key in _KEYS}
    return {key: dict(value) if isinstance(value, Mapping) else _plain(value) for key, value in found.items()}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def save(learner: Learner, path: Path, stored: Stored | None) -> int:
    """Write a model file and return its size in bytes."""
    return learner.save(path, None if stored is None else {"format": stored})


def load(path: Path) -> tuple[Learner, Stored | None]:
    """Return a learner and what its file stores of the format of its events, None if nothing.

    Raises
    ------
    ValueError
        If it is no model file.
    OSError
        If it cannot be read.
    """
    learner, extra = loads_with_extra(path.read_bytes(), str(path))
    found = extra.get("format") if isinstance(extra, dict) else None
    return learner, found if isinstance(found, dict) else None


def with_stored(format: EventFormat, stored: Stored | None) -> EventFormat:
    """Return a format in which what is not given is as it was stored with a model."""
    if stored is None:
        return format
    plain = EventFormat()
    known = {
        key: stored[key] for key in _KEYS if key in stored and getattr(format, key) == getattr(plain, key)
    }
    return replace(format, **{**known, "types": {**stored.get("types", {}), **format.types}})


def merged(files: Sequence[tuple[Path, Stored | None]]) -> Stored | None:
    """Return what the file of a merged model stores.

    Raises
    ------
    ValueError
        If two models read a field by different types; the sentence names both.
    """
    known = [(path, stored) for path, stored in files if stored is not None]
    if not known:
        return None
    first, whole = known[0]
    whole = {**whole, "types": dict(whole.get("types", {}))}
    for path, stored in known[1:]:
        for name, kind in stored.get("types", {}).items():
            if (before := whole["types"].setdefault(name, kind)) != kind:
                raise ValueError(
                    f"{path} read the field {name!r} as {kind}, and {first} as {before}; "
                    f"train both with --type {name}=TYPE"
                )
    return whole
