"""Names of tasks and of the default learner, the default seed, and suggestions for unknown names.

Nothing of streamk is imported here, so that help and usage errors need no compiler.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

TASKS = ("classification", "regression")
DEFAULT = "kernel"  # nothing to tune
SEED = 0  # of every command and daemon, so that two runs agree and their models can be merged


def seed_line(seed: int | None, option: str = "--set seed=N") -> str:
    """Return the line that a command prints about its seed.

    >>> seed_line(0), seed_line(7), seed_line(None)
    ('seed 0; --set seed=N changes it', 'seed 7', 'seed none: a random seed, so no other run agrees')
    """
    if seed is None:
        return "seed none: a random seed, so no other run agrees"
    return f"seed {seed}; {option} changes it" if seed == SEED else f"seed {seed}"


_MOST = 20  # names that are listed
CUTOFF = 0.6  # similarity from which a name is suggested


def nearest(name: str, known: Iterable[str], cutoff: float = CUTOFF) -> str:
    """Return the known name that is most like a name, ignoring case; empty if none is.

    >>> nearest("kernl", ["kernel", "kaczmarz"]), nearest("forest", ["kernel", "kaczmarz"])
    ('kernel', '')
    """
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    found = difflib.get_close_matches(name.casefold(), folded, 1, cutoff)
    return folded[found[0]] if found else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the name that may be meant, or all of them.

    >>> suggestion("kernl", ["kernel", "kaczmarz"])
    '; did you mean kernel?'
    >>> suggestion("forest", ["kernel", "kaczmarz"])
    '; use kernel or kaczmarz'
    """
    names = list(known)
    meant = nearest(name, names)
    if meant:
        return f"; did you mean {meant}?"
    if len(names) > _MOST:
        return f"; use {', '.join(names[:_MOST])} or one of {len(names) - _MOST:,} more"
    return f"; use {', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else f"; use {''.join(names)}"


def near_file(path: str | Path) -> str:
    """Return the end of a sentence about a missing file: the one of its directory that may be meant."""
    path = Path(path)
    try:
        names = sorted(each.name for each in path.parent.iterdir())
    except OSError:
        return ""
    meant = nearest(path.name, names)
    return f"; did you mean {path.with_name(meant)}?" if meant else ""
