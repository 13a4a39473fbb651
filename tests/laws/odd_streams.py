"""Random streams as they occur off the beaten track: each column, target and weight is of an odd kind.

Numbers are constant, heavy-tailed, copies or multiples of others, clocks, or in extreme units; flags are
rare; weights range from 1e-9 to 1e12, and targets from 1e-300 to 1e100.
"""

import numpy as np

COLUMNS = {
    "normal": lambda rng, z, first: z,
    "constant": lambda rng, z, first: np.full_like(z, rng.choice([0.0, 1.0, 1e9, -1e-9])),
    "rare": lambda rng, z, first: (rng.random(len(z)) < 1.0 / rng.choice([30, 300])).astype(float),
    "heavy tail": lambda rng, z, first: np.clip(np.exp(rng.uniform(1.0, 30.0) * z), 0.0, 1e30),
    "copy": lambda rng, z, first: first,
    "multiple": lambda rng, z, first: 2.0 * first - 1e6,
    "almost a multiple": lambda rng, z, first: 2.0 * first + 1e-9 * z,
    "clock": lambda rng, z, first: np.arange(len(z)) * 10.0 ** rng.integers(-3, 9),
    "unit": lambda rng, z, first: z * 10.0 ** rng.integers(-30, 31),
    "whole": lambda rng, z, first: np.round(z),
}
TARGETS = {
    "noise": lambda rng, signal, flag: rng.normal(size=len(signal)),
    "signal": lambda rng, signal, flag: signal,
    "flag": lambda rng, signal, flag: signal / 3.0 + 7.0 * flag,
    "constant": lambda rng, signal, flag: np.full_like(signal, signal[0]),
    "heavy tail": lambda rng, signal, flag: np.exp(rng.uniform(1.0, 20.0) * signal),
    "mostly 0": lambda rng, signal, flag: np.where(flag, 1e6 * signal, 0.0),
    "level shift": lambda rng, signal, flag: signal + 1e6 * (np.arange(len(signal)) > len(signal) / 2),
    "noise, then huge": lambda rng, signal, flag: np.where(
        np.arange(len(signal)) < len(signal) / 2, signal, 1e9 * rng.normal(size=len(signal)) ** 3
    ),
}
UNITS = (0, 0, 0, 3, -3, 12, -12, 98, -100, -300)  # powers of 10
WEIGHTS = {
    "none": lambda rng, n: None,
    "spread": lambda rng, n: 10.0 ** rng.uniform(-9.0, 9.0, size=n),
    "in turn": lambda rng, n: np.where(np.arange(n) % 2, 1.0, 1e9),
    "rarely heavy": lambda rng, n: np.where(rng.random(n) < 0.01, 1e9, 1.0),
    "often light": lambda rng, n: np.where(rng.random(n) < 0.5, 1e-9, 1.0),
    "all heavy": lambda rng, n: np.full(n, 1e12),
}


def pick(rng, choices):
    return choices[list(choices)[rng.integers(len(choices))]]


def flags(rng, n):
    """A rare flag and, maybe, its column: a string that is mostly absent, a boolean or a number."""
    flag = rng.random(n) < 1.0 / rng.choice([30, 300])
    columns = [
        None, ["r" if f else None for f in flag], flag.tolist(), flag.astype(float).tolist(),
        [1.0 if f else None for f in flag],
    ]  # fmt: skip
    return flag, columns[rng.integers(len(columns))]


def odd_stream(seed, classifies, most=600):
    """Events, targets and weights of a stream of up to so many events."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(50, most)), int(rng.choice([1, 2, 4, 12, 60], p=[0.2, 0.2, 0.25, 0.25, 0.1]))
    z = rng.normal(size=(n, width))
    table = {f"x{j}": pick(rng, COLUMNS)(rng, z[:, j], z[:, 0]).tolist() for j in range(width)}
    flag, column = flags(rng, n)
    if column is not None:
        table["r"] = column
    if rng.random() < 0.4:
        table["c"] = rng.choice(list("abc"), size=n).tolist()
    if rng.random() < 0.3:
        table["word"] = [str(word) for word in rng.zipf(1.3, size=n)]
    if rng.random() < 0.1:
        table = {"c": ["a"] * n}
    events = [{name: column[i] for name, column in table.items() if column[i] is not None} for i in range(n)]
    target = pick(rng, TARGETS)(rng, z[:, 0] + rng.normal(size=n) / 3.0, flag)
    weights = pick(rng, WEIGHTS)(rng, n)
    if classifies:
        count = int(rng.integers(1, 12))
        edges = np.quantile(target, np.arange(1, count) / count)
        return events, np.digitize(target, edges).tolist(), weights
    return events, np.clip(target * 10.0 ** rng.choice(UNITS), -1e100, 1e100).tolist(), weights
