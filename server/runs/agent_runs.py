"""An agent's sessions and runs: which there are, and in which state they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from ragflow_lg.adapters.chat.chat_settings import is_demo
from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl.forms import form_fields, form_problems
from ragflow_lg.runs.run_session import BUSY_POLL_S
from ragflow_lg.runs.runner import newest_run
from ragflow_lg.server.database.due_rows import find_expiry
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, MessageRow, RunRow, SessionRow
    from ragflow_lg.server.runs.turns import Turns
    from ragflow_lg.server.settings.limits_section import PauseAnswerKind
    from ragflow_lg.services.sessions import RunRecord


class Expiry(Struct, frozen=True):
    """The end of the time that open forms wait."""

    ms: int
    """Epoch milliseconds; 0 for never."""
    answer: PauseAnswerKind | Literal[""]
    """Whether they are answered with the values of their fields, or their turn is cancelled; ``""`` for never."""


NEVER = Expiry(0, "")


class AgentSessions:
    """One agent's sessions and runs."""

    def __init__(self, app_state: AppState, turns: Turns, agent: AgentRow) -> None:
        self._app_state = app_state
        self._turns = turns
        self._agent = agent
        self._sessions = SessionRepository(app_state.database, agent.tenant)
        self._runs = RunRepository(app_state.database, agent.tenant)

    async def session(self, session_id: str) -> SessionRow:
        """Return one of the agent's sessions.

        Raises:
            RequestError: If the agent has no such session.
        """
        session = await self._sessions.get(session_id)
        if session is None or session.agent_id != self._agent.id:
            raise RequestError("The agent has no such session.", status=404)
        return session

    async def run(self, run_id: str) -> RunRow:
        """Return one of the agent's runs.

        Raises:
            RequestError: If the agent has no such run.
        """
        run = await self._runs.get(run_id)
        if run is None or run.agent_id != self._agent.id:
            raise RequestError("The agent has no such run.", status=404)
        return run

    async def record(self, run: RunRow) -> RunRecord | None:
        """Return the session store's record of a run, or None if the run never began or has been deleted."""
        return await self._app_state.store.runs.get(run.id)

    async def demo_runs(self, run_ids: Collection[str]) -> set[str]:
        """Return those of the runs in which the demo model answered. Runs whose records are deleted are left out."""
        records = [await self._app_state.store.runs.get(run_id) for run_id in set(run_ids)]
        return {record.run_id for record in records if record is not None and is_demo(record.model)}

    async def runs(self, session_id: str, page: int, page_size: int) -> tuple[list[RunRow], int]:
        """Return a page of runs, newest first, and their total number, in one session or, for ``""``, in all."""
        return await self._runs.find(self._agent.id, session_id, page, page_size)

    async def newest_runs(self, session_ids: Sequence[str]) -> dict[str, RunRow]:
        """Return the run that started last in each of these sessions, by session."""
        return await self._runs.newest_of(session_ids)

    async def questions(self, runs: Sequence[RunRow]) -> list[MessageRow]:
        """Return the messages with which users began these runs."""
        return await self._sessions.questions(runs)

    async def outcome(self, run: RunRow) -> tuple[list[MessageRow], list[Pause]]:
        """Return the messages in a run's session and the pauses that the session is waiting at."""
        session = await self.session(run.session_id)
        messages = (await self._sessions.messages([session.id]))[session.id]
        return messages, await self.pauses(session) if run.status == "waiting" else []

    async def pauses(self, session: SessionRow) -> list[Pause]:
        """Return the pauses that a session is waiting at."""
        return await (await self._turns.runner(self._agent, session)).pauses(session.id)

    async def expiry(self, session_id: str, pauses: Sequence[Pause]) -> Expiry:
        """Return until when a session waits at these pauses, and what happens then."""
        if not pauses:
            return NEVER
        expire_ms = await find_expiry(self._app_state.database, self._agent.tenant, session_id)
        if not expire_ms:
            return NEVER
        if self.expired_answer == "cancel":
            return Expiry(expire_ms, "cancel")
        runner = await self._turns.runner(self._agent, await self.session(session_id))
        has_defaults = all(_has_defaults(runner.plan, pause) for pause in pauses)
        return Expiry(expire_ms, "defaults" if has_defaults else "cancel")

    @property
    def expired_answer(self) -> PauseAnswerKind:
        """What the agent or the settings say about forms that nobody answers."""
        own = self._agent.pause_answer
        if not own:
            return self._app_state.settings.pauses.answer
        return "cancel" if own == "cancel" else "defaults"

    async def is_busy(self, session_id: str) -> bool:
        """Check whether any run in a session is in progress, here or elsewhere."""
        return bool(await self._app_state.store.leases.holder(session_id))

    async def state(self, run: RunRow) -> str:
        """Return the state of a run; see `ragflow_lg.server.http.native.native_responses.RunState`."""
        if run.status in ("succeeded", "failed", "cancelled", "refused"):
            return run.status
        newest = await newest_run(self._app_state.store, run.session_id)
        is_last = newest is None or newest.run_id == run.id
        if run.status == "waiting":
            if not is_last:
                return "answered"
            return "cancelled" if newest is not None and newest.status == "cancelled" else "waiting"
        if await self._turns.playing.is_played(run.id):
            return "running"
        fresh = await RunRepository(self._app_state.database, self._agent.tenant).get(run.id)
        if fresh is not None and fresh.status != run.status:
            return await self.state(fresh)  # it has ended in the meantime
        has_begun = (newest is not None and newest.run_id == run.id) or await self.record(run) is not None
        return "interrupted" if has_begun else "refused"

    async def queue_position(self, run: RunRow) -> int:
        """Return the place of a run among those that wait for a worker, from 1; 0 if it does not wait.

        Raises:
            StreamError: If the queue fails.
        """
        return await self._turns.queue_position(run.id)

    async def require_free(self, session_id: str) -> None:
        """Wait a moment for a session to be free.

        Raises:
            RequestError: If it is still busy then.
        """
        until = time.monotonic() + self._app_state.settings.server.busy_s
        while await self._app_state.store.leases.holder(session_id):
            if time.monotonic() >= until:
                raise busy_error("The session is busy: wait until its run ends, or cancel it.")
            await asyncio.sleep(BUSY_POLL_S)


def default_answer(plan: Plan, pause: Pause) -> dict[str, Any]:
    """Return the values of the fields of an open form, as the canvas declares them."""
    node = plan.nodes.get(NodeId(pause.node))
    declared: Any = getattr(node.params, "inputs", {}) if node is not None else {}
    return {
        field.name: field.value
        for field in form_fields(declared)
        if field.name in pause.inputs and field.value is not None
    }


def _has_defaults(plan: Plan, pause: Pause) -> bool:
    return not pause.is_checked or not form_problems(pause.inputs, default_answer(plan, pause))


def busy_error(text: str) -> RequestError:
    """Return the error for a request that a run in the session refuses."""
    return RequestError(text, 103, status=409, reason="session-busy")
