"""``streamk merge``: model files to one model file."""

import json

import pytest
from typer.testing import CliRunner

import streamk
from connectors.cli import app

from .terminal import shown


@pytest.fixture
def models(tmp_path):
    paths = [tmp_path / "a.streamk", tmp_path / "b.streamk"]
    for k, path in enumerate(paths):
        learner = streamk.KaczmarzClassifier(features=64, seed=7)
        for i in range(100 + k):
            learner.learn_one({"x": i % 5, f"only {k}": i}, i % 5 > 2)
        learner.save(path)
    return paths


def run(*arguments):
    return CliRunner().invoke(app, ["merge", *map(str, arguments)])


def test_a_terminal_shows_that_it_works(models, tmp_path):
    written, code = shown("merge", *models, "-o", tmp_path / "c.streamk", columns=100)
    assert code == 0
    assert "merging 2 models" in written


def test_it_writes_what_the_library_merges(models, tmp_path):
    output = tmp_path / "c.streamk"
    done = run(*models, "-o", output, "--json")
    assert done.exit_code == 0, done.output
    assert output.read_bytes() == streamk.merge([streamk.load(path) for path in models]).to_bytes()
    said = json.loads(done.stdout)
    assert [row["events"] for row in said["models"]] == [100, 101]
    assert said["merged"] == {
        "file": str(output), "class": "KaczmarzClassifier", "events": 201, "labels": 2, "fields": 3,
        "bytes": output.stat().st_size,
    }  # fmt: skip
    assert run(*models, "-o", output).exit_code == 0  # a file that is none of them is written anew


def test_it_shows_a_table(models, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    done = run(*models, "-o", tmp_path / "c.streamk")
    for text in ("a.streamk", "b.streamk", "c.streamk", "KaczmarzClassifier", "201", "bytes"):
        assert text in done.stdout


def test_events_that_wait_are_learned_first(tmp_path):
    learner = streamk.MatchingPursuitRegressor(features=64, block_size=32, seed=7)
    for i in range(50):
        learner.learn_one({"x": i % 5}, float(i % 5))
    assert learner.pending == 18
    learner.save(tmp_path / "a")
    learner.save(tmp_path / "b")
    assert run(tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c").exit_code == 0
    assert streamk.load(tmp_path / "c").events == 100


def test_it_never_writes_over_what_it_merges(models, tmp_path):
    link, before = tmp_path / "link", models[1].read_bytes()
    link.symlink_to(models[1])
    for output in (models[1], link, tmp_path / "." / "b.streamk"):
        done = run(*models, "-o", output)
        assert done.exit_code == 2
        assert "is one of the models to merge" in done.stderr
    assert models[1].read_bytes() == before


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (streamk.KaczmarzClassifier(features=64, seed=8), "other has seed 8 and {0} 7"),
        (streamk.KaczmarzClassifier(features=128, seed=7), "other has features=128 and {0} features=64"),
        (streamk.KaczmarzRegressor(features=64, seed=7), "other is a KaczmarzRegressor and {0} a"),
        (None, "other: No such file"),
        (b"no model", "other is not a streamk model file"),
    ],
)
def test_wrong_things(models, tmp_path, other, message):
    path = tmp_path / "other"
    if isinstance(other, bytes):
        path.write_bytes(other)
    elif other is not None:
        other.learn_one({"x": 1}, 2.0 if isinstance(other, streamk.KaczmarzRegressor) else True)
        other.save(path)
    done = run(*models, path, "-o", tmp_path / "c")
    assert done.exit_code == 2
    assert message.format(models[0]) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "c").exists()
    assert run(*models, "-o", tmp_path / "no" / "c").exit_code == 2


def test_a_model_that_is_named_twice_would_count_twice(models, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(models[0])
    for again in (models[0], link):
        done = run(*models, again, "-o", tmp_path / "c")
        assert done.exit_code == 2
        assert f"{models[0]} is named twice" in done.stderr
    assert not (tmp_path / "c").exists()


def saved(path, events, stored=None, cls=streamk.KaczmarzClassifier):
    learner = cls(features=64, seed=7)
    for x, y in events:
        learner.learn_one(x, y)
    learner.save(path, None if stored is None else {"format": stored})
    return path


def test_models_without_a_common_field_are_refused(tmp_path):
    one = saved(tmp_path / "one", [({"a": i % 5, "b": 1}, i % 2 > 0) for i in range(20)])
    two = saved(tmp_path / "two", [({"x": i % 5, "z": 1}, i % 2 > 0) for i in range(20)])
    both = saved(tmp_path / "both", [({"a": i % 5, "x": 1}, i % 2 > 0) for i in range(20)])
    done = run(one, two, "-o", tmp_path / "c")
    assert done.exit_code == 2
    assert (
        f"{one} and {two} have no field in common, and cannot be merged: {one} has 'a', 'b', and"
        in done.stderr
    )
    assert not (tmp_path / "c").exists()
    assert run(one, two, both, "-o", tmp_path / "c").exit_code == 0  # the third connects them
    blank = saved(tmp_path / "blank", [])
    assert run(blank, two, "-o", tmp_path / "c").exit_code == 0


def test_models_of_categories_are_compared_by_the_fields_that_they_store(tmp_path):
    def stored(*inputs, target="y"):
        return {"target": target, "types": dict.fromkeys(inputs, "category"), "inputs": list(inputs)}

    one = saved(tmp_path / "one", [({"a": "u"}, "p"), ({"a": "v"}, "q")], stored("a"))
    two = saved(tmp_path / "two", [({"x": "u"}, "p"), ({"x": "v"}, "q")], stored("x"))
    assert run(one, two, "-o", tmp_path / "c").exit_code == 2
    other = saved(tmp_path / "other", [({"a": "u"}, "r"), ({"a": "v"}, "s")], stored("a", target="z"))
    done = run(one, other, "-o", tmp_path / "c")
    assert done.exit_code == 2
    assert f"{one} and {other} have no label in common" in done.stderr
    numbers = saved(tmp_path / "numbers", [({"a": "u"}, 1), ({"a": "v"}, 2)], stored("a"))
    assert run(one, numbers, "-o", tmp_path / "c").exit_code == 2
    later = saved(tmp_path / "later", [({"a": "u"}, "r"), ({"a": "v"}, "s")], stored("a"))
    assert run(one, later, "-o", tmp_path / "c").exit_code == 0  # a log that is sorted by its target
