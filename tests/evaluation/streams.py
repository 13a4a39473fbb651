"""Streams of targets and probabilities as learners give them."""

import numpy as np


def classes(seed, events=600, count=2, late=True, silent=0.05, ties=0.1):
    """Return codes, probabilities and last codes: with late classes, ties and events without a prediction."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, count, events)
    if late and count > 2:
        targets[: events // 2] %= count - 1  # the last class comes late, and nobody expects it before
    strength = rng.uniform(0.0, 4.0)
    scores = rng.normal(size=(events, count)) * 2.0
    scores[np.arange(events), targets] += strength
    if late and count > 2:
        scores[: events // 2, -1] = -np.inf
    given = np.exp(scores - scores.max(axis=1, keepdims=True))
    given /= given.sum(axis=1, keepdims=True)
    tied = rng.random(events) < ties
    given[tied, 0] = given[tied, 1] = given[tied][:, :2].mean(axis=1).round(12)
    given[rng.random(events) < silent] = 0.0
    given[0] = 0.0
    return targets, given, np.concatenate([[-1], targets[:-1]])


def cuts(data, events, most=6):
    """Draw where a stream is cut into chunks, with hypothesis; empty chunks are drawn, too."""
    from hypothesis import strategies as st

    return [0, *sorted(data.draw(st.lists(st.integers(0, events), max_size=most))), events]


def same_state(one, other):
    """Return whether two states are the same to the byte."""
    if one[0] != other[0] or one[1].keys() != other[1].keys():
        return False
    return all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in ((one[1][k], other[1][k]) for k in one[1])
    )
