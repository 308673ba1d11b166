"""Listening sockets, and uvicorn servers that use them, for all servers in this package."""

from __future__ import annotations

import errno
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from ragflow_lg.base.errors import SettingsError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_BACKLOG = 1024
_KEEP_ALIVE_S = 75


def open_socket(host: str, port: int, option: str = "--port") -> socket.socket:
    """Open a listening socket. Port 0 selects a free port. ``option`` is what sets the port.

    Raises:
        SettingsError: if the address is invalid or in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason, _, _ = (getattr(error, "strerror", None) or str(error)).lower().partition(" (while attempting")
        advice = "Name an address of this machine."
        if error.args and error.args[0] in {errno.EADDRINUSE, errno.EACCES}:
            advice = f"Choose another {option}, or 0 for a free port."
        raise SettingsError(f"Cannot listen on {host} port {port}: {reason}. {advice}") from None
    # Connections inherit it. asyncio sets it only on sockets whose protocol is named, which this one's are not. Without
    # it, the second part of a response waits until the client has acknowledged the first one: for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def get_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class QuietServer(uvicorn.Server):
    """A uvicorn server that installs no signal handlers and writes no log."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        """Create the server. ``options`` are passed to `uvicorn.Config`."""
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",  # uses the loop that is already running
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
        """Leave signals to the caller."""
        yield
