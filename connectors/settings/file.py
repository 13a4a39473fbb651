"""The settings file: TOML, overridden by ``STREAMK_…`` variables; reading, the example, and ``[schema]``.

``STREAMK_KAFKA__PASSWORD`` overrides ``kafka.password``: two underscores for every dot. Every error names its
key. A variable whose table is not one of the settings is ignored with a warning. The table ``[schema]`` is
also written, from what was inferred from a log.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import SecretStr, ValidationError

from connectors.contract.errors import USAGE, Failure
from connectors.contract.sections import Limits, Section
from connectors.events.decoding import EventFormat
from connectors.events.names import near_file, nearest
from connectors.events.values import MISSING
from connectors.formats.dialect import Dialect
from connectors.kafka.sections import Kafka
from connectors.settings.registry import REGISTRY, tables
from connectors.settings.tables import (
    ChallengerSection,
    Checkpoints,
    Events,
    LearnerSection,
    LogSection,
    Registry,
    Schema,
    Settings,
    SnapshotSection,
    TelemetrySection,
)  # fmt: skip
from streamk.arrays import Json

_TABLE = re.compile(r"\s*#?\s*\[([\w.\"-]+)\]")


def schema_table(format: EventFormat, dialect: Dialect | None) -> str:
    """Return the table as TOML.

    >>> print(schema_table(EventFormat(types={"price": "number"}), Dialect(";", ",")))
    [schema]
    delimiter = ";"
    decimal = ","
    <BLANKLINE>
    [schema.types]
    "price" = "number"
    """
    lines = ["[schema]"]
    if dialect is not None:
        lines += [f"delimiter = {json.dumps(dialect.delimiter)}", f"decimal = {json.dumps(dialect.decimal)}"]
    if format.encoding not in (None, "utf-8"):
        lines.append(f"encoding = {json.dumps(format.encoding)}")
    if tuple(format.missing) != MISSING:
        lines.append(f"missing = {json.dumps(list(format.missing), ensure_ascii=False)}")
    types = {name: kind for name, kind in format.types.items() if name != format.target or kind != "number"}
    pairs = [f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(kind)}" for name, kind in types.items()]
    return "\n".join([*lines, "", "[schema.types]", *pairs])


def with_schema(text: str, table: str) -> str:
    r"""Return settings in which a table takes the place of ``[schema]``; all else stays as it is.

    >>> print(with_schema("[events]\ntarget = 'y'\n\n[schema]\ndecimal = ','\n\n[log]\n", "[schema]\n# new"))
    [events]
    target = 'y'
    <BLANKLINE>
    [log]
    <BLANKLINE>
    [schema]
    # new
    <BLANKLINE>
    """
    kept, inside = [], False
    for line in text.splitlines():
        if (header := _TABLE.match(line)) is not None:
            inside = header[1].split(".")[0] == "schema"
        if not inside:
            kept.append(line)
    return "\n".join([*kept, "", table, ""]).lstrip("\n")


def save_schema(path: Path, format: EventFormat, dialect: Dialect | None) -> None:
    """Write the table into a settings file, which is made if it is not there.

    Raises
    ------
    ValueError
        If the file is not TOML.
    OSError
        If it cannot be written.
    """
    text = path.read_text() if path.exists() else ""
    try:
        tomllib.loads(text)
        updated = with_schema(text, schema_table(format, dialect))
        tomllib.loads(updated)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    path.write_text(updated)


log = logging.getLogger(__name__)
S = TypeVar("S", bound=Section)
Warn = Callable[[str], None]
PREFIX = "STREAMK_"
_TESTS = "STREAMK_TEST_"
# variables that Kubernetes sets in every pod of a Service whose name begins with streamk
_SERVICE = re.compile(r"STREAMK(_[A-Z0-9]+)*_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))(_[A-Z0-9_]+)?")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
_SECTIONS: dict[str, tuple[type[Section], ...]] = {  # in the order of the example, which shows the first
    "source": tables("source"),
    "labels": tables("labels"),
    "events": (Events,),
    "schema": (Schema,),
    "registry": (Registry,),
    "learner": (LearnerSection,),
    "challengers": (ChallengerSection,),
    "predictions": tables("predictions"),
    "dead_letters": tables("sink"),
    "limits": (Limits,),
    "checkpoints": (Checkpoints,),
    "snapshots": (SnapshotSection,),
    "telemetry": (TelemetrySection,),
    "log": (LogSection,),
    "kafka": (Kafka,),
}
_OPTIONAL = ("labels", "registry", "challengers", "predictions", "dead_letters", "snapshots")
_MOVED = {("telemetry", "log"): ("log", "form")}  # keys that the next release refuses, and their new names
_NEAR_VARIABLE = 0.8  # similarity of names of variables from which one is suggested


def load(path: Path, environment: Mapping[str, str] = os.environ, warn: Warn = log.warning) -> Settings:
    """Return the settings in a file and in the environment.

    Parameters
    ----------
    path, environment
        The file, and the variables.
    warn
        Takes a sentence for each variable that is ignored, and for each key that is deprecated.

    Raises
    ------
    Failure
        If there is no such file, or a key or a value is wrong: one line for each.
    """
    values, origin = _values(path, environment, warn)
    return _validated(Settings, values, path, origin)


def load_service(path: Path) -> Settings:
    """Return the settings of a service, which need neither a source nor the place of labels.

    Errors are those of :func:`load`.
    """
    values, origin = _values(path, os.environ, log.warning)
    values.setdefault("source", {"kind": "topic", "topic": "events", "group": "requests"})
    if isinstance(labels := values.get("labels"), dict) and "kind" not in labels:
        values["labels"] = {"kind": "topic", "topic": "labels", **labels}
    return _validated(Settings, values, path, origin)


def load_kafka(path: Path | None, servers: str | None, environment: Mapping[str, str] = os.environ) -> Kafka:
    """Return how to reach the brokers, from the table ``[kafka]`` of a file, if any, and the environment.

    Raises
    ------
    Failure
        As of :func:`load`.
    """
    of_kafka = {name: text for name, text in environment.items() if name.startswith(f"{PREFIX}KAFKA__")}
    values, origin = _values(path, of_kafka, log.warning)
    table = values.get("kafka", {})
    if servers is not None and isinstance(table, dict):
        table["servers"] = servers
    return _validated(_OnlyKafka, {"kafka": table}, path or Path("--servers"), origin).kafka


class _OnlyKafka(Section):
    kafka: Kafka = Kafka()


Origin = dict[tuple[str, ...], str]


def _values(path: Path | None, environment: Mapping[str, str], warn: Warn) -> tuple[Json, Origin]:
    """Return the values of a file and of the environment, and the variable of each key that has one."""
    try:
        values = {} if path is None else tomllib.loads(path.read_text())
    except OSError as error:
        hint = near_file(path) if path is not None and isinstance(error, FileNotFoundError) else ""
        hint = hint or "; streamk init writes an example"
        raise Failure(USAGE, f"{path}: {error.strerror}{hint}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"{path}: not valid TOML: {error}") from None
    origin: Origin = {}
    files = {f"{PREFIX}{'__'.join(keys)}_FILE".upper(): keys for keys in _secrets()}
    for name, keys in _overrides(environment, warn, files):
        table = values
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise Failure(USAGE, f"{name}: {'.'.join(keys[:-1])} is not a table")
        if keys in origin:
            raise Failure(USAGE, f"{name}: {origin[keys]} sets {'.'.join(keys)}, too; leave one of them out")
        table[keys[-1]] = _content(name, environment[name]) if name in files else environment[name]
        origin[keys] = name
    for old, new in _MOVED.items():
        _move(values, origin, old, new, warn, path)
    return values, origin


def _move(
    values: Json,
    origin: Origin,
    old: tuple[str, str],
    new: tuple[str, str],
    warn: Warn,
    path: Path | None,
) -> None:
    """Give the value of a deprecated key to its new name, unless that has one."""
    before, after = values.get(old[0]), values.setdefault(new[0], {})
    if isinstance(before, dict) and old[1] in before and isinstance(after, dict):
        value, variable = before.pop(old[1]), origin.pop(old, None)
        warn(f"{variable or path}: {'.'.join(old)} is deprecated; set {'.'.join(new)} instead")
        if new[1] not in after:
            after[new[1]] = value
            if variable is not None:
                origin[new] = variable


def _validated(section: type[S], values: Json, path: Path, origin: Origin) -> S:
    try:
        return section.model_validate(values)
    except ValidationError as error:
        lines = [
            _sentence(dict(e), path, origin) for e in error.errors(include_input=False, include_url=False)
        ]
        raise Failure(USAGE, "\n".join(lines)) from None


def _secrets() -> Iterator[tuple[str, str]]:
    """Yield the table and the key of every secret."""
    for table, members in _SECTIONS.items():
        for member in members:
            for key, info in member.model_fields.items():
                if SecretStr in (info.annotation, *get_args(info.annotation)):
                    yield table, key


def _content(name: str, path: str) -> str:
    """Return the secret in the file that a variable names, without the end of its line."""
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Failure(USAGE, f"{name}: {path} cannot be read: {why}") from None


def _overrides(
    environment: Mapping[str, str], warn: Warn, files: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each variable that is a setting or names the file of one, and its key; warn of all others."""
    for name in sorted(environment):
        if name in files:
            yield name, files[name]
            continue
        if not name.startswith(PREFIX) or name.startswith(_TESTS) or _of_service(name, environment[name]):
            continue
        keys = tuple(name.removeprefix(PREFIX).lower().split("__"))
        if len(keys) > 1 and keys[0] in _SECTIONS:
            yield name, keys
            continue
        known = [
            f"{PREFIX}{section}__{key}".upper()
            for section, members in _SECTIONS.items()
            for key in _keys_of(members)
        ]
        # the prefix is in all names, and would make all of them alike
        meant = nearest(
            name.removeprefix(PREFIX), (key.removeprefix(PREFIX) for key in known), _NEAR_VARIABLE
        )
        meant = meant and f"{PREFIX}{meant}"
        hint = f"; did you mean {meant}?" if meant else f"; a setting is as {PREFIX}KAFKA__PASSWORD"
        warn(f"{name}: this variable is ignored, since there is no such setting{hint}")


def _keys_of(members: Iterable[type[Section]]) -> list[str]:
    return list(dict.fromkeys(key for member in members for key in member.model_fields))


def _of_service(name: str, value: str) -> bool:
    """Return whether Kubernetes made this variable of a Service."""
    if "__" in name:
        return False
    return bool(_SERVICE.fullmatch(name) or (name.endswith("_PORT") and _ADDRESS.match(value)))


def _sentence(error: Json, path: Path, origin: Mapping[tuple[str, ...], str]) -> str:
    """Return what is wrong, and where: the key of the file, or the variable."""
    # the location of a union also names the member, and a list or table its place
    place = [str(part) for part in error["loc"]]
    members = _SECTIONS.get(place[0], ()) if place else ()
    if len(place) > 1 and len(members) > 1:
        kind = place.pop(1)  # the member of the union
        members = tuple(m for m in members if kind in get_args(m.model_fields["kind"].annotation))
    keys = tuple(place)
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        keys, message = (*keys, "kind"), f"say {' or '.join(map(repr, REGISTRY))}"
    elif error["type"] == "extra_forbidden":
        message = "there is no such setting"
        meant = nearest(keys[-1], _SECTIONS if len(keys) == 1 else _keys_of(members))
        if meant:
            message += f"; did you mean {'.'.join((*keys[:-1], meant))}?"
    elif error["type"] == "missing":
        message = "this setting must be given"
    else:
        message = str(error["msg"]).removeprefix("Value error, ")
    below = [name for location, name in origin.items() if location[: len(keys)] == keys] if keys else []
    return f"{', '.join(below) or path}: {'.'.join(keys) + ': ' if keys else ''}{message}"


def example() -> str:
    """Return a commented file of all settings, which is valid as it is."""
    lines = [
        "# Settings of a streamk daemon. Every one can be overridden by a variable:",
        "# STREAMK_KAFKA__PASSWORD for kafka.password. Those behind a # have the value shown, or none.",
    ]
    examples = {"topic": "events", "target": "label", "path": "predictions.jsonl"}
    examples["url"] = "http://localhost:8081"
    examples["group"] = f"streamk-{examples['topic']}-{examples['target']}"
    for name, members in _SECTIONS.items():
        section = members[0]
        needed = name not in _OPTIONAL
        mark = "" if needed else "# "
        title = f"[[{name}]]" if name == "challengers" else f"[{name}]"
        lines += ["", f"{mark}{title}  # {(section.__doc__ or '').strip().lower().rstrip('.')}"]
        for key, info in section.model_fields.items():
            about = f"  # {info.description}" if info.description else ""
            if key == "kind":
                lines.append(f"{mark}{_kinds(members)}")
            elif info.is_required():
                suggested = examples[key] if needed or key == "url" else name.replace("_", "-")
                lines.append(f"{mark}{key} = {json.dumps(suggested)}{about}")
            else:
                lines.append(f"# {key} = {_toml(info.get_default())}{about}")
    return "\n".join(lines) + "\n"


def _kinds(members: Sequence[type[Section]]) -> str:
    """Return the line of a kind: the first, and how the tables of the others differ from it."""
    first, *others = zip(REGISTRY, members, strict=False)  # a kind may have no such table
    differences = []
    for kind, member in others:
        added = [key for key in member.model_fields if key not in first[1].model_fields]
        gone = [key for key, info in first[1].model_fields.items() if info.is_required() and key != "kind"]
        differences.append(f'or "{kind}", with {" and ".join(added)} in place of {" and ".join(gone)}')
    return f'kind = "{first[0]}"  # {"; ".join(differences)}'


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{}"
    return json.dumps(str(value) if isinstance(value, Path) else "" if value is None else value)
