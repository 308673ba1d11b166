"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = [
    "Attachments",
    "BeginInputs",
    "CanvasFile",
    "Checkpoint",
    "Conversation",
    "Events",
    "EventsOption",
    "Inputs",
    "Model",
    "NewSession",
    "Record",
    "Replay",
    "ReplayMode",
    "ReplayModeOption",
    "Session",
    "SettingsFile",
    "TraceOption",
    "named",
]


def named(name: str | None) -> str | None:
    """Refuse a session without a name.

    Raises:
        typer.BadParameter: if there is nothing but blanks.
    """
    if name is not None and not name.strip():
        raise typer.BadParameter("A session needs a name.")
    return name


class Events(StrEnum):
    """How to write what happens."""

    JSON = "json"
    PRETTY = "pretty"


class ReplayMode(StrEnum):
    """How a request finds its recorded answer."""

    STRICT = "strict"
    LOOSE = "loose"


Session: TypeAlias = Annotated[str, typer.Argument(help="Name of the session.", metavar="SESSION", callback=named)]
NewSession: TypeAlias = Annotated[
    str | None,
    typer.Option("--as", help="Name of the new session. Default: the old one's with an ending.", callback=named),
]
CanvasFile: TypeAlias = Annotated[
    Path | None, typer.Option("--canvas", help="Canvas file. Default: the one that the session was last run with.")
]
Checkpoint: TypeAlias = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        help="Where sessions are kept: memory://, sqlite:///PATH, redis://HOST:PORT, rediss://HOST:PORT or"
        " redis+sentinel://HOST:PORT/SERVICE. Default: settings.",
    ),
]
SettingsFile: TypeAlias = Annotated[Path | None, typer.Option("--settings", help="Settings file (TOML).")]
Model: TypeAlias = Annotated[
    str, typer.Option("--model", "-m", help="Ask this model in place of every other; demo needs no key.")
]
Record: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--record", help="Write what models and HTTP servers answer to this file, without secrets.", metavar="FILE"
    ),
]
Replay: TypeAlias = Annotated[
    Path | None,
    typer.Option("--replay", help="Take all answers from such a file: no network, no key, no model.", metavar="FILE"),
]
ReplayModeOption: TypeAlias = Annotated[
    ReplayMode,
    typer.Option(
        "--replay-mode",
        help="strict: what was not recorded is an error. loose: a request that differs gets its node's next answer.",
    ),
]
Attachments: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--file", "-f", help="A text file or picture that goes along (sys.files).", metavar="PATH"),
]
BeginInputs: TypeAlias = Annotated[
    list[str] | None, typer.Option("--input", "-i", help="A field of Begin's form.", metavar="NAME=VALUE")
]
Conversation: TypeAlias = Annotated[
    str | None,
    typer.Option("--session", "-s", help="Continue (or begin) the conversation of this name.", callback=named),
]
Inputs: TypeAlias = Annotated[
    list[str] | None, typer.Option("--input", "-i", help="A field of the form.", metavar="NAME=VALUE")
]
EventsOption: TypeAlias = Annotated[
    Events | None,
    typer.Option("--events", "-e", help="json: one event a line. pretty: for people. Default: by terminal."),
]
TraceOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trace", help="Show what agents do: all of it as events agent_record in json, rounds and thoughts too."
    ),
]
