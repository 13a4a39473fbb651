"""Merging of models in a tree whose shape depends on the number of shards alone, and the pass for scales.

Running scales differ between shards, and with them features and the meaning of coefficients. So there is a
first pass in which only the codecs learn: every shard reads its events once for names, labels, and the scales
of inputs and targets. These are pooled in the same tree and fixed for all shards. Second-order models then
merge to the model of one learner with these scales.
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
    """Return the merge of models that continue from ``base``."""
    with one_blas_thread():
        return joined(models, base=base if base.events else None)


def beginning(learner: Learner) -> Learner:
    """Return the learner that every shard starts from: a copy with a drawn seed and no buffered events.

    With a seed of None, each shard would draw another seed, and the models could not be merged.

    Raises
    ------
    ValueError
        If it cannot be merged.
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
    """Merges models as they arrive, always in the same pairs.

    Leaf ``k`` is merged with leaf ``k ^ 1`` into leaf ``k // 2`` of the next level; a leaf without a
    neighbour at the end of a level, or with an empty one, moves up unchanged.

    Parameters
    ----------
    leaves
        Number of shards.
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
        """Set the model of a leaf, None if it learned nothing; each leaf once."""
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
    """Merges the models of one round as they arrive.

    Models remain bytes until they are merged: the model of a single shard is never loaded.

    Parameters
    ----------
    base
        The model that all models continue from.
    shards
        Number of shards.
    join
        Merges models that continue from another.
    """

    def __init__(self, base: bytes, shards: int, join: Join = merged) -> None:
        self._base: bytes | Learner = base
        self._merged = join
        self._tree = Tree(shards, self._join)

    def put(self, shard: int, model: bytes | None) -> None:
        """Set the model of a shard, None if it learned nothing; each shard once."""
        self._tree.put(shard, model)

    def model(self) -> bytes:
        """Return the merged model, or the base if no shard learned anything."""
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
    """Return a learner with the merged codec of learners that continue from ``base``."""
    made: Learner = models[0].clone()
    made._codec.absorb([model._codec for model in models], base._codec)
    return made


def with_fixed_scales(model: bytes) -> bytes:
    """Return the untrained learner to start from, with fixed scales."""
    learner = loads(model)
    learner._codec.freeze_scales()
    return learner.to_bytes()
