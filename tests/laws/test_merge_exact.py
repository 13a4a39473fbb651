"""Merging learners that keep events, or coefficients over centers made of events."""

import numpy as np
import pytest

import streamk
from streamk.encoding.rows import CATEGORY

from .subjects import events


def pairs_of(n, seed, classifies):
    return [list(part) for part in zip(*events(n, seed=seed, classifies=classifies), strict=True)]


def reservoir_only(make):
    if not hasattr(make(), "solve"):
        pytest.skip("keeps no events")


def waiting_for_none(learner, xs, ys):
    learner.learn_many(xs, ys)
    learner.flush()
    return learner


def test_parts_that_fit_are_the_whole(make_exact):
    """Names and labels that come in another order in each part, missing values: as one learner of all."""
    reservoir_only(make_exact)
    unscaled = {"rows": 500, "scale_inputs": False, "bandwidth": 2.0}
    first, second = (pairs_of(n, seed, make_exact.classifies) for n, seed in ((90, 1), (130, 2)))
    second[0] = [dict(reversed(x.items())) for x in second[0]]
    for xs in (first[0], second[0]):
        for x in xs:
            x["b"] /= 100.0
    parts = [waiting_for_none(make_exact(**unscaled), *pairs) for pairs in (first, second)]
    before = [part.to_bytes() for part in parts]
    merged, whole = streamk.merge(parts), make_exact(**unscaled)
    for pairs in (first, second):
        waiting_for_none(whole, *pairs)
    assert [part.to_bytes() for part in parts] == before
    assert merged.events == whole.events == 220
    for learner in (merged, whole):
        learner.solve()
    found, expected = (answers(learner, first[0]) for learner in (merged, whole))
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    assert merged.feature_count == whole.feature_count


def test_samples_are_encoded_for_the_merged_learner(make_exact):
    """With scales: the same names, labels and values, wherever each learner has put them."""
    reservoir_only(make_exact)
    pairs = [pairs_of(n, seed, make_exact.classifies) for n, seed in ((30, 1), (60, 2))]
    for x in pairs[1][0][:10]:  # there, a comes last; it is missing at times
        x.pop("a")
    merged = streamk.merge([waiting_for_none(make_exact(rows=500), *each) for each in pairs])
    whole = make_exact(rows=500)
    for each in pairs[::-1]:
        waiting_for_none(whole, *each)
    if whole.scale_inputs:
        assert list(merged._codec.inputs.numbers) != list(whole._codec.inputs.numbers)
    assert sorted(kept(merged), key=repr) == sorted(kept(whole), key=repr)


def kept(learner):
    """The events of a reservoir, as their names, keys, values, and labels."""
    rows, goal = learner._reservoir.rows()
    names = list(learner._codec.inputs.numbers)
    found = []
    for slots, keys, values, (y, w) in zip(
        *(np.broadcast_to(a, rows.values.shape).tolist() for a in rows), goal.T.tolist(), strict=True
    ):
        fields = set()
        for slot, key, value in zip(slots, keys, values, strict=True):
            if key:
                missing = CATEGORY < slot < -1
                name = names[slot] if slot >= 0 else names[-2 - slot] if missing else ""
                fields.add((key, name, value, missing))
        found.append((sorted(fields), learner.labels[int(y)] if hasattr(learner, "labels") else y, w))
    return found


def answers(learner, xs):
    if not hasattr(learner, "labels"):
        return np.array(learner.predict_many(xs))
    labels = sorted(learner.labels)
    return np.array([[p[label] for label in labels] for p in learner.predict_proba_many(xs)])


def test_the_events_of_the_base_count_once(make_exact):
    """Three that go on from one; merged in one step, or in a tree, they are the same."""
    base = make_exact()
    waiting_for_none(base, *pairs_of(100, 1, make_exact.classifies))
    parts = []
    for seed in (2, 3, 4):
        parts.append(streamk.loads(base.to_bytes()))
        waiting_for_none(parts[-1], *pairs_of(20 * seed, seed, make_exact.classifies))
    merged = streamk.merge(parts, base=base)
    tree = streamk.merge([streamk.merge(parts[:2], base=base), parts[2]], base=base)
    assert merged.events == tree.events == 100 + 40 + 60 + 80
    if hasattr(base, "solve"):
        kept = [sorted(m._reservoir.sample().tickets) for m in (merged, tree)]
        assert kept[0] == kept[1]
        assert len(kept[0]) == min(280, base.rows)
        everybody = [set(m._reservoir.sample().tickets.tolist()) for m in (base, *parts)]
        assert {int(t) for t in kept[0]} <= set.union(*everybody)
        counts = [np.count_nonzero(np.isin(kept[0], list(known))) for known in everybody]
        assert counts[0] <= base.events
    else:
        shares = np.array([40, 60, 80]) / 180
        expected = sum(s * wide(p, merged) for s, p in zip(shares, parts, strict=True))
        np.testing.assert_allclose(merged._expansion.coefficients, expected, atol=1e-12)
        np.testing.assert_allclose(tree._expansion.coefficients, expected, atol=1e-12)


def wide(part, merged):
    """Coefficients of a part, its outputs where the merged learner has their labels."""
    given = part._expansion.coefficients
    found = np.zeros_like(merged._expansion.coefficients)
    for k in range(given.shape[1]):
        found[:, merged.labels.index(part.labels[k]) if hasattr(part, "labels") else k] += given[:, k]
    return found


def test_a_merged_learner_learns_on(make_exact):
    base = waiting_for_none(make_exact(), *pairs_of(80, 1, make_exact.classifies))
    parts = [streamk.loads(base.to_bytes()) for _ in range(2)]
    for seed, part in enumerate(parts, 2):
        waiting_for_none(part, *pairs_of(50, seed, make_exact.classifies))
    merged = streamk.merge(parts, base=base)
    copy = streamk.loads(merged.to_bytes())
    for learner in (merged, copy):
        for x, y in events(90, seed=5, classifies=make_exact.classifies):
            learner.learn_one(x, y)
    assert copy.to_bytes() == merged.to_bytes()
    assert merged.events + merged.pending == 270
    merged.predict_one(events(1)[0][0])


def test_one_model_merged_is_that_model(make_exact):
    model, empty = make_exact(), make_exact()
    waiting_for_none(model, *pairs_of(70, 1, make_exact.classifies))
    for merged in (
        streamk.merge([model]),
        streamk.merge([empty, model, empty]),
        streamk.merge([model], base=model),
    ):
        assert merged.to_bytes() == model.to_bytes()
    assert streamk.merge([empty, empty]).to_bytes() == empty.to_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.closed(), r"model 1 was closed"),
        (lambda m: clone_learned(m, seed=12), r"seed|other centers"),
        (lambda m: clone_learned(m, bandwidth=9.0), r"model 1 has bandwidth=9.0 and model 0 bandwidth=None"),
    ],
)
def test_what_cannot_be_merged_is_refused(make_exact, change, message):
    model = waiting_for_none(make_exact(), *pairs_of(80, 1, make_exact.classifies))
    with pytest.raises(ValueError, match=message):
        streamk.merge([model, change(model)])


def clone_learned(model, **changes):
    xs, ys = pairs_of(80, 1, hasattr(model, "labels"))
    return waiting_for_none(model.clone(changes), xs, ys)


def test_the_expansion_is_that_of_the_model_that_solved_the_most(make_exact):
    reservoir_only(make_exact)
    parts = [make_exact(rows=500) for _ in range(2)]
    for part, count in zip(parts, (60, 200), strict=True):
        waiting_for_none(part, *pairs_of(count, count, make_exact.classifies))
        part.solve()
    for merged in (streamk.merge(parts), streamk.merge(parts[::-1])):
        assert merged._solved == parts[1]._solved
        assert merged.feature_count == parts[1].feature_count
