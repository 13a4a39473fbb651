"""Models to one model, in a tree whose shape depends on the number of shards alone.

**Scales that shards agree on before they learn: a pass over everything in which codecs learn alone.**

Running scales differ from shard to shard, and so do features and what coefficients mean. Here every shard
goes through its events once for names, labels, and the scales of inputs and targets; these are pooled in the
tree of all rounds, and given to everybody. Models of second order then merge to what one learner with these
scales would know.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from streamk.learners.learner import Learner
from streamk.learners.loading import loads
from streamk.learners.merging import joined, merge
from streamk.threads import one_blas_thread

Join = Callable[[list[Learner], Learner], Learner]


def merged(models: list[Learner], base: Learner) -> Learner:
    """Return what models know together, each of which has learned on from ``base``."""
    with one_blas_thread():
        return joined(models, base=base if base.events else None)


def beginning(learner: Learner) -> Learner:
    """Return the learner that every shard begins with: a copy whose seed is decided, with nothing waiting.

    A seed that is None would be drawn by each shard apart, and no two models could be merged.

    Raises
    ------
    ValueError
        If it is none that can be merged.
    """
    if not isinstance(learner, Learner):
        raise ValueError(f"learner must be a streamk learner, not {type(learner).__name__}")
    if not learner.events and not learner.pending:
        seed = secrets.randbits(63) if learner.seed is None else learner.seed
        first: Learner = learner.clone({"seed": seed})
    else:
        first = loads(learner.to_bytes())
        first.flush()
    merge([first, first])
    return first


class Tree:
    """Merges models as they come, always in the same pairs.

    Leaf ``k`` is met by leaf ``k ^ 1`` and their parent is leaf ``k // 2`` of the next level; whoever has no
    neighbour at the end of a level, or one that learned nothing, goes up alone.

    Parameters
    ----------
    leaves
        How many shards there are.
    join
        Merges two models, the left one first.

    Examples
    --------
    >>> tree = Tree(3, lambda a, b: f"({a} {b})")
    >>> for k in (2, 0, 1):
    ...     tree.put(k, "abc"[k])
    >>> tree.root
    '((a b) c)'
    """

    def __init__(self, leaves: int, join: Callable[..., object]) -> None:
        self._leaves, self._join = leaves, join
        self._waiting: dict[tuple[int, int], object] = {}
        self.root: object = None

    def put(self, leaf: int, model: object) -> None:
        """Give the model of a leaf, None if it learned nothing; every leaf is given once."""
        level, width = 0, self._leaves
        while width > 1:
            other = leaf ^ 1
            if other < width:
                if (level, other) not in self._waiting:
                    self._waiting[level, leaf] = model
                    return
                there = self._waiting.pop((level, other))
                left, right = (model, there) if leaf < other else (there, model)
                if left is None or right is None:
                    model = right if left is None else left
                else:
                    model = self._join(left, right)
            level, leaf, width = level + 1, leaf // 2, (width + 1) // 2
        self.root = model


class Merging:
    """Merges the models of one round as they come.

    They stay bytes until they meet another: the model of a shard that is alone needs no opening.

    Parameters
    ----------
    base
        The model that all have learned on from.
    shards
        How many there are.
    join
        Merges models that have learned on from another.
    """

    def __init__(self, base: bytes, shards: int, join: Join = merged) -> None:
        self._base: bytes | Learner = base
        self._merged = join
        self._tree = Tree(shards, self._join)

    def put(self, shard: int, model: bytes | None) -> None:
        """Give the model of a shard, None if it learned nothing; every shard is given once."""
        self._tree.put(shard, model)

    def model(self) -> bytes:
        """Return the merged model, which is the base if nobody learned anything."""
        root: Any = self._tree.root
        if root is None:
            root = self._base
        if isinstance(root, bytes):
            return root
        with one_blas_thread():
            root._settle()
        return bytes(root.to_bytes())

    def _join(self, left: bytes | Learner, right: bytes | Learner) -> Learner:
        self._base = _opened(self._base)
        return self._merged([_opened(left), _opened(right)], self._base)


def _opened(model: bytes | Learner) -> Learner:
    return loads(model) if isinstance(model, bytes) else model


SCALES = ("running", "first")


def pooled(models: Sequence[Learner], base: Learner) -> Learner:
    """Return a learner of what codecs know together, each of which has learned on from that of ``base``."""
    made: Learner = models[0].clone()
    made._codec.absorb([model._codec for model in models], base._codec)
    return made


def given(model: bytes) -> bytes:
    """Return the learner to begin with: it knows no event, and its scales are given."""
    learner = loads(model)
    learner._codec.freeze_scales()
    return learner.to_bytes()
