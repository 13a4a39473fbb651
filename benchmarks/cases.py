"""Made streams on which learners are known to be weak, each with the figure that it should reach.

    python benchmarks/cases.py [--only CASE …] [--seeds N] [--budget BUDGET] [--json]

Events are predicted and then learned in turn. Prints R² of numbers, or accuracy, over the second half of a
stream (by exception, as the case says), with means over seeds, which also draw the stream. *best* is what the
function that drew the targets reaches, without their noise. The first 50 events of public tables, in random
order, are all scored, with ten orders for a seed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

from streamk import KernelClassifier, KernelRegressor

Array = np.ndarray
Event = dict[str, Any]
_FEW, _ORDERS = 50, 10  # first events of a table, and orders for a seed


class Stream(NamedTuple):
    """Events, targets, what the true function says of each, weights, and from which event scores count."""

    events: list[Event]
    targets: list[Any]
    best: Array
    weights: Array | None = None
    since: float = 0.5


def events_of(**columns: Any) -> list[Event]:
    """Return events of columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*map(_plain, columns.values()), strict=True)]


def _plain(column: Any) -> list[Any]:
    return np.asarray(column).tolist()


def _numbers(rng: np.random.Generator, count: int) -> tuple[dict[str, Array], Array]:
    """Return three numbers, and a smooth function of them with the deviation .3 or so."""
    columns = {name: rng.normal(size=count) for name in "abc"}
    return columns, 0.25 * columns["a"] + 0.15 * np.sin(2.0 * columns["b"])


def _of_categories(rng: np.random.Generator, chosen: Array) -> Stream:
    """Return numbers with an effect of each value of a category."""
    columns, smooth = _numbers(rng, len(chosen))
    best = smooth + rng.normal(size=chosen.max() + 1)[chosen]
    names = [f"v{value}" for value in chosen]
    return Stream(events_of(category=names, **columns), _noisy(rng, best, 0.2), best)


def _noisy(rng: np.random.Generator, best: Array, deviation: float) -> list[float]:
    return list((best + deviation * rng.normal(size=len(best))).tolist())


def many_values(rng: np.random.Generator) -> Stream:
    """Draw a category of 2,000 values, 15 events each."""
    return _of_categories(rng, rng.permutation(np.repeat(np.arange(2_000), 15)))


def zipf(rng: np.random.Generator) -> Stream:
    """Draw a category of 5,000 values with frequencies by Zipf's law."""
    shares = 1.0 / np.arange(1, 5_001)
    return _of_categories(rng, rng.choice(5_000, size=30_000, p=shares / shares.sum()))


def integer_codes(rng: np.random.Generator) -> Stream:
    """Draw a category of 500 values that are whole numbers."""
    columns, smooth = _numbers(rng, 30_000)
    codes = rng.integers(500, size=30_000)
    best = smooth + rng.normal(size=500)[codes]
    return Stream(events_of(code=codes, **columns), _noisy(rng, best, 0.2), best)


def users(rng: np.random.Generator) -> Stream:
    """Draw 1,000 users with different rates, and a number that shifts all of them."""
    who, x = rng.integers(1_000, size=30_000), rng.normal(size=30_000)
    rates = 1.0 / (1.0 + np.exp(-2.0 * rng.normal(size=1_000)[who] - x))
    names = [f"u{user}" for user in who]
    return Stream(events_of(user=names, x=x), (rng.random(30_000) < rates).tolist(), rates > 0.5)


def two_categories(rng: np.random.Generator) -> Stream:
    """Draw 1,000 users and 500 items, whose effects add up."""
    who, what = rng.integers(1_000, size=30_000), rng.integers(500, size=30_000)
    best = rng.normal(size=1_000)[who] + rng.normal(size=500)[what]
    names = {"user": [f"u{k}" for k in who], "item": [f"i{k}" for k in what]}
    return Stream(events_of(**names), _noisy(rng, best, 0.3), best)


def other_inputs(rng: np.random.Generator) -> Stream:
    """Draw a function of three of twenty numbers, and of other three after 8,000 events."""
    x = rng.normal(size=(16_000, 20))
    first, second = (np.sin(1.5 * x[:, k]) + x[:, k + 1] * x[:, k + 2] for k in (0, 10))
    best = np.where(np.arange(16_000) < 8_000, first, second)
    columns = {f"x{k}": x[:, k] for k in range(20)}
    return Stream(events_of(**columns), _noisy(rng, best, 0.1), best, since=0.75)


def lognormal(rng: np.random.Generator) -> Stream:
    """Draw a linear function of numbers with lognormal distributions."""
    x = np.exp(rng.normal(size=(20_000, 5)))
    best = x @ np.array([1.0, -1.0, 0.5, 0.5, 0.25])
    return Stream(events_of(**{f"x{k}": x[:, k] for k in range(5)}), _noisy(rng, best, 0.1), best)


def amounts(rng: np.random.Generator) -> Stream:
    """Draw a linear function of amounts of which 97 % are 0."""
    x = np.where(rng.random((20_000, 5)) < 0.03, np.exp(rng.normal(size=(20_000, 5))), 0.0)
    best = x @ np.array([1.0, -1.0, 0.5, 0.5, 0.25])
    return Stream(events_of(**{f"x{k}": x[:, k] for k in range(5)}), _noisy(rng, best, 0.02), best)


def rare_flag(rng: np.random.Generator) -> Stream:
    """Draw targets of which one in 200 is large, as a flag says."""
    columns, smooth = _numbers(rng, 20_000)
    flag = rng.random(20_000) < 0.005
    best = smooth + 50.0 * flag
    return Stream(events_of(flag=flag.astype(int), **columns), _noisy(rng, best, 0.2), best)


def meaningful_gaps(rng: np.random.Generator) -> Stream:
    """Draw a number whose absence counts two deviations."""
    columns, smooth = _numbers(rng, 20_000)
    gone, d = rng.random(20_000) < 0.2, rng.normal(size=20_000)
    best = smooth + np.where(gone, 2.0, 0.3 * d)
    return Stream(events_of(d=np.where(gone, np.nan, d), **columns), _noisy(rng, best, 0.3), best)


def heavy_weights(rng: np.random.Generator) -> Stream:
    """Draw a smooth function, every event with a weight of ten million."""
    columns, smooth = _numbers(rng, 10_000)
    return Stream(events_of(**columns), _noisy(rng, smooth, 0.1), smooth, np.full(10_000, 1e7))


def exponential(rng: np.random.Generator) -> Stream:
    """Draw targets over twelve orders of magnitude; scores are the mean absolute error of *best*, by ours."""
    x = rng.uniform(-1.0, 1.0, size=(20_000, 3))
    best = 10.0 ** (3.0 * x[:, 0] + 2.0 * x[:, 1] + x[:, 2])
    noisy = best * np.exp(0.1 * rng.normal(size=20_000))
    return Stream(events_of(**{f"x{k}": x[:, k] for k in range(3)}), noisy.tolist(), best)


def _first(load: Callable[..., Any]) -> Callable[[np.random.Generator], Stream]:
    """Return a function that draws the first 50 events of a table of scikit-learn."""

    def draw(rng: np.random.Generator) -> Stream:
        X, y = load(return_X_y=True)
        drawn = rng.permutation(len(y))[:_FEW]
        labels = [str(label) for label in y[drawn]]
        events = events_of(**{f"x{k}": X[drawn, k] for k in range(X.shape[1])})
        return Stream(events, labels, np.array(labels), since=0.0)

    return draw


def bursts(rng: np.random.Generator) -> Stream:
    """Draw a smooth function, whose noise is ten times as large in 500 of 2,500 events."""
    columns, smooth = _numbers(rng, 12_500)
    noise = np.where(np.arange(12_500) % 2_500 < 2_000, 0.05, 0.5)
    return Stream(events_of(**columns), list((smooth + noise * rng.normal(size=12_500)).tolist()), smooth)


def _covered(learner: Any, stream: Stream) -> float:
    """Return how many targets of the first 100 events of bursts lie within intervals of level 0.9."""
    inside = []
    for k, (x, y) in enumerate(zip(stream.events, stream.targets, strict=True)):
        if k >= 2_500 and 2_000 <= k % 2_500 < 2_100:
            ends = learner.predict_interval_one(x)
            inside.append(ends.lower <= y <= ends.upper)
        learner.learn_one(x, y)
    return float(np.mean(inside))


CASES: dict[str, tuple[Callable[[np.random.Generator], Stream], float]] = {
    "category of 2,000 values": (many_values, 0.86),
    "category of 5,000 values, Zipf": (zipf, 0.78),
    "1,000 users": (users, 0.80),
    "users and items": (two_categories, 0.90),
    "500 integer codes": (integer_codes, 0.90),
    "other inputs matter": (other_inputs, 0.98),
    "lognormal inputs": (lognormal, 0.98),
    "amounts, mostly 0": (amounts, 0.98),
    "rare large targets": (rare_flag, 0.95),
    "gaps that mean something": (meaningful_gaps, 0.90),
    "weights of ten million": (heavy_weights, 0.90),
    "twelve orders of magnitude": (exponential, 0.90),
    "coverage as a burst of noise begins": (bursts, 0.85),
    "first 50 of iris": (_first(datasets.load_iris), 0.84),
    "first 50 of wine": (_first(datasets.load_wine), 0.92),
    "first 50 of breast cancer": (_first(datasets.load_breast_cancer), 0.90),
    "first 50 of digits": (_first(datasets.load_digits), 0.60),
}


def score(targets: list[Any], said: list[Any], classes: bool) -> float:
    """Return accuracy of classes, R² of numbers."""
    if classes:
        return float(np.mean([a == b for a, b in zip(targets, said, strict=True)]))
    y, f = np.array(targets, dtype=float), np.array(said, dtype=float)
    return float(1.0 - np.mean((y - f) ** 2) / np.var(y))


def measure(name: str, seed: int, budget: str) -> tuple[float, float]:
    """Return the score of a case, and the best one."""
    stream = CASES[name][0](np.random.default_rng(seed))
    classes = isinstance(stream.targets[0], (bool, str))
    learner = (KernelClassifier if classes else KernelRegressor)(seed=seed, budget=budget)
    if CASES[name][0] is bursts:
        return _covered(learner, stream), 0.9
    said: list[Any] = []
    for start in range(0, len(stream.events), 100):
        part = slice(start, start + 100)
        weights = None if stream.weights is None else stream.weights[part].tolist()
        said += learner.predict_learn_many(stream.events[part], stream.targets[part], weights)
    since = int(stream.since * len(stream.events))
    last, best = stream.targets[since:], list(stream.best[since:].tolist())
    if name == "twelve orders of magnitude":
        ours, least = (np.abs(np.array(f) - last).mean() for f in (said[since:], best))
        return float(least / ours), 1.0
    return score(last, said[since:], classes), score(last, best, classes)


def main() -> None:
    """Measure the chosen cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", default="default")
    parser.add_argument("--json", action="store_true", help="a line of JSON per case")
    arguments = parser.parse_args()
    if not arguments.json:
        print("| case | streamk | should be | best |\n| --- | ---: | ---: | ---: |", flush=True)
    for name in arguments.only:
        seeds = arguments.seeds * (_ORDERS if name.startswith("first") else 1)
        scores = [measure(name, seed, arguments.budget) for seed in range(seeds)]
        ours, best = np.mean(scores, axis=0)
        if arguments.json:
            line = {"case": name, "score": ours, "should_be": CASES[name][1], "best": best}
            print(json.dumps(line), flush=True)
        else:
            print(f"| {name} | {ours:.3f} | {CASES[name][1]:.2f} | {best:.3f} |", flush=True)


if __name__ == "__main__":
    main()
