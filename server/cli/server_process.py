"""Metrics on a port of their own, for servers and workers."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragflow_lg.server.observability.operations import Operations
    from ragflow_lg.server.settings.server_section import ServerSection

logger = logging.getLogger(__name__)


@asynccontextmanager
async def serve_metrics(section: ServerSection, operations: Operations) -> AsyncGenerator[None]:
    """Serve metrics inside the context if the settings specify a separate port for them."""
    if section.metrics != "port":
        yield
        return
    from ragflow_lg.server.http.edge.health_routes import build_metrics_app
    from ragflow_lg.server.http.edge.listening_socket import open_socket
    from ragflow_lg.server.http.edge.uvicorn_server import start_server

    async def drain() -> None:
        pass

    with open_socket(section.metrics_host, section.metrics_port) as listener:
        async with start_server(build_metrics_app(operations.metrics), listener, drain, 0.0) as url:
            logger.warning("metrics at %s/metrics", url)
            yield
