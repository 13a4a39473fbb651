"""A model file stores how the events were read that it has learned, and is read by that."""

import json

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.events.model_files import load

FAST = ["--learner", "kaczmarz", "--set", "features=16"]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def sentences(done):
    return " ".join(done.stderr.split())


def predicted(model, *arguments):
    done = run("predict", model, *arguments)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return done, [row["prediction"] for row in rows]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("a,b,y\n" + "".join(f"{k % 7},{'uv'[k % 2]},{'pq'[k % 2]}\n" for k in range(60)))
    return path


@pytest.fixture
def model(table, tmp_path):
    path = tmp_path / "m.streamk"
    assert run("replay", table, "--target", "y", *FAST, "--baseline", "none", "--save", path).exit_code == 0
    return path


EXPORT = "amount;y\n" + "".join(f"{k // 10},{k % 10};{k}\n" for k in range(200))


def daemon(tmp_path, log, form="csv"):
    """Return the newest checkpoint of a daemon that has learned a log."""
    settings = tmp_path / "daemon.toml"
    settings.write_text(
        f'[source]\nkind = "file"\npath = "{log}"\n[events]\nformat = "{form}"\ntarget = "y"\n[learner]\n'
        f'name = "kaczmarz"\ntask = "regression"\nparameters = {{features = 16}}\n'
        f'[checkpoints]\ndirectory = "{tmp_path / "kept"}"\n'
    )
    done = run("run", settings)
    assert done.exit_code == 0, done.output
    return sorted((tmp_path / "kept").glob("*.checkpoint"))[-1]


@pytest.mark.parametrize("how", ["replay", "train", "daemon"])
def test_the_decimal_mark_is_the_one_that_was_learned(tmp_path, how):
    log, path, new = tmp_path / "train.csv", tmp_path / "m.streamk", tmp_path / "new.csv"
    log.write_text(EXPORT)
    if how == "daemon":
        path = daemon(tmp_path, log)
    else:
        more = ["--baseline", "none"] if how == "replay" else ["--workers", 1]
        assert run(how, log, "--target", "y", *FAST, *more, "--save", path).exit_code == 0
    for text in (
        "amount;y\n1.500;150\n1.800;180\n",
        "amount\n1.500\n1.800\n",
        "amount;y\n1.500;150\n2,5;2\n",
    ):
        new.write_text(text)
        done, found = predicted(path, new)
        assert done.exit_code == 0, done.output
        assert "between values and decimal" not in sentences(done)
        assert found == predicted(path, new, "--decimal", ",")[1]
        assert found != predicted(path, new, "--decimal", ".")[1]
    new.write_text("amount,y\n1.5,1.5\n2.5,2.5\n")  # another export: its delimiter is another one
    done, found = predicted(path, new)
    assert found == predicted(path, new, "--decimal", ".")[1]
    assert "read as CSV with commas between values and decimal points" in sentences(done)
    assert "the model has learned CSV with semicolons between values and decimal commas" in sentences(done)


def test_strings_that_are_missing_are_the_ones_that_were_learned(tmp_path):
    log, path, new = tmp_path / "train.csv", tmp_path / "m.streamk", tmp_path / "new.csv"
    log.write_text("a,y\n" + "".join(f"{'-999' if k % 5 == 0 else k % 7},{k % 7}.5\n" for k in range(200)))
    options = ["--target", "y", *FAST, "--baseline", "none", "--missing=-999"]
    assert run("replay", log, *options, "--save", path).exit_code == 0
    new.write_text("a\n-999\n3\n")
    assert predicted(path, new)[1] == predicted(path, new, "--missing=-999")[1]
    assert load(path).stored["missing"] == ["-999"]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            "A,B,Y\n1,u,p\n",
            2,
            "none of the fields that {m} has learned: no 'a' (did you mean 'A'?), 'b' (did you",
        ),
        (
            "x;z\n1;2\n",
            2,
            "has none of the fields that {m} has learned: no 'a', 'b'; its fields are 'x', 'z'",
        ),
        ('{"A": 1, "B": "u"}\n', 2, "has none of the fields that {m} has learned"),
        ("a,y\n1,p\n", 0, "has no field 'b', which {m} has learned: it is missing"),
        ("a,B,y\n1,u,p\n", 0, "has no field 'b' (did you mean 'B'?), which {m} has learned: it is missing"),
        ("a,b,Y\n1,u,p\n", 0, "has no field 'y' to score predictions with; did you mean 'Y'?"),
        ("a,b,more,y\n1,u,2,p\n", 0, "has the field 'more', not learned by {m}"),
        ("y;b;a\np;u;1\n", 0, "read as CSV with semicolons"),
        ("a;b\n1;u\n", 0, "read as CSV with semicolons"),
    ],
)
def test_fields_that_are_missing_new_or_renamed_are_named(model, tmp_path, text, code, said):
    new, output = tmp_path / "new", tmp_path / "p.csv"
    new.write_text(text)
    output.write_text("before")
    for command in (["predict", model, new, "-o", output], ["replay", new, "--learner", model]):
        done = run(*command)
        if command[0] == "predict":
            assert done.exit_code == code, done.output
            assert (output.read_text() == "before") == (code == 2)
            assert done.stderr.count(f"{new} has ") == (" has " in f" {said}" or code == 2)
        elif '"' in text or "y" not in text:
            continue  # without a target, nothing is replayed
        assert said.format(m=model) in sentences(done)


def test_what_a_model_has_learned_is_not_printed_as_inferred(tmp_path):
    log, model = tmp_path / "train.csv", tmp_path / "m.streamk"
    log.write_text("day;speed;y\n" + "".join(f"{k % 28 + 1}.01.2024;{k},5 rpm;{k % 2}\n" for k in range(60)))
    done = run("replay", log, "--target", "y", *FAST, "--baseline", "none", "--save", model)
    for inferred in ("CSV with semicolons", "date or time: day", "numbers with a unit: speed"):
        assert f"read as {inferred}" in sentences(done)
    for command in (["predict", model, log], ["explain", model, log], ["replay", log, "--learner", model]):
        done = run(*command)
        assert done.exit_code == 0, done.output
        assert "read as" not in sentences(done)
    log.write_text(log.read_text().replace(";", "\t"))
    assert "read as CSV with tabs" in sentences(run("predict", model, log))


def test_fields_of_every_file_are_compared(model, table, tmp_path):
    (tmp_path / "second.csv").write_text("a,B,y\n1,u,p\n")
    done = run("predict", model, table, tmp_path / "second.csv")
    assert done.exit_code == 0
    assert f"{tmp_path / 'second.csv'} has no field 'b' (did you mean 'B'?)" in sentences(done)
    assert f"{table} has" not in sentences(done)


def test_a_model_of_objects_is_compared_by_their_names(tmp_path):
    log, path, new = tmp_path / "train.jsonl", tmp_path / "m.streamk", tmp_path / "new.jsonl"
    log.write_text(
        "".join(
            f'{{"tags": ["{"uv"[k % 2]}"], "n": {{"x": {k % 7}}}, "y": "{"pq"[k % 2]}"}}\n' for k in range(60)
        )
    )
    assert run("replay", log, "--target", "y", *FAST, "--baseline", "none", "--save", path).exit_code == 0
    new.write_text('{"tags": ["w"], "n": {"x": 1}}\n')
    assert "learned" not in sentences(run("predict", path, new))
    new.write_text('{"tags": ["w"]}\n')
    assert "has no field 'n.x', which" in sentences(run("predict", path, new))
    new.write_text('{"tag": ["w"]}\n')
    assert run("predict", path, new).exit_code == 2


def test_a_replay_continues_as_the_model_was_learned(tmp_path):
    log, path, new = tmp_path / "train.csv", tmp_path / "m.streamk", tmp_path / "new.csv"
    log.write_text(EXPORT)
    options = ["--baseline", "none", "--json"]
    assert run("replay", log, "--target", "y", *FAST, *options, "--save", path).exit_code == 0
    new.write_text("amount;y\n1.500;150\n1.800;180\n")
    after = tmp_path / "after.streamk"
    done = run("replay", new, "--learner", path, *options, "--save", after)
    assert done.exit_code == 0, done.output
    assert "read as" not in sentences(done)
    assert load(after).stored == load(path).stored
    assert load(after).learner.events == 202


def test_older_model_files_have_no_dialect(model, tmp_path):
    learner, stored = load(model)[1:]
    before = {key: stored[key] for key in ("target", "types", "ignore", "features", "missing")}
    old, plain = tmp_path / "old.streamk", tmp_path / "plain.streamk"
    learner.save(old, {"format": before})
    learner.save(plain)
    new = tmp_path / "new.csv"
    new.write_text("a,b,y\n1,u,p\n")
    expected = predicted(model, new)[1]
    assert predicted(old, new)[1] == expected
    assert predicted(plain, new)[1] == expected
    new.write_text("A,B,Y\n1,u,p\n")
    assert run("predict", old, new).exit_code == 2
