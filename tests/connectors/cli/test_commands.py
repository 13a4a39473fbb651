"""The subcommands as a table: nothing heavy is imported for help, and names that are wrong are corrected."""

import functools
import io
import logging
import shlex
import subprocess
import sys
import types

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import streamk
from connectors.cli import COMMANDS, Subcommand, app, load, show_waits
from connectors.events import names
from connectors.events.learners import LEARNERS
from streamk.evaluation.metric import TASKS

HEAVY = "numba", "river", "scipy", "kafka", "streamk", "numpy", "connectors.settings.tables"


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def plain(text):
    return " ".join(text.replace("│", " ").split())


LIGHT = "merge", "show", "init", "adopt", "fetch", "labels"


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["replya"], ["--halp"], [], *([name, "--help"] for name in LIGHT)],
    ids=" ".join,
)
def test_help_and_usage_errors_import_no_learner(arguments):
    code = (
        "import sys\n"
        "from connectors.cli import app\n"
        "try:\n"
        f"    app({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        f"print('imported:', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "imported: []", done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_docstrings_say(name):
    command = load(name)
    assert " ".join(command.help.split()).startswith(COMMANDS[name].help)
    assert command.name == name


def commands():
    """Yield the arguments that lead to each command that does something."""
    for name in COMMANDS:
        below = getattr(load(name), "commands", None)
        yield from ([name, each] for each in below) if below else ([name],)


@pytest.mark.parametrize("arguments", [*commands()], ids=" ".join)
def test_every_command_has_help_with_an_example(arguments, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    done = run(*arguments, "--help")
    assert done.exit_code == 0, done.output
    assert f"streamk {' '.join(arguments)} " in plain(done.output).partition("For example: ")[2]


@pytest.mark.parametrize("arguments", [*commands()], ids=" ".join)
def test_the_options_of_examples_exist(arguments, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    example = plain(run(*arguments, "--help").output).partition("For example: ")[2]
    words = shlex.split(example)[1 + len(arguments) :]
    command = load(arguments[0])
    command = command.commands[arguments[1]] if arguments[1:] else command
    command.make_context(arguments[-1], words)  # parses the words, and runs nothing


@pytest.mark.parametrize("arguments", [*commands()], ids=" ".join)
def test_help_prints_brackets_and_has_wide_descriptions(arguments, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    command = load(arguments[0])
    command = command.commands[arguments[1]] if arguments[1:] else command
    done = run(*arguments, "--help").output
    words = set(plain(done).split())
    texts = [command.help, *(getattr(each, "help", None) or "" for each in command.params)]
    assert not [word for text in texts for word in text.split() if "[" in word and word not in words]
    assert max(map(len, done.splitlines())) <= 80
    assert "│" not in done  # panels take a third of the line


def test_help_lists_every_command():
    listed = run("--help").output
    assert all(name in listed for name in COMMANDS)


def test_the_version():
    lines = run("--version").output.splitlines()
    assert lines[0] == f"streamk {streamk.__version__}"
    assert f"numpy {np.__version__}" in lines


@pytest.mark.parametrize(
    ("words", "expected"),
    [("streamk repl", "replay"), ("streamk replay --targ", "--target"), ("streamk checkpoints sh", "show")],
)
def test_completion_in_a_shell(words, expected):
    """Names of commands, and the options of one, which is imported then."""
    environment = {
        "_STREAMK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip
    done = CliRunner().invoke(app, [], env=environment, prog_name="streamk")
    assert expected in done.output.split()


def test_commands_name_every_learner():
    assert tuple(TASKS) == names.TASKS
    found = {cls.__name__ for classes in LEARNERS.values() for cls in classes.values()}
    assert found == {name for name in streamk.__all__ if name.endswith(("Classifier", "Regressor"))}
    assert all(list(classes) == list(TASKS) for classes in LEARNERS.values())


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "".join(f"{k % 7},{k % 7 > 3}\n" for k in range(300)))
    return path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["replya"], "No such command 'replya'. Did you mean 'replay'"),
        (["replay", "{log}", "--targt", "y"], "--target"),
        (["replay", "{log}", "--target", "y", "--learner", "kernl"],
         "streamk: --learner kernl: no such learner; did you mean kernel?"),
        (["train", "{log}", "--target", "y", "--learner", "kernl"],
         "streamk: --learner kernl: no such learner; did you mean kernel?"),
        (["tune", "{log}", "--target", "y", "--learner", "kernl"],
         "streamk: --learner kernl: no such learner; did you mean kernel?"),
        (["replay", "{log}", "--target", "y", "--set", "featurs=3"],
         "--set featurs=3: kernel has no such parameter; did you mean features?"),
        (["train", "{log}", "--target", "y", "--set", "featurs=3"],
         "--set featurs=3: kernel has no such parameter; did you mean features?"),
        (["tune", "{log}", "--target", "y", "--grid", "featurs=3|4"],
         "--grid featurs=3|4: kernel has no such parameter; did you mean features?"),
        (["replay", "{log}", "--target", "y", "--learner", "kaczmarz:featurs=3"],
         "--learner kaczmarz:featurs=3: kaczmarz has no such parameter; did you mean features?"),
        (["replay", "{log}", "--target", "y", "--learner", "river.forest.ARFClasifier"],
         "river.forest.ARFClasifier: river has no such model; did you mean river.forest.ARFClassifier?"),
        (["replay", "{log}", "--target", "y", "--learner", "river.forset.ARFClassifier"],
         "did you mean river.forest.ARFClassifier?"),
        (["replay", "{log}", "--target", "y", "--learner", "river.forest.ARFClassifier:n_model=3"],
         "has no parameter 'n_model'; did you mean n_models?"),
        (["replay", "{log}", "--target", "Y"], "did you mean y?"),
        (["train", "{log}", "--target", "yy"], "did you mean y?"),
        (["tune", "{log}", "--target", "yy"], "did you mean y?"),
        (["profile", "{log}", "--type", "a=numbr"], "did you mean number?"),
        (["checkpoints", "shwo"], "No such command 'shwo'. Did you mean 'show'?"),
        (["labels", "forgt"], "No such command 'forgt'. Did you mean 'forget'?"),
        (["fetch", "models", "--otput", "m"], "--output"),
        (["check", "{settings}"], "did you mean events.target?"),
        (["publish", "{settings}"], "did you mean events.target?"),
        (["adopt", "{settings}"], "did you mean events.target?"),
        (["train", "{log}", "--target", "y", "--task", "clasification"], "did you mean classification?"),
        (["train", "{log}x", "--target", "y"], "No such file or directory; did you mean {log}?"),
        (["replay", "{log}x", "--target", "y"], "No such file or directory; did you mean {log}?"),
        (["tune", "{log}x", "--target", "y"], "No such file or directory; did you mean {log}?"),
        (["merge", "{log}x", "-o", "m"], "No such file or directory; did you mean {log}?"),
        (["replay", "{log}", "--target", "y", "--learner", "{log}.streamk"], "did you mean {log}?"),
        (["check", "{log}x"], "No such file or directory; did you mean {log}?"),
        (["show", "{log}x"], "No such file or directory; did you mean {log}?"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_answered_with_the_near_one(log, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.setenv("COLUMNS", "300")
    settings = tmp_path / "streamk.toml"
    settings.write_text('[source]\nkind = "file"\npath = "log.csv"\n[events]\ntaget = "y"\n')
    there = {"{log}": str(log), "{settings}": str(settings)}
    done = run(*(functools.reduce(lambda s, k: s.replace(k, there[k]), there, each) for each in arguments))
    assert done.exit_code == 2
    assert sentence.replace("{log}", str(log)) in plain(done.stderr)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_check_names_fields_that_a_log_does_not_have(tmp_path, monkeypatch, suffix):
    monkeypatch.setenv("COLUMNS", "300")
    log, settings = tmp_path / f"log.{suffix}", tmp_path / "streamk.toml"
    log.write_text(
        "amount,kind,y\n1,u,p\n2,v,q\n" if suffix == "csv" else '{"amount": 1, "kind": "u", "y": 1}\n'
    )
    form = "csv" if suffix == "csv" else "json"

    def checked(events):
        settings.write_text(
            f'[source]\nkind = "file"\npath = "{log}"\n[events]\nformat = "{form}"\ntarget = "y"\n{events}\n'
            f'[learner]\nname = "kaczmarz"\n[checkpoints]\ndirectory = "{tmp_path}/made"\n'
        )
        return run("check", str(settings))

    good = checked('features = ["amount"]')
    assert good.exit_code == 0
    assert "no field" not in good.stdout
    some = checked('features = ["amount", "knd"]\nignore = ["ammount"]')
    assert some.exit_code == 0
    assert "no field 'knd' in the first records; did you mean kind?" in some.stdout
    assert "no field 'ammount' in the first records; did you mean amount?" in some.stdout
    for features in ('["amonut"]', '{size = "amonut"}'):
        none = checked(f"features = {features}")
        assert none.exit_code == 2
        assert "no field 'amonut'; did you mean amount?" in plain(none.stderr)


def test_inputs_of_which_none_is_there_are_a_wrong_use(log):
    for command in ("replay", "train", "tune", "profile"):
        done = run(command, str(log), "--target", "y", "--only", "aa")
        assert done.exit_code == 2
        assert "no field 'aa'; did you mean a?" in " ".join(plain(done.stderr).split())


@pytest.fixture
def logger():
    """The logger of streamk without handlers; at the end it is as it was before."""
    logger = logging.getLogger("streamk")
    handlers, level = logger.handlers[:], logger.level
    logger.handlers.clear()
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_command_waits_for_is_shown_on_a_terminal_only(terminal, monkeypatch, logger):
    first, last = io.StringIO(), io.StringIO()
    for stream in (first, last):
        stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", first)
    show_waits()
    monkeypatch.setattr(sys, "stderr", last)  # as a progress bar does
    logging.getLogger("streamk.compiling").info("compiling")
    assert last.getvalue() == ("streamk: compiling\n" if terminal else "")
    assert not first.getvalue()


def test_a_new_command_is_one_file_and_one_line(monkeypatch):
    module = types.ModuleType("connectors.cli.greet")

    def greet_command(name: str) -> None:
        """Print a greeting."""
        typer.echo(f"hello, {name}")

    module.greet_command = greet_command
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "greet", Subcommand("greet", "Print a greeting.", "streamk greet ann"))
    assert "Print a greeting." in CliRunner().invoke(app, ["--help"]).stdout
    assert CliRunner().invoke(app, ["greet", "ann"]).stdout == "hello, ann\n"
