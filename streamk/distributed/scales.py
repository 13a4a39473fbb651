"""Scales that shards agree on before they learn: a pass over everything in which codecs learn alone.

Running scales differ from shard to shard, and so do features and what coefficients mean. Here every shard
goes through its events once for names, labels, and the scales of inputs and targets; these are pooled in the
tree of all rounds, and given to everybody. Models of second order then merge to what one learner with these
scales would know.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamk.encoding.given import give_scales
from streamk.learners.files import loads
from streamk.learners.learner import Learner

SCALES = ("running", "first")


def pooled(models: Sequence[Learner], base: Learner) -> Learner:
    """Return a learner of what codecs know together, each of which has learned on from that of ``base``."""
    made: Learner = models[0].clone()
    made._codec.absorb([model._codec for model in models], base._codec)
    return made


def given(model: bytes) -> bytes:
    """Return the learner to begin with: it knows no event, and its scales are given."""
    learner = loads(model)
    give_scales(learner._codec)
    return learner.to_bytes()
