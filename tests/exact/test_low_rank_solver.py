"""Stochastic low-rank kernel learning against inverses of whole matrices and other minimisers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.linear_model import Lasso

from streamk.exact.low_rank_solver import (
    MOVES,
    DescentState,
    KeptBases,
    MadeBases,
    Rules,
    WeightedColumns,
    added,
    changed,
    descend,
    exact,
    newton,
    refreshed,
    removed,
    start,
    step,
    until_settled,
)
from streamk.kernels import kernel

RIDGE, PENALTY = 0.7, 0.05


def problem(n=40, m=25, seed=0):
    """Columns, target, and their bases."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    C = kernel("gaussian")(X, X[:m], 1.0)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    return C, y, KeptBases(C.T @ C, C.T @ y, float(y @ y))


def of_equation_23(C, mu, ridge=RIDGE):
    return np.linalg.inv(np.diag(1.0 / mu) + C.T @ C / ridge)


def objective(mu, C, y, ridge=RIDGE, penalty=PENALTY):
    """Equation 14 by the whole matrix."""
    return y @ np.linalg.solve(np.eye(len(y)) + C * mu @ C.T / ridge, y) + penalty * np.sum(mu)


def whole(state, m):
    mu = np.zeros(m)
    mu[state.places] = state.mu
    return mu


def state_of(mu, C, y, ridge=RIDGE, penalty=PENALTY):
    """The state of some weights, made without the code under test."""
    places = np.flatnonzero(mu)
    A, weights = C[:, places], mu[places]
    G, goals = of_equation_23(A, weights, ridge), A.T @ y
    return DescentState(places, weights, G, goals, G @ goals / ridge, objective(mu, C, y, ridge, penalty))


@pytest.fixture
def held():
    rng = np.random.default_rng(4)
    C = rng.normal(size=(12, 6))
    return C, rng.uniform(0.1, 2.0, size=6)


@pytest.mark.parametrize("position", [0, 3, 5])
@pytest.mark.parametrize("new", [0.01, 0.5, 30.0])
def test_case_2_another_weight(held, position, new):
    C, mu = held
    G, after = of_equation_23(C, mu), mu.copy()
    after[position] = new
    before = G.copy()
    np.testing.assert_allclose(changed(G, position, mu[position], new), of_equation_23(C, after), rtol=1e-9)
    np.testing.assert_array_equal(G, before)


@pytest.mark.parametrize("position", [0, 3, 5])
def test_case_3_a_weight_that_ends(held, position):
    C, mu = held
    G = of_equation_23(C, mu)
    before = G.copy()
    rest = of_equation_23(np.delete(C, position, 1), np.delete(mu, position))
    np.testing.assert_allclose(removed(G, position), rest, rtol=1e-9)
    np.testing.assert_array_equal(G, before)


@pytest.mark.parametrize("new", [0.01, 0.5, 30.0])
def test_case_4_a_weight_that_begins(held, new):
    C, mu = held
    G, c = of_equation_23(C[:, :5], mu[:5]), C[:, 5]
    grown = added(G, C[:, :5].T @ c, float(c @ c), new, RIDGE)
    np.testing.assert_allclose(grown, of_equation_23(C, np.append(mu[:5], new)), rtol=1e-9)


def test_case_4_of_the_first_weight():
    c = np.array([3.0, 4.0])
    grown = added(np.zeros((0, 0)), np.zeros(0), 25.0, 2.0, 0.5)
    np.testing.assert_allclose(grown, of_equation_23(c[:, None], np.array([2.0]), 0.5))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.02, 1.0, 40.0])), max_size=25))
def test_any_way_of_weights_ends_at_the_inverse(moves):
    C = np.random.default_rng(4).normal(size=(12, 6))
    places, mu, G = [], [], np.zeros((0, 0))
    for place, new in moves:
        if place not in places:
            if new:
                G = added(G, C[:, places].T @ C[:, place], float(C[:, place] @ C[:, place]), new, RIDGE)
                places.append(place)
                mu.append(new)
            continue
        at = places.index(place)
        if new:
            G, mu[at] = changed(G, at, mu[at], new), new
        else:
            G = removed(G, at)
            del places[at], mu[at]
    np.testing.assert_allclose(G, of_equation_23(C[:, places], np.array(mu)), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("move", MOVES)
def test_case_1_a_weight_that_stays_0(move):
    bases = problem()[-1]
    rules = Rules(RIDGE, 1e6, MOVES[move])
    state = start(bases)
    assert all(step(state, bases, place, rules) is state for place in range(len(bases.goals)))


@pytest.mark.parametrize(("ridge", "penalty"), [(RIDGE, PENALTY), (1.0, 1e-3), (30.0, 0.4)])
@pytest.mark.parametrize("place", range(0, 25, 3))
def test_a_step_ends_where_the_objective_is_least(place, ridge, penalty):
    C, y, bases = problem()
    mu = np.zeros(25)
    mu[[0, 3, 9, 14]] = 0.3, 2.0, 1e-3, 0.7
    before = state_of(mu, C, y, ridge, penalty)
    state = step(before, bases, place, Rules(ridge, penalty, exact))
    np.testing.assert_array_equal(whole(before, 25), mu)

    def along(v):
        other = mu.copy()
        other[place] = v
        return objective(other, C, y, ridge, penalty)

    top = 1.0
    while along(2.0 * top) < along(top):
        top *= 2.0
    best = minimize_scalar(along, bounds=(0.0, 2.0 * top), method="bounded", options={"xatol": 1e-10 * top})
    found = whole(state, 25)
    least = min(along(0.0), best.fun)
    assert along(found[place]) <= least + 1e-9 * abs(least)
    assert state.objective == pytest.approx(along(found[place]), rel=1e-9)
    found[place] = mu[place]
    np.testing.assert_array_equal(found, mu)


@pytest.mark.parametrize("place", range(0, 25, 3))
def test_a_step_of_newton_is_that_of_the_derivatives(place):
    C, y, bases = problem()
    mu = np.zeros(25)
    mu[[0, 3, 9, 14]] = 0.3, 2.0, 0.2, 0.7
    state = step(state_of(mu, C, y), bases, place, Rules(RIDGE, PENALTY, newton))

    def along(v):
        other = mu.copy()
        other[place] = v
        return objective(other, C, y)

    h = 1e-4
    at, up, down = (along(mu[place] + d) for d in (0.0, h, -h))
    first, second = (up - down) / (2 * h), (up - 2 * at + down) / h**2
    wanted = max(0.0, mu[place] - first / second)
    assert whole(state, 25)[place] == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    assert state.objective <= at + 1e-12


def random_places(m, seed=1):
    rng = np.random.default_rng(seed)
    while True:
        yield int(rng.integers(m))


@pytest.mark.parametrize("move", MOVES)
def test_every_step_lowers_the_objective_and_keeps_its_state_true(move):
    C, y, bases = problem()
    states = itertools.islice(descend(bases, random_places(25), Rules(RIDGE, PENALTY, MOVES[move])), 400)
    before, sizes = float(y @ y), set()
    for state in states:
        mu = whole(state, 25)
        assert (state.mu > 0.0).all()
        assert state.objective <= before + 1e-9
        assert state.objective == pytest.approx(objective(mu, C, y), rel=1e-8)
        A = C[:, state.places]
        inverse = np.linalg.inv(RIDGE * np.eye(len(y)) + C * mu @ C.T)
        np.testing.assert_allclose(np.eye(len(y)) / RIDGE - A @ state.G @ A.T / RIDGE**2, inverse, atol=1e-8)
        # the answer of kernel ridge regression with the learned kernel (eqs. 15 to 17)
        np.testing.assert_allclose(A @ state.beta, C * mu @ C.T @ inverse @ y, atol=1e-8)
        sizes.add(len(state.places))
        before = state.objective
    assert len(sizes) > 3


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("penalty", [0.003, 0.05, 1.0])
def test_the_end_is_the_minimum_over_all_bases(move, penalty):
    C, y, bases = problem()
    states = until_settled(descend(bases, random_places(25), Rules(RIDGE, penalty, MOVES[move])), 25, 1e-12)
    *_, last = states

    def with_slope(mu):
        solved = np.linalg.solve(RIDGE * np.eye(len(y)) + C * mu @ C.T, y)
        return RIDGE * y @ solved + penalty * mu.sum(), penalty - RIDGE * (C.T @ solved) ** 2

    reference = minimize(
        with_slope, np.ones(25), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * 25,
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    assert last.objective == pytest.approx(reference.fun, rel=1e-5)
    assert last.objective <= reference.fun * (1.0 + 1e-6)
    assert 0 < len(last.places) < 25


def test_the_end_is_that_of_the_lasso():
    C, y, bases = problem()
    *_, last = until_settled(descend(bases, random_places(25), Rules(RIDGE, PENALTY, exact)), 25, 1e-13)
    lasso = Lasso(alpha=np.sqrt(RIDGE * PENALTY) / len(y), fit_intercept=False, tol=1e-12, max_iter=10**6)
    lasso.fit(C, y)
    beta = np.zeros(25)
    beta[last.places] = last.beta
    np.testing.assert_allclose(C @ beta, C @ lasso.coef_, atol=1e-4)
    np.testing.assert_allclose(last.mu, np.sqrt(RIDGE / PENALTY) * np.abs(last.beta), rtol=0.05, atol=0.02)


def test_only_the_product_of_ridge_and_penalty_matters():
    """Proposition 3."""
    bases = problem()[-1]
    ends = []
    for ridge, penalty in ((1.0, 0.05), (0.25, 0.2)):
        *_, last = itertools.islice(descend(bases, random_places(25), Rules(ridge, penalty, exact)), 300)
        ends.append((last.places.tolist(), last.beta, last.mu / ridge))
    assert ends[0][0] == ends[1][0]
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-7)
    np.testing.assert_allclose(ends[0][2], ends[1][2], rtol=1e-7)


def test_it_stops_when_a_window_of_steps_gains_little():
    falls = [100.0, 90.0, 81.0, 80.99, 80.985, 80.984, 80.9, 0.0]
    states = [start(KeptBases(np.eye(1), np.ones(1), F)) for F in falls]
    taken = [state.objective for state in until_settled(iter(states), 2, 1e-3)]
    assert taken == falls[:5]  # 81 − 80.985 is less than 0.081
    assert list(until_settled(iter(states[:1] * 9), 2, 1e-3)) == states[:1] * 3
    nothing = [start(KeptBases(np.eye(1), np.ones(1), 0.0))] * 9
    assert len(list(until_settled(iter(nothing), 2, 1e-3))) == 3


def test_what_rounding_did_is_made_good():
    C, _, bases = problem()
    *_, state = itertools.islice(descend(bases, random_places(25), Rules(RIDGE, PENALTY, exact)), 100)
    G = state.G * (1.0 + 0.2 * np.random.default_rng(0).normal(size=state.G.shape))
    wrong = state._replace(G=G, beta=G @ state.goals / RIDGE, objective=0.0)
    rules = Rules(RIDGE, PENALTY, exact)
    made = refreshed(wrong, bases, rules)
    np.testing.assert_allclose(made.G, state.G, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(made.beta, state.beta, rtol=1e-7)
    assert made.objective == pytest.approx(state.objective)
    found = step(wrong, bases, int(state.places[0]), rules)
    np.testing.assert_allclose(found.G, of_equation_23(C[:, found.places], found.mu), rtol=1e-6, atol=1e-9)


def columns(n=60, m=20, weights=None, name="gaussian"):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    chosen = np.sort(rng.permutation(n)[:m])
    return WeightedColumns(kernel(name), 1.3, X, chosen, np.ones(n) if weights is None else weights), X, rng


@pytest.mark.parametrize("name", ["gaussian", "polynomial:2", "arc-cosine", "laplacian"])
def test_columns_are_those_of_equation_2(name):
    weights = np.random.default_rng(0).uniform(size=60)
    made, X, rng = columns(weights=weights, name=name)
    K = kernel(name)(X.astype(np.float64), X.astype(np.float64), 1.3)[:, made.chosen]
    C = K / np.sqrt(K[made.chosen, np.arange(20)]) * np.sqrt(weights)[:, None]
    np.testing.assert_allclose(made.block(slice(None), slice(None)), C, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(made.column(7), C[:, 7], rtol=2e-4, atol=1e-6)
    Y = rng.normal(size=(60, 2))
    goal = made.weighted(Y)
    np.testing.assert_allclose(goal, np.sqrt(weights)[:, None] * Y, rtol=1e-6)
    gram, goals = made.products(goal)
    np.testing.assert_allclose(gram, C.T @ C, rtol=1e-3)
    np.testing.assert_allclose(goals, C.T @ goal, atol=1e-3)
    np.testing.assert_allclose(made.products_with(goal), goals, rtol=1e-5, atol=1e-6)


def test_products_are_summed_over_all_pieces(monkeypatch):
    made, _, rng = columns()
    goal = rng.normal(size=(60, 2))
    whole_gram, whole_goals = made.products(goal)
    monkeypatch.setattr("streamk.exact.low_rank_solver._PIECE", 7)
    gram, goals = made.products(goal)
    np.testing.assert_allclose(gram, whole_gram, rtol=1e-5)
    np.testing.assert_allclose(goals, whole_goals, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made.products_with(goal), whole_goals, rtol=1e-5, atol=1e-6)


def test_a_column_of_zeros_has_no_scale():
    X = np.zeros((5, 2), dtype=np.float32)
    made = WeightedColumns(kernel("polynomial:2:0"), 1.0, X, np.arange(2), np.ones(5))
    assert not made.block(slice(None), slice(None)).any()
    gram, goals = made.products(np.ones((5, 1)))
    states = descend(KeptBases(gram, goals[:, 0], 5.0), iter([0, 1, 0]), Rules(1.0, 0.1, exact))
    assert [len(state.places) for state in states] == [0, 0, 0]


@pytest.mark.parametrize("move", MOVES)
def test_columns_made_in_their_turn_are_those_kept(move):
    made, _, rng = columns()
    y = rng.normal(size=60)
    gram, goals = made.products(y[:, None])
    asked = []

    def make(place):
        asked.append(place)
        return made.column(place)

    rules = Rules(1.0, 0.1, MOVES[move])
    both = [
        KeptBases(gram, goals[:, 0], float(y @ y)),
        MadeBases(make, goals[:, 0].copy(), float(y @ y)),
    ]
    ways = [list(itertools.islice(descend(bases, random_places(20), rules), 300)) for bases in both]
    for kept, new in zip(*ways, strict=True):
        assert kept.places.tolist() == new.places.tolist()
        np.testing.assert_allclose(new.mu, kept.mu, rtol=1e-3)
        np.testing.assert_allclose(new.beta, kept.beta, rtol=1e-3, atol=1e-6)
    assert len(both[1]._held) <= len(ways[1][-1].places) + 1
    assert 20 <= len(asked) < 300  # those whose weights are above 0 are not made again


def test_twins_share_a_weight():
    """Duplicate columns have one minimum for all of them; nothing breaks where the rest cannot tell them."""
    C, y, _ = problem(m=10)
    C = np.hstack([C, C, C])
    bases = KeptBases(C.T @ C, C.T @ y, float(y @ y))
    *_, last = until_settled(descend(bases, random_places(30), Rules(RIDGE, PENALTY, exact)), 30, 1e-10)
    alone = KeptBases(C[:, :10].T @ C[:, :10], C[:, :10].T @ y, float(y @ y))
    *_, other = until_settled(descend(alone, random_places(10), Rules(RIDGE, PENALTY, exact)), 10, 1e-10)
    assert last.objective == pytest.approx(other.objective, rel=1e-6)
