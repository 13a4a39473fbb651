"""Settings and records that nobody would write on purpose: a sentence and an exit code, never a traceback."""

import json
import random
import shutil
import string
from functools import partial
from pathlib import Path

import msgspec
import pytest

from connectors.cli.check import check
from connectors.contract.errors import EXIT_CODES, Failure
from connectors.contract.records import Raw
from connectors.daemon.run import LiveSettings, run
from connectors.daemon.telemetry import Telemetry
from connectors.operators.learning import SingleLearning
from connectors.settings.file import load
from connectors.settings.tables import Settings

from .test_settings import SECTIONS

SETTINGS = [500, pytest.param(50_000, marks=pytest.mark.long)]
RECORDS = [4000, pytest.param(100_000, marks=pytest.mark.long)]
TOML = [
    "0", "1", "-1", "3", "0.5", "1e9", "inf", "nan", "-0.0", "9223372036854775807", "true", "false", '""',
    '" "', '"a"', '"y"', '"\\u0000"', '"é\\u202e"', '"' + "x" * 300 + '"', "[]", "[1]", '["a", "a"]', "{}",
    "{a = 1}", '"topic"', '"file"', '"csv"', '"json"', '"msgpack"', '"earliest"', '"latest"', '"kernel"',
    '"kaczmarz"', '"regression"', '"127.0.0.1:1"', '["127.0.0.1:1"]', '["a b:9"]', '["[::1]:99999"]',
    '[":"]', '["' + "a" * 70 + '.x:9"]', '"/dev/null"', '"/no/such/thing"', '"."', "2026-11-21", "1e400",
    '"PLAIN"', '"text"', '["y"]', '{x = "y"}', '"a.b.c"', "65535", "1000000000000",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "-1", "3.5", "1e9", "inf", "nan", "1e-300", "70000", "9223372036854775807"]
LISTS = ["[]", '["a"]', '["a", "b"]', '"a, b"', '[""]', '["127.0.0.1:1"]', '["127.0.0.1:1", "x:2"]']


def wild(rng, directory):
    """Return settings that are valid, and then changed in a few places."""
    values = {
        "source": {"kind": '"file"', "path": json.dumps(str(directory / "log.jsonl"))},
        "events": {"target": '"y"'},
        "learner": {"name": '"kaczmarz"', "parameters": "{features = 16}"},
        "dead_letters": {"kind": '"file"', "path": json.dumps(str(directory / "dead.jsonl"))},
        "checkpoints": {"directory": json.dumps(str(directory / "checkpoints"))},
        "kafka": {"servers": '["127.0.0.1:1"]', "away_seconds": "0.2"},
    }
    keys = [(name, key) for name, section in SECTIONS.items() for key in section.model_fields]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        section, key = rng.choice(keys)
        info = SECTIONS[section].model_fields[key]
        default = None if info.is_required() else info.get_default()
        likely = {float: NUMBERS, int: NUMBERS, bool: ["true", "false"], list: LISTS}.get(type(default), TOML)
        values.setdefault(section, {})[key] = rng.choice(likely if rng.random() < 0.8 else TOML)
        if rng.random() < 0.05:
            values.pop(rng.choice(list(values)), None)
    if rng.random() < 0.1:
        values["learner"] = {
            "name": '"kernel"',
            "parameters": "{" + f"{rng.choice(['features', 'x', 'seed'])} = {rng.choice(TOML)}" + "}",
        }
    text = "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
        for name, table in values.items()
    )
    if rng.random() < 0.05:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice('\0"[]{}=\\\n') + text[at + 1 :]
    return text


@pytest.mark.parametrize("count", SETTINGS)
def test_settings(tmp_path, count, monkeypatch):
    """Each is read and checked; of those that are good, some are run."""
    monkeypatch.chdir(tmp_path)
    rng, path, good = random.Random(5), tmp_path / "streamk.toml", 0
    (tmp_path / "log.jsonl").write_text('{"a": 1, "y": true}\n{"a": 2, "y": false}\nx\n')
    for number in range(count):
        path.write_text(wild(rng, tmp_path))
        said: bool | str = True
        try:
            chosen = load(path, {})
            list(check(chosen))
            good += 1
            if good % 20 == 0 and chosen.source.kind == "file" and not chosen.source.follow:
                try:
                    run(LiveSettings(chosen, partial(load, path, {})))
                finally:  # a model of these settings would be refused by all that come after
                    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
        except Failure as failure:
            said = failure.code in EXIT_CODES and str(failure)
        except Exception as error:
            raise AssertionError(f"settings {number}: {error!r}\n{path.read_text()}") from error
        assert said, number
    assert 0.05 < good / count < 0.95


def operator(form, directory):
    settings = Settings.model_validate(
        {
            "source": {"kind": "topic", "topic": "t", "group": "g"},
            "events": {
                "target": "y", "format": form, "columns": ["a", "b", "y"] if form == "csv" else None,
                "weight": None if form == "csv" else "w", "key": None if form == "csv" else "k",
            },
            "learner": {"name": "kaczmarz", "parameters": {"features": 16}},
            "predictions": {"kind": "file", "path": directory / "out"},
            "dead_letters": {"kind": "file", "path": directory / "dead"},
            "limits": {"consecutive": 10**9, "ratio": 1.0, "labels": 50, "names": 200},
        }
    )  # fmt: skip
    return SingleLearning(settings, settings.decoder(), Telemetry())


def value(rng, depth=0):
    kinds = [
        lambda: rng.choice([0, 1, -1, 2**63, -(2**64), 10**30, 1e300, -1e-300, float("inf"), float("nan")]),
        lambda: rng.random(), lambda: rng.choice([True, False, None]),
        lambda: "".join(rng.choice(string.printable + "é\u202e\0💥") for _ in range(rng.randrange(12))),
        lambda: rng.choice(["1", "", "nan", "x" * 5000]),
    ]  # fmt: skip
    if depth < 3:
        kinds += [lambda: [value(rng, depth + 1)] * rng.randrange(3), lambda: {"z": value(rng, depth + 1)}]
    return rng.choice(kinds)()


def record(rng, form):
    """Return bytes that are an event, nearly one, or noise."""
    if rng.random() < 0.1:
        return rng.choice([None, b"", rng.randbytes(rng.randrange(40)), b"[" * 2000, b"\xef\xbb\xbf{}"])
    names = [
        rng.choice(["a", "b", "y", "w", "k", "", "c.d", "é", f"n{rng.randrange(400)}"]) for _ in range(4)
    ]
    fields = {name: value(rng) if rng.random() < 0.3 else rng.random() for name in names}
    if rng.random() < 0.8:
        fields["y"] = rng.choice([True, False, "x", 1, 1.0, rng.randrange(100), None])
        fields["w"] = rng.choice([1, 0.5, 0, -1, None])
    if form == "json":
        body = json.dumps(fields).encode()
    elif form == "msgpack":
        try:
            body = msgspec.msgpack.encode(fields)
        except OverflowError:
            body = b"\xc1"
    else:
        cells = [*[str(v) for v in fields.values()][:2], str(fields.get("y", ""))]
        cells = ["" if cell == "None" else cell for cell in cells]
        body = ",".join(cells).encode("utf-8", "replace")
    if rng.random() < 0.2 and body:
        at = rng.randrange(len(body))
        body = body[:at] + rng.randbytes(rng.randrange(3)) + body[at + rng.randrange(3) :]
    return body


@pytest.mark.parametrize("count", RECORDS)
@pytest.mark.parametrize("form", ["json", "msgpack", "csv"])
def test_records(tmp_path, form, count):
    """Every one is learned, predicted or refused with a reason, and what came of it can be written."""
    rng, learning = random.Random(7), operator(form, tmp_path)
    done, total = 0, [0, 0, 0]
    while done < count:
        records = [Raw(done + i, record(rng, form)) for i in range(rng.randrange(1, 200))]
        found = learning.process("p-0", records)
        assert found.done == len(records)
        assert found.failure is None
        assert sum(found.tally) == len(records)
        assert len(found.outputs) == len(records)
        assert all(output.body for output in found.outputs)
        total = [a + b for a, b in zip(total, found.tally, strict=False)]
        done += len(records)
    assert min(total) > 0.01 * count
    assert len(learning.learner.labels) <= 50
    assert len(learning.learner.number_names) <= 200


def test_the_pool_of_values_is_valid():
    """A value that TOML refuses would hide what the settings do with it."""
    import tomllib

    for text in TOML:
        if text != "1e400":
            tomllib.loads(f"x = {text}")
    assert Path(__file__).exists()
