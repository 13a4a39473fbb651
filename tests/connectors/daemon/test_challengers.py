"""Challengers learn and predict the events of the model, are compared with it, and take its place."""

import json
import random
import re

import numpy as np
import pytest
from scipy.signal import lfilter
from typer.testing import CliRunner

import streamk
from connectors.cli import app
from connectors.contract.errors import USAGE
from connectors.contract.records import Raw
from connectors.daemon.report import verdict
from connectors.daemon.telemetry import Telemetry
from connectors.events.learners import build
from connectors.operators import late_labels
from connectors.operators.challengers import Challengers
from connectors.operators.learning import PartitionedLearning, SingleLearning
from connectors.operators.waiting import WaitingEvent
from connectors.settings.tables import ChallengerSection, Settings
from connectors.state.aside import AsideStore, Row
from connectors.state.checkpoint import CHALLENGER, COMPARED
from connectors.state.disk import CheckpointStore
from streamk.evaluation.sequential import SequentialComparison

from .test_late_labels import logs, raws
from .test_late_labels import settings as late_settings

WIDE = {"name": "wide", "learner": "kaczmarz", "parameters": {"features": 128}}
SAME = {"name": "same", "learner": "kaczmarz", "parameters": {"features": 16}}


def rows(count, seed=1, task="classification"):
    rng = random.Random(seed)
    for i in range(count):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
        y = x["a"] * x["b"] if task == "regression" else x["a"] * x["b"] > 0
        yield {**x, "c": rng.choice("uvw"), **({} if i % 13 == 5 else {"y": y})}


def records(events):
    return [
        Raw(k, event if isinstance(event, bytes) else json.dumps(event).encode())
        for k, event in enumerate(events)
    ]


def settings(*challengers, task="classification", **tables):
    return Settings.model_validate(
        {
            "source": {"kind": "topic", "topic": "t", "group": "g"},
            "events": {"target": "y"},
            "learner": {"name": "kaczmarz", "task": task, "parameters": {"features": 16}},
            "challengers": challengers,
            "dead_letters": {"kind": "topic", "topic": "dead"},
            **tables,
        }
    )


def operator_of(chosen, telemetry=None):
    return SingleLearning(chosen, chosen.decoder(), telemetry or Telemetry())


def process(operator, sent, size=100):
    for start in range(0, len(sent), size):
        operator.process("t-0", sent[start : start + size])
    return operator


def alone(section, sent, task="classification"):
    """Return the bytes of the model of a daemon whose learner is a challenger's."""
    learner = {"name": section["learner"], "task": task, "parameters": section["parameters"]}
    return process(operator_of(settings(learner=learner, task=task)), sent).learner.to_bytes()


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("size", [1, 100, 997])
def test_a_challenger_learns_what_a_daemon_of_its_learner_would(task, size):
    sent = records([*rows(700, task=task), b"{broken", {"a": 1.0, "y": [1]}, *rows(300, 2, task)])
    parts = process(operator_of(settings(WIDE, SAME, task=task)), sent, size).snapshot()
    assert parts[f"{CHALLENGER}wide"] == alone(WIDE, sent, task)
    assert parts[f"{CHALLENGER}same"] == parts["model"] == alone(SAME, sent, task)
    same = json.loads(parts[f"{CHALLENGER}same{COMPARED}"])
    assert (same["mean"], same["squares"], same["blocks"]) == (0.0, 0.0, 9)


def test_an_advantage_is_the_difference_of_mean_errors():
    telemetry, sent = Telemetry(window=10_000), records(rows(6000))
    process(operator_of(settings(WIDE), telemetry), sent)
    text = telemetry.answer("/metrics")[2].decode().splitlines()
    values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text if line[0] != "#")}
    error, other = values["streamk_error"], values['streamk_challenger_error{challenger="wide"}']
    series = "streamk_challenger_advantage"
    ends = [f'{series}{{bound="{bound}",challenger="wide"}}' for bound in ("low", "mean", "high")]
    low, mean, high = map(values.__getitem__, ends)
    assert low < mean < high
    assert mean == pytest.approx(error - other, abs=2e-3)  # the last block is not whole
    assert mean > 0.05


@pytest.mark.parametrize("size", [100, 77])
def test_a_restart_continues_the_comparison(size):
    sent = records(rows(3000))
    whole = process(operator_of(settings(WIDE)), sent).snapshot()
    parts = process(operator_of(settings(WIDE)), sent[:1234], 50).snapshot()
    again = operator_of(settings(WIDE))
    again.restore(parts)
    found = process(again, sent[1234:], size).snapshot()
    assert {**found, "watch": b""} == {**whole, "watch": b""}


def test_a_new_challenger_starts_and_a_removed_one_is_forgotten():
    parts = process(operator_of(settings(WIDE)), records(rows(500))).snapshot()
    other = {**WIDE, "parameters": {"features": 64}}
    for chosen, names in ((settings(SAME), {"same"}), (settings(other), {"wide"}), (settings(), set())):
        again = operator_of(chosen)
        again.restore(parts)
        found = process(again, records(rows(100))).snapshot()
        assert {key for key in found if key.startswith(CHALLENGER) and not key.endswith(COMPARED)} == {
            CHALLENGER + name for name in names
        }
        for name in names:
            assert json.loads(found[CHALLENGER + name + COMPARED])["blocks"] == 0


@pytest.mark.parametrize("learner", ["kaczmarz", "kernel"])
def test_late_labels_teach_challengers_also_from_disk(tmp_path, monkeypatch, learner):
    monkeypatch.setattr(late_labels, "_IN_MEMORY", 20)
    monkeypatch.setattr(late_labels, "_TOGETHER", 7)
    parameters = {"features": 32, "seed": 3} if learner == "kaczmarz" else {"budget": "small", "seed": 3}
    section = {"name": "other", "learner": learner, "parameters": parameters}
    events, labels = logs(300)
    steps = sorted(
        [(row["at"], kind, row) for kind, part in (("events", events), ("labels", labels)) for row in part],
        key=lambda step: step[:2],
    )

    def learned(name, chosen):
        (tmp_path / name).mkdir()
        aside = AsideStore(CheckpointStore(tmp_path / name))
        operator = SingleLearning(
            chosen, chosen.decoder(), Telemetry(), late=late_labels.late_labels(chosen, aside=aside)
        )
        for _, kind, row in steps:
            operator.process(kind, raws([row]))
        return operator

    base = late_settings()
    alone = base.learner.model_copy(update={"name": learner, "parameters": parameters})
    both = learned("a", base.model_copy(update={"challengers": (ChallengerSection(**section),)}))
    wanted = learned("b", base.model_copy(update={"learner": alone}))
    parts = both.snapshot()
    assert parts[f"{CHALLENGER}other"] == wanted.learner.to_bytes()
    compared = json.loads(parts[f"{CHALLENGER}other{COMPARED}"])
    assert 100 * compared["blocks"] + len(compared["open"]) == wanted.learner.events
    assert both._late.waiting == wanted._late.waiting > 0


def test_a_late_label_compares_the_predictions_of_its_event():
    challengers = Challengers([ChallengerSection(**WIDE)], "classification", Telemetry(), "")
    x = {"a": 1.0}
    assert challengers.ask("k", x) == {"wide": {}}
    sure = {"wide": {True: 0.9, False: 0.1}}
    challengers.tell("k", True, WaitingEvent(0.0, 1.0, {True: 0.2, False: 0.8}, sure))
    challengers.tell("never asked", True, WaitingEvent(0.0, 1.0, {}, sure))
    assert json.loads(challengers.snapshot()[f"{CHALLENGER}wide{COMPARED}"])["open"] == [1.0]


def test_every_partition_has_its_challengers_and_telemetry_joins_them():
    chosen, telemetry = settings(WIDE, snapshots={"topic": "s"}), Telemetry()
    models = PartitionedLearning(chosen, chosen.decoder(), telemetry)
    for k, partition in enumerate(("t-0", "t-1")):
        models.begin(partition, None)
        sent = records(rows(2000, seed=k))
        for start in range(0, 2000, 100):
            models.process(partition, sent[start : start + 100])
        assert models.snapshot(partition)[f"{CHALLENGER}wide"] == alone(WIDE, sent)
    joined, _ = telemetry.report.challengers["wide"]
    assert joined.blocks == 2 * (2000 * 12 // 13 // 100)
    models.release("t-0")
    models.process("t-1", records(rows(1)))
    assert telemetry.report.challengers["wide"][0].blocks == joined.blocks // 2


def test_what_a_challenger_alone_refuses_is_not_compared():
    telemetry = Telemetry()
    challengers = Challengers([ChallengerSection(**WIDE)], "classification", telemetry, "")
    xs = [{"a": 1.0}, {"a": "x", "b": object()}, {"a": 2.0}]
    challengers.learn(xs, [True, False, True], None, np.zeros((2, 3)))
    learner = build("kaczmarz", "classification", WIDE["parameters"])
    learner.learn_many([xs[0], xs[2]], [True, True])
    parts = challengers.snapshot()
    assert parts[f"{CHALLENGER}wide"] == learner.to_bytes()
    assert len(json.loads(parts[f"{CHALLENGER}wide{COMPARED}"])["open"]) == 2


@pytest.mark.parametrize(
    ("challengers", "sentence"),
    [
        ([WIDE, WIDE], "two [[challengers]] have the name 'wide'"),
        ([{**WIDE, "name": str(k)} for k in range(9)], "there are 9 [[challengers]]; name at most 8"),
        ([{**WIDE, "parameters": {"fetures": 1}}], "the challenger 'wide': parameters.fetures"),
        ([{**WIDE, "learner": "kernal"}], "no such learner; did you mean"),
        ([{**WIDE, "name": "a b"}], "challengers.0.name"),
    ],
)
def test_settings_that_are_refused(challengers, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        settings(*challengers)


def test_challengers_need_a_model_that_learns():
    learner = {"name": "kaczmarz", "learn": False, "parameters": {"features": 16}}
    with pytest.raises(ValueError, match="challengers learn, and learner"):
        settings(WIDE, learner=learner)


# ---- comparison


def decided(draw, events=20_000):
    """Return whether a challenger is called better at any of the ends of 200 batches, and worse."""
    comparison, calls = SequentialComparison(), set()
    for start in range(0, events, 100):
        comparison.add(draw[start : start + 100])
        calls.add(comparison.leads)
    return 1 in calls, -1 in calls


def test_a_challenger_better_by_one_point_is_called_better_and_an_equal_one_is_not():
    """It alone is right for 4.5 % of the events, and the model alone for 3.5 %; or both for 4 %."""
    rng = np.random.default_rng(1)
    better, equal = (
        [decided(rng.choice([1.0, -1.0, 0.0], 20_000, p=[up, down, 1 - up - down])) for _ in range(100)]
        for up, down in ((0.045, 0.035), (0.04, 0.04))
    )
    assert sum(won for won, _ in better) >= 95
    assert sum(lost for _, lost in better) == 0
    assert sum(won for won, _ in equal) <= 5
    assert sum(lost for _, lost in equal) <= 5


def test_an_equal_challenger_with_autocorrelated_advantages_is_not_called_better():
    shocks = np.random.default_rng(3).normal(size=(100, 20_000))
    runs = [decided(lfilter([1.0], [1.0, -0.9], row)) for row in shocks]
    assert sum(won for won, _ in runs) <= 5
    assert sum(lost for _, lost in runs) <= 5


def test_a_comparison_does_not_depend_on_batches():
    values = np.random.default_rng(2).normal(0.1, 1, 5050)
    one, other = SequentialComparison(), SequentialComparison()
    one.add(values)
    for k in range(0, 5050, 17):
        other.add(values[k : k + 17])
    assert one == other
    means = values[:5000].reshape(-1, 100).mean(axis=1)
    assert (one.blocks, one.mean) == (50, pytest.approx(means.mean()))
    assert one.squares / 49 == pytest.approx(means.var(ddof=1))
    first, second = SequentialComparison(), SequentialComparison()
    first.add(values[:2000])
    second.add(values[2000:5000])
    joined = first.merged(second)
    assert (joined.mean, joined.squares) == (pytest.approx(one.mean), pytest.approx(one.squares))
    assert SequentialComparison().merged(SequentialComparison()).interval() is None


def test_the_interval_is_that_of_the_paper():
    comparison = SequentialComparison(150, 0.5, 149 * 4.0)
    interval = comparison.interval(0.95)
    rho2 = (-2 * np.log(0.05) + np.log(-2 * np.log(0.05) + 1)) / 150
    wide = 2 * (150 * rho2 + 1) / (150**2 * rho2) * np.log(np.sqrt(150 * rho2 + 1) / 0.05)
    assert interval.high - 0.5 == 0.5 - interval.low == pytest.approx(2 * np.sqrt(wide))


def test_verdicts_say_what_to_do():
    few = SequentialComparison(19, 0.5, 0.0)
    assert verdict("wide", few) == "wide: too few events to compare (2,000 are needed)"
    assert "wide is better: its error is smaller by 0.5 (0.5 to 0.5) over 2,000 events" in verdict(
        "wide", SequentialComparison(20, 0.5, 0.0)
    )
    assert "safe to run `streamk promote`" in verdict("wide", SequentialComparison(20, 0.5, 0.0))
    worse = verdict("wide", SequentialComparison(20, -0.5, 0.01))
    assert worse.startswith("wide is worse: its error is larger")
    assert "no winner yet" in verdict("wide", SequentialComparison(20, 0.01, 1.0))


# ---- promotion


def command(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    return done.exit_code, done.output


def written(tmp_path, learner, challengers=""):
    path = tmp_path / "streamk.toml"
    path.write_text(
        f'[source]\nkind = "file"\npath = "{tmp_path / "log.jsonl"}"\n[events]\ntarget = "y"\n'
        f'[learner]\nname = "kaczmarz"\nparameters = {{features = {learner}}}\n{challengers}'
        f'[checkpoints]\ndirectory = "{tmp_path / "kept"}"\n'
    )
    return path


def test_a_promoted_challenger_continues_as_the_model(tmp_path):
    sent = list(rows(4000))
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in sent))
    table = '[[challengers]]\nname = "wide"\nlearner = "kaczmarz"\nparameters = {features = 128}\n'
    table += '[[challengers]]\nname = "third"\nlearner = "kaczmarz"\nparameters = {features = 32}\n'
    path = written(tmp_path, 16, table)
    code, output = command("run", path)
    assert (code, "wide is better: its error is smaller" in output) == (0, True)
    code, output = command("promote", path, "broad")
    assert code == USAGE
    assert "has no challenger 'broad'; its challengers are 'third', 'wide'" in output
    code, output = command("promote", path, "wide")
    assert code == USAGE
    assert "set learner.name and learner.parameters to those of the challenger" in output
    written(tmp_path, 128, table[table.rindex("[[") :])
    assert command("promote", path, "wide") == (0, "wide is the model now; start the daemon\n")
    more = list(rows(500, 9))
    with log.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in more)
    assert command("run", path)[0] == 0
    checkpoint = CheckpointStore(tmp_path / "kept").newest()
    every = records([*sent, *more])
    assert checkpoint.parts["model"] == alone(WIDE, every)
    third = {**WIDE, "parameters": {"features": 32}}
    assert checkpoint.parts[f"{CHALLENGER}third"] == alone(third, every)
    assert json.loads(checkpoint.parts[f"{CHALLENGER}third{COMPARED}"])["blocks"] == 4  # of the 500 events
    assert checkpoint.adopted[-1]["changes"] == [["learner.parameters.features", 16, 128]]


def test_events_that_wait_are_learned_by_the_promoted_challenger(tmp_path):
    events, labels = logs(400)
    table = '[[challengers]]\nname = "wide"\nlearner = "kaczmarz"\nparameters = {features = 128}\n'

    def daemon(name):
        """Return what runs a daemon of its own on both logs, up to a time, and the bytes of its model."""
        place = tmp_path / name
        place.mkdir()

        def run(until, features, challengers=""):
            for kind, part in (("log", events), ("labels", labels)):
                kept = [json.dumps(row) + "\n" for row in part if row["at"] < until]
                (place / f"{kind}.jsonl").write_text("".join(kept))
            path = written(place, features, challengers)
            joined = f'[labels]\nkind = "file"\npath = "{place / "labels.jsonl"}"\ntime = "at"\n'
            dead = f'[dead_letters]\nkind = "file"\npath = "{place / "dead.jsonl"}"\n'
            named = path.read_text().replace('target = "y"', 'target = "y"\nkey = "id"\ntime = "at"')
            path.write_text(named + joined + dead)
            code, output = command("run", path)
            assert code == 0, output
            return path, CheckpointStore(place / "kept").newest().parts["model"]

        return run

    promoted, wanted = daemon("promoted"), daemon("wanted")
    path, _ = promoted(200.0, 16, table)
    path.write_text(path.read_text().replace(table, "").replace("features = 16", "features = 128"))
    assert command("promote", path, "wide") == (0, "wide is the model now; start the daemon\n")
    wanted(200.0, 128)
    assert promoted(1000.0, 128)[1] == wanted(1000.0, 128)[1]


def test_events_on_disk_are_neither_promoted_nor_kept(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows(300)))
    path = written(tmp_path, 16, '[[challengers]]\nname = "wide"\nlearner = "kaczmarz"\n')
    assert command("run", path)[0] == 0
    store = CheckpointStore(tmp_path / "kept")
    aside = AsideStore(store)
    assert command("checkpoints", "save", tmp_path / "kept", "first")[0] == 0  # none waits
    aside.put([Row("k", 1.0, b"known", b"event")])
    aside.save()
    code, output = command("checkpoints", "save", tmp_path / "kept", "second")
    assert (code, "1 events wait for labels on disk" in output) == (USAGE, True)
    code, output = command("promote", path, "wide")
    assert (code, "1 events wait for labels on disk" in output) == (USAGE, True)


def test_the_report_has_a_verdict():
    telemetry = Telemetry()
    process(operator_of(settings(WIDE), telemetry), records(rows(3000)))
    page = telemetry.report.page([], {})
    assert "Challengers" in page
    assert "wide is better: its error is smaller by" in page
    assert isinstance(streamk.loads(alone(WIDE, records(rows(10)))), streamk.KaczmarzClassifier)
