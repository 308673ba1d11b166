"""The folder in which LangGraph's development server keeps its threads: pickle files, which run code when loaded."""

from __future__ import annotations

from pathlib import Path

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings.trusted_folders import is_trusted, trust

NAME = ".langgraph_api"


def prepare_state_folder(parent: Path) -> None:
    """Create the folder for LangGraph's server, or check that an existing one was created here.

    It is recognised by its path and its number in the file system, which a copy or another folder does not have.

    Raises:
        SettingsError: If it was created by something else, such as a download.
    """
    folder = parent / NAME
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.is_symlink() or not folder.is_dir() or not is_trusted("studio", folder, _mark(folder)):
            raise SettingsError(
                f"{str(folder)!r} was not created by `ragflow-lg studio` on this machine. LangGraph's server would run"
                " code from its files: delete it, or use another folder with --output."
            ) from None
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be created: {error.strerror or error}.") from None
    else:
        trust("studio", folder, _mark(folder))


def _mark(folder: Path) -> str:
    facts = folder.stat()
    return f"{facts.st_dev}:{facts.st_ino}"
