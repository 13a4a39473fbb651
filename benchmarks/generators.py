"""Streams that are drawn at random, by the definitions of the literature.

``ADAPTIVE`` has those of the paper on adaptive random forests [^1], each with 1,000,000 events: a drift after
every 250,000 events, abrupt (``_a``, 50 events wide) or gradual (``_g``, 50,000 events wide), or drift
without a pause (``RBF_m``, ``RBF_f``, ``HYPER``). Concepts and their order are those of the MOA commands that
are published with papers on these streams.

References
----------
[^1]: Gomes, H. M., et al., 2017. Adaptive random forests for evolving data stream classification. Machine
    Learning 106.
[^2]: Agrawal, R., Imielinski, T., Swami, A., 1993. Database mining: a performance perspective. IEEE
    Transactions on Knowledge and Data Engineering 5.
[^3]: Cattral, R., Oppacher, F., Deugo, D., 2002. Evolutionary data mining with automatic rule generalization:
    the data set Poker Hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

EVENTS, APART, ABRUPT, GRADUAL = 1_000_000, 250_000, 50, 50_000
SUITS = "clubs", "diamonds", "hearts", "spades"
HANDS = (
    "nothing", "one pair", "two pairs", "three of a kind", "straight", "flush", "full house",
    "four of a kind", "straight flush", "royal flush",
)  # fmt: skip
SEGMENTS = np.array(  # of the digits 0 to 9
    [[int(c) for c in row] for row in
     ("1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111",
      "1111011")]
)  # fmt: skip
Drawn = tuple[pd.DataFrame, list[Any]]
Array = np.ndarray


def rank_of_hand(cards: Sequence[tuple[int, str]]) -> str:
    """Return the rank of five cards; the number of an ace is 1, that of a king 13."""
    numbers = sorted(number for number, _ in cards)
    alike = sorted((numbers.count(n) for n in set(numbers)), reverse=True)
    if len(alike) < 5:
        kinds = {(4, 1): 7, (3, 2): 6, (3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}
        return HANDS[kinds[tuple(alike)]]
    flush, royal = len({suit for _, suit in cards}) == 1, numbers == [1, 10, 11, 12, 13]
    straight = royal or numbers[4] - numbers[0] == 4
    return HANDS[(9 if royal else 8) if flush and straight else 5 if flush else 4 if straight else 0]


def poker(events: int) -> Drawn:
    """Draw hands of five cards from a whole pack: suits as strings, numbers, and the rank of the hand."""
    rng = np.random.default_rng(1)
    drawn = [rng.choice(52, size=5, replace=False) for _ in range(events)]
    hands = [[(1 + card // 4, SUITS[card % 4]) for card in hand.tolist()] for hand in drawn]
    rows = [{f"{kind}{k}": c[kind == "suit"] for k, c in enumerate(hand) for kind in ("suit", "number")}
            for hand in hands]  # fmt: skip
    return pd.DataFrame(rows), [rank_of_hand(hand) for hand in hands]


def concepts(events: int, width: int, rng: np.random.Generator) -> Array:
    """Return which of four concepts each event follows; a drift is a sigmoid of the event's number."""
    found, before = np.zeros(events, dtype=int), np.ones(events, dtype=bool)
    for k in (1, 2, 3):
        steps = 4.0 * (np.arange(events) - k * APART) / width
        before &= rng.random(events) < 1.0 / (1.0 + np.exp(-np.clip(steps, -500.0, 500.0)))
        found += before
    return found


def agrawal(width: int) -> Drawn:
    """Agrawal's applicants for credit [^2], functions 1, 2, 1 and 4; numbers vary by 10 % of their range."""
    rng = np.random.default_rng(1)
    salary = rng.uniform(20_000, 150_000, EVENTS)
    commission = np.where(salary >= 75_000, 0.0, rng.uniform(10_000, 75_000, EVENTS))
    age, level = rng.integers(20, 81, EVENTS), rng.integers(5, size=EVENTS)
    area = rng.integers(9, size=EVENTS)
    value = (9.0 - area) * 100_000 * rng.uniform(0.5, 1.5, EVENTS)
    years, loan = rng.integers(1, 31, EVENTS), rng.uniform(0, 500_000, EVENTS)
    young, old = age < 40, age >= 60

    def within(first: Any, second: Any, third: Any) -> Array:
        """Return whether salaries are at least so many thousands, and at most 50 more."""
        least = 1000.0 * np.where(young, first, np.where(old, third, second))
        found: Array = (least <= salary) & (salary <= least + 50_000)
        return found

    schooled = np.where(level <= 1, 25, 50), np.where((level >= 1) & (level <= 3), 50, 75)
    functions = [young | old, within(50, 75, 25), within(*schooled, np.where(level >= 2, 50, 25))]
    group = np.choose(concepts(EVENTS, width, rng), [functions[k] for k in (0, 1, 0, 2)])

    def perturbed(numbers: Array, least: float, most: float) -> Array:
        moved: Array = numbers + 0.1 * (most - least) * rng.uniform(-1.0, 1.0, EVENTS)
        return np.clip(moved, least, most)

    columns = {
        "salary": perturbed(salary, 20_000, 150_000),
        "commission": np.where(commission > 0.0, perturbed(commission, 10_000, 75_000), 0.0),
        "age": np.round(perturbed(age, 20, 80)),
        "elevel": level, "car": rng.integers(1, 21, EVENTS), "zipcode": area,
        "hvalue": perturbed(value, 50_000, 1_350_000),
        "hyears": np.round(perturbed(years, 1, 30)),
    }  # fmt: skip
    frame = pd.DataFrame(columns).assign(loan=perturbed(loan, 0, 500_000))
    frame = frame.astype(dict.fromkeys(("elevel", "car", "zipcode"), str))
    return frame, np.where(group, "A", "B").tolist()


def led(width: int) -> Drawn:
    """Digits of seven segments, each inverted in 10 % of events, and 17 random inputs.

    In the four concepts 1, 3, 5 and 7 segments are swapped with random inputs.
    """
    rng = np.random.default_rng(1)
    digits, order = rng.integers(10, size=EVENTS), concepts(EVENTS, width, rng)
    X = np.hstack([SEGMENTS[digits] ^ (rng.random((EVENTS, 7)) < 0.1), rng.integers(2, size=(EVENTS, 17))])
    first, other = rng.permutation(7), 7 + rng.permutation(17)
    for k, swapped in enumerate((1, 3, 5, 7)):
        rows = np.flatnonzero(order == k)[:, None]
        here, there = first[:swapped], other[:swapped]
        X[rows, here], X[rows, there] = X[rows, there], X[rows, here]
    return pd.DataFrame(X, columns=[f"bit{j:02d}" for j in range(24)]), digits.tolist()


def sea(width: int) -> Drawn:
    """Whether the sum of two of three inputs exceeds 8, 9, 7, then 9.5; 10 % of the labels are inverted."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 10.0, (EVENTS, 3))
    limits = np.array([8.0, 9.0, 7.0, 9.5])[concepts(EVENTS, width, rng)]
    labels = (X[:, 0] + X[:, 1] > limits) ^ (rng.random(EVENTS) < 0.1)
    return pd.DataFrame(X, columns=["a", "b", "c"]), labels.astype(int).tolist()


def rbf(speed: float) -> Drawn:
    """Five classes of 50 centers in 10 dimensions; every center moves, and turns round at the borders."""
    rng = np.random.default_rng(1)
    centers, weights, spreads = rng.random((50, 10)), rng.random(50), rng.random(50)
    labels, directions = rng.integers(5, size=50), rng.uniform(-1.0, 1.0, (50, 10))
    directions *= speed / np.linalg.norm(directions, axis=1, keepdims=True)
    which = rng.choice(50, EVENTS, p=weights / weights.sum())
    offsets = rng.uniform(-1.0, 1.0, (EVENTS, 10))
    offsets *= (spreads[which] * rng.normal(size=EVENTS) / np.linalg.norm(offsets, axis=1))[:, None]
    moved = np.mod(centers[which] + directions[which] * np.arange(EVENTS)[:, None], 2.0)
    X = 1.0 - np.abs(1.0 - moved) + offsets
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]), labels[which].tolist()


def hyperplane() -> Drawn:
    """The side of a plane in 10 dimensions, 5 % of the labels inverted.

    Each weight moves by 0.001 an event, and changes its direction in 10 % of events.
    """
    rng = np.random.default_rng(1)
    X, weights = rng.random((EVENTS, 10)), rng.random(10)
    directions = np.cumprod(np.where(rng.random((EVENTS, 10)) < 0.1, -1.0, 1.0), axis=0)
    moving = weights + 0.001 * np.cumsum(directions, axis=0)
    labels = ((X - 0.5) * moving).sum(axis=1) >= 0.0
    labels ^= rng.random(EVENTS) < 0.05
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]), labels.astype(int).tolist()


ADAPTIVE: dict[str, Callable[[], Drawn]] = {
    "LED_a": lambda: led(ABRUPT),
    "LED_g": lambda: led(GRADUAL),
    "SEA_a": lambda: sea(ABRUPT),
    "SEA_g": lambda: sea(GRADUAL),
    "AGR_a": lambda: agrawal(ABRUPT),
    "AGR_g": lambda: agrawal(GRADUAL),
    "RBF_m": lambda: rbf(0.0001),
    "RBF_f": lambda: rbf(0.001),
    "HYPER": hyperplane,
}
