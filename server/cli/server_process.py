"""What the processes of ``serve`` and ``worker`` have in common: their settings, logs and measurements."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

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
    from ragflow_lg.server.observability.audit import open_audit
    from ragflow_lg.server.observability.logs import open_logs

    section = settings.server
    own = (section.metrics_key, section.database, settings.queue.url)
    with open_logs(section, (*settings.secrets, *(each.get_secret_value() for each in own))), open_audit(section.audit):
        yield


@asynccontextmanager
async def looking_after(app_state: AppState, operations: Operations) -> AsyncGenerator[None]:
    """Inside the context, measure the process and the queue, and look for the sandbox."""
    from ragflow_lg.server.assembly.code_sandbox import finding_sandbox
    from ragflow_lg.server.runs.queue_metrics import measuring_queue

    async with (
        operations.loop_watch.watching(),
        measuring_queue(app_state.queue, operations.metrics, app_state.now_ms),
        finding_sandbox(app_state.services.code),
        _serve_metrics(app_state.settings.server, operations),
    ):
        yield


@asynccontextmanager
async def _serve_metrics(section: ServerSection, operations: Operations) -> AsyncGenerator[None]:
    """Serve metrics inside the context if the settings specify a separate port for them."""
    if section.metrics != "port":
        yield
        return
    from ragflow_lg.server.http.edge.health_routes import build_metrics_app
    from ragflow_lg.server.http.edge.listening_socket import open_socket
    from ragflow_lg.server.http.edge.uvicorn_server import start_server

    async def drain() -> None:
        pass

    with open_socket(section.metrics_host, section.metrics_port, "metrics_port") as listener:
        async with start_server(build_metrics_app(operations.metrics), listener, drain, 0.0) as url:
            logger.warning("metrics at %s/metrics", url)
            yield
