"""Sessions of agents and their turns: begun, followed, and kept in the database."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import orjson

from ragflow_lg.errors import CompileError, RagflowLgError, RequestError
from ragflow_lg.events import AgentRecord
from ragflow_lg.runner import Runner
from ragflow_lg.values import to_text
from ragflow_lg.wire import MessageEnd, UserInputs
from server.database.agents import AgentRepository
from server.database.models import TITLE_CHARS, AgentRow, MessageRow, RunRow, SessionRow, VersionRow
from server.database.runs import RunRepository
from server.database.sessions import SessionRepository
from server.library import load_canvas
from server.logs import notes
from server.run_places import RunPlaces

if TYPE_CHECKING:
    from ragflow_lg.compiled import CompiledCanvas
    from ragflow_lg.plan import Plan
    from ragflow_lg.run import Run
    from ragflow_lg.state import TurnRequest
    from ragflow_lg.wire import WireEvent
    from server.parts import Parts

__all__ = ["Turn", "Turns"]

logger = logging.getLogger(__name__)

NAME_CHARS = 250
"""Of its first question a session takes so much as its name."""


class Turn:
    """A run on its way. Its events may be followed; it goes on, and is kept, whether they are or not."""

    def __init__(self, run: Run, parts: Parts, keeping: asyncio.Task[None]) -> None:
        self.run = run
        self._events = parts.hub.follow(run.envelope.message_id)
        self.keeping = keeping

    async def events(self) -> AsyncIterator[WireEvent]:
        """Give the events; once they are over, the turn stands in the database.

        Raises:
            RagflowLgError: if the run was refused or the engine failed.
        """
        try:
            async for _, event in self._events:
                if not isinstance(event, AgentRecord):
                    yield event
        finally:
            if self.run.status != "running":
                await asyncio.shield(self.keeping)


class Turns:
    """The turns of one process, of all tenants."""

    def __init__(self, parts: Parts, places: RunPlaces | None = None) -> None:
        """Every run takes one of the ``places``."""
        self._parts = parts
        self._places = places or RunPlaces(sys.maxsize)
        self._compiling = asyncio.Lock()
        self._running: dict[str, str] = {}
        self._keeping: set[asyncio.Task[None]] = set()

    async def canvas(self, version: VersionRow) -> CompiledCanvas:
        """Compile a canvas, in a thread: others go on meanwhile.

        Raises:
            CompileError: if it has errors.
        """
        async with self._compiling:
            return await asyncio.to_thread(load_canvas, version.dsl.encode(), self._parts.settings)

    async def version(self, agent: AgentRow, version_id: str = "", *, is_released: bool = False) -> VersionRow:
        """Give a version of an agent; its draft where none is named, or the one that is named has been dropped.

        Raises:
            RequestError: if a released one is asked for and there is none.
        """
        agents = AgentRepository(self._parts.database, agent.tenant)
        if is_released:
            found = await agents.released(agent.id)
            if found is None:
                raise RequestError("The agent has no published version; publish one first.", status=404)
            return found
        found = await agents.version(agent.id, version_id) if version_id else None
        found = found or await agents.version(agent.id, agent.version_id)
        if found is None:
            raise RequestError("The agent has been deleted meanwhile.", status=404)
        return found

    async def open_session(
        self, agent: AgentRow, version: VersionRow, *, user_id: str, name: str, source: str, exp_user_id: str = ""
    ) -> tuple[SessionRow, list[MessageRow]]:
        """Make a session; it begins with the canvas's prologue, if that has one."""
        now = self._parts.now_ms()
        session = SessionRow(
            id=self._parts.new_id(),
            agent_id=agent.id,
            version_id=version.id,
            user_id=user_id[:TITLE_CHARS],
            exp_user_id=exp_user_id[:TITLE_CHARS],
            name=name[:NAME_CHARS],
            source=source,
            create_ms=now,
            update_ms=now,
        )
        said = await self._prologue(version)
        first = MessageRow(session_id=session.id, number=0, role="assistant", content=said, create_ms=now)
        await SessionRepository(self._parts.database, agent.tenant).add(session, [first] if said else [])
        return session, [first] if said else []

    async def begin(self, agent: AgentRow, session: SessionRow, request: TurnRequest) -> Turn:
        """Begin a turn, or answer what the session waits for.

        Raises:
            BusyError: if there is no place for it.
            CompileError: if the canvas has errors.
        """
        give_back = await self._places.take(agent.tenant)
        try:
            turn = await self._begin(agent, session, request)
        except BaseException:
            give_back()
            raise
        turn.keeping.add_done_callback(lambda _: give_back())
        return turn

    async def _begin(self, agent: AgentRow, session: SessionRow, request: TurnRequest) -> Turn:
        parts = self._parts
        version = await self.version(agent, session.version_id)
        runner = Runner(
            await self.canvas(version),
            parts.services,
            store=parts.store,
            canvas_id=agent.id,
            event_limit=parts.settings.run.event_limit,
            callbacks=parts.callbacks,
        )
        run = runner.start(session.id, request)
        run_id = run.envelope.message_id
        held = notes()
        held.run, held.session = run_id, session.id
        start_ms = parts.now_ms()
        row = RunRow(id=run_id, agent_id=agent.id, version_id=version.id, session_id=session.id, start_ms=start_ms)
        await RunRepository(parts.database, agent.tenant).add(row)
        await parts.hub.start(run)
        # Followed from here on: a run may be over before a task gets its turn.
        events = parts.hub.follow(run_id)
        keeping = asyncio.create_task(self._keep(agent.tenant, session.id, request, run, start_ms, events))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        return Turn(run, parts, keeping)

    async def cancel(self, session_id: str) -> None:
        """Stop the turn of a session, wherever it runs."""
        run_id = self._running.get(session_id)
        if run_id is None or not await self._parts.hub.cancel(run_id):
            await self._parts.store.cancels.request(session_id)

    async def drain(self) -> None:
        """Let every turn stop where it can go on, and wait until all are kept."""
        await self._parts.hub.drain()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    async def _prologue(self, version: VersionRow) -> str:
        try:
            return prologue_of((await self.canvas(version)).plan)
        except CompileError:
            return ""  # a draft that cannot be run yet

    async def _keep(
        self,
        tenant: str,
        session_id: str,
        request: TurnRequest,
        run: Run,
        start_ms: int,
        events: AsyncIterator[tuple[int, WireEvent | AgentRecord]],
    ) -> None:
        """Follow a run to its end and store what was said. A database that fails breaks no run off."""
        run_id = run.envelope.message_id
        chunks: list[Any] = []
        tips, has_begun = "", False
        try:
            async for _, event in events:
                has_begun = True
                self._running[session_id] = run_id
                if isinstance(event, MessageEnd):
                    chunks += chunks_of(event.extras.get("reference"))
                elif isinstance(event, UserInputs):
                    tips = event.tips
        except RagflowLgError as error:
            logger.info("run %s of session %s: %s", run_id, session_id, error)
        finally:
            if self._running.get(session_id) == run_id:
                del self._running[session_id]
        now = self._parts.now_ms()
        said = [
            MessageRow(role="user", content=asked_text(request), run_id=run_id, create_ms=start_ms),
            MessageRow(role="assistant", content=run.answer or tips, run_id=run_id, create_ms=now),
        ]
        said[1].reference = orjson.dumps(chunks).decode() if chunks else ""
        usage = run.usage
        try:
            await RunRepository(self._parts.database, tenant).end(run_id, run.status, run.error or "", usage, now)
            if has_begun:
                await SessionRepository(self._parts.database, tenant).add_turn(
                    session_id,
                    said,
                    now_ms=now,
                    tokens=usage.prompt_tokens + usage.completion_tokens,
                    seconds=(now - start_ms) / 1000,
                    error=run.error or "",
                )
        except RagflowLgError as error:
            logger.error("run %s of session %s is not in the database: %s", run_id, session_id, error)


def prologue_of(plan: Plan) -> str:
    """Give what a canvas says first, in a conversation; ``""`` if nothing."""
    params = plan.nodes[plan.entry].params
    said = getattr(params, "prologue", None)
    return said if isinstance(said, str) and getattr(params, "mode", "") == "conversational" else ""


def chunks_of(reference: Any) -> list[Any]:
    """Give the chunks of a ``reference`` of ``message_end``, each with its number as ``citation_id``."""
    chunks: Any = cast("Mapping[str, Any]", reference).get("chunks") if isinstance(reference, dict) else None
    if not isinstance(chunks, dict):
        return []
    numbered = cast("Mapping[Any, Any]", chunks)
    return [{**chunk, "citation_id": str(number)} for number, chunk in numbered.items() if isinstance(chunk, dict)]


def asked_text(request: TurnRequest) -> str:
    """Give what a user said, for people: the query, or else the fields of a form, a line each."""
    query = request.get("query")
    if query:
        return to_text(query)
    lines: list[str] = []
    for name, field in (request.get("inputs") or {}).items():
        value: Any = cast("Mapping[str, Any]", field).get("value") if isinstance(field, dict) else field
        lines.append(f"{name}: {to_text(value)}")
    return "\n".join(lines)
