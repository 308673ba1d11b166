"""Command line options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import typer

from ragflow_lg.checkpoints.store_url import STORE_URLS


def check_session_name(name: str | None) -> str | None:
    """Return the name of a session."""
    if name is not None and not name.strip():
        raise typer.BadParameter("A session needs a name.")
    return name


Session: TypeAlias = Annotated[
    str, typer.Argument(help="Name of the session.", metavar="SESSION", callback=check_session_name)
]
NewSession: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as", help="Name of the new session. Default: the old name with a suffix.", callback=check_session_name
    ),
]
CanvasFile: TypeAlias = Annotated[
    Path | None, typer.Option("--canvas", help="Canvas file. Default: the file of the session's last run.")
]
Checkpoint: TypeAlias = Annotated[
    str, typer.Option("--checkpoint", help=f"Store of sessions: {STORE_URLS}. Default: from the settings.")
]


def _refuse_checkpoint(url: str) -> str:
    if url:
        raise typer.BadParameter(
            "Servers and workers use the store in `checkpoints` of the settings, or in RAGFLOW_LG_CHECKPOINTS."
        )
    return url


NoCheckpoint: TypeAlias = Annotated[str, typer.Option("--checkpoint", hidden=True, callback=_refuse_checkpoint)]
"""Names the alternative to those who expect the option here."""

SettingsFile: TypeAlias = Annotated[Path | None, typer.Option("--settings", help="Settings file (TOML).")]
Output: TypeAlias = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File to write. Default: standard output.", metavar="FILE", dir_okay=False),
]
Threshold: TypeAlias = Annotated[float, typer.Option(help="Lowest similarity of a result.", min=0, max=1)]
KeywordsWeight: TypeAlias = Annotated[
    float, typer.Option(help="Weight of the words in the similarity; the rest is that of the vectors.", min=0, max=1)
]
ServerAddress: TypeAlias = Annotated[
    str,
    typer.Option(
        "--from", help="RAGFlow's address, such as https://ragflow.example.com. Default: the folder's.", metavar="URL"
    ),
]
KeyVariable: TypeAlias = Annotated[
    str,
    typer.Option(
        "--key-env", help="Environment variable with RAGFlow's API key. Default: the folder's.", metavar="NAME"
    ),
]
AllowPrivate: TypeAlias = Annotated[
    bool, typer.Option("--allow-private", help="The server may be on this machine or in a private network.")
]
Host: TypeAlias = Annotated[
    str, typer.Option("--host", help="Address to listen on. The default accepts only local connections.")
]
Port: TypeAlias = Annotated[
    int, typer.Option("--port", "-p", help="Port to listen on; 0 picks a free one.", min=0, max=65535)
]
Model: TypeAlias = Annotated[
    str,
    typer.Option("--model", "-m", help="Use this model in place of every model of the canvas; demo needs no API key."),
]
Queue: TypeAlias = Annotated[
    str,
    typer.Option(
        "--queue",
        help="URL of the Redis server from which `ragflow-lg worker` processes take runs.",
        show_default=False,
    ),
]
RunModel: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Use this model in place of every model of the canvas; demo needs no API key. A turn that goes on uses the"
        " model that it was started with.",
    ),
]
Record: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--record", help="Record the answers of models and HTTP servers in this file, without secrets.", metavar="FILE"
    ),
]
Replay: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--replay", help="Take all answers from a recorded file: no network, API key or model is used.", metavar="FILE"
    ),
]
ReplayMode: TypeAlias = Annotated[
    Literal["strict", "loose"],
    typer.Option(
        "--replay-mode",
        help="strict: a request that was not recorded is an error. loose: a request that differs takes the next"
        " recorded answer of its node.",
    ),
]
Attachments: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        "-f",
        help="Attach a document, text, table, picture or audio file (sys.files). Repeatable.",
        metavar="PATH",
    ),
]
Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        help="Fill a field of the form; NAME=@PATH gives a file to a field for files. Repeatable.",
        metavar="NAME=VALUE",
    ),
]
Conversation: TypeAlias = Annotated[
    str | None,
    typer.Option("--session", "-s", help="Name of the conversation to continue or start.", callback=check_session_name),
]
Events: TypeAlias = Annotated[
    Literal["pretty", "json"],
    typer.Option("--events", "-e", help="json: one event per line. pretty: the answer, with progress on stderr."),
]
TraceOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trace", help="Show what agents do: events agent_record in json; rounds and thoughts in pretty output."
    ),
]


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """Options for all commands that run a turn."""

    model: RunModel = None
    """``""`` selects the models of the canvas; None selects the model of the run that is continued, if there is one."""
    record: Record = None
    replay: Replay = None
    replay_mode: ReplayMode = "strict"
    settings: SettingsFile = None
    checkpoint: Checkpoint = ""
    events: Events = "pretty"
    trace: TraceOption = False

    def check_replay(self) -> None:
        """Check that the recording and replay options are compatible."""
        if self.replay and self.record:
            raise typer.BadParameter("Use either --record or --replay.", param_hint="--replay")
        if self.replay and self.model:
            raise typer.BadParameter("A replay uses no model; leave out --model.", param_hint="--replay")
        if self.replay_mode == "loose" and not self.replay:
            raise typer.BadParameter("This mode needs a recording: add --replay.", param_hint="--replay-mode")


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter ``options: PlayOptions`` with one command line option for each field.

    Typer reads a command's signature and does not support options objects.
    """
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]
    hints = get_type_hints(PlayOptions, include_extras=True)
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(PlayOptions)
    ]

    def wrapper(**values: Any) -> None:
        options = PlayOptions(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        command(**values, options=options)

    wrapper.__doc__, wrapper.__name__ = command.__doc__, command.__name__
    wrapper.__signature__ = inspect.Signature([*own, *shared])  # pyright: ignore[reportFunctionMemberAccess] - PEP 362
    return wrapper
