"""Write the pages of commands and of settings from the code: ``python docs/reference.py``.

``tests/test_reference.py`` compares both pages with the code.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from connectors.cli import COMMANDS, load  # noqa: E402
from connectors.contract.sections import Section  # noqa: E402
from connectors.settings.file import _OPTIONAL, _SECTIONS  # noqa: E402

WRITTEN = "Written by `python docs/reference.py`."
COMMANDS_TEXT = f"""# Commands

{WRITTEN} `streamk COMMAND --help` prints the same. A daemon's exit codes are
[listed with it](daemon.md#exit-codes).
"""
SETTINGS_TEXT = f"""# Settings

{WRITTEN} The settings of a daemon or a service are a TOML file, of which `streamk init`
writes an example. A variable overrides each: `STREAMK_KAFKA__PASSWORD` sets `kafka.password`, and
`STREAMK_KAFKA__PASSWORD_FILE` names a file that holds it, as for every secret.
"""


KINDS = {
    SecretStr: "secret", bool: "boolean", dict: "table", list: "list", int: "whole number", float: "number"
}  # fmt: skip


def plain(text: str) -> str:
    """Return a text in one line that fits into a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def option(parameter: Any) -> tuple[str, str, str]:
    """Return how an option or argument is written, its default and its description."""
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).upper()}`"
    elif not parameter.is_flag:
        names += f" `{(parameter.metavar or parameter.name).upper()}`"
    default = parameter.default
    hidden = default is None or callable(default) or default in ((), [], False, "") or parameter.required
    return names, "" if hidden else f"`{default}`", plain(parameter.help or "")


def command_part(name: str, command: Any) -> Iterator[str]:
    """Yield the part of a command, and those of its subcommands."""
    yield f"{'##' if name.count(' ') == 1 else '###'} {name}"
    about = re.sub(r"(?<![\w`])--[a-z][\w-]*", r"`\g<0>`", (command.help or "").partition("Exit codes:")[0])
    yield "\n\n".join(textwrap.fill(" ".join(part.split()), 110) for part in about.strip().split("\n\n"))
    if isinstance(command, typer.core.TyperGroup):
        for each in command.commands.values():
            yield from command_part(f"{name} {each.name}", each)
        return
    shown = [each for each in command.params if each.name != "help" and not getattr(each, "hidden", False)]
    rows = [option(each) for each in shown]
    if rows:
        lines = [f"| {names} | {default} | {text} |" for names, default, text in rows]
        yield "\n".join(["| argument or option | default | |", "|---|---|---|", *lines])
    if command.epilog:
        yield f"```sh\n{command.epilog.removeprefix('For example: ')}\n```"


def commands_page() -> str:
    """Return the page of commands."""
    parts = [part for name in COMMANDS for part in command_part(f"streamk {name}", load(name))]
    return COMMANDS_TEXT + "\n" + "\n\n".join(filter(None, parts)) + "\n"


def kind_of(info: Any) -> str:
    """Return the type of a setting in a word or two."""
    kinds = {get_origin(each) or each for each in (info.annotation, *get_args(info.annotation))}
    return next((word for kind, word in KINDS.items() if kind in kinds), "string")


def default_of(info: Any) -> str:
    """Return the default of a setting."""
    if info.is_required():
        return "must be set"
    value = info.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ("", [], {}, ()):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def kind_name(member: type[Section]) -> str:
    """Return the kind of a table, as the file names it."""
    return str(get_args(member.model_fields["kind"].annotation)[0])


def section_part(name: str, members: Iterable[type[Section]]) -> Iterator[str]:
    """Yield the part of a table; of several kinds, with the keys that only one has."""
    several = list(members)
    yield "## [[challengers]]" if name == "challengers" else f"## [{name}]"
    described = several[0] if len(several) == 1 else several[0].__mro__[1]
    about = " ".join((described.__doc__ or "").strip().split("\n\n")[0].split())
    yield about + (" Optional." if name in _OPTIONAL else "")
    lines, seen = ["| key | type | default | |", "|---|---|---|---|"], set[str]()
    for member in several:
        for key, info in member.model_fields.items():
            if key in seen:
                continue
            seen.add(key)
            words = plain(info.description or " or ".join(f'`"{kind_name(each)}"`' for each in several))
            if not all(key in other.model_fields for other in several):
                words += f' (`kind = "{kind_name(member)}"`)'
            lines.append(f"| `{key}` | {kind_of(info)} | {default_of(info)} | {words} |")
    yield "\n".join(lines)


def settings_page() -> str:
    """Return the page of settings."""
    parts = [part for name, members in _SECTIONS.items() for part in section_part(name, members)]
    return SETTINGS_TEXT + "\n" + "\n\n".join(parts) + "\n"


PAGES = {"commands.md": commands_page, "settings.md": settings_page}

if __name__ == "__main__":
    for page, text_of in PAGES.items():
        (ROOT / "docs" / page).write_text(text_of())
