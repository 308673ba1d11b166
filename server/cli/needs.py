"""``ragflow-lg needs``: what a canvas needs from outside, and what is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
import typer

from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import format_command, print_note
from ragflow_lg.server.settings.trusted_folders import is_trusted

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.canvas_needs import Need


SETTINGS_FILE, VARIABLES_FILE = "ragflow-lg.toml", ".env.example"

LABELS = {
    "model": "model",
    "dataset": "dataset",
    "memory": "memory",
    "reranker": "rerank model",
    "search_option": "search option",
    "key": "API key of",
    "database": "database",
    "mail_server": "mail server",
    "speech": "speech model",
    "mcp_server": "MCP server",
    "canvas": "canvas",
    "package": "package",
    "address": "address",
}


def needs(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    output: Annotated[
        Literal["text", "json", "toml"],
        typer.Option("--output", "-o", help="text, json, or toml: settings for what is missing."),
    ] = "text",
    init: Annotated[
        bool,
        typer.Option("--init", help=f"Write {SETTINGS_FILE} and {VARIABLES_FILE} for what is missing."),
    ] = False,
    settings: SettingsFile = None,
) -> None:
    """List what a canvas needs from the settings, and what is missing.

    Models, datasets, keys, databases, mail and MCP servers, other canvases, packages, and the addresses that it calls,
    with the nodes that need them. Exit code 0: nothing is missing. 1: something is.

    Examples:
    ragflow-lg needs my_canvas.json

    ragflow-lg needs my_canvas.json --init
    """
    from ragflow_lg.server.assembly.library import needs_of_file
    from ragflow_lg.server.cli.needs_template import write_settings, write_variables
    from ragflow_lg.server.settings import load_settings

    found = needs_of_file(file, load_settings(settings))
    missing = [need for need in found if need.state == "missing"]
    if init:
        _write_new(Path(SETTINGS_FILE), write_settings(missing))
        _write_new(Path(VARIABLES_FILE), write_variables(missing))
        if not is_trusted("settings", Path()):
            print_note(f"{SETTINGS_FILE} is used once this folder is trusted: {format_command('trust')}")
        return
    if output == "json":
        entries = [need._asdict() for need in found]
        sys.stdout.write(orjson.dumps(entries, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
    elif output == "toml":
        sys.stdout.write(write_settings(missing))
    else:
        sys.stdout.write(_as_text(found))
    raise typer.Exit(1 if missing else 0)


def _as_text(found: Sequence[Need]) -> str:
    lines: list[str] = []
    for need in found:
        name = need.name or "the default model"
        lines.append(f"{need.state:<11}  {LABELS[need.kind]} {name}  ({', '.join(need.users)})")
        if need.problem:
            lines.append(f"{'':<11}  {need.problem}")
    missing = sum(need.state == "missing" for need in found)
    lines.append(f"{missing} of {len(found)} needs are missing." if found else "The canvas needs nothing from outside.")
    return "\n".join(lines) + "\n"


def _write_new(path: Path, text: str) -> None:
    """Write a file, unless there is one."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise typer.BadParameter(f"{path} exists already. Use --output toml, and add what is missing to it.") from None
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}.") from None
    sys.stderr.write(f"Wrote {path}.\n")
