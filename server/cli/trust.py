"""``ragflow-lg trust``: allow or forbid the use of a folder's settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.cli.terminal import print_line, print_note
from ragflow_lg.server.settings.trusted_folders import distrust
from ragflow_lg.server.settings.trusted_folders import trust as add


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
