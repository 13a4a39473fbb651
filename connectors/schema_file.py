"""The table ``[schema]`` of a settings file, written from what was found in a log."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from connectors.decoding import EventFormat
from connectors.files.dialect import Dialect
from connectors.values import MISSING

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
        if (found := _TABLE.match(line)) is not None:
            inside = found[1].split(".")[0] == "schema"
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
        found = with_schema(text, schema_table(format, dialect))
        tomllib.loads(found)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    path.write_text(found)
