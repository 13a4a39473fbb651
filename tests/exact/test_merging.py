"""Exact learners merge: samples of parts to a sample of the whole, coefficients over the same centers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamk
from streamk.distributed import Rows, learn
from streamk.features.reservoir import Reservoir

from .references import ticket
from .test_reservoir import events as numbered
from .test_reservoir import filled


def taken(most, samples, seen):
    reservoir = Reservoir(most, 5)
    reservoir.merge_from(samples, seen)
    return reservoir


def fields_of(number):
    """The fields of event ``number`` of those that are counted."""
    keys = [11 if number % 3 == 2 else 9] + [17] * (number >= 30 and number % 2 == 0)
    return {key: float(number) for key in keys}


# ---- samples


@given(st.integers(1, 12), st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_a_merged_sample_has_the_smallest_tickets(most, counts):
    """Parts of several seeds: of all tickets, the least stay, in the order in which they came."""
    reservoirs, drawn, start = [], [], 0
    for seed, count in enumerate(counts):
        reservoirs.append(filled(most, [start, start + count], seed))
        drawn += [(ticket(seed, n, fields_of(start + n)), start + n) for n in range(count)]
        start += count
    merged = taken(most, [r.sample() for r in reservoirs], start)
    numbers = [int(n) for r in reservoirs for n in r.sample().goal[0]]
    expected = {n for _, n in sorted(drawn)[:most]}
    assert merged.sample().goal[0].tolist() == [n for n in numbers if n in expected]
    assert (len(merged), merged.seen) == (min(most, start), start)
    rows, goal = merged.rows()
    assert np.array_equal(rows.values[:, 0], goal[0])
    keys = np.broadcast_to(rows.keys, (len(goal[0]), rows.keys.shape[1]))
    assert np.array_equal(keys[:, 0], np.where(goal[0] % 3 == 2, 11, 9))


def test_a_merged_sample_continues_like_one_of_the_same_events():
    """It evicts by tickets, whatever places its events have."""
    whole = filled(9, [0, 50])
    sample = whole.sample()
    again = taken(9, [sample.select(np.arange(4, 9)), sample.select(np.arange(4))], 50)
    for reservoir in (whole, again):
        reservoir.add(*numbered(50, 120))
    assert sorted(whole.sample().goal[0]) == sorted(again.sample().goal[0])


# ---- learners


def test_labels_that_came_in_another_order():
    """Each part's outputs go to the merged learner's labels, in its first solution and after it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] > 0.5, "right", np.where(X[:, 0] < -0.5, "left", "middle"))
    order = np.argsort(y, kind="stable")[::-1]  # right first; in the other part, left first
    parts = []
    for places in (np.resize(order[::6], 66), np.resize(order[::-1], 600)):
        learner = streamk.LSSVMClassifier(rows=1000, seed=1)
        learner.learn_many(X[places], y[places].tolist(), names=["a", "b"])
        parts.append(learner)
    assert parts[0].labels != parts[1].labels
    for merged in (streamk.merge(parts), streamk.merge(parts[::-1])):
        assert merged._solved == parts[1]._solved  # nothing is due
        assert np.mean(np.array(merged.predict_many(X, names=["a", "b"])) == y) > 0.9
        merged.solve()
        assert np.mean(np.array(merged.predict_many(X, names=["a", "b"])) == y) > 0.9


def numbers(learner, seed):
    X = np.random.default_rng(seed).normal(size=(70, 2))
    learner.learn_many(X, X[:, 0] * X[:, 1], names=["a", "b"])
    return learner


def test_weights_of_samples_are_refused():
    models = [numbers(streamk.LSSVMRegressor(seed=1), k) for k in range(3)]
    with pytest.raises(ValueError, match="every event counts the same"):
        streamk.merge(models, [1.0, 2.0, 1.0])
    assert streamk.merge(models, [1.0, 0.0, 1.0]).events == 140


# ---- shards

LEARNERS = {
    "ls-svm": streamk.LSSVMClassifier(rows=300, seed=1),
    "low-rank": streamk.LowRankKernelClassifier(rows=300, columns=60, seed=1),
    "eigenpro": streamk.EigenProClassifier(centers=40, seed=1),
}


def shards_of(X, y, count):
    rows = [dict(zip("abc", map(float, x), strict=True)) for x in X]
    return [Rows(f"part {k}", rows[k::count], y[k::count]) for k in range(count)]


@pytest.fixture(scope="module")
def ball():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1500, 3))
    return X, ((X**2).sum(axis=1) < 2.0).tolist()


@pytest.mark.parametrize("name", LEARNERS)
def test_shards_learn_like_one(ball, name):
    X, y = ball
    test = np.random.default_rng(3).normal(size=(1000, 3))
    truth = (test**2).sum(axis=1) < 2.0
    one = LEARNERS[name].clone()
    one.learn_many(X, y, names=list("abc"))
    one.flush()
    shards = shards_of(X, y, 6)
    here = learn(shards, LEARNERS[name], round=150, engine="here")
    assert here.learner.events == len(X) == here.events
    if hasattr(one, "solve"):
        assert here.learner._reservoir.seen == len(X)
    right = [np.mean(np.array(m.predict_many(test, names=list("abc"))) == truth) for m in (one, here.learner)]
    assert right[1] > right[0] - 0.02
    assert here.curve[-1].tally.right / here.curve[-1].tally.events > 0.9
    workers = learn(shards, LEARNERS[name], round=150, workers=2)
    assert workers.learner.to_bytes() == here.learner.to_bytes()


def test_passes_bring_eigenpro_nearer(ball):
    X, y = ball
    shards = shards_of(X, y, 4)
    tallies = [e.tally for e in learn(shards, LEARNERS["eigenpro"], round=100, passes=6, engine="here").curve]
    rates = [t.right / t.events for t in tallies if t.events]
    assert np.mean(rates[-5:]) > np.mean(rates[:5])


def test_centers_are_made_by_the_first_alone(ball):
    X, y = ball
    told = []
    learn(shards_of(X, y, 3), LEARNERS["eigenpro"], round=50, engine="here", watch=told.append)
    moves = [(n.shard, n.events) for n in told if not hasattr(n, "tally")]
    assert moves[0] == (0, 120)
    assert moves[1:4] == [(0, 170), (1, 50), (2, 50)]


def test_solutions_are_made_where_shards_meet(ball, monkeypatch):
    """No shard solves by itself what all of them will solve together."""
    X, y = ball
    solved = []
    whole = streamk.LSSVMClassifier.solve
    monkeypatch.setattr(
        streamk.LSSVMClassifier, "solve", lambda self, *a: (solved.append(self.events), whole(self, *a))
    )
    learn(shards_of(X, y, 6), LEARNERS["ls-svm"], round=150, engine="here")
    later = [events for events in solved if events > 256]
    assert later == sorted(set(later))
    assert all(b <= 1.5 * a + 6 for a, b in itertools.pairwise(later))


def test_every_event_is_as_likely_as_any_other_in_shards():
    """A base of 10 events and 3 parts of 10: in 4,000 merged samples of 8, each is in a fifth."""
    counts = np.zeros(40)
    for seed in range(4000):
        base = filled(8, [0, 10], seed)
        samples = [base.sample()]
        for k in range(1, 4):
            part = Reservoir(8, seed)
            part.load_state_dict(base.state_dict(), 0)
            part.add(*numbered(10 * k, 10 * k + 10))
            sample = part.sample()
            samples.append(sample.select(np.flatnonzero(~np.isin(sample.tickets, samples[0].tickets))))
        counts[taken(8, samples, 40).sample().goal[0].astype(int)] += 1
    assert counts.sum() == 32_000
    assert (abs(counts - 800) < 4.5 * np.sqrt(4000 * 0.2 * 0.8)).all()
