"""Fields that stop to fit, disappear or change their unit are named in the log of a daemon, once."""

import json
import logging

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.events.decoding import Misfits
from connectors.operators.field_watch import MOST, FieldWatch


def batches(count, event, size=100):
    return [[event(start + k) for k in range(size)] for start in range(0, count, size)]


def watched(caplog, *streams):
    shown, counted = [], {}
    watch = FieldWatch(lambda name, count: counted.update({name: counted.get(name, 0) + count}), shown.append)
    with caplog.at_level(logging.WARNING):
        for stream in streams:
            for batch in stream:
                watch.add(batch, {}, {})
    return [record.message for record in caplog.records], shown


def usual(i):
    return {"a": 1.0 + i % 7, "b": "uv"[i % 2]}


def test_a_usual_stream_has_no_warnings(caplog):
    messages, shown = watched(caplog, batches(5000, usual))
    assert messages == []
    assert shown == [{"a": 0.0, "b": 0.0}] * 5


@pytest.mark.parametrize("gone", [lambda i: {"b": "u"}, lambda i: {"a": None, "b": "u"}])
def test_a_field_that_disappears_is_named_once(caplog, gone):
    messages, shown = watched(caplog, batches(2000, usual), batches(3000, gone))
    assert messages == ["the field a is missing in 100 % of the last 1,000 events, and was in 0 % before"]
    assert shown[-1] == {"a": 1.0, "b": 0.0}


def test_another_unit_is_named_once(caplog):
    messages, _ = watched(
        caplog, batches(2000, usual), batches(3000, lambda i: {"a": 1000.0 * (1 + i % 7), "b": "u"})
    )
    assert len(messages) == 1
    assert "numbers of the field a are 1000 times as large as before" in messages[0]


def test_what_returns_is_named_again(caplog):
    messages, _ = watched(caplog, batches(1000, usual), batches(1000, lambda i: {}), batches(1000, usual))
    assert sum("field a is missing in" in message for message in messages) == 2


def test_series_are_bounded(caplog):
    _, shown = watched(caplog, batches(1000, lambda i: {f"x{k}": 1.0 for k in range(200)}))
    assert len(shown[0]) == MOST


def test_misfits_are_counted_by_field_and_named_once(caplog):
    counted = []
    watch = FieldWatch(lambda name, count: counted.append((name, count)))
    with caplog.at_level(logging.WARNING):
        for batch in batches(2000, lambda i: {"a": None}):
            watch.add(batch, {"a": Misfits(100, "w0")}, {"a": "number"})
    assert counted == [("a", 100)] * 20
    (message,) = [record.message for record in caplog.records]
    assert message == "100 of 100 values of a do not fit \"number\" (the first: 'w0') and are missing"


def test_a_daemon_names_misfits_of_a_log(tmp_path, caplog):
    log, settings = tmp_path / "log.jsonl", tmp_path / "streamk.toml"
    rows = [{"a": i % 7 if i < 1500 else f"w{i}", "y": "pq"[i % 2]} for i in range(3000)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings.write_text(
        f'[source]\nkind = "file"\npath = "{log}"\n[events]\ntarget = "y"\n'
        '[schema]\ntypes = {a = "number"}\n'
        '[learner]\nname = "kaczmarz"\ntask = "classification"\nparameters = {features = 16}\n'
        f'[checkpoints]\ndirectory = "{tmp_path / "kept"}"\n'
    )
    done = CliRunner().invoke(app, ["run", str(settings)])
    assert done.exit_code == 0, done.output
    assert 'values of a do not fit "number"' in done.output
