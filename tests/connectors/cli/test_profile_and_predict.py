"""The commands about the columns of a log, and about scoring one with a saved model."""

import csv
import gzip
import json
import math
import random
import tomllib

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.settings.file import load as load_settings

FAST = ["--learner", "kaczmarz", "--set", "features=64"]


def run(name, *arguments):
    return CliRunner().invoke(app, [name, *map(str, arguments)])


def made(path, rows=400, seed=1):
    """A table as people have it: id, time, currency, per cent, words and a colour."""
    rng = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["order", "when", "price", "share", "note", "colour", "y"])
        for k in range(rows):
            price, share = rng.lognormvariate(6, 1), rng.uniform(0, 100)
            colour = rng.choice(["red", "green"])
            y = math.log(price) * share / 20 + 3 * (colour == "red") + rng.gauss(0, 0.3)
            words = " ".join(
                rng.choices(["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"], k=6)
            )
            when = f"2024-{k // 28 % 12 + 1:02}-{k % 28 + 1:02} 10:00"
            shown = f"${price:,.2f}", f"{share:.1f}%", f"{words} {k}"
            writer.writerow([f"A-{k:06}", when, *shown, colour, f"{y:.3f}"])
    return path


TYPES = {
    "order": "identifier", "when": "datetime:iso", "price": "number", "share": "number", "note": "text:2",
    "colour": "category",
}  # fmt: skip


def test_a_profile_prints_types_and_what_a_learner_sees(tmp_path):
    log = made(tmp_path / "log.csv")
    found = run("profile", log, "--target", "y", "--json")
    assert found.exit_code == 0, found.output
    columns = {column["column"]: column for column in json.loads(found.stdout)["columns"]}
    assert {name: column["type"] for name, column in columns.items() if name != "y"} == TYPES
    assert columns["order"]["learner"] == "ignored"
    assert columns["y"]["learner"] == "target"
    shown = run("profile", log, "--target", "y")
    assert "7 calendar inputs" in " ".join(shown.stdout.replace("│", " ").split())
    assert "regression, since `y` has numbers with fractions" in shown.stdout


def test_a_profile_is_saved_into_settings(tmp_path):
    log, settings = made(tmp_path / "log.csv"), tmp_path / "streamk.toml"
    settings.write_text(
        f'# mine\n[source]\nkind = "file"\npath = "{log}"\n[schema]\ndecimal = ","\n[events]\n'
        'format = "csv"\ntarget = "y"\n[learner]\ntask = "regression"\n'
    )
    done = run("profile", log, "--target", "y", "--save", settings)
    assert done.exit_code == 0
    assert f"wrote [schema] to {settings}" in done.stdout
    text = settings.read_text()
    assert text.startswith("# mine\n")
    assert tomllib.loads(text)["schema"]["types"] == TYPES
    assert load_settings(settings, {}).format.types == TYPES
    assert load_settings(settings, {}).format.decimal == "."


def test_init_from_a_log(tmp_path):
    log, settings = made(tmp_path / "log.csv"), tmp_path / "new.toml"
    assert run("init", settings, "--from", log, "--target", "y").exit_code == 0
    found = load_settings(settings, {})
    assert (found.events.target, found.learner.task, found.format.types) == ("y", "regression", TYPES)
    assert run("init", tmp_path / "other.toml", "--from", log).exit_code == 2


def test_a_model_predicts_by_the_types_that_it_was_trained_with(tmp_path):
    log, model = made(tmp_path / "log.csv"), tmp_path / "m.streamk"
    assert run("replay", log, "--target", "y", *FAST, "--save", model, "--no-baseline").exit_code == 0
    few = tmp_path / "few.csv"
    few.write_text("".join(log.read_text().splitlines(keepends=True)[:4]))
    done = run("predict", model, few, "-o", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [row["line"] for row in rows] == ["2", "3", "4"]
    every = run("predict", model, log, "--output", tmp_path / "all.jsonl", "--json")
    assert json.loads(every.stdout)["scored"] == 400
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert [json.loads(line)["prediction"] for line in lines[:3]] == [
        float(row["prediction"]) for row in rows
    ]
    without = tmp_path / "without.csv"
    without.write_text("when,price,colour\n2024-01-01,$5,red\n")
    assert json.loads(run("predict", model, without).stdout.splitlines()[0])["line"] == 2


def test_ignore_only_and_type(tmp_path):
    log = made(tmp_path / "log.csv")
    options = ["--only", "price", "--only", "colour", "--type", "colour=ignored", "--type", "price=category"]
    rows = json.loads(run("profile", log, "--target", "y", *options, "--json").stdout)["columns"]
    assert {row["column"]: row["learner"] for row in rows} == {
        "order": "ignored", "when": "ignored", "price": "category", "share": "ignored", "note": "ignored",
        "colour": "ignored", "y": "target",
    }  # fmt: skip
    for options, sentence in [
        (["--type", "price"], "write FIELD=TYPE"),
        (["--type", "price=digit"], "type 'digit' of the field 'price' is unknown"),
        (["--ignore", "y"], "this is the target"),
        (["--decimal", "x"], "decimal 'x'"),
    ]:
        done = run("replay", log, "--target", "y", *options)
        assert done.exit_code == 2
        assert sentence in done.stderr


@pytest.mark.parametrize(
    ("data", "code", "sentence"),
    [
        ("a,y\n" + "1,u\n2,v\n" * 60 + "3\n", 0, "skipped 1 rows: 1 that cannot be decoded"),
        ("a,y\n" + "1,u\n2,v\n" * 20 + "3\n", 1, "1 of 41 rows (2.4%) were skipped"),
        (gzip.compress(("a,y\n" + "1,u\n2,v\n" * 9000).encode())[:-20], 1, "was not read to its end"),
        ("a,y\n" + "é,u\nb,v\n" * 60, 0, ""),
        ("a,y\n" + "é,u\nb,v\n" * 60, 0, "windows-1252"),
    ],
)
def test_skipped_rows_end_with_a_warning(tmp_path, data, code, sentence):
    path = tmp_path / "log.csv"
    encoding = "latin-1" if sentence == "windows-1252" else "utf-8"
    path.write_bytes(data if isinstance(data, bytes) else data.encode(encoding))
    done = run("replay", path, "--target", "y", *FAST, "--no-baseline")
    assert done.exit_code == code, done.output
    assert sentence in " ".join(done.output.replace("│", " ").split())
    assert run("replay", path, "--target", "y", *FAST, "--no-baseline", "--allow-skipped").exit_code == 0
    trained = run("train", path, "--target", "y", *FAST, "--workers", 1)
    assert trained.exit_code == (2 if "not read" in sentence else code)


def test_the_documented_model_of_river_works_on_strings(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "".join(f"{k % 7},{'up' if k % 7 > 3 else 'down'}\n" for k in range(600)))
    line = "river.preprocessing.StandardScaler|river.linear_model.LogisticRegression"
    done = run("replay", path, "--target", "y", *FAST, "--learner", line, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["contenders"][line]["accuracy"] > 0.9


def test_a_failed_contender_has_no_figures_and_sets_the_exit_code(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "".join(f"{k % 7},{'uvw'[k % 3]}\n" for k in range(600)))
    line = "river.linear_model.LogisticRegression"
    done = run("replay", path, "--target", "y", *FAST, "--learner", line, "--report", tmp_path / "page")
    assert done.exit_code == 1
    assert "failed" in done.stdout
    assert "wrap it in river.multiclass.OneVsRestClassifier" in done.stdout
    found = json.loads((tmp_path / "page" / "results.json").read_text())
    failed = next(c for c in found["contenders"] if c["name"] == line)
    assert failed["failed"]
    assert set(failed["metrics"].values()) == {None}
    assert failed["interval"] is None
    assert line not in [pair[key] for pair in found["comparisons"] for key in ("first", "second")]
    assert "failed" in (tmp_path / "page" / "index.html").read_text()


def test_labels_of_other_keys_are_named(tmp_path):
    (tmp_path / "events.csv").write_text("id,a\n" + "".join(f"e{k},{k}\n" for k in range(30)))
    (tmp_path / "labels.csv").write_text("id,y\n" + "".join(f"{k},{k % 2}\n" for k in range(30)))
    done = run(
        "replay", tmp_path / "events.csv", "--target", "y", "--labels", tmp_path / "labels.csv", "--key", "id"
    )
    assert done.exit_code == 2
    assert "no event of" in done.stderr
    assert "its first key is 'e0', and that of the labels is '0'" in done.stderr


def test_the_task_is_announced_before_the_first_event(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "".join(f"{k % 7},{k % 3}\n" for k in range(60)))
    done = run("replay", path, "--target", "y", *FAST, "--no-baseline")
    sentence = (
        "classification, since `y` has whole numbers of 3 values: 0, 1, 2; --task regression changes that"
    )
    assert sentence in done.stderr
    assert sentence not in done.stdout


def test_a_model_that_needs_labels_is_saved_and_used_with_a_warning(tmp_path):
    rng, level, rows = random.Random(4), 0.0, {"follows": ["a,y"], "explains": ["a,y"]}
    for _ in range(1500):
        level += rng.gauss(0.0, 1.0)
        a = rng.gauss(0.0, 1.0)
        rows["follows"].append(f"{a},{level}")
        rows["explains"].append(f"{a},{a + rng.gauss(0.0, 0.5)}")
    for name, lines in rows.items():
        log, model = tmp_path / f"{name}.csv", tmp_path / f"{name}.streamk"
        log.write_text("\n".join(lines) + "\n")
        saved = run("replay", log, "--target", "y", "--save", model, "--no-baseline", "--set", "features=768")
        done = run("predict", model, log, "-o", tmp_path / "p.csv", "--json")
        warning = json.loads(done.stdout)["warning"]
        assert ("without new labels, expect " in saved.stderr) == (name == "follows")
        assert warning.startswith("without new labels, expect ") == (name == "follows")
        assert warning in done.stderr
    trained = run("train", tmp_path / "follows.csv", "--target", "y", "--save", model, "--shards", "1")
    assert "without new labels, expect " in trained.stderr
