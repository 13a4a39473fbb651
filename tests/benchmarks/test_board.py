"""The comparison on two tiny streams with two peers, and what it counts, against obvious computations."""

import itertools
import json
import math
import sys

import arena
import board
import contest
import generators
import logs
import measuring
import numpy as np
import ours
import page
import pandas as pd
import published
import pytest
import ranks
from contest import Contestant, Peer, Setting
from data_file import KEY, DataFile
from label_columns import with_labels
from logs import CLASSES, NUMBERS, Source, Stream
from order import order_of
from pareto import Point, front
from river_linear import LinearClassifier, LinearRegressor
from sklearn.ensemble import HistGradientBoostingClassifier

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


PEERS = "last", "river LinearRegression", "river LogisticRegression"


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run the command over two tiny streams."""
    tiny = {
        "letters": Source(CLASSES, ROWS, lambda data: (inputs(), labels())),
        "line": Source(NUMBERS, ROWS, lambda data: (inputs(), numbers())),
    }
    for module in (logs, measuring, board, published):
        monkeypatch.setattr(module, "STREAMS", tiny)
    for module in (board, page):
        monkeypatch.setattr(module, "LONG", ())
    monkeypatch.setattr(published, "OF_BATCHES", [published.Published("Letters", "letters", (0.9, 0.8, 0.7))])
    monkeypatch.setattr(published, "BOOSTED", [])

    def run(*arguments):
        given = ["board.py", "--file", tmp_path / "board.jsonl", "--docs", tmp_path, *arguments]
        monkeypatch.setattr(sys, "argv", list(map(str, given)))
        board.main()

    return run


@pytest.fixture
def table(command):
    """Run the command with the last label and linear models."""
    return lambda *arguments: command("--peers", *PEERS, *arguments)


@pytest.mark.parametrize(("protocol", "delay"), [("prompt", 0), ("100", 100)])
def test_the_figures_are_those_of_a_plain_loop(table, capsys, protocol, delay):
    table("--json", "--protocol", protocol)
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
    assert {r["protocol"] for r in results} == {protocol}


def test_page_has_tables_and_pictures(table, command, tmp_path):
    table()
    command("--cached")
    text = (tmp_path / "streams.md").read_text()
    assert "| learner | letters |" in text
    assert "| learner | line |" in text
    assert "| last label |" in text
    assert "| Letters | 600 | 0.900 | 0.800 | 0.700 | not measured | not measured | - |" in text
    assert "| MOA SAMkNN | 0 of 2 |" in text
    for picture in ("streams.png", "rank-and-speed.png", "rank-and-size.png"):
        assert f"({picture})" in text
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_selection_prints_tables_and_writes_no_page(table, capsys, tmp_path):
    table("--only", "letters")
    text = capsys.readouterr().out
    assert "| learner | letters |" in text
    assert not (tmp_path / "streams.md").exists()


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
    with (tmp_path / "board.jsonl").open("a") as file:
        file.write('{"stream": "let')  # as a process leaves it that is killed while it writes
    table("--json")
    first = json.loads(capsys.readouterr().out)
    assert len(measured) == 1 + len(set(measured)) == 1 + len(first)
    table("--json")
    assert json.loads(capsys.readouterr().out) == first
    assert len(measured) == 1 + len(first)


def test_stopped_runs_rank_last_and_are_measured_again_with_more_time(table, capsys):
    table("--budget", "1e-9", "--only", "letters")
    text = capsys.readouterr().out
    assert "33%)" in text
    assert "| last label | 2.00 | 2.00 | 2.00 | - |" in text  # all three are stopped
    table("--budget", "60", "--only", "letters")  # more time, so it is measured again
    text = capsys.readouterr().out
    assert "33%)" not in text
    assert "| - |" not in text.split("### Mean ranks")[1]


def test_a_peer_that_fails_is_shown_and_tried_again(table, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(measuring, "measure", lambda *given: 1 / 0)
        table("--only", "line")
        assert "failed failed" in capsys.readouterr().out
    table("--only", "line")
    assert "failed failed" not in capsys.readouterr().out


RESULT = {
    "stream": "s", "peer": "p", "memory": True, "protocol": "prompt", "seed": 1, "events": 9,
    "version": "1", "done": 9, "accuracy": 0.5,
}  # fmt: skip


def test_results_are_those_of_a_version_and_a_key(tmp_path):
    DataFile(tmp_path / "board.jsonl").put(RESULT)
    file = DataFile(tmp_path / "board.jsonl")
    assert file.get(RESULT, 1.0) == RESULT
    changes = {"events": 8, "memory": False, "seed": 2, "protocol": "100", "stream": "t", "peer": "q"}
    assert set(changes) == set(KEY)
    for name, value in changes.items():
        assert file.newest(RESULT | {name: value}) is None
    assert file.get(RESULT | {"version": "2"}, 1.0) is None
    assert file.newest(RESULT | {"version": "2"}) == RESULT


def test_data_file_is_sorted_and_has_only_the_newest_of_each_key(tmp_path):
    path = tmp_path / "board.jsonl"
    file = DataFile(path)
    for change in ({"seed": 2}, {"version": "2", "accuracy": 0.6}, {"peer": "a"}, {"stream": "ä"}, {}):
        file.put(RESULT | change)
    path.write_text(path.read_text() + '{"stream": "s", "pe')  # a killed run
    file = DataFile(path)
    file.put(RESULT | {"version": "3"})
    assert len(path.read_text().splitlines()) == 7  # the unfinished line is one of them
    file.sort()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(r["stream"], r["peer"], r["seed"], r["version"]) for r in lines] == [
        ("s", "a", 1, "1"), ("s", "p", 1, "3"), ("s", "p", 2, "1"), ("ä", "p", 1, "1"),
    ]  # fmt: skip
    before = path.read_bytes()
    file.sort()
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["board.jsonl"]


def test_results_of_other_sources_are_shown_with_a_note(command, capsys, monkeypatch, tmp_path):
    given = "--only", "letters", "--peers", "streamk Kernel", "--events", 100
    monkeypatch.setattr(ours, "sources", lambda: "before")
    command(*given)
    text = capsys.readouterr().out
    assert page.OTHER_SOURCES not in text
    monkeypatch.setattr(ours, "sources", lambda: "after")
    command("--cached", *given)
    assert capsys.readouterr().out == text.replace(
        "\n\n## Classes", f"\n\n{page.OTHER_SOURCES}\n\n## Classes"
    )
    command(*given)  # measures again
    lines = [json.loads(line) for line in (tmp_path / "board.jsonl").read_text().splitlines()]
    assert {r["version"] for r in lines} == {"after"}


class Toy(Contestant):
    """Predicts the label that it learned most recently, and logs its calls."""

    probabilities = False

    def __init__(self):
        self.last, self.calls = None, []

    def prepare(self, stream):
        return stream.frame["a"].astype(int).tolist()

    def predict(self, x):
        self.calls.append(f"p{x}")
        return {self.last: 1.0} if self.last else {}

    def learn(self, x, y):
        self.calls.append(f"l{x}")
        self.last = y

    def size(self):
        return 0


def test_batches_are_predicted_then_learned(monkeypatch):
    monkeypatch.setattr(contest, "BATCH", 3)
    targets = list("aabbabb")
    stream = Stream("s", CLASSES, pd.DataFrame({"a": np.arange(7.0)}), targets)
    toy = Toy()
    peer = Peer("toy", "none", 1, lambda stream, setting: toy)
    result = measuring.measure(stream, peer, Setting(False, 1, "batches"), 60.0)
    assert " ".join(toy.calls) == "l0 l1 l2 p3 p4 p5 l3 l4 l5 p6 l6"
    # events 3, 4, 5 are predicted as b, the label of event 2, and event 6 as b, that of event 5
    assert result["accuracy"] == 0.75
    assert result["kappa_temporal"] == 0.0  # the last label that has arrived is the prediction
    assert result["done"] == 7


def test_the_labels_of_a_batch_arrive_together():
    setting = Setting(memory=False, seed=1, protocol="batches")
    assert setting.arrived(301)[[0, 99, 100, 199, 200, 300]].tolist() == [0, 0, 100, 100, 200, 300]


def test_models_are_refitted_where_labels_come_in_chunks(command, capsys):
    """Each of twenty parts is predicted by trees that are fitted to all parts before."""
    command(
        "--protocol", "chunks", "--only", "letters", "line", "--peers", "Hist", "majority", "mean", "--json"
    )
    found = {(r["stream"], r["peer"]): r for r in json.loads(capsys.readouterr().out)}
    X, said = inputs().assign(kind=lambda X: (X["kind"] == "q") * 1.0), []
    for start in range(30, ROWS, 30):
        model = HistGradientBoostingClassifier(random_state=1)
        said += model.fit(X[:start], labels()[:start]).predict(X[start : start + 30]).tolist()
    right = np.mean(np.array(said) == labels()[30:])
    boosted = found["letters", "scikit-learn HistGradientBoosting refitted"]
    assert boosted["accuracy"] == pytest.approx(right, abs=0.02)  # kinds are categories here
    assert found["letters", "majority class"]["accuracy"] < 0.7 < boosted["accuracy"]
    assert (
        found["line", "mean target"]["r2"]
        < 0.05
        < found["line", "scikit-learn HistGradientBoosting refitted"]["r2"]
    )
    command("--protocol", "chunks", "--only", "line", "--peers", "mean", "streamk K")
    text = capsys.readouterr().out
    assert "## Numbers: R², labels in 20 chunks" in text
    assert "| coverage |" in text
    assert "with labels" not in text.split("## Numbers")[1]


def test_submissions_have_the_fields_that_streamarena_validates(command, monkeypatch, tmp_path):
    theirs = {name: arena.Theirs(f"real/{name}", ROWS, 2) for name in ("letters", "line")}
    monkeypatch.setattr(arena, "STREAMS", theirs)
    monkeypatch.setattr(arena, "SEEDS", (1, 2))
    command("--arena", tmp_path / "submissions")
    files = sorted((tmp_path / "submissions").rglob("*.json"))
    assert [path.relative_to(tmp_path / "submissions").as_posix() for path in files] == [
        f"{name}/real__{stream}__seed{seed}.json"
        for name, stream in (("KernelClassifier", "letters"), ("KernelRegressor", "line"))
        for seed in (1, 2)
    ]
    found = [json.loads(path.read_text()) for path in files]
    required = {
        "task", "algorithm", "dataset", "seed", "metrics", "wallclock_s", "hyperparameters", "submission"
    }  # fmt: skip
    for record in found:
        assert required <= record.keys()
        assert record["submission"]["author"]
        assert record["submission"]["contact_or_repo"]
        assert all(isinstance(value, float) for value in record["metrics"].values())
    classes, numbers = found[0]["metrics"], found[2]["metrics"]
    assert classes.keys() == {
        "accuracy", "kappa", "kappa_t", "kappa_m", "log_loss", "roc_auc", "pr_auc"
    }  # fmt: skip
    assert numbers.keys() == {"rmse", "mae", "r2"}
    assert 80.0 < classes["accuracy"] < 100.0 > classes["kappa_m"] > 60.0
    assert 0.9 < classes["roc_auc"] <= 1.0
    monkeypatch.setattr(arena, "STREAMS", {"letters": arena.Theirs("real/letters", ROWS + 1, 2)})
    with pytest.raises(ValueError, match="letters has"):
        command("--arena", tmp_path, "--only", "letters")


def test_orders_of_streams():
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {"a": rng.normal(size=2000), "kind": np.array(["p", "q"])[rng.integers(2, size=2000)]}
    )
    y = (table["a"] + 0.3 * rng.normal(size=2000)).to_numpy()
    signs, walk = np.where(y > 0, "u", "v"), np.cumsum(y)

    def mark(targets, frame=table):
        task = NUMBERS if isinstance(targets[0], float) else CLASSES
        return order_of(Stream("s", task, frame, list(targets)))

    assert mark(y.tolist()) == mark(signs) == "static"
    assert mark(sorted(y.tolist())) == "sorted"
    assert mark(sorted(signs)) == "long runs, 1.00"
    assert mark("abcd" * 500) == "in turn, 4"
    assert mark(walk.tolist()) == ""  # numbers resemble those before
    assert mark(signs, table.assign(a=walk)) == ""  # an input does
    assert mark([*signs[:1000], *np.where(y > 0, "v", "u")[1000:]]) == ""  # the concept changes


@pytest.mark.parametrize(
    ("hand", "rank"),
    [
        ("10s 11s 12s 13s 1s", "royal flush"),
        ("9s 10s 11s 12s 13s", "straight flush"),
        ("1h 2h 3h 4h 5h", "straight flush"),
        ("7s 7h 7d 7c 2s", "four of a kind"),
        ("7s 7h 7d 2c 2s", "full house"),
        ("2h 4h 9h 11h 13h", "flush"),
        ("5s 2h 4d 3c 1s", "straight"),
        ("1s 10h 13d 12c 11s", "straight"),
        ("12s 13h 1d 2c 3s", "nothing"),
        ("7s 7h 7d 3c 2s", "three of a kind"),
        ("7s 3h 7d 3c 2s", "two pairs"),
        ("7s 3h 7d 4c 2s", "one pair"),
        ("1s 3h 7d 4c 2s", "nothing"),
    ],
)
def test_ranks_of_poker_hands(hand, rank):
    assert generators.rank_of_hand([(int(card[:-1]), card[-1]) for card in hand.split()]) == rank


def test_poker_hands_have_five_different_cards_and_their_rank():
    frame, ranks_of_hands = generators.poker(2000)
    hands = [[(row[f"number{k}"], row[f"suit{k}"]) for k in range(5)] for row in frame.to_dict("records")]
    assert {len(set(hand)) for hand in hands} == {5}
    assert {card for hand in hands for card in hand} == {
        (n, s) for n in range(1, 14) for s in generators.SUITS
    }
    assert [generators.rank_of_hand(hand) for hand in hands] == ranks_of_hands
    assert np.mean([rank == "nothing" for rank in ranks_of_hands]) == pytest.approx(0.501, abs=0.03)
    assert np.mean([rank == "one pair" for rank in ranks_of_hands]) == pytest.approx(0.423, abs=0.03)


def test_drifts_are_where_the_paper_has_them():
    rng = np.random.default_rng(0)
    for width in (generators.ABRUPT, generators.GRADUAL):
        found = generators.concepts(generators.EVENTS, width, rng)
        assert found[[100_000, 375_000, 625_000, 900_000]].tolist() == [0, 1, 2, 3]
        counts = np.bincount(found) / generators.EVENTS
        np.testing.assert_allclose(counts, 0.25, atol=0.005)
        assert np.mean(found[249_000:251_000]) == pytest.approx(0.5, abs=0.05)


def test_rows_of_long_streams_follow_their_definitions(monkeypatch):
    for name, value in (("EVENTS", 4000), ("APART", 1000)):
        monkeypatch.setattr(generators, name, value)
    frame, labels_of_sea = generators.sea(1)
    for first, limit in ((0, 8.0), (1000, 9.0), (2000, 7.0), (3000, 9.5)):
        rows = frame[first + 10 : first + 990]
        right = (rows["a"] + rows["b"] > limit) == labels_of_sea[first + 10 : first + 990]
        assert right.mean() == pytest.approx(0.9, abs=0.04)
    frame, digits = generators.led(1)
    agreement = (generators.SEGMENTS[digits] == frame.to_numpy()[:, :7])[10:990].mean(axis=0)
    assert np.sort(agreement) == pytest.approx([0.5] + [0.9] * 6, abs=0.06)
    frame, groups = generators.agrawal(1)
    inside = frame["age"].between(49, 51)[:900]  # of group B by function 1, whatever the perturbation
    assert {g for g, here in zip(groups, inside, strict=False) if here} == {"B"}
    frame, _ = generators.rbf(0.001)
    assert frame.shape == (4000, 10)
    frame, sides = generators.hyperplane()
    assert np.mean(sides) == pytest.approx(0.5, abs=0.2)


def test_front_has_the_points_that_none_surpasses():
    points = [
        Point("slow and good", 10.0, 1.0),
        Point("slow and bad", 10.0, 3.0),
        Point("surpassed", 20.0, 2.5),
        Point("middle", 30.0, 2.0),
        Point("equal rank, slower", 25.0, 2.0),
        Point("fast", 90.0, 5.0),
    ]
    assert [p.name for p in front(points, more_is_better=True)] == ["slow and good", "middle", "fast"]
    small = [p.name for p in front(points, more_is_better=False)]
    assert small == ["slow and good"]
    assert front([], more_is_better=True) == []


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
    stopped = ranks.rank(scores | {"d": {"s": 8.0, "t": -math.inf, "u": 9.0}})
    assert stopped.means["d"] == pytest.approx((1 + 4 + 1) / 3)
    assert stopped.finished["d"] == 1.0
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
    columns = with_labels(stream, Setting(True, 1, str(delay))).frame.drop(columns="a").to_numpy()
    learner = streamk.KernelClassifier(features=768, seed=1)
    for t in range(20):
        np.testing.assert_allclose(columns[t], learner._codec.memory[0][[0, 1, 2, 32, 33, 34]], atol=1e-9)
        if t >= delay:
            learner.learn_one({"a": float(t - delay)}, targets[t - delay])


@pytest.mark.parametrize("delay", [0, 3])
def test_peers_get_the_targets_that_arrived(delay):
    targets = np.random.default_rng(3).normal(100.0, 5.0, size=30).tolist()
    stream = Stream("s", NUMBERS, pd.DataFrame({"a": np.arange(30.0)}), targets)
    columns = with_labels(stream, Setting(True, 1, str(delay))).frame.drop(columns="a").to_numpy()
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

    stream = Stream("s", NUMBERS, inputs(), numbers())
    other = Stream("s", NUMBERS, inputs(), [*numbers()[:-1], 1e6])
    peer = next(peer for peer in moa_peers.PEERS[NUMBERS] if "SOKNL" in peer.name)
    found = []
    for given in (stream, other):
        model = peer.make(given, Setting(False, 1))
        found.append(model.answer(model.prepare(given), given.targets))
    assert found[0] == found[1]
