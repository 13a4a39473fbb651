"""Daemons that only predict: with the newest published model of a file, or with the model that is there."""

import json
import time

import pytest

import streamk
from connectors.contract.errors import POSITION, REFUSED_EVENTS, USAGE, Failure, Interruption
from connectors.daemon.telemetry import Telemetry
from connectors.events.decoding import EventFormat
from connectors.events.model_files import stored_of
from connectors.publish.following import Follower, version_of
from connectors.settings.file import load
from connectors.settings.tables import Settings, read_as_stored
from streamk.learners.loading import loads_with_extra
from tests.kafka.stand import LIMIT, events, newest
from tests.processes import run

from .test_run import learner_of, settings, write


def inputs(x):
    return {name: value for name, value in x.items() if name not in ("id", "y")}


def predictions(stand):
    return [json.loads(line) for line in (stand.directory / "out.jsonl").read_text().splitlines()]


def follow(stand, path, **changes):
    return settings(stand, learner={"follow": str(path)}, **changes)


def expected(sent, path):
    """Return what a scorer writes for events, without places."""
    learner = loads_with_extra(path.read_bytes())[0].frozen()
    version = version_of(path.read_bytes(), learner.events)
    return [
        {
            "p": {str(k).lower(): round(p, 6) for k, p in learner.predict_proba_one(inputs(x)).items()},
            "version": version,
        }
        for x in sent
    ]


def seen(found):
    return [{"p": each["probabilities"], "version": each["version"]} for each in found]


@pytest.fixture
def model(stand):
    path = stand.directory / "clicks.streamk"
    learner_of(events(500)).save(path)
    return path


def test_a_scorer_predicts_and_names_the_model(stand, model):
    sent = events(300, 2)
    write(stand.directory / "log.jsonl", [*sent[:100], "bad\n", *sent[100:]])
    path = follow(stand, model)
    assert run("run", path).returncode == 0
    found = predictions(stand)
    assert seen(found) == expected(sent, model)
    assert {(each["model"], each["group"]) for each in found} == {("clicks", "log.jsonl")}
    assert [each["target"] for each in found] == [x["y"] for x in sent]
    checkpoint = newest(stand.directory / "daemon-checkpoints")
    (progress,) = checkpoint.partitions.values()
    assert (progress.learned, progress.predicted, progress.refused) == (0, 300, 1)
    assert checkpoint.parts.keys() == {"watch"}
    more = events(50, 3)
    write(stand.directory / "log.jsonl", more)
    assert run("run", path).returncode == 0
    assert seen(predictions(stand)) == expected([*sent, *more], model)


def test_events_without_targets_and_unknown_labels_are_predicted(stand, model):
    sent = [{k: v for k, v in x.items() if k != "y"} for x in events(3000, 2)]
    sent[5]["y"] = "neither"
    write(stand.directory / "log.jsonl", sent)
    done = run("run", follow(stand, model, limits={"without_target": 100}))
    assert done.returncode == 0, done.stderr
    assert seen(predictions(stand)) == expected(sent, model)
    assert predictions(stand)[5]["target"] == "neither"


def test_a_log_of_csv_needs_no_target(stand, model):
    sent = events(80, 2)
    names = [f"f{j:02d}" for j in range(5)]
    lines = [",".join(names), *(",".join(str(x[name]) for name in names) for x in sent)]
    (stand.directory / "log.csv").write_text("\n".join(lines) + "\n")
    source = {"kind": "file", "path": stand.directory / "log.csv"}
    done = run("run", follow(stand, model, source=source, events={"format": "csv", "target": "y"}))
    assert done.returncode == 0, done.stderr
    assert seen(predictions(stand)) == expected(sent, model)


def test_a_new_model_takes_over_between_two_events(stand, model):
    write(stand.directory / "log.jsonl", events(100, 2))
    source = {"kind": "file", "path": stand.directory / "log.jsonl", "follow": True}
    daemon = stand.start(follow(stand, model, source=source))
    out = stand.directory / "out.jsonl"
    daemon.until(lambda: out.exists() and len(predictions(stand)) == 100)
    first = {each["version"] for each in predictions(stand)}
    learner_of(events(900, 4)).save(model)
    daemon.until(lambda: daemon.text().count("predicting with clicks") == 2)
    more = events(100, 3)
    write(stand.directory / "log.jsonl", more)
    daemon.until(lambda: len(predictions(stand)) == 200)
    assert seen(predictions(stand)[100:]) == expected(more, model)
    assert first.isdisjoint({each["version"] for each in predictions(stand)[100:]})
    model.write_bytes(b"damaged")
    daemon.until(lambda: "the model before it predicts on" in daemon.text())
    write(stand.directory / "log.jsonl", events(10, 5))
    daemon.until(lambda: len(predictions(stand)) == 210)
    assert daemon.stop() == 0
    assert len({each["version"] for each in predictions(stand)}) == 2


def test_a_scorer_waits_for_its_first_model(stand, model):
    later = stand.directory / "later.streamk"
    write(stand.directory / "log.jsonl", events(20, 2))
    daemon = stand.start(follow(stand, later))
    daemon.until(lambda: "no model is published in" in daemon.text())
    assert not (stand.directory / "out.jsonl").exists()
    streamk.KaczmarzClassifier(features=64, seed=0).save(later)  # which has learned nothing
    time.sleep(1.5)
    assert not (stand.directory / "out.jsonl").exists()
    later.write_bytes(model.read_bytes())
    assert daemon.wait() == 0
    assert len(predictions(stand)) == 20


def test_a_scorer_that_waits_for_its_first_model_stops(stand):
    daemon = stand.start(follow(stand, stand.directory / "never.streamk"))
    daemon.until(lambda: "no model is published in" in daemon.text())
    assert daemon.stop() == 0


@pytest.mark.parametrize("regressor", [False, True])
def test_a_first_model_that_cannot_be_used_ends_the_run(stand, model, regressor):
    if regressor:
        learner = streamk.KaczmarzRegressor(features=64, seed=0)
        learner.learn_one({"f00": 1.0}, 2.0)
        learner.save(model)
    else:
        model.write_bytes(model.read_bytes()[:-1])
    write(stand.directory / "log.jsonl", events(20, 2))
    done = run("run", follow(stand, model))
    assert done.returncode == USAGE
    assert (
        "is for regression, and learner.task" in done.stderr
        if regressor
        else "learner.follow: the model" in done.stderr
    )


def test_events_with_other_fields_than_the_model_end_the_run(stand, model):
    write(stand.directory / "log.jsonl", [{name.upper(): v for name, v in x.items()} for x in events(200, 2)])
    done = run("run", follow(stand, model))
    assert done.returncode == REFUSED_EVENTS
    assert (
        "log.jsonl has none of the fields that clicks has learned: no 'f00' (did you mean 'F00'?)"
        in done.stderr
    )
    assert not (stand.directory / "out.jsonl").read_text()


def test_a_field_that_is_missing_is_named(stand, model):
    write(stand.directory / "log.jsonl", [{n: v for n, v in x.items() if n != "f03"} for x in events(200, 2)])
    done = run("run", follow(stand, model))
    assert done.returncode == 0
    assert done.stderr.count("has no field 'f03', which clicks has learned") == 1


def test_a_learner_that_only_predicts_keeps_its_model(stand):
    write(stand.directory / "log.jsonl", events(300))
    assert run("run", settings(stand)).returncode == 0
    before = newest(stand.directory / "daemon-checkpoints")
    write(stand.directory / "log.jsonl", events(200, 2))
    done = run("run", settings(stand, learner__learn=False))
    assert done.returncode == 0, done.stderr
    after = newest(stand.directory / "daemon-checkpoints")
    assert after.parts["model"] == before.parts["model"]
    (progress,) = after.partitions.values()
    assert (progress.learned, progress.predicted) == (300, 200)
    learner = learner_of(events(300))
    wanted = [learner.predict_one(inputs(x)) for x in events(200, 2)]
    assert [each["prediction"] for each in predictions(stand)[300:]] == wanted


def test_nothing_is_predicted_without_any_model(stand):
    write(stand.directory / "log.jsonl", events(10))
    done = run("run", settings(stand, learner__learn=False))
    assert done.returncode == USAGE
    assert "holds no model that has learned" in done.stderr


@pytest.mark.parametrize(
    ("learner", "more", "words"),
    [
        ({"follow": "m", "parameters": {"features": 3}}, {}, "parameters are those of the model"),
        ({"follow": "./m", "model": "a"}, {}, "learner.follow names no topic"),
        ({"model": "a"}, {}, "learner.follow names no topic"),
        ({"follow": "m"}, {"snapshots": {"topic": "s"}}, "snapshots are of models that learn"),
        ({"learn": False}, {"labels": {"kind": "topic", "topic": "l"}}, "labels are learned"),
        ({"follow": "in"}, {}, "learner.follow and source are the same topic, in"),
    ],
)
def test_settings_of_a_scorer(learner, more, words):
    source = {"kind": "topic", "topic": "in", "group": "g"}
    with pytest.raises(ValueError, match=words):
        Settings.model_validate({"source": source, "events": {"target": "y"}, "learner": learner, **more})


def test_a_checkpoint_of_a_learner_is_no_scorers(stand, model):
    write(stand.directory / "log.jsonl", events(300))
    assert run("run", settings(stand)).returncode == 0
    done = run("run", follow(stand, model))
    assert done.returncode == 4
    assert "holds a model that learns, and learner.follow is set" in done.stderr


def test_events_are_read_as_those_that_were_learned(stand):
    stored = stored_of(EventFormat(target="y", types={"zip": "category"}, ignore=["id"], missing=["-999"]))
    chosen = load(settings(stand))
    read = read_as_stored(chosen, stored)
    assert read.schema_.types == {"zip": "category"}
    assert read.schema_.missing == ["-999"]
    typed = load(settings(stand, schema={"types": {"zip": "number"}}))
    assert read_as_stored(typed, stored).schema_.types == {"zip": "number"}
    assert read_as_stored(chosen, None) == chosen


# ---- publishing without snapshots


def test_the_model_of_a_daemon_is_published(stand):
    write(stand.directory / "log.jsonl", events(400))
    path, out = settings(stand), stand.directory / "published.streamk"
    assert run("run", path).returncode == 0
    done = run("publish", path, "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)["model"]
    assert (about["events"], about["name"]) == (400, "log")
    assert about["version"] == version_of(out.read_bytes(), 400)
    learner, extra = loads_with_extra(out.read_bytes())
    assert learner.to_bytes() == learner_of(events(400)).frozen().to_bytes()
    assert extra["format"]["target"] == "y"
    assert "published already" in run("publish", path, "-o", out).stdout
    write(stand.directory / "new.jsonl", events(30, 5))
    source = {"kind": "file", "path": stand.directory / "new.jsonl"}
    other = {"kind": "file", "path": stand.directory / "out2.jsonl"}
    scorer = stand.settings(
        "scorer", source=source, predictions=other, dead_letters=None, learner={"follow": str(out)}
    )
    assert run("run", scorer).returncode == 0
    assert "published" in (stand.directory / "out2.jsonl").read_text()
    assert run("publish", scorer, "-o", out).returncode == USAGE


def test_a_model_that_has_learned_nothing_is_not_published(stand):
    (stand.directory / "log.jsonl").touch()
    path, out = settings(stand), stand.directory / "published.streamk"
    assert "holds no checkpoint yet" in run("publish", path, "-o", out).stderr
    assert run("run", path).returncode == 0
    done = run("publish", path, "-o", out)
    assert done.returncode == USAGE
    assert "nothing has been learned yet" in done.stderr
    assert not out.exists()


def test_a_model_that_learned_less_does_not_replace_one(stand):
    write(stand.directory / "log.jsonl", events(400))
    path, out = settings(stand), stand.directory / "published.streamk"
    assert run("run", path).returncode == 0
    assert run("publish", path, "-o", out).returncode == 0
    assert run("reset", path, "--to", "earliest").returncode == 0
    done = run("publish", path, "-o", out)
    assert done.returncode == POSITION
    assert "has a model that has learned more: log.jsonl is known up to 0" in done.stderr


# ---- the follower


class Refusing(Telemetry):
    def __init__(self):
        super().__init__()
        self.refused = 0

    def refused_model(self):
        self.refused += 1


def test_a_damaged_model_is_refused_once(stand, model):
    telemetry = Refusing()
    follower = Follower(load(follow(stand, model)), telemetry)
    follower.look()
    current = follower.current
    follower.look()
    assert follower.current is current
    for _ in range(3):
        model.write_bytes(b"damaged")
        follower.look()
    assert (telemetry.refused, follower.current) == (1, current)
    learner_of(events(600, 7)).save(model)
    follower.look()
    assert follower.current.origin.version.startswith("600-")


def test_a_file_is_no_topic(stand, model, monkeypatch):
    monkeypatch.chdir(stand.directory)
    follower = Follower(load(follow(stand, "clicks.streamk")), Telemetry())
    with pytest.raises(Failure, match=r"write \./clicks\.streamk"):
        follower.look()


def test_what_fails_while_it_follows_is_logged_once(stand, model, caplog):
    follower = Follower(load(follow(stand, model)), Telemetry())
    follower.look()

    def look():
        raise Interruption("no broker answers")

    follower.look = look
    with follower.running():
        until = time.monotonic() + LIMIT
        while "no broker answers" not in caplog.text and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1.5)
    assert caplog.text.count("no broker answers; the model stays as it is") == 1
