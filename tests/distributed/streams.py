"""Shards and learners of the tests, and a run of rounds written once more as a plain loop."""

import math
import os
import signal
from dataclasses import dataclass, field

import streamk
from streamk.distributed import Rows

CLASSIFIER = streamk.KaczmarzClassifier(features=64, seed=7)
REGRESSOR = streamk.MatchingPursuitRegressor(features=64, block_size=32, seed=7)


def shards_of(sizes, classes=True):
    """Shards of so many events, no two alike."""
    shards, number = [], 0
    for k, size in enumerate(sizes):
        rows, targets = [], []
        for _ in range(size):
            x, colour = math.sin(number * 1.7) * 3.0, "red" if number % 3 else "blue"
            rows.append({"x": x, "colour": colour})
            targets.append(bool(x * x > 3.0) if classes else x * x + number % 3)
            number += 1
        shards.append(Rows(f"part {k}", rows, targets))
    return shards


def merged(models, base):
    """Return the merge of models that continue from a base."""
    return streamk.merge(models, base=base)


def tree(models, base):
    """Merge neighbours until there is one model; None is one that learned nothing."""
    while len(models) > 1:
        pairs = [models[i : i + 2] for i in range(0, len(models), 2)]
        pairs = [[model for model in pair if model is not None] for pair in pairs]
        models = [merged(p, base) if len(p) == 2 else p[0] if p else None for p in pairs]
    return models[0]


def reference(shards, learner, count, passes=1):
    """The bytes that a run must end with."""
    model = learner
    for _ in range(passes):
        at = [0] * len(shards)
        while any(start < len(shard.rows) for start, shard in zip(at, shards, strict=True)):
            models, size, led = [], count, len(shards) > 1 and not model.events
            if led:  # the first that has events learns alone
                size = min(count, 256)
            elif len(shards) > 1:
                size = min(count, max(64, model.events // len(shards)))
            for k, shard in enumerate(shards):
                part = slice(at[k], at[k] + size)
                if not shard.rows[part] or (led and any(models)):
                    models.append(None)
                    continue
                at[k] += size
                copy = streamk.loads(model.to_bytes())
                copy.learn_many(shard.rows[part], shard.targets[part], shard.weights and shard.weights[part])
                copy.flush()
                models.append(copy)
            model = tree(models, model if model.events else None)
    return model.to_bytes()


@dataclass(frozen=True)
class Untouchable:
    """A shard that nobody may read."""

    name: str = "untouchable"

    def read(self, position, count):
        raise AssertionError("it was read")


@dataclass(frozen=True)
class Deadly:
    """A shard that kills whoever reads it."""

    name: str = "deadly"

    def read(self, position, count):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Odd:
    """A shard that gives what it is told, or raises it."""

    given: object
    name: str = "odd"

    def read(self, position, count):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@dataclass
class News:
    """What a run told, and an interruption after so many rounds."""

    until: int = 10**9
    told: list = field(default_factory=list)

    def __call__(self, news):
        self.told.append(news)
        if len(self.rounds) == self.until and hasattr(news, "tally"):
            raise KeyboardInterrupt

    @property
    def rounds(self):
        return [news for news in self.told if hasattr(news, "tally")]
