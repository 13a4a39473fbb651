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
        ("a,y\n" + "1,u\n2,v\n" * 60 + "3\n", 0, "skipped 1 row: 1 that cannot be decoded"),
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


def test_predictions_repeat_fields_of_the_log(tmp_path):
    """As they are written, also those that are inputs, missing, or over two lines."""
    log = tmp_path / "log.csv"
    rows = [f'A-{k},{k % 7},{("NA", "DE")[k % 2]},"two\nlines {k}",{"uv"[k % 7 > 3]}' for k in range(200)]
    log.write_text("id,a,land,note,y\n" + "\n".join(rows) + "\n1,2\n")
    model = tmp_path / "m.streamk"
    assert run("replay", log, "--target", "y", *FAST, "--no-baseline", "--save", model).exit_code == 0
    output = tmp_path / "p.csv"
    done = run("predict", model, log, "--keep", "id, note, land, a", "--output", output)
    assert done.exit_code == 0, done.output
    assert b"\r" not in output.read_bytes()
    with output.open(newline="", encoding="utf-8") as file:
        predictions = list(csv.DictReader(file))
    assert list(predictions[0])[:6] == ["id", "note", "land", "a", "file", "line"]
    assert [row["id"] for row in predictions] == [f"A-{k}" for k in range(200)]
    assert predictions[8]["note"] == "two\nlines 8"
    assert (predictions[8]["land"], predictions[8]["a"], predictions[8]["line"]) == ("NA", "1", "19")
    plain = tmp_path / "plain.csv"
    run("predict", model, log, "--output", plain)
    with plain.open(newline="", encoding="utf-8") as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == [
            row["prediction"] for row in predictions
        ]
    printed = run("predict", model, log, "--keep", "id").stdout.splitlines()
    assert json.loads(printed[0])["id"] == "A-0"


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [("none", "there is no column 'none'"), ("line", "--keep line: predictions have a column of this name")],
)
def test_a_field_that_cannot_be_kept_is_named(tmp_path, keep, sentence):
    log = made(tmp_path / "log.csv", 60)
    model = tmp_path / "m.streamk"
    run("replay", log, "--target", "y", *FAST, "--no-baseline", "--save", model)
    done = run("predict", model, log, "--keep", keep, "--output", tmp_path / "p.csv")
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_a_model_of_a_log_without_header_predicts_such_logs(tmp_path):
    log, model = tmp_path / "log.data", tmp_path / "m.streamk"
    log.write_text("".join(f"{k % 7}.5,{k % 3},{'uv'[k % 7 > 3]}\n" for k in range(200)))
    options = ["--columns", "a, b,kind", "--target", "kind"]
    done = run("replay", log, *options, *FAST, "--no-baseline", "--save", model)
    assert "200 events" in done.stdout, done.output
    done = run("predict", model, log, "--json", "--output", tmp_path / "p.csv")
    assert json.loads(done.stdout)["scored"] == 200
    done = run("replay", log, "--target", "kind", *FAST)
    assert "--columns a,b,… names the 3 columns" in done.stderr
    done = run("replay", log, "--columns", "a,kind", "--target", "kind", *FAST)
    assert "--columns has 2 names, and the rows have 3 values, as 0.5, 0, u" in done.stderr


def test_lines_above_the_header_and_comments_are_not_read(tmp_path):
    log = tmp_path / "log.csv"
    rows = "".join(f"{k % 7},{'uv'[k % 7 > 3]}\n" + "//note\n" * (k % 10 == 0) for k in range(200))
    log.write_text("a,b\n1,2\n3,4\na,y\n" + rows)
    done = run("replay", log, "--target", "y", "--skip", 3, "--comment", "//", *FAST, "--no-baseline")
    assert "200 rows: 200 events, 0 skipped" in done.stdout, done.output
    assert run("profile", log, "--skip", -1).exit_code == 2


def warnings_of(tmp_path, header, rows, *options):
    log = tmp_path / "log.csv"
    log.write_text("\n".join([header, *rows]) + "\n")
    columns = json.loads(run("profile", log, "--target", "y", *options, "--json").stdout)["columns"]
    return {column["column"]: column["warning"] for column in columns}


def test_columns_that_say_what_the_target_is_are_named(tmp_path):
    rng = random.Random(2)
    rows = []
    for _ in range(300):
        y = rng.choice(["paid", "open"])
        rows.append(f"{y},{('closed', 'due')[y == 'open']},{rng.choice('ab')},{rng.choice('ab')},{y}")
    found = warnings_of(tmp_path, "same,status,n,m,y", rows)
    assert "it has the values of y in each of the first records" in found["same"]
    assert "it says what y is in each of the first records" in found["status"]
    assert not found["n"]
    numbers = [rng.uniform(0, 40) for _ in range(300)]
    rows = [f"{c * 1.8 + 32:.10f},{c + rng.gauss(0, 0.1):.10f},{c:.10f}" for c in numbers]
    found = warnings_of(tmp_path, "fahrenheit,near,y", rows)
    assert "it says what y is" in found["fahrenheit"]
    assert not found["near"]


def test_columns_with_few_values_or_one_are_named(tmp_path):
    rows = [f"{'x' if k == 5 else ''},1,{'Y' if k % 2 else ''},{k % 7},{'uv'[k % 3 > 0]}" for k in range(300)]
    found = warnings_of(tmp_path, "empty,one,flag,n,y", rows)
    assert "nearly empty: 1 of the first 300 records have a value" in found["empty"]
    assert found["one"] == "constant"
    assert not found["flag"]  # whether it is there says something


def test_units_are_found_under_a_type_and_misfits_are_named(tmp_path):
    rows = [f"{80 + k % 9}.5 rpm,{'x' if k % 9 == 0 else k},{'uv'[k % 2]}" for k in range(300)]
    found = warnings_of(tmp_path, "speed,n,y", rows, "--type", "speed=number", "--type", "n=number")
    assert not found["speed"]
    assert "34 of 300 values are no number and are read as missing: 'x'; --missing accepts them" in found["n"]
    done = run(
        "replay", tmp_path / "log.csv", "--target", "y", "--type", "speed=number", *FAST, "--no-baseline"
    )
    assert "values of speed do not fit" not in done.stdout
    assert "read as numbers with a unit: speed (rpm)" in done.output


def test_the_table_of_a_profile_has_whole_sentences_below(tmp_path):
    rows = [f"00{k % 9},1,2,{'uv'[k % 2]}" for k in range(300)]
    (tmp_path / "log.csv").write_text("\n".join(["code,one,two,y", *rows]))
    shown = run("profile", tmp_path / "log.csv", "--target", "y").stdout
    assert "look at:\n" in shown
    assert "  one, two: constant\n" in shown
    assert "  code: codes with leading zeros are categories\n" in shown
    assert ": \n" not in shown


def test_a_profile_names_records_that_cannot_be_read(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "1,u\n2,v\n" * 30 + "city,size,area\nx,1,2\n")
    sentence = f"2 of the first 62 records cannot be read: {path}, line 62: cannot be decoded: 3 values"
    assert sentence in run("profile", path, "--target", "y").stdout
    path.write_text(json.dumps([{"a": k, "y": "uv"[k % 2]} for k in range(30)])[:-1])
    assert "the JSON array does not close" in run("profile", path, "--target", "y").stdout


def test_a_profile_of_many_columns_lists_few_names(tmp_path):
    names = [f"c{k}" for k in range(3000)]
    rows = [",".join(f"2024-01-{k % 28 + 1:02}" for _ in names) + f",{'uv'[k % 2]}" for k in range(30)]
    (tmp_path / "log.csv").write_text("\n".join([",".join([*names, "y"]), *rows]))
    done = run("profile", tmp_path / "log.csv", "--target", "y")
    assert done.exit_code == 0, done.output
    assert "c18, c19 and 2,980 more" in done.stdout
