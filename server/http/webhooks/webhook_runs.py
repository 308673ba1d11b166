"""Turns that webhook calls start: running them, recording tests, and deleting old sessions."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ragflow_lg.base.errors import ConflictError, DatabaseError, RagflowLgError
from ragflow_lg.runs.wire.wire_events import AnswerText, MessageEnd
from ragflow_lg.server.agents.retention import delete_session
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.server.streaming.run_task import CONTINUE

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.database.webhook_repository import WebhookTests
    from ragflow_lg.server.runs.turns import Turn, Turns

WEBHOOK_SOURCE = "webhook"
"""The source of sessions that webhooks create."""
MAX_SESSIONS = 10_000
"""About how many sessions of webhook calls are kept per agent; the oldest are deleted."""
TRIM_INTERVAL = 20
"""Number of calls to an agent, counted by each process, after which old sessions are deleted."""
MAX_EVENTS = 2000
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a test's stored events in bytes, excluding the end event."""
logger = logging.getLogger(__name__)

_background_tasks: set[asyncio.Task[None]] = set()
_calls: Counter[str] = Counter()


class WebhookOutcome(Struct, frozen=True):
    """The outcome of a turn. ``text`` includes the tags around thinking sections; ``status`` is an HTTP status."""

    text: str
    status: int
    error: str = ""
    error_type: str = ""


async def begin_turn(turns: Turns, agent: AgentRow, payload: dict[str, Any]) -> Turn:
    """Start a turn with the draft in a new session.

    Raises:
        CompileError: if the canvas has errors.
    """
    version = await turns.canvases.version(agent)
    session = await turns.new_session(agent, version, user_id=agent.tenant, name="webhook", source=WEBHOOK_SOURCE)
    request: TurnRequest = {"query": "", "payload": payload, "user_id": agent.tenant}
    return await turns.begin(agent, session, request, CONTINUE)


def trim_in_background(app_state: AppState, agent: AgentRow) -> None:
    """Delete old sessions without delaying the response."""
    _run_in_background(trim_sessions(app_state, agent))


def _run_in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _background_tasks.add(task)
    task.add_done_callback(_background_tasks.discard)


async def follow_turn(turn: Turn, recorder: WebhookTestRecorder | None = None) -> WebhookOutcome:
    """Follow a turn to its end; a recorder receives its events."""
    answer = AnswerText("tagged")
    status = 200
    try:
        async for _, event in turn.events():
            if recorder is not None:
                await recorder.add(turn.envelope.wrap(event))
            answer.feed(event)
            if isinstance(event, MessageEnd):
                status = _parse_status(event.extras.get("status"), status)
        outcome = _build_outcome(answer.text, status, *await turn.result())
    except RagflowLgError as error:
        outcome = WebhookOutcome(answer.text, 400, str(error), type(error).__name__)
    if recorder is not None:
        await recorder.end((outcome.error, outcome.error_type) if outcome.error else None)
    return outcome


def follow_in_background(turn: Turn, recorder: WebhookTestRecorder | None) -> None:
    """Follow a turn without delaying the response."""

    async def follow_and_log() -> None:
        outcome = await follow_turn(turn, recorder)
        if outcome.error:
            logger.warning("webhook run %s failed: %s", turn.envelope.message_id, outcome.error)

    _run_in_background(follow_and_log())


def _build_outcome(text: str, status: int, run_status: str, error: str) -> WebhookOutcome:
    if run_status == "failed":
        return WebhookOutcome(text, 400, error or "The run failed.", "RunError")
    if run_status == "waiting":
        return WebhookOutcome(text, 400, "The agent waits for a form, which a webhook cannot answer.", "RunError")
    if run_status in ("cancelled", "drained"):
        return WebhookOutcome(text, 400, "The run was stopped.", "RunCancelled")
    return WebhookOutcome(text, status)


def _parse_status(value: Any, default: int) -> int:
    """Parse a Message's status. A value that is not the HTTP status of a final response is treated as missing."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value.strip()[:4])
    return value if isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599 else default


async def trim_sessions(app_state: AppState, agent: AgentRow, interval: int = TRIM_INTERVAL) -> None:
    """Delete the oldest sessions of an agent's webhook on every ``interval``-th call.

    Every call creates a session that would otherwise never be deleted. Sessions with a run in progress are skipped.
    """
    _calls[agent.id] += 1
    if _calls[agent.id] < interval:
        return
    del _calls[agent.id]
    sessions = SessionRepository(app_state.database, agent.tenant)
    try:
        for id_ in await sessions.older_ids(agent.id, WEBHOOK_SOURCE, MAX_SESSIONS, 2 * interval):
            with suppress(ConflictError):
                await delete_session(app_state, agent.tenant, agent.id, id_, reason="webhook")
    except RagflowLgError as error:
        logger.warning("cannot delete old webhook sessions of %s: %s", agent.id, error)


class WebhookTestRecorder:
    """Records the events of one test. Events beyond its limits are dropped, but the end event is always recorded.

    Database errors are only logged.
    """

    def __init__(self, app_state: AppState, tests: WebhookTests, test_id: str, max_events: int = MAX_EVENTS) -> None:
        self._clock = app_state.services.clock
        self._tests = tests
        self._test_id = test_id
        self._max_events = max_events
        self._count = 0
        self._bytes = 0
        self._last_us = 0
        self._began = self._clock.monotonic()

    async def begin(self) -> None:
        """Create the test."""
        self._last_us = int(self._clock.now() * 1_000_000)
        with _logging_failures():
            await self._tests.begin(self._test_id, self._last_us)

    async def add(self, event: dict[str, Any]) -> None:
        """Record an event."""
        self._count += 1
        self._bytes += len(encode_json(event))
        if self._count <= self._max_events and self._bytes <= MAX_BYTES:
            await self._write(event)

    async def end(self, error: tuple[str, str] | None = None) -> None:
        """End the test. ``error`` consists of the error's message and type."""
        if error is not None:
            await self._write({"event": "error", "message": error[0], "error_type": error[1]})
        elapsed_s = self._clock.monotonic() - self._began
        await self._write({"event": "finished", "elapsed_time": elapsed_s, "success": error is None})

    async def _write(self, event: dict[str, Any]) -> None:
        # Clients resume at a given time, so every event needs a different time.
        self._last_us = max(self._last_us + 1, int(self._clock.now() * 1_000_000))
        text = encode_json({"ts": self._last_us / 1_000_000, **event}).decode()
        with _logging_failures():
            await self._tests.add_events(self._test_id, [(self._last_us, text)])


@contextmanager
def _logging_failures() -> Generator[None]:
    try:
        yield
    except DatabaseError as error:
        logger.warning("cannot store the test of a webhook: %s", error)
