"""``ragflow-lg studio``: open canvases in LangGraph Studio."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.base.portability import require_posix
from ragflow_lg.server.cli.options import Checkpoint, Model, Port, SettingsFile
from ragflow_lg.server.cli.terminal import print_line, print_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from ragflow_lg.integrations.studio.canvas_discovery import Project
    from ragflow_lg.integrations.studio.development_server import DevelopmentServer


def studio(
    place: Annotated[Path, typer.Argument(help="Canvas file, or folder of canvas files.", metavar="FILE|DIR")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for langgraph.json. Default: the folder of the canvases."),
    ] = None,
    server: Annotated[
        bool, typer.Option("--server/--no-server", help="Start the server, or only write the files.")
    ] = True,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Port = 0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the whole log of LangGraph's server, not only problems.")
    ] = False,
    model: Model = "",
    checkpoint: Checkpoint = "",
    settings: SettingsFile = None,
) -> None:
    """Open canvases in LangGraph Studio.

    Writes langgraph.json and a module with a graph for each canvas, and starts LangGraph's development server. A
    changed canvas is used from the next run on; adding or removing one restarts the server. With memory://, LangGraph's
    server stores the sessions itself; with other stores, the commands and the server of ragflow-lg share them. See
    ragflow_lg/integrations/studio/studio.md.

    Examples:
    ragflow-lg studio examples --model demo

    ragflow-lg studio my_canvas.json --no-server
    """
    from ragflow_lg.checkpoints.store_url import store_kind
    from ragflow_lg.integrations.studio.canvas_discovery import find_canvases
    from ragflow_lg.integrations.studio.development_server import DevelopmentServer, free_port, lock_folder
    from ragflow_lg.integrations.studio.studio_project import write_project
    from ragflow_lg.server.settings import load_settings

    if server:
        _require_server()
    values = load_settings(settings)
    url = checkpoint or values.checkpoints
    uses_store = store_kind(url) != "memory"
    folder = output or (place if place.is_dir() else place.parent)
    _create_folder(folder)
    with lock_folder(folder):
        project = find_canvases(place)
        config, _ = write_project(folder, project.canvases, model=model, uses_store=uses_store)
        _report(project, config)
        if not server:
            _report_command(folder)
            return

        def write(project: Project) -> bool:
            return write_project(folder, project.canvases, model=model, uses_store=uses_store)[1]

        environment = _environment(url, settings)
        child = DevelopmentServer(config, host, free_port(host, port), environment=environment, is_verbose=verbose)
        _serve(child, _watch_canvases(place, project, write))


def _report(project: Project, config: Path) -> None:
    for file, reason in project.skipped.items():
        print_note(f"{file} is skipped: {reason}")
    print_line(f"{config}: {len(project.canvases)} {'canvas' if len(project.canvases) == 1 else 'canvases'}")


def _report_command(folder: Path) -> None:
    print_line(f"Start the server with: cd {shlex.quote(str(folder))} && langgraph dev")
    try:
        require("studio", "This server")
    except SettingsError as error:
        print_note(str(error))


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"The folder {str(folder)!r} cannot be created: {error.strerror or error}."
        raise typer.BadParameter(message, param_hint="--output") from None


def _watch_canvases(place: Path, project: Project, write: Callable[[Project], bool]) -> Callable[[], bool]:
    """Return a function that rewrites the files if canvases were added or removed, and returns whether they changed."""
    from ragflow_lg.integrations.studio.canvas_discovery import CanvasWatcher, find_canvases

    watcher = CanvasWatcher(place, project)

    def has_changed() -> bool:
        if not watcher.has_changed():
            return False
        current = None
        try:
            current = find_canvases(place)
            return write(current)
        except (CompileError, SettingsError) as error:  # probably a file is being edited; keep serving the old graphs
            print_note(f"ragflow-lg: {error}")
            return False
        finally:
            watcher.update(current)

    return has_changed


def _environment(url: str, settings: Path | None) -> dict[str, str]:
    """Return environment variables with the same store and settings, because the server runs in another folder."""
    from ragflow_lg.checkpoints.store_url import sqlite_path, store_kind
    from ragflow_lg.server.settings.settings import PREFIX
    from ragflow_lg.server.settings.settings_file import FILE_VARIABLE, LOCAL_FILE

    store = f"sqlite:///{sqlite_path(url).absolute()}" if store_kind(url) == "sqlite" else url
    local = Path(LOCAL_FILE)
    path = settings or os.environ.get(FILE_VARIABLE) or (local if local.is_file() else None)
    file = {FILE_VARIABLE: str(Path(path).expanduser().absolute())} if path else {}
    return {f"{PREFIX}CHECKPOINTS": store, **file}


def _serve(child: DevelopmentServer, has_changed: Callable[[], bool]) -> None:
    from ragflow_lg.integrations.studio.development_server import studio_link

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # the `finally` below stops the child
    try:
        child.start()
        print_line(f"API:    {child.url}")
        print_line(f"Studio: {studio_link(child.url)}")
        child.watch(has_changed)
    except KeyboardInterrupt:
        pass
    finally:
        child.stop()


def _require_server() -> None:
    purpose = "LangGraph's development server (`--no-server` writes the files without it)"
    require_posix(purpose)
    require("studio", purpose)
