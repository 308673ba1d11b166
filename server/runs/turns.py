"""Sessions of agents and their turns: begun, followed, and kept in the database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import CompileError, RequestError, RunInterruptedError, RunUnknownError, StreamError
from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.agents.tenant_files import tenant_services
from ragflow_lg.server.assembly.library import cached_canvas, load_canvas
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.run_repository import RunRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import TITLE_CHARS, AgentRow, MessageRow, RunRow, SessionRow, VersionRow
from ragflow_lg.server.observability.logs import current_notes
from ragflow_lg.server.observability.run_slots import RunSlots
from ragflow_lg.server.runs.failover import Failover
from ragflow_lg.server.runs.persisted_run import Persistable, PersistedRun
from ragflow_lg.server.streaming import parse_policy
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.runs.run import Run
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.streaming import DisconnectPolicy, RunHead, StreamEvent
    from ragflow_lg.wire.wire_events import WireEvent

__all__ = ["Turn", "Turns"]

COMPILES = 4
"""Canvases that are compiled at the same time: a large one keeps nobody else's waiting."""

NAME_CHARS = 250
"""Of its first question a session takes so much as its name."""


class Turn:
    """A run on its way. Its events may be followed; it goes on, and is kept, whether they are or not."""

    def __init__(self, run: Run, turns: Turns) -> None:
        self.run = run
        self._turns = turns

    async def events(self) -> AsyncGenerator[WireEvent]:
        """Give the events; once they are over, the turn stands in the database.

        Close it (`contextlib.aclosing`), so that whoever leaves is counted out at once.

        Raises:
            RagflowLgError: if the run was refused or the engine failed.
        """
        async with aclosing(self.numbered_events()) as events:
            async for _, event in events:
                yield event

    def numbered_events(self, after: int = 0) -> AsyncGenerator[tuple[int, WireEvent]]:
        """Give the events behind number ``after``, each with its number; records of agents have one, too."""
        return self._turns.wire_events(self.run.envelope.message_id, after)


class Turns:
    """The turns of one process, of all tenants."""

    def __init__(self, app_state: AppState, slots: RunSlots | None = None) -> None:
        """Every run takes one of the ``places``; one that is taken over from a dead replica does not wait for one."""
        self._app_state = app_state
        self._slots = slots or RunSlots(sys.maxsize)
        self._compiling = asyncio.Semaphore(COMPILES)
        self._policy = parse_policy(app_state.settings.server.on_disconnect)
        self._takeover = Failover(app_state, self)
        self._keeping: set[asyncio.Task[None]] = set()

    async def canvas(self, version: VersionRow) -> CompiledCanvas:
        """Compile a canvas, in a thread: others go on meanwhile. One that is kept is there at once.

        Raises:
            CompileError: if it has errors.
        """
        content, settings = version.dsl.encode(), self._app_state.settings
        if (kept := cached_canvas(content, settings)) is not None:
            return kept
        async with self._compiling:
            return await asyncio.to_thread(load_canvas, content, settings)

    async def version(self, agent: AgentRow, version_id: str = "", *, is_released: bool = False) -> VersionRow:
        """Give a version of an agent; its draft where none is named, or the one that is named has been dropped.

        Raises:
            RequestError: if a released one is asked for and there is none.
        """
        agents = AgentRepository(self._app_state.database, agent.tenant)
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
        self,
        agent: AgentRow,
        version: VersionRow,
        *,
        user_id: str,
        name: str,
        source: str,
        exp_user_id: str = "",
        earlier: Sequence[Sequence[str]] = (),
    ) -> tuple[SessionRow, list[MessageRow]]:
        """Make a session; it begins with what was said ``earlier``, or with the canvas's prologue, if that has one.

        ``earlier`` are pairs of a role and a text, for people: its first turn is told of them by its request.
        """
        now = self._app_state.now_ms()
        session = SessionRow(
            id=self._app_state.new_id(),
            agent_id=agent.id,
            version_id=version.id,
            user_id=user_id[:TITLE_CHARS],
            exp_user_id=exp_user_id[:TITLE_CHARS],
            name=name[:NAME_CHARS],
            source=source,
            create_ms=now,
            update_ms=now,
        )
        said = earlier or [("assistant", text) for text in (await self._prologue(version),) if text]
        rows = [
            MessageRow(session_id=session.id, number=number, role=role, content=text, create_ms=now)
            for number, (role, text) in enumerate(said)
        ]
        await SessionRepository(self._app_state.database, agent.tenant).add(session, rows)
        return session, rows

    async def begin(
        self,
        agent: AgentRow,
        session: SessionRow,
        request: TurnRequest,
        policy: DisconnectPolicy | None = None,
        version: VersionRow | None = None,
    ) -> Turn:
        """Begin a turn, or answer what the session waits for. ``version`` is the session's, if it is at hand.

        Raises:
            CompileError: if the canvas has errors.
        """
        runner = await self.runner(agent, session, version)
        return await self.play(agent, session, runner.start(session.id, request), question_text(request), policy)

    async def runner(self, agent: AgentRow, session: SessionRow, version: VersionRow | None = None) -> Runner:
        """Give what runs turns of a session, by the version that it keeps to; ``version`` if that is at hand.

        Raises:
            CompileError: if the canvas has errors.
        """
        app_state = self._app_state
        return Runner(
            await self.canvas(version or await self.version(agent, session.version_id)),
            tenant_services(app_state, agent.tenant),
            store=app_state.store,
            canvas_id=agent.id,
            event_limit=app_state.settings.run.event_limit,
            callbacks=app_state.callbacks,
            busy_s=app_state.settings.server.busy_s,
        )

    async def play(
        self, agent: AgentRow, session: SessionRow, run: Run, asked: str | None, policy: DisconnectPolicy | None = None
    ) -> Turn:
        """Play a run of a session. ``asked`` is what the user said, for people, None if nothing.

        ``policy`` by default is the settings'.

        Raises:
            BusyError: if there is no place for it.
            StreamError: if the journal does not take it, or the server is shutting down.
        """
        give_back = await self._slots.acquire(agent.tenant)
        try:
            return await self._play(agent, session, run, asked, policy, give_back)
        except BaseException:
            give_back()
            raise

    async def _play(
        self,
        agent: AgentRow,
        session: SessionRow,
        run: Run,
        asked: str | None,
        policy: DisconnectPolicy | None,
        give_back: Callable[[], None],
    ) -> Turn:
        app_state, held = self._app_state, current_notes()
        held.run, held.session = run.envelope.message_id, session.id
        run_id, start_ms = run.envelope.message_id, app_state.now_ms()
        row = RunRow(id=run_id, agent_id=agent.id, version_id=session.version_id, session_id=session.id)
        row.start_ms, row.asked = start_ms, asked or ""
        await RunRepository(app_state.database, agent.tenant).add(row)
        try:
            await self.keep(run, agent.tenant, asked, start_ms, policy, on_end=give_back)
        except StreamError as error:
            await RunRepository(app_state.database, agent.tenant).end(run_id, "failed", str(error), Usage(), start_ms)
            raise
        return Turn(run, self)

    async def keep(
        self,
        run: Persistable,
        tenant: str,
        asked: str | None,
        start_ms: int,
        policy: DisconnectPolicy | None = None,
        *,
        was: str = "",
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Let the run manager play a run that stands in the database; ``was`` is for `RunManager.start`.

        Raises:
            StreamError: if the journal does not take it, or the server is shutting down.
        """
        kept = PersistedRun(
            run, self._app_state, tenant, asked, start_ms, self._keeping, on_end, is_taken_over=bool(was)
        )
        await self._app_state.run_manager.start(kept, policy or self._policy, owner=tenant, previous=was)

    async def head(self, tenant: str, run_id: str) -> RunHead:
        """Give what is known of a run of a tenant, wherever it is played; another's is unknown.

        Raises:
            RunUnknownError: if there is none.
        """
        head = await self._app_state.run_manager.head(run_id)
        if head.owner != tenant:
            raise RunUnknownError(f"There is no run {run_id[:64]!r}, or its events are kept no longer.")
        return head

    async def stream_of(self, tenant: str, run_id: str, after: int = 0) -> AsyncGenerator[tuple[int, StreamEvent]]:
        """Give the events of a run of a tenant behind number ``after``, each with its number.

        Close it (`contextlib.aclosing`) to be counted out at once.

        Raises:
            RunUnknownError: if the tenant has no such run, or its events are kept no longer.
            StreamPositionError: if the run has had no event ``after`` yet.
            StreamGapError: if events that come next have been dropped.
            RunInterruptedError: if the run was interrupted; whoever comes back goes on, here or on another replica.
            RagflowLgError: what the run itself has failed with.
        """
        await self.head(tenant, run_id)
        async with aclosing(self.follow(run_id, after)) as events:
            async for pair in events:
                yield pair

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[tuple[int, StreamEvent]]:
        """Give the events of a run behind number ``after``, each with its number; see `RunManager.follow`.

        One that was interrupted is taken over, so that its followers never know.
        """
        while True:
            try:
                async with aclosing(self._app_state.run_manager.follow(run_id, after)) as events:
                    async for pair in events:
                        after = pair[0]
                        yield pair
                return
            except RunInterruptedError:
                if not await self._takeover.take(run_id):
                    raise

    async def wire_events(self, run_id: str, after: int = 0) -> AsyncGenerator[tuple[int, WireEvent]]:
        """Give what RAGFlow's clients are told of a run, as `follow` does: the events without records of agents."""
        async with aclosing(self.follow(run_id, after)) as events:
            async for number, event in events:
                if not isinstance(event, AgentRecord):
                    yield number, event

    async def cancel(self, session_id: str) -> None:
        """Stop the turn of a session, wherever it runs."""
        if not self._app_state.run_manager.cancel_session(session_id):
            await self._app_state.store.cancels.request(session_id)

    async def drain(self) -> None:
        """Let every turn stop where it can go on, and wait until all are kept."""
        await self._app_state.run_manager.drain()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    async def _prologue(self, version: VersionRow) -> str:
        try:
            return prologue_of((await self.canvas(version)).plan)
        except CompileError:
            return ""  # a draft that cannot be run yet


def prologue_of(plan: Plan) -> str:
    """Give what a canvas says first, in a conversation; ``""`` if nothing."""
    params = plan.nodes[plan.entry].params
    said = getattr(params, "prologue", None)
    return said if isinstance(said, str) and getattr(params, "mode", "") == "conversational" else ""


def question_text(request: TurnRequest) -> str:
    """Give what a user said, for people: the query, or else the fields of a form, a line each."""
    query = request.get("query")
    if query:
        return to_text(query)
    lines: list[str] = []
    for name, field in (request.get("inputs") or {}).items():
        value: Any = cast("Mapping[str, Any]", field).get("value") if isinstance(field, dict) else field
        lines.append(f"{name}: {to_text(value)}")
    return "\n".join(lines)
