"""Successive halving of settings over one pass of a log.

All settings of a grid are contenders on the same events. From the 2,048th event on, at every doubling, two
kinds of contenders are dropped: those significantly worse than the best
(:mod:`streamk.evaluation.comparison`: ``p`` below a bound divided by the number of comparisons, after
Bonferroni), and, of three or more, those in the worse half of the ranking whose mean is worse. So a grid of
``n`` costs about ``n`` passes over the first events, and a few over all.

A dropped contender has processed fewer events than the others, so it is not ranked with them: its metric is
stored next to that of the best one, both on the events up to then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from connectors.events.learners import check_parameter, parameter_names
from connectors.replay.progress import Replay
from streamk.arrays import Json

FIRST = 2048  # events before the first contender is dropped
SURE = 0.01  # of a wrong drop by the test, over all contenders at one doubling
GRIDS: dict[str, dict[str, Sequence[str]]] = {
    "kernel": {"features": ("768", "2304"), "label_memory": ("true", "false")},
    "kaczmarz": {
        "features": ("512", "2048"),
        "bandwidth": ("none", "1", "3"),
        "memory": ("none", "1000"),
    },
    "doubly-stochastic": {"features": ("64", "256"), "bandwidth": ("none", "1", "3")},
    "matching-pursuit": {"features": ("256", "512"), "bandwidth": ("none", "1", "3")},
    "subspace-pursuit": {"features": ("512", "2048"), "bandwidth": ("none", "1", "3")},
    "kaczmarz-pursuit": {"features": ("256", "512"), "bandwidth": ("none", "1", "3")},
}


def grid_of(
    learner: str, grid: Sequence[str], fixed: Mapping[str, object] = MappingProxyType({})
) -> list[str]:
    """Return the contenders of a grid: all combinations of values.

    Parameters
    ----------
    learner
        A learner of streamk.
    grid
        ``KEY=VALUE|VALUE…`` strings; none means the learner's grid.
    fixed
        Parameters that all contenders have, unless the grid has other values of them.

    Raises
    ------
    ValueError
        If a string has another form, or the learner has no grid.

    Examples
    --------
    >>> grid_of("kaczmarz", ["features=64|128", "memory=none"])
    ['kaczmarz:features=64,memory=none', 'kaczmarz:features=128,memory=none']
    """
    values: dict[str, Sequence[str]] = {}
    known = parameter_names(learner)
    for text in grid:
        key, equals, choices = text.partition("=")
        if not equals or not key or not all(choices.split("|")):
            raise ValueError(f"--grid {text}: write KEY=VALUE|VALUE")
        check_parameter(f"--grid {text}", key, learner, known)
        values[key] = choices.split("|")
    if not values:
        if learner not in GRIDS:
            raise ValueError(f"{learner} has no grid of its own; give --grid KEY=VALUE|VALUE")
        values = dict(GRIDS[learner])
    values = {**{key: (_text(value),) for key, value in fixed.items() if key not in values}, **values}
    pairs = [[f"{key}={value}" for value in each] for key, each in values.items()]
    return [f"{learner}:{','.join(combination)}" for combination in product(*pairs)]


def _text(value: object) -> str:
    """Return a parameter of the settings as people write it in a command."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


class Dropped(NamedTuple):
    """A contender that was dropped, and what was known then.

    Attributes
    ----------
    events
        Events that it was scored on: as many as ``best`` was then.
    value, best_value
        The headline metric of the contender and of the best one, both on these events.
    best
        The contender that was the best then.
    reason
        In words.
    """

    events: int
    value: float
    best: str
    best_value: float
    reason: str

    @property
    def why(self) -> str:
        """The reason, with what it is about."""
        return f"{self.reason} after {self.events:,} events, when {self.best} was the best"


class Halving:
    """Drops contenders of a running replay; it is called after every chunk.

    Attributes
    ----------
    dropped
        The dropped contenders, with the results at that time.
    """

    def __init__(self, watch: Callable[[Replay], None]) -> None:
        self._watch, self._next = watch, FIRST
        self.dropped: dict[str, Dropped] = {}

    def __call__(self, run: Replay) -> None:
        """Drop contenders if that is due, and call the watcher."""
        if run.events >= self._next:
            self._next *= 2
            self._halve(run)
        self._watch(run)

    def _halve(self, run: Replay) -> None:
        results = run.results()
        ranked = results.ranking()
        if not ranked:
            return
        best, others = ranked[0], ranked[1:]
        half = (len(ranked) + 1) // 2
        for place, name in enumerate(others, 1):
            comparison = results.compare(best, name)
            advantage = comparison.advantage
            if advantage is None:
                continue
            if comparison.p < SURE / len(others):
                reason = "clearly worse"
            elif place >= half > 1 and advantage.mean > 0.0:
                reason = "in the worse half"
            else:
                continue
            value, of_best = (results.metrics_of(each, results.headline) for each in (name, best))
            dropped = self.dropped[name] = Dropped(run.events, value, best, of_best, reason)
            run.contest.drop(name, dropped.why)


def table_of(name: str, parameters: Json) -> str:
    """Return the settings of a contender as the ``[learner]`` table of a daemon's settings.

    >>> print(table_of("kaczmarz", {"features": 64, "kernel": "laplace", "memory": None}))
    [learner]
    name = "kaczmarz"
    parameters = {features = 64, kernel = "laplace"}
    """
    pairs = (f"{key} = {_toml(value)}" for key, value in parameters.items() if value is not None)
    return f'[learner]\nname = "{name}"\nparameters = {{{", ".join(pairs)}}}'


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value) if isinstance(value, (int, float)) else '"' + str(value).replace('"', '\\"') + '"'
