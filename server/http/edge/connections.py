"""Connections with a time limit for receiving each request head."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragflow_lg.server.observability.audit import audit

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

logger = logging.getLogger(__name__)


def build_protocol(header_s: float) -> type[asyncio.Protocol]:
    """Create a connection protocol that gives clients ``header_s`` seconds to send each request head."""

    class Protocol(_Protocol):
        header_timeout_s = header_s

    return Protocol


class _Protocol(H11Protocol):
    header_timeout_s = 10.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._has_unread_body():
            self._ensure_timer()
        elif self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self.conn.trailing_data[0] and self._timer is None:
            self._start_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._has_unread_body():
            self._ensure_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._stop_timer()
        self._log_refusal("malformed or oversized request head")
        super().send_400_response(msg)

    def _has_unread_body(self) -> bool:
        """Return whether the response was sent before the body arrived, so that nothing will read the body."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _ensure_timer(self) -> None:
        if self._timer is None:
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.header_timeout_s, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        self._log_refusal(f"incomplete request after {self.header_timeout_s:g} s")
        self.transport.close()

    def _log_refusal(self, reason: str) -> None:
        address = self.client[0] if self.client else ""
        logger.warning("connection from %s refused: %s", address, reason)
        audit("connection.refused", address=address, reason=reason)
