"""Connections that do not wait for ever: a client that sends its request too slowly is cut off."""

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

__all__ = ["build_protocol"]

logger = logging.getLogger(__name__)


def build_protocol(header_s: float) -> type[asyncio.Protocol]:
    """Make the protocol of connections whose clients have ``header_s`` seconds for the head of each request."""

    class Patient(_Patient):
        header_timeout_s = header_s

    return Patient


class _Patient(H11Protocol):
    header_timeout_s = 10.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answered_early():
            self._wait_on()
        elif self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self.conn.trailing_data[0] and self._patience is None:
            self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_answered_early():
            self._wait_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._stop_waiting()
        self._refused("no HTTP, or too large a head")
        super().send_400_response(msg)

    def _is_answered_early(self) -> bool:
        """Whether the answer was sent before the body has come, for which nobody waits any more."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _wait_on(self) -> None:
        if self._patience is None:
            self._wait()

    def _wait(self) -> None:
        self._patience = self.loop.call_later(self.header_timeout_s, self._cut_off)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _cut_off(self) -> None:
        self._patience = None
        self._refused(f"no whole request within {self.header_timeout_s:g} s")
        self.transport.close()

    def _refused(self, why: str) -> None:
        address = self.client[0] if self.client else ""
        logger.warning("connection of %s refused: %s", address, why)
        audit("connection.refused", address=address, reason=why)
