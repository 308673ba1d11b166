"""Agent sessions and their turns: begins them, in this process or in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import Unpack

from ragflow_lg.adapters.chat.chat_settings import DEMO
from ragflow_lg.base.errors import (
    BusyError,
    DatabaseError,
    RagflowLgError,
    RequestError,
    StreamError,
    StreamUnknownError,
)
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.runs.graph_input import check_form
from ragflow_lg.runs.run import Run
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.agents.quotas import PAGE_RUNS, Quotas, find_limits
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import OPEN, TITLE_CHARS, AgentRow, MessageRow, RunRow, SessionRow, VersionRow
from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.observability.run_slots import Places
from ragflow_lg.server.runs.agent_canvases import AgentCanvases
from ragflow_lg.server.runs.playing import Playing
from ragflow_lg.server.runs.run_end import do_not_release
from ragflow_lg.server.runs.turn_session import (
    NAME_CHARS,
    SessionFields,
    TurnSession,
    find_question,
    hash_request,
    shows_form,
)
from ragflow_lg.server.streaming.journal import LEFT
from ragflow_lg.server.streaming.new_run import NewRun, encode_run
from ragflow_lg.server.streaming.run_manager import each_event
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.runs.pauses import BoundRequest
    from ragflow_lg.runs.wire.wire_events import WireEvent
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.streaming.journal import RunHead
    from ragflow_lg.server.streaming.run_queue import RunQueue

LOST_MS = 10_000
"""After this time, a run of which nothing is known but its row has been lost with its server."""
WAIT_MS = 60_000
"""How long a repeated request waits for the run of the first one, of which this process has no events."""
LOOK_S = 0.05
MAX_LOOK_S = 0.5
_REQUESTS = "requests"
_TEXT, _REQUEST = slice(32), slice(-32, None)
"""Where a row has the hash of what a user sent, and that of a request with an ``Idempotency-Key``."""


class Turn:
    """A run that has been started. Its events can be followed, but it continues and is stored even if they are not."""

    def __init__(self, envelope: Envelope, turns: Turns, tenant: str, run: Run | None = None) -> None:
        """Initialize. ``run`` is None if it began with an earlier request, or is played elsewhere."""
        self.envelope = envelope
        """The fields shared by all of the run's frames."""
        self._turns = turns
        self._tenant = tenant
        self._run = run

    async def result(self) -> tuple[str, str]:
        """Return the status and the error of the run, which has ended."""
        if self._run is not None and self._run.status != "drained":  # otherwise, another process has ended it
            return self._run.status, self._run.error or ""
        return await self._turns.playing.result(self._tenant, self.envelope.message_id)

    async def usage(self) -> Usage:
        """Return the tokens that the models of the run, which has ended, have reported."""
        if self._run is not None and self._run.status != "drained":
            return self._run.usage
        return await self._turns.playing.usage(self._tenant, self.envelope.message_id)

    def events(self, after: int = 0) -> AsyncGenerator[tuple[int, WireEvent]]:
        """Yield the events after number ``after``, each with its number. After the last one, the turn is stored.

        Use `contextlib.aclosing`, so that a follower that leaves is unregistered immediately.

        Raises:
            RagflowLgError: If the run was refused or the engine failed.
        """
        return each_event(self.pages(after))

    def pages(self, after: int = 0) -> AsyncGenerator[list[tuple[int, WireEvent]]]:
        """Yield the events like `events`, those together that are there."""
        pages = self._turns.run_manager.pages(self.envelope.message_id, after, has_records=False)
        return cast("AsyncGenerator[list[tuple[int, WireEvent]]]", pages)


class Turns:
    """All tenants' turns in one process."""

    def __init__(self, app_state: AppState, operations: Operations | None = None) -> None:
        """Initialize. Every run uses one of the slots of ``operations``; one of a dead replica does not wait."""
        operations = operations or Operations(app_state.settings.server)
        self._app_state = app_state
        self._queue = app_state.queue
        self.run_manager = app_state.run_manager
        self._slots = operations.slots
        self.canvases = AgentCanvases(app_state)
        self.quotas = Quotas(app_state, operations.metrics.count_quota_refusal)
        self.playing = Playing(app_state, operations.metrics)

    async def new_session(self, agent: AgentRow, version: VersionRow, **fields: Unpack[SessionFields]) -> TurnSession:
        """Return a new session that begins with earlier messages, or with the canvas's prologue.

        `begin` stores it together with its first run.

        Raises:
            RequestError: If the id of the user is too long.
        """
        now = self._app_state.now_ms()
        values = {
            "tenant": agent.tenant,
            "id": self._app_state.new_id(),
            "agent_id": agent.id,
            "version_id": version.id,
            "user_id": _check_user("user_id", fields["user_id"]),
            "exp_user_id": _check_user("exp_user_id", fields.get("exp_user_id", "")),
            "name": fields.get("name", "")[:NAME_CHARS],
            "source": fields["source"],
            "conversation": fields.get("conversation", ""),
            "visitor": fields.get("visitor", ""),
            "create_ms": now,
            "update_ms": now,
        }
        row = SessionRow(**values)
        prologue = await self.canvases.opening_message(version) if fields.get("has_prologue") else ""
        messages = fields.get("earlier") or ([("assistant", prologue)] if prologue else [])
        rows = [
            MessageRow(session_id=row.id, number=number, role=role, content=text, is_form=False, create_ms=now)
            for number, (role, text) in enumerate(messages)
        ]
        return TurnSession(row, version, messages=rows)

    async def open_session(
        self, agent: AgentRow, version: VersionRow, **fields: Unpack[SessionFields]
    ) -> tuple[SessionRow, Sequence[MessageRow]]:
        """Store a new session without a run; see `new_session`."""
        new = await self.new_session(agent, version, **fields)
        messages = new.messages or ()
        await SessionRepository(self._app_state.database, agent.tenant).add(new.row, *messages)
        return new.row, messages

    async def begin(
        self, agent: AgentRow, session: TurnSession, request: TurnRequest, policy: str | None = None, page_key: str = ""
    ) -> Turn:
        """Begin a turn, or answer the form the session is waiting at.

        ``page_key`` is the id of the key of the embedded page that sends the request.

        A client whose server stopped may repeat its request. If the session's last run answers the same request, and
        nobody has had its end, that run is followed from its beginning, unless the client knows of it.

        Raises:
            CompileError: If the canvas has errors. AnswerError: If the first turn lacks fields of Begin's form.
        """
        if (repeated := await self.find_repeated(agent.tenant)) is not None:
            return repeated
        newest, hashes, row = None, self._digests(hash_request(request), _TEXT), session.row
        if not session.is_new:
            runs = RunRepository(self._app_state.database, agent.tenant)
            newest = session.newest_run if session.version is not None else await runs.newest(row.id)
            if session.after:
                request = cast("TurnRequest", {**request, "after": session.after})
            elif (unread := await self.find_unread(agent.tenant, newest, request)) is not None:
                return unread
        elif not row.name and isinstance(query := request.get("query"), str):
            row.name = query[:NAME_CHARS]
        runner = await self.runner(agent, row, session.version, is_page=bool(page_key))
        if session.is_new:
            check_form(runner.plan, request)  # a refusal leaves no session behind
        run = runner.start(row.id, request, ignores_unknown=True)
        question = await find_question(runner, row.id, cast("BoundRequest", request))
        if newest is not None and newest.asked == question and await self.playing.is_lost(newest):
            await RunRepository(self._app_state.database, agent.tenant).set(newest.id, asked="")
        return await self.play(agent, session, run, question, policy, hashes[0], page_key)

    async def find_repeated(self, tenant: str) -> Turn | None:
        """Return the turn that an earlier request with the same ``Idempotency-Key`` has begun, if there is one.

        The row of a run names the key, and is stored before anything of the run happens. A run that was refused, or
        lost before it began, gives the key back.

        Raises:
            RequestError: If that request was another one.
            BusyError: If the run has not ended after `WAIT_MS`, and its events are in another process, if anywhere.
        """
        notes, runs = current_notes(), RunRepository(self._app_state.database, tenant)
        until_ms, look_s = self._app_state.now_ms() + WAIT_MS, LOOK_S
        while notes.request_key and (row := await runs.of_request(notes.request_key)) is not None:
            if row.request_hash[_REQUEST] not in self._digests(notes.request_hash, _REQUEST):
                message = "Another request was sent with this Idempotency-Key. Send each request with a new key."
                raise RequestError(message, 101, status=422, reason="idempotency-key-reused")
            is_lost, now_ms = await self.playing.is_lost(row), self._app_state.now_ms()
            if row.status == "refused" or (is_lost and now_ms - row.start_ms > LOST_MS):
                await runs.set(row.id, request_key=None)  # nothing has run
                return None
            if not is_lost:
                with suppress(StreamUnknownError):
                    return self.rejoin(tenant, await self.playing.head(tenant, row.id))
                if row.status not in OPEN:
                    return Turn(Envelope(row.id, row.start_ms // 1000, row.session_id, row.session_id), self, tenant)
            if now_ms > until_ms:
                raise BusyError(f"The run {row.id} of the first request with this Idempotency-Key has not ended.")
            await asyncio.sleep(look_s)  # the run is about to begin or to be continued, or another process plays it
            look_s = min(look_s * 1.5, MAX_LOOK_S)
        return None

    async def find_unread(self, tenant: str, newest: RunRow | None, request: TurnRequest) -> Turn | None:
        """Return the turn of a session's last run if it answers the same request, and nobody has had its end."""
        head = await self._unread_run(newest, self._digests(hash_request(request), _TEXT))
        return self.rejoin(tenant, head) if head is not None else None

    def rejoin(self, tenant: str, head: RunHead) -> Turn:
        """Return the turn of a run whose client asks for the rest of the events."""
        return Turn(head.envelope, self, tenant)

    async def runner(
        self, agent: AgentRow, session: SessionRow, version: VersionRow | None = None, *, is_page: bool = False
    ) -> Runner:
        """Return the runner for a session's turns.

        ``version`` is the session's, if already loaded. The turns of an embedded page read only what its visitor may.

        Raises:
            CompileError: If the canvas has errors.
        """
        app_state = self._app_state
        version = version or await self.canvases.version(agent, session.version_id)
        services = tenant_services(app_state, agent.tenant, agent.id, visitor=session.visitor, is_page=is_page)
        return Runner(
            await self.canvases.compile(version),
            services,
            store=app_state.store,
            canvas_id=agent.id,
            model=DEMO if services.is_demo else "",
            callbacks=app_state.callbacks,
            busy_s=app_state.settings.server.busy_s,
            answers_questions=not is_page or app_state.settings.agents.visitors_approve,
        )

    async def play(
        self,
        agent: AgentRow,
        session: TurnSession,
        run: Run,
        question: str | None,
        policy: str | None = None,
        request_hash: str = "",
        page_key: str = "",
    ) -> Turn:
        """Start a run in a session. ``question`` is the user's question as readable text, or None if there is none.

        ``policy`` defaults to the one in the settings. A repeated request finds its run by ``request_hash``.

        Raises:
            BusyError: If no slot becomes free, or a quota is used up.
            RequestError: If the request cannot be queued.
            StreamError: If the journal refuses the run, or the server is shutting down.
        """
        notes, run_id = current_notes(), run.envelope.message_id
        notes.run, notes.session = run_id, session.row.id
        new = NewRun(
            run.envelope,
            agent.tenant,
            agent.id,
            run.intent,
            cast("dict[str, Any]", dict(run.request)),
            question,
            self._app_state.now_ms(),
            run.record.parent_run,
            bool(run.record.tenant),
            policy or self._app_state.settings.server.on_disconnect,
            page_key,
        )
        release = do_not_release
        try:
            release = await self._find_place(agent.tenant, page_key, len(question or ""), run_id)
            return await self._start(run, new, session, request_hash, release)
        except BaseException:  # also a cancellation must free the place
            release()
            with suppress(StreamError):  # a place without a run is free again soon
                await self.playing.forget(run_id, agent.tenant, page_key)
            raise

    async def _start(
        self, run: Run, new: NewRun, session: TurnSession, request_hash: str, release: Callable[[], None]
    ) -> Turn:
        """Store a run and begin with it, here or in the queue."""
        values = {
            "id": new.envelope.message_id,
            "agent_id": new.agent_id,
            "version_id": session.row.version_id,
            "session_id": session.row.id,
            "start_ms": new.start_ms,
            "page_key": new.page_key,
        }
        row = RunRow(**values)
        row.asked, notes = new.question or "", current_notes()
        row.is_form = shows_form(run.request)
        row.request_hash = request_hash
        if notes.request_key:
            row.request_key = notes.request_key
            row.request_hash += self._digests(notes.request_hash, _REQUEST)[0]
        if (repeated := await self._store(new, session, row)) is not None:
            release()
            await self.playing.forget(row.id, new.tenant, new.page_key)
            return repeated
        try:
            if self._queue is not None:
                await self._put(self._queue, new)
                return Turn(run.envelope, self, new.tenant)
            await self.playing.start(run, new, free_slot=release)
        except RagflowLgError as error:
            has_run = isinstance(error, StreamError) and await self._app_state.store.runs.get(row.id) is not None
            runs = RunRepository(self._app_state.database, new.tenant)
            await runs.end(row.id, "failed" if has_run else "refused", str(error), Usage(), new.start_ms)
            raise
        return Turn(run.envelope, self, new.tenant, run)

    async def _store(self, new: NewRun, session: TurnSession, row: RunRow) -> Turn | None:
        """Store the row of a run. Return the turn of the same request instead, if it has begun one meanwhile."""
        rows = (row,) if session.messages is None else (session.row, *session.messages, row)
        try:
            await self.quotas.begin_turn(new.tenant, new.page_key, *rows)
        except DatabaseError:
            if row.request_key is None:
                raise
            if (repeated := await self.find_repeated(new.tenant)) is not None:
                return repeated
            await self.quotas.begin_turn(new.tenant, new.page_key, *rows)  # that one was refused
        return None

    async def _find_place(self, tenant: str, page_key: str, input_chars: int, run_id: str) -> Callable[[], None]:
        """Acquire a slot in this process, or a place in the queue. Return what gives the slot back."""
        if self._queue is None:
            return await self.acquire_slot(tenant, page_key, input_chars, run_id)
        await self._queue.reserve(run_id, self.playing.owners(tenant, page_key), self._app_state.now_ms())
        return do_not_release

    async def _put(self, queue: RunQueue, new: NewRun) -> None:
        """Hand a run over. Its events come from the process that plays it."""
        data, owners = encode_run(new, self._app_state.store.keys), self.playing.owners(new.tenant, new.page_key)
        self.run_manager.require_open()
        await queue.put(new.envelope.message_id, data, owners, self._app_state.now_ms())
        await self.run_manager.order(new.envelope, new.tenant, new.policy)

    async def acquire_slot(
        self, tenant: str, page_key: str = "", input_chars: int = 0, run_id: str = ""
    ) -> Callable[[], None]:
        """Acquire a slot for a run of a tenant, or of an embedded page; see `RunSlots.acquire`.

        ``input_chars`` is the length of its input.

        Raises:
            BusyError: If no slot becomes free.
        """
        slots = find_limits(self._app_state.settings, tenant).runs
        return await self._slots.acquire(Places(tenant, slots, page_key, PAGE_RUNS, input_chars, run_id))

    async def queue_position(self, run_id: str) -> int:
        """Return the place of a run among those that wait for a slot of this process or for a worker; 0 if it does not.

        The run of a dead worker waits for another one, which begins with such runs.

        Raises:
            StreamError: If the queue fails.
        """
        if not run_id or self._queue is None:
            return self._slots.position(run_id) if run_id else 0
        return await self._queue.position(run_id)

    def count_runs(self, tenant: str) -> int:
        """Return the number of a tenant's runs in this process."""
        return self._slots.in_use_by(tenant)

    def _digests(self, request_hash: str, part: slice) -> list[str]:
        """Return what may be stored of a hash; the first is. With keys, nobody can look for questions that have it."""
        keys = self._app_state.store.keys
        return [*(keys.digests(_REQUESTS, request_hash.encode()) if keys is not None else ()), request_hash[part]]

    async def _unread_run(self, row: RunRow | None, hashes: Sequence[str]) -> RunHead | None:
        """Return the head of a session's last run if it answers this request. Nobody has stopped it or had its end."""
        run_manager = self.run_manager
        if row is None or row.request_hash[_TEXT] not in hashes:
            return None
        try:
            head, end = await run_manager.head(row.id), await run_manager.read_end(row.id)
            if end is not None and not end.is_interruption:
                is_over = end.status == "cancelled" or await run_manager.journal.is_read(row.id)
                return None if is_over else head
        except StreamUnknownError:
            return None
        # Anyone who asks again while the first server of a run plays it has asked twice: its session is busy.
        is_continued = head.player == LEFT or head.takeovers > 0
        goes_on = await (self.playing.is_played if is_continued else run_manager.is_queued)(row.id)
        return head if goes_on and not await self._app_state.store.cancels.is_requested(row.id) else None


def _check_user(field: str, user: str) -> str:
    """Return the id of a user. Cut ids would give users the same sessions and memories."""
    if len(user) > TITLE_CHARS:
        raise RequestError(f"`{field}` has {len(user):,} characters; {TITLE_CHARS} are possible.", 101)
    return user
