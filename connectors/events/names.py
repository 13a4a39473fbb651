"""Names of tasks and of the default learner, the default seed, and suggestions for unknown names.

Nothing of streamk is imported here, so that help and usage errors need no compiler.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import count
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
    matches = difflib.get_close_matches(name.casefold(), folded, 1, cutoff)
    return folded[matches[0]] if matches else ""


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


def numbered(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names of columns, each once, and a sentence for each name that several columns have.

    >>> numbered(["v", "v", "y", "v.1"])
    (['v', 'v.2', 'y', 'v.1'], ["2 columns are named 'v'; they are read as v and v.2"])
    """
    if len(set(names)) == len(names):
        return list(names), []
    taken, unique, of = set(names), list[str](), dict[str, list[str]]()
    for name in names:
        free = name
        if name in of:
            free = next(new for k in count(1) if (new := f"{name}.{k}") not in taken)
            taken.add(free)
        of.setdefault(name, []).append(free)
        unique.append(free)
    notes = [
        f"{len(each)} columns are named {name!r}; they are read as {', '.join(each[:-1])} and {each[-1]}"
        for name, each in of.items()
        if name and len(each) > 1
    ]
    return unique, notes


def as_written(names: Sequence[str]) -> Sequence[str]:
    """Return names of columns up to the first that may have a number instead of its name (:func:`numbered`).

    >>> as_written(["v", "y", "v.1", "a"]), as_written(["a.1", "y"])
    (['v', 'y'], ['a.1', 'y'])
    """
    for k, name in enumerate(names):
        stem, dot, number = name.rpartition(".")
        if dot and number.isdigit() and stem in names[:k]:
            return names[:k]
    return names


def listed(names: Sequence[str], most: int = _MOST) -> str:
    """Return the first names, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
