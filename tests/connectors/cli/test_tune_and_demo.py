"""``streamk tune`` and ``streamk demo`` as a user types them."""

import json
import random

import pytest
import typer

import streamk
from connectors.cli import tune
from connectors.replay.run import replay_log
from connectors.settings.file import load
from tests.processes import run


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    rng = random.Random(3)
    rows = [{"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)} for _ in range(4500)]
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    path.write_text("\n".join(json.dumps({**x, "y": x["a"] ** 2 + x["b"] ** 2 > 1.5}) for x in rows))
    return path


def test_the_table_is_for_the_daemon(log, tmp_path):
    grid = ["--grid", "features=16|256", "--grid", "bandwidth=0.01|1"]
    done = run("tune", log, "--target", "y", "--learner", "kaczmarz", *grid)
    assert done.returncode == 0, done.stderr
    assert "in the worse half" in done.stdout or "clearly worse" in done.stdout
    table = done.stdout[done.stdout.index("[learner]") :]
    path = tmp_path / "streamk.toml"
    source = f'[source]\nkind = "file"\npath = "{log}"\n'
    path.write_text(f'{source}[events]\ntarget = "y"\n{table}\n[checkpoints]\ndirectory = "kept"\n')
    assert load(path).learner.parameters == {"features": 256, "bandwidth": 1}


def test_json_and_wrong_things(log):
    grid = ["--grid", "features=16|64"]
    found = json.loads(run("tune", log, "--target", "y", "--learner", "kaczmarz", *grid, "--json").stdout)
    assert found["parameters"] == {"features": 64}
    for arguments, message in (
        (["--grid", "features"], "write KEY=VALUE|VALUE"),
        (["--learner", "ls-svm"], "has no grid of its own"),
        (["--learner", "forest"], "forest"),
        (["--grid", "size=1|2"], "--grid size=1|2: kernel has no such parameter"),
    ):
        done = run("tune", log, "--target", "y", *arguments)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.replace("│", " ").split())
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ("features=16|32", "the default configuration is not among the settings that were scored"),
        ("features=512", "the default configuration is the best: kaczmarz:features=512"),
        ("features=512|496", "against the default configuration: |the default configuration is the best"),
    ],
)
def test_the_best_is_compared_with_the_default(log, grid, sentence):
    options = "--target", "y", "--learner", "kaczmarz", "--limit", "1500", "--grid", grid, "--json"
    done = run("tune", log, *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["default"]
    assert any(found.startswith(each) for each in sentence.split("|"))


def test_the_ranking_is_among_settings_scored_on_all_events(log, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    given = "tune", log, "--target", "y", "--learner", "kaczmarz", "--grid", "features=16|256"
    found = strict(run(*given, "--grid", "bandwidth=0.01|1", "--json").stdout)
    assert (found["events"], found["headline"], found["seed"]) == (4500, "accuracy", 0)
    assert {row["events"] for row in found["ranking"]} == {4500}
    assert found["dropped"]
    values = [row["metrics"]["accuracy"] for row in found["ranking"]]
    assert values == sorted(values, reverse=True)
    ranked = {row["settings"] for row in found["ranking"]}
    for row in found["dropped"]:
        assert row["settings"] not in ranked
        assert 2048 <= row["events_in_common"] < 4500
        alone = run("replay", log, "--target", "y", "--learner", row["best"]["settings"],
                    "--learner", row["settings"], "--limit", row["events_in_common"], "--no-baseline",
                    "--json")  # fmt: skip
        metrics = strict(alone.stdout)["contenders"]
        assert metrics[row["settings"]]["accuracy"] == row["accuracy"]
        assert metrics[row["best"]["settings"]]["accuracy"] == row["best"]["accuracy"]
    text = run(*given, "--grid", "bandwidth=0.01|1").stdout
    ranking, _, dropped = text.partition("Dropped on the way: compared on the events in common")
    assert "accuracy over all 4,500 events" in ranking
    assert "accuracy of the best" in dropped
    assert f"the best on the first 2,048 events: {found['dropped'][0]['best']['settings']}" in dropped
    for row in found["dropped"]:
        assert row["settings"] not in ranking
        assert row["settings"] in dropped
    assert text.splitlines().count("seed 0; --grid seed=N changes it") == 1


def test_several_files_and_patterns_are_one_log(log, tmp_path):
    lines = log.read_text().splitlines()
    for k in (1, 2):
        (tmp_path / f"log-{k}.jsonl").write_text("\n".join(lines[500 * (k - 1) : 500 * k]) + "\n")
    given = "--target", "y", "--learner", "kaczmarz", "--grid", "features=16|64", "--json"
    whole = strict(run("tune", log, *given, "--limit", 1000).stdout)
    for files in ([tmp_path / "log-1.jsonl", tmp_path / "log-2.jsonl"], [tmp_path / "log-*.jsonl"]):
        found = strict(run("tune", *files, *given).stdout)
        assert found["events"] == 1000
        assert found["ranking"] == whole["ranking"]


def test_the_settings_of_a_daemon_can_be_tuned(log, tmp_path):
    path = tmp_path / "streamk.toml"
    path.write_text(
        f'[source]\nkind = "file"\npath = "{log}"\n[events]\ntarget = "y"\n'
        '[learner]\nname = "kaczmarz"\nparameters = {features = 16, scales = [2, 1], seed = 5}\n'
    )
    done = run("tune", path, "--grid", "features=16|64", "--limit", 500, "--json")
    assert done.returncode == 0, done.stderr
    found = strict(done.stdout)
    assert found["parameters"] == {"scales": [2, 1], "seed": 5, "features": 64}
    assert found["seed"] == 5


def strict(text):
    """Read JSON that has nothing that is not JSON."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_metrics_that_are_not_given_are_null(tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text("a,y\n" + "".join(f"{k % 25},c{k % 25}\n" for k in range(300)))
    grid = ["--learner", "kaczmarz", "--grid", "features=16|32"]
    done = run("tune", path, "--target", "y", *grid, "--json")
    found = [each["metrics"] for each in strict(done.stdout)["ranking"]]
    assert {each["auc"] for each in found} == {None}


@pytest.mark.parametrize("events", [2000, 3000])  # before settings are dropped for the first time, and after
def test_settings_that_all_fail_are_named(log, monkeypatch, capsys, events):
    def failing(*given, watch, **options):
        def watched(run):
            for name in run.names:
                run.contest.drop(name, "at event 7: overflow")
            watch(run)

        return replay_log(*given, watch=watched, **options)

    monkeypatch.setattr(tune, "replay_log", failing)
    with pytest.raises(typer.Exit) as ended:
        tune.tune_command(
            files=[str(log)], target="y", learner="kaczmarz", grid=["features=16|32"], limit=events
        )
    assert ended.value.exit_code == 2
    said = "every setting failed: kaczmarz:features=16 at event 7: overflow; kaczmarz:features=32 at"
    assert said in capsys.readouterr().err


def test_the_demonstration(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("bananas", "imagesegments", "synthetic"):
        page = tmp_path / "demo-output" / name / "index.html"
        assert page.stat().st_size > 10_000
        assert streamk.load(tmp_path / "demo-output" / f"{name}.streamk").events > 2000
    assert done.stdout.count("reloaded: the same predictions") == 3
    line = next(row for row in done.stdout.splitlines() if row.startswith("streamk replay"))
    again = run(*line.split()[1:], cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def test_every_grid_has_the_default_configuration():
    import dataclasses

    from connectors.cli.tune import GRIDS
    from connectors.events.learners import LEARNERS

    for learner, grid in GRIDS.items():
        for cls in LEARNERS[learner].values():
            defaults = {field.name: str(field.default).lower() for field in dataclasses.fields(cls)}
            assert all(defaults[key] in values for key, values in grid.items()), cls
