"""The comparison on two tiny streams with two peers, and what it counts, against obvious computations."""

import itertools
import json
import math
import sys

import logs
import measuring
import numpy as np
import pandas as pd
import pytest
import ranks
import streams
from cache import Cache
from label_columns import with_labels
from logs import CLASSES, NUMBERS, Stream
from river_linear import LinearClassifier, LinearRegressor

import streamk
from tests.references import late_loop

ROWS = 600


def inputs():
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {"a": rng.normal(size=ROWS), "kind": np.array(["p", "q"])[rng.integers(2, size=ROWS)]}
    )


def labels():
    X = inputs()
    return ["uv"[int(a > 0) ^ int(k == "p")] for a, k in zip(X["a"], X["kind"], strict=True)]


def numbers():
    X = inputs()
    return (3.0 * X["a"] + 2.0 * (X["kind"] == "p") + 50.0).tolist()


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Run the command over two streams of a hand's breadth, with the last label and a linear model."""
    tiny = {
        "letters": (CLASSES, lambda data: (inputs(), labels())),
        "line": (NUMBERS, lambda data: (inputs(), numbers())),
    }
    for module in (logs, measuring, streams):
        monkeypatch.setattr(module, "STREAMS", tiny)

    def run(*arguments):
        peers = "last", "river LinearRegression", "river LogisticRegression"
        given = ["streams.py", "--cache", tmp_path, "--peers", *peers, *arguments]
        monkeypatch.setattr(sys, "argv", list(map(str, given)))
        streams.main()

    return run


@pytest.mark.parametrize("delay", [0, 4])
def test_the_figures_are_those_of_a_plain_loop(table, capsys, delay):
    table("--json", "--delay", delay)
    results = json.loads(capsys.readouterr().out)
    found = {(r["stream"], r["peer"], r["memory"]): r for r in results}
    events, truths, targets = inputs().to_dict("records"), labels(), numbers()

    def late(model, ys):
        return late_loop(model.predict, model.learn, list(zip(events, ys, strict=True)), delay)

    classifier = LinearClassifier()
    classifier.expect(2)
    said = [max(p, key=p.get) if p else None for p in late(classifier, truths)]
    right = [a == b for a, b in zip(said, truths, strict=True)][delay:]
    linear = found["letters", "river LogisticRegression", False]
    assert linear["accuracy"] == pytest.approx(
        np.mean(right), abs=2 / ROWS
    )  # ties of a model that has learned nothing
    last = [a == b for a, b in zip(truths[1 + delay :], truths, strict=False)]
    assert found["letters", "last label", False]["accuracy"] == pytest.approx(
        sum(last) / (ROWS - delay), abs=1e-6
    )
    assert found["letters", "last label", True]["kappa_temporal"] == 0.0
    errors, known = (np.array(late(LinearRegressor(), targets)) - targets)[delay:], np.array(targets)[delay:]
    r2 = 1.0 - (errors**2).sum() / ((known - known.mean()) ** 2).sum()
    assert found["line", "river LinearRegression", False]["r2"] == pytest.approx(r2, rel=1e-4)
    assert {r["done"] for r in results} == {r["events"] for r in results} == {ROWS}
    assert {r["delay"] for r in results} == {delay}


def test_the_tables(table, capsys, tmp_path):
    table("--picture", tmp_path / "ranks.png")
    text = capsys.readouterr().out
    assert "| learner | letters |" in text
    assert "| learner | line |" in text
    assert "| last label |" in text
    assert (tmp_path / "ranks.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_resumes_where_it_was_stopped(table, capsys, monkeypatch, tmp_path):
    measured, measure = [], measuring.measure

    def counting(stream, peer, setting, budget):
        measured.append((stream.name, peer.name, setting.memory))
        if len(measured) == 3:
            raise KeyboardInterrupt
        return measure(stream, peer, setting, budget)

    monkeypatch.setattr(measuring, "measure", counting)
    with pytest.raises(KeyboardInterrupt):
        table("--json")
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"stream": "let')  # as a process leaves it that is killed while it writes
    table("--json")
    first = json.loads(capsys.readouterr().out)
    assert len(measured) == 1 + len(set(measured)) == 1 + len(first)
    table("--json")
    assert json.loads(capsys.readouterr().out) == first
    assert len(measured) == 1 + len(first)


def test_what_ran_out_of_time_is_shown_and_not_ranked(table, capsys):
    table("--budget", "1e-9", "--only", "letters")
    text = capsys.readouterr().out
    assert "33%)" in text
    assert "*streams* | 0" in text
    table("--budget", "60", "--only", "letters")  # more time, so it is measured again
    text = capsys.readouterr().out
    assert "33%)" not in text
    assert "*streams* | 1" in text


def test_a_peer_that_fails_is_shown_and_tried_again(table, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(measuring, "measure", lambda *given: 1 / 0)
        table("--only", "line")
        assert "failed failed" in capsys.readouterr().out
    table("--only", "line")
    assert "failed" not in capsys.readouterr().out


def test_another_version_or_another_number_of_events_is_another_result(tmp_path):
    result = {"stream": "s", "peer": "p", "memory": True, "delay": 0, "seed": 1, "events": 9, "version": "1"}
    result["done"] = 9
    Cache(tmp_path).put(result)
    cache = Cache(tmp_path)
    assert cache.get(result, 1.0) == result
    for change in ({"version": "2"}, {"events": 8}, {"memory": False}, {"seed": 2}, {"delay": 1}):
        assert cache.get(result | change, 1.0) is None


def test_ranks():
    scores = {
        "a": {"s": 3.0, "t": 1.0, "u": 2.0},
        "b": {"s": 2.0, "t": 1.0, "u": 5.0},
        "c": {"s": 1.0, "t": 9.0, "u": 4.0},
        "d": {"s": 8.0},
    }
    found = ranks.rank(scores)
    for peer in "abc":
        places = [
            1 + sum(scores[o][s] > scores[peer][s] for o in "abc")
            + sum(scores[o][s] == scores[peer][s] for o in "abc" if o != peer) / 2
            for s in "stu"
        ]  # fmt: skip
        assert found.means[peer] == pytest.approx(np.mean(places))
    assert list(found.means) == sorted(found.means, key=found.means.get)
    assert (found.streams, found.left_out) == (3, ["d"])
    assert ranks.place(scores, "a", "s") == 2.0
    assert ranks.place(scores, "a", "t") == 2.5


@pytest.mark.parametrize(("peers", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_that_of_the_paper(peers, q):
    """Demšar (2006), table 5."""
    expected = q * math.sqrt(peers * (peers + 1) / (6 * 14))
    assert ranks.critical_difference(peers, 14) == pytest.approx(expected, rel=1e-3)


def test_friedman():
    """The statistic by its formula, and its probability by all permutations of the ranks."""
    table = np.array([[1, 2, 3], [1, 2, 3], [1, 3, 2], [2, 1, 3]])
    n, k = table.shape
    scores = {str(j): {str(i): -float(table[i, j]) for i in range(n)} for j in range(k)}
    statistic = 12 * n / (k * (k + 1)) * ((table.mean(axis=0) ** 2).sum() - k * (k + 1) ** 2 / 4)
    assert ranks.rank(scores).p == pytest.approx(math.exp(-statistic / 2))  # chi-square of two degrees
    every = itertools.product(itertools.permutations([1, 2, 3]), repeat=n)
    sums = [((np.mean(rows, axis=0) - 2) ** 2).sum() for rows in every]
    exact = np.mean(np.array(sums) >= ((table.mean(axis=0) - 2) ** 2).sum() - 1e-9)
    assert ranks.rank(scores).p == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("delay", [0, 3])
def test_peers_get_the_labels_that_ours_remembers(delay):
    """The columns of an event are the memory of a learner that has met the events before it."""
    targets = ["abc"[i % 3] for i in range(20)]
    stream = Stream("s", CLASSES, pd.DataFrame({"a": np.arange(20.0)}), targets)
    columns = with_labels(stream, delay).frame.drop(columns="a").to_numpy()
    learner = streamk.KernelClassifier(features=768, seed=1)
    for t in range(20):
        np.testing.assert_allclose(columns[t], learner._codec.memory[0][[0, 1, 2, 32, 33, 34]], atol=1e-9)
        if t >= delay:
            learner.learn_one({"a": float(t - delay)}, targets[t - delay])


@pytest.mark.parametrize("delay", [0, 3])
def test_peers_get_the_targets_that_arrived(delay):
    targets = np.random.default_rng(3).normal(100.0, 5.0, size=30).tolist()
    stream = Stream("s", NUMBERS, pd.DataFrame({"a": np.arange(30.0)}), targets)
    columns = with_labels(stream, delay).frame.drop(columns="a").to_numpy()
    for t in range(30):
        z = [0.0, 0.0]  # the first has none before it, and the second no deviation
        z += [(targets[i] - np.mean(targets[:i])) / np.std(targets[:i]) for i in range(2, t - delay)]
        z = np.clip(z, -6.0, 6.0)[: max(t - delay, 0)]
        fast = sum(0.3 * 0.7**age * value for age, value in enumerate(reversed(z)))
        slow = sum(0.03 * 0.97**age * value for age, value in enumerate(reversed(z)))
        last = [0.0, 0.0, *z]
        np.testing.assert_allclose(columns[t], [last[-1], last[-2], fast, slow], atol=1e-9)


def test_moa_learners_do_not_see_the_target_they_predict():
    """SOKNL looks at the target of the instance that it is asked about, if there is one."""
    pytest.importorskip("capymoa")
    import moa_peers
    from contest import Setting

    stream = Stream("s", NUMBERS, inputs(), numbers())
    other = Stream("s", NUMBERS, inputs(), [*numbers()[:-1], 1e6])
    peer = next(peer for peer in moa_peers.PEERS[NUMBERS] if "SOKNL" in peer.name)
    found = []
    for given in (stream, other):
        model = peer.make(given, Setting(False, 0, 1))
        found.append(model.answer(model.prepare(given), given.targets))
    assert found[0] == found[1]
