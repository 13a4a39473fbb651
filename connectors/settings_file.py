"""The file of the settings: TOML, overridden by ``STREAMK_…`` variables.

``STREAMK_KAFKA__PASSWORD`` overrides ``kafka.password``: two underscores for every dot. Every error names its
key.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from connectors.settings import (
    Checkpoints,
    Events,
    Kafka,
    Learner,
    Limits,
    Section,
    Settings,
    Snapshots,
    Telemetry,
    TopicSink,
    TopicSource,
)  # fmt: skip
from connectors.stream import USAGE, Failure

S = TypeVar("S", bound=Section)
PREFIX = "STREAMK_"
_TESTS = "STREAMK_TEST_"
# what Kubernetes tells every pod of a Service whose name begins with streamk
_SERVICE = re.compile(r"STREAMK(_[A-Z0-9]+)*_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))(_[A-Z0-9_]+)?")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings in a file and in the environment.

    Raises
    ------
    Failure
        If there is no such file, or a key or a value is wrong: one line for each.
    """
    values, origin = _values(path, environment)
    return _validated(Settings, values, path, origin)


def load_kafka(path: Path | None, servers: str | None, environment: Mapping[str, str] = os.environ) -> Kafka:
    """Return how to reach the brokers, from the table ``[kafka]`` of a file, if any, and the environment.

    Raises
    ------
    Failure
        As of :func:`load`.
    """
    of_kafka = {name: text for name, text in environment.items() if name.startswith(f"{PREFIX}KAFKA__")}
    values, origin = _values(path, of_kafka)
    table = values.get("kafka", {})
    if servers is not None and isinstance(table, dict):
        table["servers"] = servers
    return _validated(_OnlyKafka, {"kafka": table}, path or Path("--servers"), origin).kafka


class _OnlyKafka(Section):
    kafka: Kafka = Kafka()


Origin = dict[tuple[str, ...], str]


def _values(path: Path | None, environment: Mapping[str, str]) -> tuple[dict[str, Any], Origin]:
    """Return what a file and the environment say, and which variables say it."""
    try:
        values = {} if path is None else tomllib.loads(path.read_text())
    except OSError as error:
        raise Failure(USAGE, f"{path}: {error.strerror}; streamk init writes an example") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"{path}: not valid TOML: {error}") from None
    origin: Origin = {}
    for name, keys in _overrides(environment):
        table: Any = values
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise Failure(USAGE, f"{name}: {'.'.join(keys[:-1])} is not a table")
        table[keys[-1]] = environment[name]
        origin[keys] = name
    return values, origin


def _validated(section: type[S], values: dict[str, Any], path: Path, origin: Origin) -> S:
    try:
        return section.model_validate(values)
    except ValidationError as error:
        lines = [
            _sentence(dict(e), path, origin) for e in error.errors(include_input=False, include_url=False)
        ]
        raise Failure(USAGE, "\n".join(lines)) from None


def _overrides(environment: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name.startswith(_TESTS) or _of_service(name, environment[name]):
            continue
        if "__" not in name:
            raise Failure(
                USAGE,
                f"{name}: there is no such setting; two underscores stand for the dot, as in "
                f"{PREFIX}KAFKA__PASSWORD",
            )
        yield name, tuple(name.removeprefix(PREFIX).lower().split("__"))


def _of_service(name: str, value: str) -> bool:
    """Return whether Kubernetes made this variable of a Service."""
    if "__" in name:
        return False
    return bool(_SERVICE.fullmatch(name) or (name.endswith("_PORT") and _ADDRESS.match(value)))


def _sentence(error: dict[str, Any], path: Path, origin: Mapping[tuple[str, ...], str]) -> str:
    """Return what is wrong, and where: the key of the file, or the variable."""
    # the location of a union also names the member, and a list or table its place
    place = [str(part) for part in error["loc"]]
    if len(place) > 2 and place[0] in ("source", "predictions", "dead_letters"):
        del place[1]  # the member of the union
    keys = tuple(place)
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        keys, message = (*keys, "kind"), "say 'topic' or 'file'"
    elif error["type"] == "extra_forbidden":
        message = "there is no such setting"
    elif error["type"] == "missing":
        message = "this setting must be given"
    else:
        message = str(error["msg"]).removeprefix("Value error, ")
    below = [name for found, name in origin.items() if found[: len(keys)] == keys] if keys else []
    return f"{', '.join(below) or path}: {'.'.join(keys) + ': ' if keys else ''}{message}"


def example() -> str:
    """Return a commented file of all settings, which is valid as it is."""
    lines = [
        "# Settings of a streamk daemon. Every one can be overridden by a variable:",
        "# STREAMK_KAFKA__PASSWORD for kafka.password. Those behind a # have the value shown, or none.",
    ]
    given = {"topic": "events", "target": "label", "path": "predictions.jsonl"}
    given["group"] = f"streamk-{given['topic']}-{given['target']}"
    sections: list[tuple[str, type[Section], bool]] = [
        ("source", TopicSource, True), ("events", Events, True), ("learner", Learner, True),
        ("predictions", TopicSink, False), ("dead_letters", TopicSink, False), ("limits", Limits, True),
        ("checkpoints", Checkpoints, True), ("snapshots", Snapshots, False), ("telemetry", Telemetry, True),
        ("kafka", Kafka, True),
    ]  # fmt: skip
    for name, section, needed in sections:
        mark = "" if needed else "# "
        lines += ["", f"{mark}[{name}]  # {(section.__doc__ or '').strip().lower().rstrip('.')}"]
        for key, info in section.model_fields.items():
            about = f"  # {info.description}" if info.description else ""
            if key == "kind":
                lines.append(
                    f'{mark}kind = "topic"  # or "file", with path'
                    + ("" if name != "source" else " and follow in place of topic and group")
                )
            elif info.is_required():
                suggested = given[key] if needed else name.replace("_", "-")
                lines.append(f"{mark}{key} = {json.dumps(suggested)}{about}")
            else:
                lines.append(f"# {key} = {_toml(info.get_default())}{about}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{}"
    return json.dumps(str(value) if isinstance(value, Path) else "" if value is None else value)
