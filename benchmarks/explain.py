"""How often `explain_one` names the planted field first, and how long it takes.

    python benchmarks/explain.py --tables 100

Each made table has 2,000 events of 8, 15 or 30 fields, a third of them categories. The target is a function
of one field (a line, a category, a wave) or of two (a product, an exclusive or), plus noise; in every second
table it is a class. The learner has its defaults. The last 20 events are explained.
"""

import argparse
import time

import numpy as np

import streamk

FIELDS = 8, 15, 30
EFFECTS = {
    "line": (("n1",), lambda x: 2.0 * x["n1"]),
    "category": (("c1",), lambda x: {"a": -3.0, "b": -1.0, "c": 1.0, "d": 3.0}[x["c1"]]),
    "product": (("n1", "n2"), lambda x: 2.0 * x["n1"] * x["n2"]),
    "exclusive or": (("n1", "n2"), lambda x: 2.0 * ((x["n1"] > 0.0) ^ (x["n2"] > 0.0))),
    "wave": (("n1",), lambda x: 3.0 * np.sin(2.0 * x["n1"])),
}


def made_table(number, events=2000):
    """Return the events of a table, their targets, and the planted fields."""
    rng, count = np.random.default_rng(number), FIELDS[number % len(FIELDS)]
    planted, effect = list(EFFECTS.values())[number % len(EFFECTS)]
    numbers, categories = (
        rng.normal(size=(events, count - count // 3)),
        rng.integers(4, size=(events, count // 3)),
    )
    xs = [
        {f"n{j}": v for j, v in enumerate(row)} | {f"c{j}": "abcd"[v] for j, v in enumerate(others)}
        for row, others in zip(numbers.tolist(), categories.tolist(), strict=True)
    ]
    targets = np.array([effect(x) for x in xs]) + 0.3 * rng.normal(size=events)
    if number % 2:
        return xs, (targets > np.median(targets)).tolist(), planted
    return xs, targets.tolist(), planted


def explained(number, last=20):
    """Return whether a planted field leads over the last events, in what share of them, and the times."""
    xs, ys, planted = made_table(number)
    learner = (streamk.KernelClassifier if number % 2 else streamk.KernelRegressor)(seed=7)
    learner.learn_many(xs[:-last], ys[:-last])
    learner.explain_one(xs[0])  # compiles
    total, right, times = dict.fromkeys(xs[0], 0.0), 0, []
    for x in xs[-last:]:
        start = time.perf_counter()
        explanation = learner.explain_one(x)
        times.append(time.perf_counter() - start)
        right += next(iter(explanation.contributions)) in planted
        for name, contribution in explanation.contributions.items():
            total[name] += abs(contribution)
    return max(total, key=total.__getitem__) in planted, right / last, times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    tables = parser.parse_args().tables
    results = [explained(number) for number in range(tables)]
    print(f"over 20 events, a planted field is first in {sum(r[0] for r in results)} of {tables} tables")
    print(f"of single events, it is first in {np.mean([r[1] for r in results]):.1%}")
    for place, count in enumerate(FIELDS):
        times = [1e3 * t for each in results[place :: len(FIELDS)] for t in each[2]]
        if times:
            most = np.quantile(times, 0.95)
            print(f"{count} fields: {np.median(times):.1f} ms an event, 95 % within {most:.1f}")


if __name__ == "__main__":
    main()
