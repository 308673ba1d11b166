"""Sockets that listen, and uvicorn on them: what all servers of this package have in common."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from ragflow_lg.base.errors import SettingsError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["QuietServer", "get_url", "open_socket"]

_BACKLOG = 1024
_KEEP_ALIVE_S = 75


def open_socket(host: str, port: int) -> socket.socket:
    """Open the socket; port 0 takes a free one.

    Raises:
        SettingsError: if the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise SettingsError(
            f"Nothing can listen at {host} port {port}: {reason}. `--port 0` takes a free port."
        ) from None


def get_url(opened: socket.socket) -> str:
    """Give the URL of a socket that listens."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class QuietServer(uvicorn.Server):
    """Leaves the signals to whoever runs it, and writes no log of its own."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        """``options`` are uvicorn's."""
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",  # whatever loop runs
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                server_header=False,
                **options,
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield
