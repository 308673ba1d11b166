"""Writing down what happens in the test of a webhook, for the page that looks on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.http.shared.responses import encode_json

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.webhook_repository import WebhookTests

__all__ = ["WebhookTestRecorder"]

logger = logging.getLogger(__name__)

MAX_EVENTS = 2000
MAX_BYTES = 4 * 1024 * 1024
"""Most that is kept of a test, beside its end."""

PAUSE_US = 300_000
"""Shortest time between two writes."""


class WebhookTestRecorder:
    """The events of one test. What does not fit is left out, its end never; a database that fails harms nothing."""

    def __init__(self, app_state: AppState, tests: WebhookTests, test_id: str) -> None:
        self._clock = app_state.services.clock
        self._tests = tests
        self._test_id = test_id
        self._waiting: list[tuple[int, str]] = []
        self._count = 0
        self._bytes = 0
        self._last_us = self._written_us = self._started_us = 0
        self._began = self._clock.monotonic()

    async def begin(self) -> None:
        """Begin the test."""
        self._last_us = self._written_us = self._started_us = int(self._clock.now() * 1_000_000)
        try:
            await self._tests.begin(self._test_id, self._started_us)
        except DatabaseError as error:
            logger.warning("A test of a webhook is not kept: %s", error)

    async def add(self, event: dict[str, Any]) -> None:
        """Take an event; it is written soon."""
        text = self._note(event)
        self._count += 1
        self._bytes += len(text)
        if self._count > MAX_EVENTS or self._bytes > MAX_BYTES:
            self._waiting.pop()
        elif self._last_us - self._written_us >= PAUSE_US:
            await self._write()

    async def end(self, error: tuple[str, str] | None = None) -> None:
        """End the test; ``error`` is what failed and its kind."""
        if error is not None:
            self._note({"event": "error", "message": error[0], "error_type": error[1]})
        elapsed_s = self._clock.monotonic() - self._began
        self._note({"event": "finished", "elapsed_time": elapsed_s, "success": error is None})
        await self._write()

    def _note(self, event: dict[str, Any]) -> str:
        # Clients go on from a time, so no two are the same.
        self._last_us = max(self._last_us + 1, int(self._clock.now() * 1_000_000))
        text = encode_json({"ts": self._last_us / 1_000_000, **event}).decode()
        self._waiting.append((self._last_us, text))
        return text

    async def _write(self) -> None:
        events, self._waiting = self._waiting, []
        self._written_us = self._last_us
        try:
            await self._tests.add(self._test_id, events)
        except DatabaseError as error:
            logger.warning("Events of a webhook's test are not kept: %s", error)
