"""``ragflow-lg init``: a folder to start with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.cli.terminal import format_command, print_line, print_note, shell_word
from ragflow_lg.server.settings.trusted_folders import trust

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
    trust("settings", folder)
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shell_word(str(folder))} && "
    print_note(f"Now talk with the agent: {enter}{format_command('chat', 'agent.json', '--model', 'demo')}")


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{str(path.parent)!r} cannot be used: {error}.", param_hint="FOLDER") from None
