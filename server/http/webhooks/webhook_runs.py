"""Playing the turn of a webhook's call: at once and unseen, or to its end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.server.http.webhooks.webhook_retention import WEBHOOK_SOURCE, trim_sessions
from ragflow_lg.server.streaming.disconnect_policy import CONTINUE
from ragflow_lg.wire.wire_events import Message, MessageEnd

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.http.webhooks.webhook_trace import WebhookTestRecorder
    from ragflow_lg.server.runs.turns import Turn, Turns

__all__ = ["TurnOutcome", "begin_turn", "follow_in_background", "follow_turn", "trim_in_background"]

logger = logging.getLogger(__name__)

_unseen: set[asyncio.Task[None]] = set()


class TurnOutcome(Struct, frozen=True):
    """How a turn ended. ``text`` has the tags of thinking sections; ``status`` is HTTP's."""

    text: str
    status: int
    error: str = ""
    error_type: str = ""


async def begin_turn(turns: Turns, agent: AgentRow, payload: dict[str, Any]) -> Turn:
    """Begin a turn of the draft, in a session of its own.

    Raises:
        CompileError: if the canvas has errors.
    """
    version = await turns.version(agent)
    await turns.canvas(version)  # what cannot run leaves no session behind
    session, _ = await turns.open_session(agent, version, user_id=agent.tenant, name="webhook", source=WEBHOOK_SOURCE)
    return await turns.begin(agent, session, {"query": "", "payload": payload, "user_id": agent.tenant}, CONTINUE)


def trim_in_background(app_state: AppState, agent: AgentRow) -> None:
    """Let old sessions go, while others go on."""
    task = asyncio.create_task(trim_sessions(app_state, agent))
    _unseen.add(task)
    task.add_done_callback(_unseen.discard)


async def follow_turn(turn: Turn, recorded: WebhookTestRecorder | None = None) -> TurnOutcome:
    """Follow a turn to its end."""
    text: list[str] = []
    status = 200
    try:
        async for event in turn.events():
            if recorded is not None:
                await recorded.add(turn.run.envelope.wrap(event))
            if isinstance(event, Message):
                text.append("<think>" if event.start_to_think else "</think>" if event.end_to_think else "")
                text.append(event.content)
            elif isinstance(event, MessageEnd):
                status = _status(event.extras.get("status"), status)
        played = _played("".join(text), status, turn)
    except RagflowLgError as error:
        played = TurnOutcome("".join(text), 400, str(error), type(error).__name__)
    if recorded is not None:
        await recorded.end((played.error, played.error_type) if played.error else None)
    return played


def follow_in_background(turn: Turn, recorded: WebhookTestRecorder | None = None) -> None:
    """Let a turn go on by itself."""
    task = asyncio.create_task(_play_unseen(turn, recorded))
    _unseen.add(task)
    task.add_done_callback(_unseen.discard)


async def _play_unseen(turn: Turn, recorded: WebhookTestRecorder | None) -> None:
    played = await follow_turn(turn, recorded)
    if played.error:
        logger.warning("The turn of a webhook, run %s, failed: %s", turn.run.envelope.message_id, played.error)


def _played(text: str, status: int, turn: Turn) -> TurnOutcome:
    how = turn.run.status
    if how == "failed":
        return TurnOutcome(text, 400, turn.run.error or "The run failed.", "RunError")
    if how == "waiting":
        return TurnOutcome(text, 400, "The agent asks the user for a form, which a webhook cannot answer.", "RunError")
    if how in ("cancelled", "drained"):
        return TurnOutcome(text, 400, "The run was stopped.", "RunCancelled")
    return TurnOutcome(text, status)


def _status(given: Any, default: int) -> int:
    """Read the status of a Message; one that HTTP does not have for an answer counts as not given."""
    if isinstance(given, str) and given.strip().isascii() and given.strip().isdigit():
        given = int(given.strip()[:4])
    return given if isinstance(given, int) and not isinstance(given, bool) and 200 <= given <= 599 else default
