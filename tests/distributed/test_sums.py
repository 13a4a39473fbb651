"""Sums over shards, and the tree that models merge in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.distributed.merging import Tree
from streamk.evaluation.tallies import ClassTally, NumberTally, total

NUMBERS = st.floats(-1e6, 1e6)


@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8), max_size=6))
def test_errors_of_numbers_add_up(parts):
    tallies = [NumberTally.of([y for y, _ in part], [p for _, p in part]) for part in parts]
    pairs = np.array([pair for part in parts for pair in part]).reshape(-1, 2)
    found = total([NumberTally(), *tallies])
    assert found.events == len(pairs)
    if len(pairs):
        errors = pairs[:, 0] - pairs[:, 1]
        spread = ((pairs[:, 0] - pairs[:, 0].mean()) ** 2).sum()
        assert found.about_mean == pytest.approx(spread, rel=1e-9, abs=1e-3)
        assert found.values()["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-5)
        assert found.values()["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-5)


def test_r2_of_targets_far_from_zero():
    targets = [1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3]
    found = total([NumberTally.of([y], [y + 0.5]) for y in targets])
    assert found.values()["r2"] == pytest.approx(0.8)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), max_size=6))
def test_right_answers_add_up(parts):
    tallies = [ClassTally.of([y for y, _ in part], [p for _, p in part]) for part in parts]
    right = sum(y == p for part in parts for y, p in part)
    assert total([ClassTally(), *tallies]) == ClassTally(sum(map(len, parts)), right)


def plain_tree(leaves):
    while len(leaves) > 1:
        pairs = [[leaf for leaf in leaves[i : i + 2] if leaf is not None] for i in range(0, len(leaves), 2)]
        leaves = [tuple(pair) if len(pair) == 2 else pair[0] if pair else None for pair in pairs]
    return leaves[0]


@given(st.data())
def test_the_order_of_arrival_does_not_show(data):
    leaves = data.draw(st.lists(st.none() | st.integers(), min_size=1, max_size=20))
    tree = Tree(len(leaves), lambda left, right: (left, right))
    for k in data.draw(st.permutations(range(len(leaves)))):
        tree.put(k, leaves[k])
    assert tree.root == plain_tree(leaves)
