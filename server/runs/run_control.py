"""What can be done with the runs of an agent: begin, answer, continue, begin again, fork, stop.

Verbs are separate: a new turn is never taken for an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ragflow_lg.base.errors import CanvasChangedError, CheckpointError, ConflictError, RequestError
from ragflow_lg.base.values import to_text
from ragflow_lg.runs.pauses import match_answers
from ragflow_lg.runs.run import BUSY_POLL_S
from ragflow_lg.server.database.run_repository import RunRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import TITLE_CHARS, MessageRow, RunRow, SessionRow
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.runs.stored_sessions import abandon_turn, fork_session, newest_run
from ragflow_lg.server.runs.turns import NAME_CHARS, question_text

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.runner import Run, Runner
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.runs.turns import Turn, Turns
    from ragflow_lg.server.streaming import DisconnectPolicy
    from ragflow_lg.services.sessions import RunRecord

__all__ = ["RunControl", "messages_before", "wrap_answers"]


class RunControl:
    """The runs of one agent. ``policy`` is what becomes of those begun here when nobody follows them."""

    def __init__(
        self, app_state: AppState, turns: Turns, agent: AgentRow, policy: DisconnectPolicy | None = None
    ) -> None:
        self._app_state = app_state
        self._turns = turns
        self._agent = agent
        self._policy = policy
        self._sessions = SessionRepository(app_state.database, agent.tenant)
        self._runs = RunRepository(app_state.database, agent.tenant)

    # What there is

    async def session(self, session_id: str) -> SessionRow:
        """Give a session of the agent.

        Raises:
            RequestError: if there is none.
        """
        found = await self._sessions.get(session_id)
        if found is None or found.agent_id != self._agent.id:
            raise RequestError("The agent has no such session.", status=404)
        return found

    async def run(self, run_id: str) -> RunRow:
        """Give a run of the agent.

        Raises:
            RequestError: if there is none.
        """
        found = await self._runs.get(run_id)
        if found is None or found.agent_id != self._agent.id:
            raise RequestError("The agent has no such run.", status=404)
        return found

    async def record(self, run: RunRow) -> RunRecord | None:
        """Give what the store of sessions knows of a run; None if it never began or has been forgotten."""
        return await self._app_state.store.runs.get(run.id)

    async def runs(self, session_id: str, page: int, page_size: int) -> tuple[list[RunRow], int]:
        """Give a page of runs, the newest first, and how many there are; of one session, or all for ``""``."""
        return await self._runs.find(self._agent.id, session_id, page, page_size)

    async def outcome(self, run: RunRow) -> tuple[list[MessageRow], list[Pause]]:
        """Give what has been said in the session of a run, and what that waits for."""
        session = await self.session(run.session_id)
        said = (await self._sessions.messages([session.id]))[session.id]
        return said, await self.pauses(session) if run.status == "waiting" else []

    async def pauses(self, session: SessionRow) -> list[Pause]:
        """Give what a session waits for."""
        return await (await self._turns.runner(self._agent, session)).pauses(session.id)

    async def is_busy(self, session_id: str) -> bool:
        """Tell whether a run of a session goes on somewhere."""
        return bool(await self._app_state.store.leases.holder(session_id))

    async def state(self, run: RunRow) -> str:
        """Say how a run stands; see `ragflow_lg.server.http.native.native_responses.RunState`."""
        if run.status in ("succeeded", "failed", "cancelled", "refused"):
            return run.status
        newest = await newest_run(self._app_state.store, run.session_id)
        is_last = newest is None or newest.run_id == run.id
        if run.status == "waiting":
            if not is_last:
                return "answered"
            return "cancelled" if newest is not None and newest.status == "cancelled" else "waiting"
        if await self._app_state.run_manager.is_played(run.id):
            return "running"
        fresh = await RunRepository(self._app_state.database, self._agent.tenant).get(run.id)
        if fresh is not None and fresh.status != run.status:
            return await self.state(fresh)  # it ended while we looked
        return "interrupted"

    # What can be begun

    async def start(self, session: SessionRow, request: TurnRequest) -> Turn:
        """Begin a new turn.

        Raises:
            RequestError: if the session is busy, or waits for an answer.
        """
        runner = await self._turns.runner(self._agent, session)
        await self._refuse_busy(session.id)
        if pauses := await runner.pauses(session.id):
            forms = " and ".join(pause.node for pause in pauses)
            raise RequestError(
                f"The session waits for an answer to {forms}: resume its last run, cancel that, or fork it.",
                103,
                status=409,
                reason="session-waiting",
            )
        return await self._play(session, runner.start(session.id, request), question_text(request))

    async def resume(self, run: RunRow, answers: Mapping[str, Any]) -> Turn:
        """Answer what a run waits for: by pause id, a map of fields each, or fields by name; plain values.

        Raises:
            RequestError: if it does not wait, or is not the last of its session.
            AnswerError: if an answer does not fit, or an id names no pause; the run still waits.
            CanvasChangedError: if the session keeps to a version by now that has no such form.
        """
        session = await self.session(run.session_id)
        runner = await self._last(run, session)
        pauses = await runner.pauses(session.id)
        if not pauses and await self.state(run) == "waiting":
            raise CanvasChangedError("The session's version of the canvas has not the form: pin the one before.")
        if not pauses:
            raise RequestError("The run does not wait for an answer.", 103, status=409, reason="run-not-waiting")
        wrapped = wrap_answers(pauses, answers)
        request: TurnRequest = {"inputs": wrapped}
        match_answers(pauses, request, is_strict=True)
        is_by_pause = any(pause.id in wrapped for pause in pauses)
        forms = wrapped.values() if is_by_pause else [wrapped]
        asked = question_text({"inputs": {name: value for given in forms for name, value in given.items()}})
        return await self._play(session, runner.resume(session.id, wrapped), asked, parent=run.id)

    async def continue_(self, run: RunRow) -> Turn:
        """Go on with a run that a crash, a stop or a cancel has interrupted; only what is unfinished runs.

        Raises:
            RequestError: if it is not the last of its session.
            ConflictError: if nothing is unfinished.
        """
        session = await self.session(run.session_id)
        runner = await self._last(run, session)
        asked = await self._unsaid(runner, session)
        return await self._play(session, runner.continue_(session.id), asked, parent=run.id)

    async def rerun(
        self,
        run: RunRow,
        node: str,
        round_: int | None = None,
        changes: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> Turn:
        """Begin the turn of a run again from a node, with some values changed, in a new session.

        Raises:
            RequestError: if it is not the last of its session, the node did not run, or a change names nothing.
        """
        session = await self.session(run.session_id)
        runner = await self._last(run, session)
        target = self._app_state.new_id()
        try:
            begun = await runner.rerun(session.id, target, node, round=round_, changes=changes)
        except CheckpointError as error:
            raise _place_error(error) from error
        state = await runner.state(target)
        made = await self._copy(session, target, name, state, is_open=True)
        return await self._play(made, begun, None, parent=run.id)

    async def fork(self, run: RunRow, checkpoint: str = "", name: str = "") -> RunRow:
        """Make a new session that begins at a checkpoint, or where a run ended; give the run that stands for it.

        Raises:
            RequestError: if there is no such checkpoint, or the session is busy.
        """
        session, app_state = await self.session(run.session_id), self._app_state
        await self._refuse_busy(session.id)
        if not checkpoint:
            checkpoint = await self._end_of(run)
        canvas = await self._turns.canvas(await self._turns.version(self._agent, session.version_id))
        services, target = app_state.services, app_state.new_id()
        try:
            record = await fork_session(
                app_state.store,
                canvas,
                session.id,
                target,
                checkpoint,
                canvas_id=self._agent.id,
                clock=services.clock,
                ids=services.ids,
                parent_run=run.id,
            )
        except CheckpointError as error:
            raise _place_error(error) from error
        state = await (await self._turns.runner(self._agent, session)).state(target)
        await self._copy(session, target, name, state, is_open=record.status == "running")
        row = RunRow(
            id=record.run_id,
            agent_id=self._agent.id,
            version_id=session.version_id,
            session_id=target,
            status="drained" if record.status == "running" else record.status,
            error=record.reason,
            start_ms=record.started_ms,
            end_ms=record.started_ms,
        )
        await self._runs.add(row)
        return row

    async def resume_from(self, run: RunRow, request: TurnRequest, answers: Mapping[str, Any]) -> Turn:
        """Go on from a run, in the way that it stands; one with others behind it is forked first.

        ``answers`` are as in `resume`, for one that waits; ``request`` opens a new turn behind one that succeeded.

        Raises:
            RequestError: if it cannot be gone on from.
        """
        await self._refuse_busy(run.session_id)
        newest = await newest_run(self._app_state.store, run.session_id)
        if newest is None or newest.run_id != run.id:
            has_asked, run = run.status == "waiting", await self.fork(run)
            if has_asked and run.status == "drained":
                run = await self._asked_again(run)
        session, stands = await self.session(run.session_id), await self.state(run)
        if stands == "waiting":
            return await self.resume(run, answers)
        if stands in ("interrupted", "cancelled"):
            return await self.continue_(run)
        request = {**request, "user_id": session.user_id or self._agent.tenant}
        runner = await self._turns.runner(self._agent, session)
        failed = (await runner.state(session.id)).get("turn", {}).get("error")
        if stands == "failed" and failed:
            return await self.rerun(run, failed[2])
        return await self._play(session, runner.start(session.id, request), question_text(request), parent=run.id)

    async def cancel(self, run: RunRow) -> None:
        """Stop a run, wherever it is played. One that waits is given up; one that is over is left alone."""
        stands = await self.state(run)
        if stands == "running":
            if not await self._app_state.run_manager.cancel(run.id):
                await self._app_state.store.cancels.request(run.session_id)
        elif stands == "waiting":
            session = await self.session(run.session_id)
            canvas = await self._turns.canvas(await self._turns.version(self._agent, session.version_id))
            await abandon_turn(self._app_state.store, canvas, session.id, self._app_state.services.clock)

    async def pin(self, session: SessionRow, version_id: str) -> None:
        """Let a session keep to another version.

        Raises:
            RequestError: if a run of it goes on.
        """
        await self._refuse_busy(session.id)
        await self._sessions.pin(session.id, version_id)
        audit("session.changed", agent=self._agent.id, session=session.id, version=version_id)

    async def delete_session(self, session: SessionRow) -> None:
        """Delete a session with everything that is stored of it.

        Raises:
            RequestError: if a run of it goes on.
        """
        try:
            await self._app_state.store.delete_session(session.id)
        except ConflictError as error:
            raise _busy(str(error)) from error
        await self._sessions.delete(self._agent.id, session.id)
        audit("session.deleted", agent=self._agent.id, session=session.id)

    # Helpers

    async def _last(self, run: RunRow, session: SessionRow) -> Runner:
        """Give the runner of a session whose last run this is."""
        await self._refuse_busy(session.id)
        newest = await newest_run(self._app_state.store, session.id)
        if newest is None or newest.run_id != run.id:
            told = (
                f"that is {newest.run_id}. To go on from this one, fork it." if newest else "nothing is stored of it."
            )
            text = f"This is not the last run of its session: {told}"
            raise RequestError(text, 103, status=409, reason="run-not-last")
        return await self._turns.runner(self._agent, session)

    async def _refuse_busy(self, session_id: str) -> None:
        until = time.monotonic() + self._app_state.settings.server.busy_s
        while await self._app_state.store.leases.holder(session_id):
            if time.monotonic() >= until:
                raise _busy("The session is being run; wait for the end, or cancel that run.")
            await asyncio.sleep(BUSY_POLL_S)

    async def _play(self, session: SessionRow, run: Run, asked: str | None, *, parent: str = "") -> Turn:
        run.record = replace(run.record, parent_run=parent, tenant=self._agent.tenant)
        return await self._turns.play(self._agent, session, run, asked, self._policy)

    async def _end_of(self, run: RunRow) -> str:
        record = await self.record(run)
        if record is None or not record.checkpoint:
            newest = await newest_run(self._app_state.store, run.session_id)
            if newest is None or newest.run_id != run.id:
                raise RequestError(
                    "It is not known where the run ended; name a checkpoint of the session's history.",
                    status=422,
                    reason="place-unknown",
                )
            return ""  # as the session stands
        return record.checkpoint

    async def _asked_again(self, run: RunRow) -> RunRow:
        """Continue a fork to the form that its original has waited at."""
        turn = await self.continue_(run)
        async with aclosing(turn.numbered_events()) as events:
            async for _ in events:
                pass
        return await self.run(turn.run.envelope.message_id)

    async def _unsaid(self, runner: Runner, session: SessionRow) -> str | None:
        """Give the question of a turn whose process died before it was kept; None where it has been."""
        history: Sequence[Any] = (await runner.state(session.id)).get("history") or []
        asked = [payload for role, payload in history if role == "user"]
        said = (await self._sessions.messages([session.id]))[session.id]
        kept = sum(row.role == "user" for row in said)
        return to_text(asked[-1]) if len(asked) > kept else None

    async def _copy(
        self, session: SessionRow, target: str, name: str, state: Mapping[str, Any], *, is_open: bool
    ) -> SessionRow:
        """Make a session of another one, with what had been said by then."""
        now = self._app_state.now_ms()
        made = SessionRow(
            id=target,
            agent_id=session.agent_id,
            version_id=session.version_id,
            user_id=session.user_id,
            exp_user_id=session.exp_user_id,
            name=(name or session.name)[: min(NAME_CHARS, TITLE_CHARS)],
            source="workflow" if session.source == "webhook" else session.source,  # a copy is somebody's
            create_ms=now,
            update_ms=now,
        )
        users = sum(role == "user" for role, _ in state.get("history") or ())
        said = messages_before((await self._sessions.messages([session.id]))[session.id], users, is_open=is_open)
        copies = [
            MessageRow(
                session_id=target,
                number=number,
                role=row.role,
                content=row.content,
                run_id=row.run_id,
                reference=row.reference,
                create_ms=row.create_ms,
            )
            for number, row in enumerate(said)
        ]
        await self._sessions.add(made, copies)
        return made


def wrap_answers(pauses: Sequence[Pause], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Mark plain values as such: a map with a key ``value`` is one, too."""
    ids = {pause.id for pause in pauses}
    is_by_pause = any(key in ids for key in answers)
    if is_by_pause:
        return {key: _fields(value) for key, value in answers.items()}
    return _fields(answers)


def _fields(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    return {name: {"value": value} for name, value in cast("Mapping[str, Any]", given).items()}


def messages_before(messages: Sequence[MessageRow], users: int, *, is_open: bool) -> list[MessageRow]:
    """Give what had been said when the user had spoken so often; of an open turn not what was answered."""
    kept: list[MessageRow] = []
    for row in messages:
        if row.role == "user":
            if not users:
                break
            users -= 1
        elif is_open and not users and any(one.role == "user" for one in kept):
            break
        kept.append(row)
    return kept


def _place_error(error: CheckpointError) -> Exception:
    """Tell what a client has named wrongly from what the store fails with."""
    if isinstance(error, ConflictError) or error.__cause__ is not None:
        return error
    text = str(error).partition("; `ragflow-lg history")[0]
    return RequestError(text, 101, status=422, reason="place-unknown")


def _busy(text: str) -> RequestError:
    return RequestError(text, 103, status=409, reason="session-busy")
