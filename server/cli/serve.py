"""``ragflow-lg serve`` and ``worker``: the processes that answer requests and play runs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.local_paths import replace_file
from ragflow_lg.base.tasks import running
from ragflow_lg.dsl.compatibility import RAGFLOW, WIRES
from ragflow_lg.server.cli.options import Model, NoCheckpoint, Queue, SettingsFile
from ragflow_lg.server.cli.terminal import DEMO, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.observability.operations import Operations
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.server.settings.server_section import ServerSection


logger = logging.getLogger(__name__)


def load_process_settings(file: Path | None, queue: str) -> Settings:
    """Return the settings in a file, with the URL of the option ``--queue``, if it is given.

    Raises:
        SettingsError: If they are invalid.
    """
    from pydantic import SecretStr

    from ragflow_lg.server.settings import load_settings

    settings = load_settings(file)
    if not queue:
        return settings
    return settings.model_copy(update={"queue": settings.queue.model_copy(update={"url": SecretStr(queue)})})


@contextmanager
def writing_logs(settings: Settings) -> Generator[None]:
    """Write logs and the audit log inside the context, as the settings say.

    Raises:
        SettingsError: If a file cannot be written.
    """
    from ragflow_lg.server.observability.logs import open_audit, open_logs

    section = settings.server
    with open_logs(section, settings.secrets), open_audit(section.audit):
        yield


@asynccontextmanager
async def looking_after(app_state: AppState, operations: Operations) -> AsyncGenerator[None]:
    """Inside the context, measure the process and the queue, and prepare the services of integrations."""
    from ragflow_lg.server.runs.queue_metrics import measuring_queue

    async with (
        measuring_queue(app_state.queue, operations.metrics, app_state.now_ms),
        running(app_state.services.warm_up, "prepare services"),
        _serve_metrics(app_state.settings.server, operations),
    ):
        yield


@asynccontextmanager
async def _serve_metrics(section: ServerSection, operations: Operations) -> AsyncGenerator[None]:
    """Serve metrics inside the context if the settings specify an address for them."""
    host, _, port = section.metrics_address.rpartition(":")
    if not port:
        yield
        return
    from ragflow_lg.server.http.edge.health_routes import build_metrics_app
    from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server

    async def drain() -> None:
        pass

    with open_socket(host.strip("[]"), int(port), "metrics_address") as listener:
        async with start_server(build_metrics_app(operations.metrics), listener, drain, 0.0) as url:
            logger.warning("metrics at %s/metrics", url)
            yield


DEFAULT_TENANT = "default"
"""Tenant of the first API key, and of the agents of canvas files."""

MAX_EXAMINED = 50
"""For how many canvas files `serve` prints what is missing."""

PAGE_KEY_MS = 24 * 3600 * 1000
"""How long the key of the person who starts the server with ``--open`` is valid."""


_REMOTE = (
    "Every machine that reaches this address can send requests, and they are not encrypted: use a firewall, or a proxy "
    "with TLS (docs/operations.md). --host 127.0.0.1 accepts requests of this machine only."
)


def serve(
    canvases: Annotated[
        list[Path] | None,
        typer.Argument(help="Canvas files, or folders with such files, to serve as agents.", show_default=False),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Address to listen on; any but a loopback address accepts remote connections."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", help="Port to listen on; 0 picks a free one.", min=0, max=65535)
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Print a link to the page that signs in, and open it.")] = False,
    mcp: Annotated[bool, typer.Option("--mcp", help="Offer the agents as tools of an MCP server as well.")] = False,
    queue: Queue = "",
    plays: Annotated[bool, typer.Option("--worker/--no-worker", help="Play runs of the queue as well.")] = True,
    model: Model = "",
    settings: SettingsFile = None,
    _checkpoint: NoCheckpoint = "",
) -> None:
    """Serve agents over HTTP: RAGFlow's API, OpenAI's and our own.

    See docs/server.md. The first line of the output is the URL. The first start creates an API key: it is shown on a
    terminal, once, or stored in the file first-api-key. The last line is the URL of the OpenAPI document. SIGTERM or
    Ctrl-C stops runs at their next step, from which they can continue; a second signal stops the server immediately.

    Each canvas file becomes an agent with the name of the file. When you save a file, its agent changes. The server
    says which canvases cannot run, and does not start if none can.

    With sessions in Redis, several servers and `ragflow-lg worker` processes play the runs of all of them
    (docs/operations.md).

    Examples:
    ragflow-lg serve --model demo

    ragflow-lg serve my_canvas.json --open

    ragflow-lg serve --host 0.0.0.0 --port 9380 --settings production.toml

    ragflow-lg serve --mcp
    """
    from ragflow_lg.server.http.edge.uvicorn_server import run

    config, options = load_process_settings(settings, queue), {"host": host, "port": port, "mcp": mcp or None}
    overrides = {name: value for name, value in options.items() if value is not None}
    config = config.model_copy(update={"server": config.server.model_copy(update=overrides)})
    run(_serve(config, model, canvases or (), opens=open_, plays=plays))


async def _serve(settings: Settings, model: str, canvases: Sequence[Path], *, opens: bool, plays: bool) -> None:
    from ragflow_lg.server.agents.canvas_file_agents import CanvasFiles, following_canvas_files
    from ragflow_lg.server.agents.retention import deleting_old_data
    from ragflow_lg.server.assembly.app_state import open_app_state
    from ragflow_lg.server.assembly.unknown_names import report_unknown_names
    from ragflow_lg.server.assembly.warm_up import start_loading
    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.http.app import make_app
    from ragflow_lg.server.http.edge.uvicorn_server import open_socket
    from ragflow_lg.server.http.edge.uvicorn_server import serve as serve_app
    from ragflow_lg.server.runs.due_tasks import looking_for_due_rows
    from ragflow_lg.server.runs.left_runs import continuing_left_runs
    from ragflow_lg.server.runs.pause_timeouts import PauseTimeouts
    from ragflow_lg.server.runs.run_worker import QueueWorker
    from ragflow_lg.server.runs.schedule_runs import ScheduleStarts

    section = settings.server
    with writing_logs(settings), open_socket(section.host, section.port) as listener:
        if not ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback:
            print_note(_REMOTE)
        async with open_app_state(settings, model=model) as app_state:
            start_loading(partial(report_unknown_names, settings))
            app = make_app(app_state)
            files = CanvasFiles(app_state, DEFAULT_TENANT, canvases)
            agents = await files.store()
            _report(canvases, [*files.skipped, *map(str, files.errors)], runs=len(agents) > len(files.errors))
            await asyncio.to_thread(report_missing, files.named, app_state.settings, model)
            has_keys = await KeyRepository(app_state.database).count()
            key = "" if has_keys else await _create_key(app_state, "first start")
            page_key = await _create_key(app_state, "page", PAGE_KEY_MS) if opens else ""

            def announce(url: str) -> None:
                print_line(url)
                if page_key:
                    place = f"&agent={agents[0]}" if len(agents) == 1 else ""
                    _open_page(f"{url}/page#key={page_key}{place}")
                if key:
                    print_line(hand_over(key, KEY_FILE))
                if section.mcp:
                    print_line(f"MCP server: {url}/mcp")
                if (release := settings.compat.get(RAGFLOW, WIRES[0])) != WIRES[0]:
                    print_line(f"Responses: those of RAGFlow {release} ([compat] ragflow)")
                print_line(f"OpenAPI document: {url}/openapi.json")

            worker = None
            if plays and (runs := app_state.queue) is not None:
                worker = QueueWorker(app.state.app_state, runs, app.state.turns, section.max_runs)
            async with (
                looking_after(app_state, app.state.operations),
                deleting_old_data(app_state),
                continuing_left_runs(app_state, app.state.turns),
                looking_for_due_rows(ScheduleStarts(app_state, app.state.turns)),
                looking_for_due_rows(PauseTimeouts(app_state, app.state.turns)),
                following_canvas_files(files),
                app.state.mcp.running() if section.mcp else nullcontext(),
                nullcontext() if worker is None else worker.working(),
            ):
                drain = app.state.turns.playing.drain if worker is None else worker.drain
                await serve_app(app, listener, announce, drain, section)


def _report(canvases: Sequence[Path], errors: Sequence[str], *, runs: bool) -> None:
    """Print why some of the canvases cannot run."""
    text = "\n".join(errors)
    if canvases and not runs:
        raise SettingsError(text or f"There is no canvas in {', '.join(repr(str(path)) for path in canvases)}.")
    if errors:
        print_note(text)


def report_missing(files: Sequence[Path], settings: Settings, model: str) -> None:
    """Print what canvases need and the settings lack, before anybody asks an agent."""
    from ragflow_lg.adapters.chat.chat_settings import is_demo
    from ragflow_lg.server.assembly.canvas_needs import describe_missing
    from ragflow_lg.server.assembly.library import check_file

    if is_demo(model):
        print_note(DEMO)
    for file in files[:MAX_EXAMINED]:
        plan = check_file(file, lambda: settings)[0]
        if plan is not None and (missing := describe_missing(plan, settings, has_model=bool(model))):
            print_note(f"{file.name}: {missing}")


async def _create_key(app_state: AppState, name: str, expire_ms: int = 0) -> str:
    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.observability.logs import audit

    audit("key.created", tenant=DEFAULT_TENANT, name=name, kind="api")
    now = app_state.now_ms()
    return await KeyRepository(app_state.database).create(
        DEFAULT_TENANT, now, name=name, expire_ms=now + expire_ms if expire_ms else 0
    )


def _open_page(address: str) -> None:
    """Print the address of the page and open it. A browser sends nothing that follows its `#`."""
    import webbrowser

    # elsewhere, output is kept in a log, which should not contain the key
    shown = address if sys.stdout.isatty() else address.partition("#")[0]
    print_line(f"Page: {shown}")
    if sys.platform != "linux" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:  # no browser in the terminal
        webbrowser.open(address)


KEY_FILE = Path("first-api-key")
"""The file in the working folder that contains the key if the server was not started from a terminal."""


def hand_over(key: str, file: Path) -> str:
    """Return the line that tells the first API key. Only a terminal shows it; elsewhere, output is kept in a log.

    Without a terminal, the key is stored in a file that only its owner can read.
    """
    if sys.stdout.isatty():
        return f"API key (shown only once): {key}"
    try:
        replace_file(file, f"{key}\n".encode(), is_private=True)
    except OSError as error:
        return (
            f"API key: {str(file)!r} cannot be written ({error.strerror}). Create one with: ragflow-lg keys create NAME"
        )
    return f"API key: in the file {file.absolute()}"


def worker(
    queue: Queue = "",
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", help="How many runs are played at the same time.", min=1, max=1000)
    ] = 20,
    model: Model = "",
    settings: SettingsFile = None,
    _checkpoint: NoCheckpoint = "",
) -> None:
    """Play the runs of `ragflow-lg serve`, beside the servers.

    Start any number of workers, on any machine, with the settings of the servers. See docs/operations.md. The output is
    one line when the worker is ready. SIGTERM or Ctrl-C stops runs at their next step, from which other workers
    continue them; a second signal stops the worker immediately.

    Examples:
    ragflow-lg worker --queue redis://127.0.0.1:6379 --settings production.toml

    ragflow-lg worker --concurrency 50 --settings production.toml
    """
    from ragflow_lg.server.assembly.app_state import queue_url
    from ragflow_lg.server.http.edge.uvicorn_server import run
    from ragflow_lg.server.settings.server_section import ServerSection

    config = load_process_settings(settings, queue)
    if not queue_url(config):
        raise SettingsError("A worker needs a queue: set `checkpoints` to redis://…, or use --queue.")
    if (database := config.server.database) == ServerSection().database:
        raise SettingsError(
            "A worker needs the database of the servers: set database in the section [server]. By default, it is "
            f"{database.get_secret_value()}, a file in the working directory."
        )
    run(_work(config, model, concurrency))


async def _work(settings: Settings, model: str, concurrency: int) -> None:
    from ragflow_lg.server.runs.run_worker import open_worker

    with writing_logs(settings):
        async with (
            open_worker(settings, model, concurrency) as worker_,
            looking_after(worker_.app_state, worker_.operations),
        ):
            await worker_.work(lambda: print_line(f"Worker ready for {concurrency} runs."))
