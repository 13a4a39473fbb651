"""The version of a published model: up to which offset it has learned each partition, of which topic.

A version is at least another one if it has learned as much of every partition. So versions have an order that
does not depend on when or by whom a model was merged; the same version is the same model, to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from connectors.daemon.ownership import same


class Place(NamedTuple):
    """Up to where a partition was learned, and of which topic (another one if it is made anew)."""

    position: int
    identity: str = ""


Version = dict[str, Place]


def read(values: Any) -> Version:
    """Return the version in what :func:`write` gave, empty if it is none.

    >>> read({"clicks-0": [500, "XnT2/q8Lk"]})
    {'clicks-0': Place(position=500, identity='XnT2/q8Lk')}
    """
    try:
        found = {name: Place(*place) for name, place in values.items()}
    except (AttributeError, TypeError):
        return {}
    return found if all(type(place.position) is int for place in found.values()) else {}


def write(version: Mapping[str, Place]) -> dict[str, list[Any]]:
    """Return a version as values of JSON."""
    return {name: list(version[name]) for name in sorted(version)}


def goes_back(version: Version, before: Version, identity: str) -> str:
    """Return what a version has learned less of than the one before, as a sentence; empty if nothing.

    What was learned of a topic that was made anew since does not count: ``identity`` is the present one's.

    >>> goes_back({"clicks-0": Place(400, "t1")}, {"clicks-0": Place(500, "t1")}, "t1")
    'clicks-0 is known up to 400, and was up to 500'
    >>> goes_back({"clicks-0": Place(400, "t2")}, {"clicks-0": Place(500, "t1")}, "t2")
    ''
    """
    for name, place in sorted(before.items()):
        now = version.get(name)
        if now is not None and same(now.identity, place.identity):
            if now.position < place.position:
                return f"{name} is known up to {now.position}, and was up to {place.position}"
        elif same(place.identity, identity):
            return f"{name} is not known, and was up to {place.position}"
    return ""
