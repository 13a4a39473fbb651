"""Merging learners that went on apart from what all of them knew: that is counted once."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.scaling import FIXED, observe, pooled
from streamk.experts.least_squares import LeastSquares

from .subjects import events
from .test_merge import outputs, plain, smooth, unscaled

NAMES = ["a", "b", "c", "d"]


def gone_on(make, first=100, each=60, count=3):
    """A base, and copies of it that have learned on, each from a part of its own."""
    base = make(**unscaled(make))
    for x, y in events(first, seed=1, classifies=make.classifies):
        base.learn_one(plain(x), y)
    base.flush()
    models = []
    for k in range(count):
        models.append(streamk.loads(base.to_bytes()))
        for x, y in events(each + 10 * k, seed=2 + k, classifies=make.classifies):
            models[-1].learn_one(plain(x), y)
        models[-1].flush()
    return base, models


def test_events_and_clocks_are_counted_once(make_kernel):
    base, models = gone_on(make_kernel)
    before = [model.to_bytes() for model in (base, *models)]
    merged = streamk.merge(models, base=base)
    assert [model.to_bytes() for model in (base, *models)] == before
    assert merged.events == 100 + 60 + 70 + 80
    for k, expert in enumerate(merged._experts):
        clocks = [model._experts[k].clock for model in models]
        np.testing.assert_array_equal(expert.clock, sum(clocks) - 2 * base._experts[k].clock)
    again = streamk.loads(merged.to_bytes())
    assert again.to_bytes() == merged.to_bytes()
    for learner in (merged, again):
        for x, y in events(80, seed=9, classifies=make_kernel.classifies):
            learner.learn_one(plain(x), y)
    assert again.to_bytes() == merged.to_bytes()


def test_one_that_learned_nothing_adds_nothing(make_kernel):
    base, models = gone_on(make_kernel, count=1)
    xs = [plain(x) for x, _ in events(40, seed=9)]
    same = streamk.loads(base.to_bytes())
    for merged in (streamk.merge(models, base=base), streamk.merge([same, *models, same], base=base)):
        np.testing.assert_array_equal(outputs(merged, xs)[0], outputs(models[0], xs)[0])
    assert streamk.merge([same, same], base=base).to_bytes() == base.to_bytes()


def test_a_merge_with_an_untrained_base_is_the_merge_without(make_kernel):
    _, models = gone_on(make_kernel)
    empty = make_kernel(**unscaled(make_kernel))
    assert streamk.merge(models, base=empty).to_bytes() == streamk.merge(models).to_bytes()


@pytest.mark.parametrize("name", ["MatchingPursuitRegressor", "KaczmarzPursuitRegressor"])
@pytest.mark.parametrize("tree", [False, True])
def test_recursion_in_rounds_is_that_of_one_learner(name, tree):
    """Three rounds of four shards: the coefficients of the whole, and its predictions but for rounding."""
    _, X, y = smooth(24_000)

    def made():
        return getattr(streamk, name)(
            growth="fixed", features=128, scale_inputs=False, scale_target=False, block_size=1, seed=1
        )

    whole, merged = made(), made()
    whole.learn_many(X, y, names=NAMES)
    for start in range(0, 24_000, 8000):
        models = []
        for shard in range(4):
            rows = slice(start + 2000 * shard, start + 2000 * (shard + 1))
            models.append(streamk.loads(merged.to_bytes()))
            models[-1].learn_many(X[rows], y[rows], names=NAMES)
        base = merged if merged.events else None
        if tree:
            models = [streamk.merge(models[:2], base=base), streamk.merge(models[2:], base=base)]
        merged = streamk.merge(models, base=base)
    assert merged.events == 24_000
    gap = np.abs(np.subtract(*(m.predict_many(X[:500], names=NAMES) for m in (merged, whole)))).max()
    assert gap < 2e-6 * y.std()
    ours, theirs = (m._experts[0].weights for m in (merged, whole))
    np.testing.assert_allclose(ours, theirs, atol=1e-7 * np.abs(theirs).max())
    ours, theirs = (m._experts[0].information for m in (merged, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9 * np.abs(theirs).max())


@njit
def observe_all(values, statistics):
    for value in values:
        observe(value, statistics, 0, np.inf, 1.0)


@pytest.mark.parametrize("far", [0, 1, 2])
def test_statistics_are_those_of_all_events(far):
    """The farthest is held, also where ``far`` of the parts have met a farther one than all knew."""
    rng = np.random.default_rng(far)
    first, *others = (rng.normal(5.0, 2.0, n).clip(0.0, 10.0) for n in (400, 300, 200, 100))
    first[7] = 10.5
    for k in range(far):
        others[k][50] = 11.0 + k
    base = np.zeros((1, FIXED))
    observe_all(first, base)
    parts = []
    for other in others:
        parts.append(base.copy())
        observe_all(other, parts[-1])
    found = pooled([part[0] for part in parts], np.inf, base[0])
    everything = np.concatenate([first, *others])
    held = everything.max()
    rest = np.delete(everything, everything.argmax())
    assert found[3] == held
    assert found[0] == 999
    np.testing.assert_allclose(found[1], rest.mean(), rtol=1e-3)
    np.testing.assert_allclose(found[2], 999 * rest.var(), rtol=1e-2)  # some steps were bounded


@pytest.mark.parametrize("cls", [streamk.KernelRegressor, streamk.KernelClassifier])
def test_rounds_of_shards_err_like_one_learner(cls):
    """Through the openings of blocks under relevance, and with labels and a number first met by a shard."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(12_000, 4))
    f = np.sin(2.0 * z[:, 0]) + z[:, 1] * z[:, 2]
    numbers = cls is streamk.KernelRegressor
    ys = (
        (f + 0.1 * rng.normal(size=len(f))).tolist()
        if numbers
        else ["abc"[k] for k in np.digitize(f, [-0.5, 0.5])]
    )
    xs = [dict(zip(NAMES, row, strict=True)) for row in z.tolist()]
    whole, merged = (cls(features=768, label_memory=False, seed=1) for _ in range(2))
    whole.learn_many(xs[:10_000], ys[:10_000])
    for start in range(0, 10_000, 2000):
        models = []
        for shard in range(2):
            rows = slice(start + 1000 * shard, start + 1000 * (shard + 1))
            models.append(streamk.loads(merged.to_bytes()))
            models[-1].learn_many(xs[rows], ys[rows])
        merged = streamk.merge(models, base=merged)
        assert merged.events == start + 2000
    counts = [model._map.sections.moments[0, 0] for model in (*models, merged)]
    np.testing.assert_allclose(counts[2], np.mean(counts[:2]))  # what fades is not added up again and again
    errors = []
    for model in (whole, merged):
        said = model.predict_many(xs[10_000:])
        wrong = [(a - b) ** 2 if numbers else a != b for a, b in zip(said, ys[10_000:], strict=True)]
        errors.append(np.mean(wrong))
    assert errors[1] < 1.5 * errors[0] + 0.01, errors


@pytest.mark.parametrize("cls", [streamk.KernelRegressor, streamk.KernelClassifier])
def test_weights_for_stale_experts_follow_those_of_the_merged_learner(cls):
    """Each model replaces that set of weights at a copy, so the sets of several do not add up."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6000, 4))
    f = np.sin(2.0 * z[:, 0]) + z[:, 1] * z[:, 2]
    ys = (f if cls is streamk.KernelRegressor else f > 0.0).tolist()
    xs = [dict(zip(NAMES, row, strict=True)) for row in z.tolist()]
    merged = cls(features=768, label_memory=False, seed=1)
    merged.learn_many(xs[:200], ys[:200])
    start = 200
    for each in (900, 300):  # copies at 1,024 and at 4,096 events
        base, models = merged, []
        for _ in range(4):
            models.append(streamk.loads(base.to_bytes()))
            models[-1].learn_many(xs[start : start + each], ys[start : start + each])
            start += each
        merged = streamk.merge(models, base=base)
    stale = merged._stale.combiner
    np.testing.assert_array_equal(stale.weights[-1], merged._combiner.mean_weights)
    assert np.linalg.eigvalsh(stale.curvature[-1])[0] > 0.0
    assert streamk.loads(merged.to_bytes()).to_bytes() == merged.to_bytes()


def test_what_is_refused():
    base = streamk.KaczmarzRegressor(seed=1)
    base.learn_one({"a": 1.0}, 1.0)
    base.learn_one({"a": 2.0}, 1.0)
    less, other = streamk.KaczmarzRegressor(seed=1), streamk.KaczmarzRegressor(seed=2)
    less.learn_one({"a": 1.0}, 1.0)
    with pytest.raises(ValueError, match="model 1 has learned 1 events and the base 2: it does not continue"):
        streamk.merge([base, less], base=base)
    with pytest.raises(ValueError, match="give a base or weights, not both"):
        streamk.merge([base], [1.0], base)
    for i in range(3):
        other.learn_one({"a": float(i)}, 1.0)
    with pytest.raises(ValueError, match="model 0 has seed 2 and the base 1"):
        streamk.merge([other], base=base)
    with pytest.raises(ValueError, match="model 0 is a KaczmarzClassifier and the base a KaczmarzRegressor"):
        streamk.merge([streamk.KaczmarzClassifier(seed=1)], base=base)


def turning(n, seed, turn):
    """A target that turns into its opposite after so many events, so that experts begin anew."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    y = np.where(np.arange(n) < turn, 1.0, -1.0) * np.tanh(2.0 * z[:, 0] + z[:, 1]) + 0.05 * rng.normal(
        size=n
    )
    return [dict(zip(NAMES, row, strict=True)) for row in z.tolist()], y.tolist()


def restarts(learner):
    return sum(row.get("restarts", 0) for row in learner.summary()["experts"])


@pytest.mark.parametrize(
    ("base", "more", "turn"), [(0, 3500, 2000), (1200, 3500, 2000), (2100, 1500, 700), (3000, 800, 0)]
)
def test_learners_that_restarted_merge(base, more, turn):
    """They know less than they were told, and the merge is no worse than either."""
    first = streamk.KernelRegressor(features=768, label_memory=False, seed=1)
    if base:
        first.learn_many(*turning(base, 0, 2500))
    models = [streamk.loads(first.to_bytes()) for _ in range(2)]
    for seed, model in enumerate(models, 1):
        model.learn_many(*turning(more - 100 * seed, seed, turn))
    assert restarts(models[0]) > 0
    merged = streamk.merge(models, base=first)
    assert merged.events == base + 2 * more - 300
    xs, ys = turning(500, 9, 0)
    errors = [np.mean((np.array(m.predict_many(xs)) - ys) ** 2) for m in (*models, merged)]
    assert errors[2] < 1.2 * max(errors[:2])
    assert streamk.loads(merged.to_bytes()).to_bytes() == merged.to_bytes()
    twice = streamk.merge([merged, streamk.merge(models[::-1], base=first)], base=first)
    twice.learn_many(xs, ys)


@pytest.mark.parametrize(
    ("first", "each"), [(1900, 200), (990, 700), pytest.param(900, 64, marks=pytest.mark.long)]
)
def test_a_block_restarted_under_the_same_relevance_does_not_contain_the_base(first, each):
    """Where targets say nothing, every relevance is the same one."""
    base = streamk.KernelRegressor(features=768, label_memory=False, seed=1)
    xs = [{"a": (7.0 * i) % 11, "b": (3.0 * i) % 5} for i in range(first)]
    base.learn_many(xs, [1.0] * first)
    while base.events < 4500:
        parts = [streamk.loads(base.to_bytes()) for _ in range(2)]
        for part in parts:
            part.learn_many(xs[:each], [1.0] * each)
        merged = streamk.merge(parts, base=base)
        for expert, *apart, before in zip(*(model._experts for model in (merged, *parts, base)), strict=True):
            if isinstance(expert, LeastSquares) and expert.watched:
                known = [np.zeros((768, 768)) for _ in range(4)]
                for of, there in zip(known, (expert, *apart, before), strict=True):
                    of[np.ix_(there.joined, there.joined)] = there.information()
                    of[there.joined, there.joined] -= expert.penalty
                anew = known[1][0, 0] < known[3][0, 0]
                wanted = known[1] + known[2] - (0.0 if anew else known[3])
                np.testing.assert_allclose(known[0], wanted, rtol=1e-5, atol=1e-6 * wanted.max())
        base = merged
    assert base._growth.openings > 3
