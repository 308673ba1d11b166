"""``ragflow-lg studio``: canvases in LangGraph Studio."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.server.cli.options import Checkpoint, Model, SettingsFile
from ragflow_lg.server.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ragflow_lg.server.studio.development_server import DevelopmentServer
    from ragflow_lg.server.studio.found_canvases import Project

__all__ = ["studio"]

SETTINGS_NAME = "ragflow-lg.toml"
"""The settings file of a working directory, which is not the server's."""


def studio(
    place: Annotated[Path, typer.Argument(help="Canvas file, or a folder of them.", metavar="FILE|DIR")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for langgraph.json. Default: that of the canvases.")
    ] = None,
    server: Annotated[bool, typer.Option("--server/--no-server", help="Start the server, or only write files.")] = True,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="Port; 0 takes a free one.", min=0, max=65535)] = 0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all that LangGraph's server says, not only problems.")
    ] = False,
    model: Model = "",
    checkpoint: Checkpoint = "",
    settings: SettingsFile = None,
) -> None:
    """Open canvases in LangGraph Studio: see the graph, step, edit, fork. docs/studio.md tells how.

    Writes langgraph.json and a module with a graph for each canvas, and starts LangGraph's development server on them.
    A canvas that is saved is up to date in the next run; one that comes or goes makes the server begin again. With
    memory:// sessions are LangGraph's own, else the command and the server of ragflow-lg share them.

    Examples:
    ragflow-lg studio examples --model demo

    ragflow-lg studio my_canvas.json --no-server
    """
    from ragflow_lg.checkpoints.store_url import store_kind
    from ragflow_lg.server.settings import load_settings
    from ragflow_lg.server.studio.development_server import DevelopmentServer, free_port
    from ragflow_lg.server.studio.folder_lock import folder_alone
    from ragflow_lg.server.studio.found_canvases import find_canvases
    from ragflow_lg.server.studio.studio_project import write_project

    loaded = load_settings(settings)
    url = checkpoint or loaded.checkpoints
    keeps = store_kind(url) != "memory"
    folder = output or (place if place.is_dir() else place.parent)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{str(folder)!r} cannot be a folder: {error.strerror or error}."
        raise typer.BadParameter(message, param_hint="--output") from None
    with folder_alone(folder):
        project = find_canvases(place)
        config, _ = write_project(folder, project.canvases, model=model, keeps_sessions=keeps)
        _tell_left_out(project)
        _tell(f"{config}: {len(project.canvases)} {'canvas' if len(project.canvases) == 1 else 'canvases'}")
        if not server:
            _tell(f"Start it with: cd {shlex.quote(str(folder))} && langgraph dev")
            return
        has_changed = _changes(
            place, project, lambda found: write_project(folder, found.canvases, model=model, keeps_sessions=keeps)[1]
        )
        environment = _environment(url, settings)
        child = DevelopmentServer(config, host, free_port(host, port), environment=environment, tells_all=verbose)
        _serve(child, has_changed)


def _changes(place: Path, project: Project, write: Callable[[Project], bool]) -> Callable[[], bool]:
    """Make what looks whether canvases have come or gone, writes the files anew, and tells whether they differ."""
    from ragflow_lg.server.studio.found_canvases import Watched, find_canvases

    files = Watched(place, project)

    def has_changed() -> bool:
        if not files.have_changed():
            return False
        found = None
        try:
            found = find_canvases(place)
            return write(found)
        except (CompileError, SettingsError) as error:  # somebody is at work there; what is served stays
            sys.stderr.write(printable(f"ragflow-lg: {error}\n"))
            return False
        finally:
            files.look(found)

    return has_changed


def _environment(url: str, settings: Path | None) -> dict[str, str]:
    """Give what tells the server, which has another working directory, the same store and settings."""
    from ragflow_lg.checkpoints.store_url import sqlite_path, store_kind
    from ragflow_lg.server.settings.environment import FILE_VARIABLE, PREFIX

    where = f"sqlite:///{sqlite_path(url).absolute()}" if store_kind(url) == "sqlite" else url
    here = Path(SETTINGS_NAME)
    named = settings or os.environ.get(FILE_VARIABLE) or (here if here.is_file() else None)
    file = {FILE_VARIABLE: str(Path(named).expanduser().absolute())} if named else {}
    return {f"{PREFIX}CHECKPOINTS": where, **file}


def _serve(child: DevelopmentServer, has_changed: Callable[[], bool]) -> None:
    from ragflow_lg.server.studio.development_server import studio_link

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that the child ends too
    try:
        child.start()
        _tell(f"API:    {child.url}")
        _tell(f"Studio: {studio_link(child.url)}")
        child.watch(has_changed)
    except KeyboardInterrupt:
        pass
    finally:
        child.stop()


def _tell_left_out(project: Project) -> None:
    for file, why in project.left_out.items():
        sys.stderr.write(printable(f"{file} is left out: {why}\n"))


def _tell(line: str) -> None:
    sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()
