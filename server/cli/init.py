"""``ragflow-lg init`` and ``trust``: a folder to start with, and the use of its settings."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.cli.terminal import format_command, print_line, print_note
from ragflow_lg.server.settings.trusted_folders import distrust
from ragflow_lg.server.settings.trusted_folders import trust as add

FILES = {
    "agent.json": "agent.json",
    "ragflow-lg.toml": "settings.toml",
    ".env.example": "variables.txt",
    ".gitignore": "ignored.txt",
    "README.md": "README.md",
}
"""The files of a new folder, and where this package keeps their text."""

_TEXTS = Path(__file__).parent / "starter"


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to set up; a new one is created.", metavar="FOLDER")],
) -> None:
    """Set up a folder with an example canvas and settings.

    It writes agent.json, ragflow-lg.toml, .env.example, .gitignore and README.md. If one of them exists, nothing is
    written. The settings in the folder are trusted, as `ragflow-lg trust` does it.

    Examples:
    ragflow-lg init my_agents

    ragflow-lg init .
    """
    found = [name for name in FILES if _exists(folder / name)]
    if found:
        raise typer.BadParameter(
            f"{str(folder)!r} has {', '.join(found)}, and no file is overwritten: name another folder.",
            param_hint="FOLDER",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            with (folder / name).open("xb") as file:
                file.write((_TEXTS / text).read_bytes())
            print_line(f"wrote {folder / name}")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise typer.BadParameter(f"{str(folder)!r} cannot be set up: {reason}.", param_hint="FOLDER") from None
    add("settings", folder)
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    print_note(f"Now talk with the agent: {enter}{format_command('chat', 'agent.json', '--model', 'demo')}")


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{str(path.parent)!r} cannot be used: {error}.", param_hint="FOLDER") from None


def trust(
    folder: Annotated[Path, typer.Argument(help="Folder with ragflow-lg.toml.", metavar="FOLDER")] = Path(),
    remove: Annotated[bool, typer.Option("--remove", help="Do not trust the folder any longer.")] = False,
) -> None:
    """Use the settings in a folder whenever it is the working folder.

    Settings can start programs (MCP servers) and decide which server receives your keys, so ragflow-lg asks once before
    it uses the file ragflow-lg.toml of a folder. A file that you name with --settings or RAGFLOW_LG_SETTINGS is always
    used.

    Examples:
    ragflow-lg trust

    ragflow-lg trust ~/agents --remove
    """
    if not folder.is_dir():
        raise typer.BadParameter(f"{str(folder)!r} is not a folder.", param_hint="FOLDER")
    path = folder.resolve()
    if not remove:
        add("settings", path)
        print_line(f"{path}: its settings are used from now on.")
    elif distrust("settings", path):
        print_line(f"{path}: its settings are no longer used.")
    else:
        print_line(f"{path} was not trusted.")


def ask_for_trust(folder: Path) -> bool:
    """Ask on the terminal whether a folder's settings may be used. Without a terminal, return False."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print_note(
        f"{folder} has settings (ragflow-lg.toml). Settings can start programs and decide which server receives your"
        " keys."
    )
    return typer.confirm("Use them now and in future?", default=False, err=True)
