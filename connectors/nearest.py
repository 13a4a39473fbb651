"""The known name that somebody probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKE = 0.6  # similarity from which a name is suggested


def nearest(name: str, known: Iterable[str], least: float = _LIKE) -> str:
    """Return the known name that is most like a name, empty if none is near.

    >>> nearest("kernl", ["kernel", "kaczmarz"]), nearest("xyz", ["kernel"])
    ('kernel', '')
    """
    found = difflib.get_close_matches(name, list(known), 1, least)
    return found[0] if found else ""


def meant(name: str, known: Iterable[str]) -> str:
    """Return the part of a sentence that suggests the nearest known name, empty if none is near.

    >>> "no column 'prise'" + meant("prise", ["price", "y"])
    "no column 'prise'; did you mean 'price'?"
    """
    found = nearest(name, known)
    return f"; did you mean {found!r}?" if found else ""
