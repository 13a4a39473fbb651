"""The registry of connectors: what is in it, and what one line more brings."""

import ast
import inspect
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.contract.sections import PredictionSection, SinkSection, SourceSection
from connectors.settings import registry
from connectors.settings import tables as settings
from connectors.settings.connector import Connector, by_connector, connector_of
from connectors.settings.registry import REGISTRY, Entry, tables
from connectors.state.checkpoint import Checkpoint
from connectors.state.disk import CheckpointStore

from . import toy_connector

ROOT = Path(registry.__file__).parent
METHODS = [name for name, value in vars(Connector).items() if inspect.isfunction(value) and name[0] != "_"]


@pytest.mark.parametrize("kind", REGISTRY)
def test_a_connector_has_every_method_with_the_same_parameters(kind):
    connector = connector_of(kind)
    assert len(METHODS) > 8
    for name in METHODS:
        expected = list(inspect.signature(getattr(Connector, name)).parameters)[1:]
        assert list(inspect.signature(getattr(connector, name)).parameters) == expected, name


@pytest.mark.parametrize(
    ("role", "base"), [("source", SourceSection), ("sink", SinkSection), ("predictions", PredictionSection)]
)
def test_every_kind_has_a_table_of_each_role(role, base):
    for kind, table in zip(REGISTRY, tables(role), strict=True):
        assert issubclass(table, base)
        assert table.model_fields["kind"].annotation.__args__ == (kind,)


def test_sections_are_grouped_by_their_connectors():
    place = {"kind": "file", "path": "x"}
    found = settings.Settings.model_validate({
        "source": {"kind": "topic", "topic": "in", "group": "g"}, "events": {"target": "y"},
        "predictions": place, "dead_letters": {"kind": "topic", "topic": "dead"},
        "snapshots": None,
    })  # fmt: skip
    grouped = [(connector, list(sections)) for connector, sections in by_connector(found.sections)]
    assert grouped == [
        (connector_of("topic"), ["source", "dead_letters"]),
        (connector_of("file"), ["predictions"]),
    ]


def test_commands_do_not_compare_kinds_of_sections():
    """What differs between kinds is in their tables and connectors."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                kinds = [side.value for side in sides if isinstance(side, ast.Constant)]
                compared = any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides)
                assert not (compared and set(kinds) & set(REGISTRY)), f"{path}, line {node.lineno}"


@pytest.fixture
def counter(monkeypatch):
    """A registry with one line more."""
    entry = Entry(
        toy_connector.CounterSection,
        toy_connector.ListSection,
        toy_connector.ListPredictions,
        toy_connector.__name__,
    )
    monkeypatch.setitem(REGISTRY, "counter", entry)
    settings.Settings.model_rebuild(force=True)
    yield
    monkeypatch.undo()
    settings.Settings.model_rebuild(force=True)


def test_a_new_source_is_one_file_and_one_line(counter, tmp_path):
    """The daemon, check and replay know it."""
    config = tmp_path / "streamk.toml"
    config.write_text(
        "[source]\nkind = 'counter'\ncount = 250\n[events]\ntarget = 'y'\n[learner]\nname = 'kaczmarz'\n"
        f"[predictions]\nkind = 'file'\npath = '{tmp_path}/out.jsonl'\n"
        f"[checkpoints]\ndirectory = '{tmp_path}/checkpoints'\n"
    )

    def run(*arguments):
        return CliRunner().invoke(app, [*arguments])

    checked = run("check", str(config))
    assert checked.exit_code == 0, checked.output
    assert "source: counter to 250 is there" in checked.stdout
    assert f"predictions.path: {tmp_path}/out.jsonl can be written" in checked.stdout
    done = run("run", str(config))
    assert done.exit_code == 0, done.output
    predictions = list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
    assert [row["offset"] for row in predictions] == list(range(250))
    path = CheckpointStore(tmp_path / "checkpoints").paths()[-1]
    assert Checkpoint.read(path).partitions["counter to 250"].position == 250
    replayed = run("replay", str(config), "--json", "--baseline", "none")
    assert json.loads(replayed.stdout)["events"] == 250


def test_a_new_sink_is_one_file_and_one_line(counter, tmp_path):
    toy_connector.ListSink.committed.clear()
    config = tmp_path / "streamk.toml"
    config.write_text(
        "[source]\nkind = 'counter'\ncount = 30\n[events]\ntarget = 'y'\n[learner]\nname = 'kaczmarz'\n"
        f"[predictions]\nkind = 'counter'\n[checkpoints]\ndirectory = '{tmp_path}/checkpoints'\n"
    )
    done = CliRunner().invoke(app, ["run", str(config)])
    assert done.exit_code == 0, done.output
    assert [row["offset"] for row in toy_connector.ListSink.committed] == list(range(30))
