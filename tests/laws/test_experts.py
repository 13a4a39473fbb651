"""Experts side by side: each learns what it would learn alone."""

import itertools

import numpy as np
import pytest

import streamk
from streamk.experts.gradient import Gradient
from streamk.experts.least_squares import LeastSquares
from streamk.experts.projection import Projection
from streamk.experts.recursion import Recursion
from streamk.experts.subspace import Subspace
from streamk.losses import CODES
from streamk.schedules import Growth

from .subjects import events

CLASS, NUMBER = CODES["class", "squared"], CODES["number", "squared"]
MARGIN, HUBER = CODES["class", "margin"], CODES["number", "huber"]
LOGISTIC = CODES["class", "logistic"]
RULES = {
    "projection": lambda loss: Projection(loss, False, 0.3, None),
    "projection, averaged": lambda loss: Projection(loss, True, 0.1, 50),
    "projection, other loss": lambda loss: Projection(MARGIN if loss == CLASS else HUBER, False, 1.0, 0),
    "projection, logistic": lambda loss: Projection(
        LOGISTIC if loss == CLASS else loss, False, 0.0, 0, gain=0.3
    ),
    "projection, some columns": lambda loss: Projection(loss, False, 0.3, 0, slice(64, 128)),
    "projection, slow": lambda loss: Projection(loss, False, 0.0, 0, gain=0.1),
    "least squares": lambda loss: LeastSquares(loss, 30.0, 1.0, slice(0, 128), 1.0),
    "least squares, forgetting": lambda loss: LeastSquares(loss, 30.0, 0.99, slice(64, 128), 1.0),
    "least squares, watched": lambda loss: LeastSquares(loss, 30.0, 1.0, slice(0, 128), 1.0, True),
    "least squares, logistic": lambda loss: LeastSquares(
        LOGISTIC if loss == CLASS else loss, 30.0, 0.99, slice(0, 128), 1.0
    ),
    "subspace": lambda loss: Subspace(loss, 16, 1.0, 0.02),
    "subspace, some columns": lambda loss: Subspace(loss, 16, 1.0, 0.1, slice(64, 128)),
    "recursion": lambda loss: Recursion(loss, False, 1.0, False),
    "recursion, projected": lambda loss: Recursion(loss, True, 0.5, False, True, 0.3, None),
    "recursion, some columns": lambda loss: Recursion(loss, False, 1.0, False, columns=slice(128, 192)),
}
BLOCK_RULES = {
    "projection": lambda loss: Projection(loss, False, 0.3, None),
    "recursion": lambda loss: Recursion(loss, False, 1.0, True, True, 0.3, None),
    "gradient": lambda loss: Gradient(loss, True, 64, True, 0.03, None, 1),
    "gradient, descending": lambda loss: Gradient(loss, False, 64, False, 0.1, None, 2),
}


def several(classifies, rules, together=1, growing=False, **settings):
    """A learner of these experts, in the order of :func:`in_groups`."""
    cls, loss = (streamk.KaczmarzClassifier, CLASS) if classifies else (streamk.KaczmarzRegressor, NUMBER)

    class Several(cls):
        def __post_init__(self):
            self._check()
            growth = Growth("linear", 150, 64, 256) if growing else Growth("fixed", 1, 192, 192)
            known = RULES if together == 1 else BLOCK_RULES
            every = [known[name](loss) for name in in_groups(known)]
            self._begin([rule(loss) for rule in rules], growth, together, rules=every)

    return Several(**{"features": 64 if growing else 192, "seed": 5, **settings})


def learned(classifies, rules, **settings):
    learner = several(classifies, rules, **settings)
    xs, ys = map(list, zip(*events(1000, classifies=classifies), strict=True))
    for x, y in zip(xs[:50], ys, strict=False):
        learner.learn_one(x, y)
    learner.learn_many(xs[50:], ys[50:])
    learner.flush()
    return [b"".join(a.tobytes() for a in e.state_dict().values()) for e in learner._experts], learner


def in_groups(names):
    """Experts of one rule side by side, as a learner has them."""
    return sorted(names, key=lambda name: name.split(",")[0])


def test_columns_move_with_their_coefficients():
    rng = np.random.default_rng(0)
    expert = Projection(CLASS, True, 0.3, None)
    expert.grow(3, 64, 64)
    expert.coefficients[:] = before = rng.normal(size=expert.coefficients.shape).astype(np.float32)
    places = rng.permutation(64)
    forgotten = places == 5
    expert.rearrange(np.where(forgotten, -1, places))
    assert (expert.coefficients[:, :, places[~forgotten]] == before[:, :, ~forgotten]).all()
    assert not expert.coefficients[:, :, 5].any()


@pytest.mark.parametrize(
    ("together", "classifies", "growing"),
    [
        (1, True, False),
        (1, False, True),
        (128, True, False),
        (128, False, True),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [(1, True, True), (1, False, False), (128, True, True), (128, False, False)]
        ),
    ],
)
def test_an_expert_learns_the_same_among_others_and_alone(classifies, together, growing):
    """In any order, and beside its equal.

    A map that grows has no columns of its own for an expert, so one of all columns takes the place of each
    that has some.
    """
    rules = RULES if together == 1 else BLOCK_RULES
    names = in_groups(name.removesuffix(", some columns") if growing else name for name in rules)
    settings = {"together": together, "growing": growing}
    alone = {name: learned(classifies, [rules[name]], **settings)[0][0] for name in set(names)}
    for order in (names, in_groups([*names, *names][::-1])):
        found, learner = learned(classifies, [rules[name] for name in order], **settings)
        for name, bytes_ in zip(order, found, strict=True):
            assert bytes_ == alone[name], name
    again = type(learner)._from_parts(*learner._to_parts())
    assert again.to_bytes() == learner.to_bytes()


@pytest.mark.parametrize("classifies", [True, False])
def test_many_experts_predict_the_mean_one_by_one_as_in_a_pass(classifies):
    names = in_groups(RULES)
    one, many = (several(classifies, [RULES[name] for name in names]) for _ in range(2))
    pairs = events(200, classifies=classifies)
    answers = []
    for x, y in pairs:
        answers.append(one.predict_proba_one(x) if classifies else one.predict_one(x))
        one.learn_one(x, y)
    xs, ys = map(list, zip(*pairs, strict=True))
    batched = many.predict_proba_learn_many(xs, ys) if classifies else many.predict_learn_many(xs, ys)
    if classifies:
        batched = [{k: v for k, v in p.items() if k in a} for p, a in zip(batched, answers, strict=True)]
    assert batched == answers
    assert one.to_bytes() == many.to_bytes()
    if not classifies:
        x = xs[-1]
        parts = []
        for name in names:
            alone = several(False, [RULES[name]])
            alone.learn_many(xs, ys)
            parts.append(alone.predict_one(x))
        np.testing.assert_allclose(one.predict_one(x), np.mean(parts), rtol=1e-5)


def test_experts_merge_one_by_one():
    names = in_groups(RULES)
    first = several(False, [RULES[name] for name in names], scale_inputs=False, scale_target=False)
    halves = [first, first.clone()]
    for part in range(2):
        xs, ys = map(list, zip(*events(300, seed=part, classifies=False), strict=True))
        halves[part].learn_many(xs, [y / 30.0 for y in ys])
    merged = streamk.merge(halves)
    for k, name in enumerate(names):
        experts = [half._experts[k] for half in halves]
        if experts[0].rule == "projection":
            mean = (experts[0].coefficients + experts[1].coefficients) / 2
            np.testing.assert_allclose(merged._experts[k].coefficients, mean, atol=1e-6, err_msg=name)
        assert merged._experts[k].clock.tolist() == [600.0, 600.0]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("loss", ["squared", "margin"])
@pytest.mark.parametrize("block_size", [1, 20])
def test_the_calibration_is_that_of_the_outputs_that_predict(average, loss, block_size):
    """Replayed in plain Python over the outputs that each event had before it was learned."""
    learner = streamk.KaczmarzClassifier(
        features=64, average=average, loss=loss, scale_inputs=False, block_size=block_size, seed=1
    )
    pairs = [({"a": x["b"] / 100, "k": float(x["k"])}, y) for x, y in events(400)]
    state, known = [0.5 if loss == "squared" else 0.0, 0.0], []
    for start in range(0, 400, block_size):
        block = pairs[start : start + block_size]
        outputs = [raw(learner, x) for x, _ in block]
        for n, (f, (_, y)) in enumerate(zip(outputs, block, strict=True), start):
            if y in known and len(known) > 1:
                calibrate(state, loss, f[: len(known)], known.index(y), n)
        for _, y in block:
            known += [y] if y not in known else []
        for x, y in block:
            learner.learn_one(x, y)
        np.testing.assert_allclose(learner._combiner.state, state, rtol=1e-3, atol=1e-4)
    assert state[0] not in (0.5, 0.0)


def raw(learner, x):
    if learner._map is None:
        return np.zeros(0)
    e, expert = learner._map, learner._experts[0]
    keys = learner._codec.inputs.encode(x, False).keys[0].copy()
    z = np.array(list(itertools.chain(x.values()))) / np.sqrt(len(x))
    z = z[np.argsort([list(x).index(n) for n in x])]
    W = e.frequencies(np.sort(keys), slice(None), slice(0, e.width)).astype(np.float64)
    order = np.argsort([learner._codec.inputs.number_key(n, 0) for n in x])
    phi = np.sqrt(2) * np.cos(2 * np.pi * (z[order] @ W + e.phases))
    phi[e.features :] = 0.0
    return expert.coefficients[-1].astype(np.float64) @ phi


def calibrate(state, loss, f, target, n):
    if loss == "squared":
        simplex = np.sort(f)[::-1]
        cumulated = (np.cumsum(simplex) - 1) / np.arange(1, len(f) + 1)
        threshold = cumulated[simplex > cumulated][-1]
        p = (1 - state[0]) * max(f[target] - threshold, 0.0) + state[0] / len(f)
        explained = state[0] / len(f) / p
        state[0] = min(max(state[0] + max(1 / (n + 2), 1e-3) * (explained - state[0]), 1e-6), 1.0)
        return
    weights = np.exp(np.exp(state[0]) * (f - f.max()))
    gradient = np.exp(state[0]) * (weights / weights.sum() @ f - f[target])
    state[1] += gradient**2
    if state[1] > 0:
        state[0] = min(max(state[0] - 0.5 * gradient / np.sqrt(state[1]), -10), 10)
