"""Operations on an agent's runs: begin, answer, continue, rerun, fork, stop.

Each operation is separate: a new turn is never mistaken for an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ragflow_lg.base.errors import (
    BusyError,
    CanvasChangedError,
    CheckpointError,
    ConflictError,
    RequestError,
    StreamError,
)
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.base.values import to_text
from ragflow_lg.checkpoints.sessions.session_pruning import prune_session
from ragflow_lg.runs.graph_input import check_begin
from ragflow_lg.runs.pauses import BoundRequest, match_answers
from ragflow_lg.runs.runner import abandon, newest_run
from ragflow_lg.server.agents.retention import delete_session
from ragflow_lg.server.database.tables import FORKED, RunRow, SessionRow
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.agent_runs import AgentSessions, busy_error
from ragflow_lg.server.runs.continuation import NEVER_BEGAN
from ragflow_lg.server.runs.stored_sessions import fork_session
from ragflow_lg.server.runs.turn_session import (
    NAME_CHARS,
    TurnSession,
    answer_text,
    copy_messages,
    copy_session,
    messages_before,
    question_text,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ragflow_lg.checkpoints.sessions.session_pruning import Pruned, PruneLimits
    from ragflow_lg.component.plan import PlanNode
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.runner import Run, Runner
    from ragflow_lg.runs.stored_steps import CheckpointInfo
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, VersionRow
    from ragflow_lg.server.runs.turns import Turn, Turns


class RunControl(AgentSessions):
    """Begins, answers, continues, repeats, forks and stops one agent's runs."""

    def __init__(
        self, app_state: AppState, turns: Turns, agent: AgentRow, policy: str | None = None, page_key: str = ""
    ) -> None:
        """Initialize. ``policy`` is the disconnect policy for runs started here, ``page_key`` as in `Turns.begin`."""
        super().__init__(app_state, turns, agent)
        self._policy = policy
        self._page_key = page_key

    async def start(self, session: TurnSession, request: TurnRequest) -> Turn:
        """Begin a new turn.

        Raises:
            RequestError: If the session is busy or is waiting for an answer.
            AnswerError: If the fields do not fit Begin's form.
        """
        runner, id_ = await self._turns.runner(self._agent, session.row, session.version), session.row.id
        if not session.is_new:
            await self.require_free(id_)
        if not session.is_new and (pauses := await runner.pauses(id_)):
            forms = " and ".join(pause.node for pause in pauses)
            raise RequestError(
                f"The session is waiting for an answer to {forms}: resume its last run, cancel it, or fork it.",
                103,
                status=409,
                reason="session-waiting",
            )
        check_begin(runner.plan, request)
        return await self._play(session, runner.start(id_, request), question_text(request))

    async def resume(self, run: RunRow, answers: Mapping[str, Any]) -> Turn:
        """Answer a waiting run with plain values: fields by name, or a map of fields for each pause id.

        Raises:
            RequestError: If the run is not waiting, or is not the last one in its session.
            AnswerError: If an answer is invalid, or an id has no pending pause. The run is then still waiting.
            CanvasChangedError: If the session has been switched to a version without the form.
        """
        session = await self.session(run.session_id)
        runner = await self._last(run, session)
        pauses = await runner.pauses(session.id)
        if not pauses and await self.state(run) == "waiting":
            raise CanvasChangedError(
                "The session's canvas version does not contain the form: pin the previous version."
            )
        if not pauses:
            raise RequestError("The run is not waiting for an answer.", 103, status=409, reason="run-not-waiting")
        form_answers = wrap_answers(pauses, answers)
        request: TurnRequest = {"inputs": form_answers}
        by_pause = match_answers(pauses, request, is_strict=True)
        question = answer_text(pauses, by_pause)
        # Another answer may have come since: these are then the pauses of a later run, or will not be open.
        await self._last(run, session)
        answer: BoundRequest = {"pauses": list(by_pause)}
        return await self._play(session, runner.resume(session.id, form_answers, answer), question, parent=run.id)

    async def continue_(self, run: RunRow) -> Turn:
        """Continue a run that was interrupted by a crash, a stop or a cancellation. Only unfinished nodes run.

        Raises:
            RequestError: If it is not the last run in its session, or never began.
            ConflictError: If nothing is unfinished.
        """
        session = await self.session(run.session_id)
        runner = await self._last(run, session)
        question = await self._find_unstored_question(runner, session)
        return await self._play(session, runner.continue_(session.id), question, parent=run.id)

    async def rerun(
        self,
        run: RunRow,
        node: str,
        round_: int | None = None,
        changes: Mapping[str, Any] | None = None,
        name: str = "",
        version: VersionRow | None = None,
    ) -> Turn:
        """Run a run's turn again from a given node, with some values changed, in a new session.

        The new session uses another ``version`` of the canvas if one is given.

        Raises:
            RequestError: If it is not the last run in its session, the node did not run, or a change refers to
                something that does not exist.
            CanvasChangedError: If the other version cannot continue the turn. There is no new session then.
        """
        session = await self.session(run.session_id)
        runner = await self._last(run, session)
        if version is not None:
            runner = await self._turns.runner(self._agent, session, version)
        target = self._app_state.new_id()
        try:
            rerun = await runner.rerun(session.id, target, node, round=round_, changes=changes)
        except CheckpointError as error:
            raise _place_error(error) from error
        if version is not None:
            await self._require_continuable(runner, target)
        state = await runner.state(target)
        name = name or await _name_branch(runner, session, target, state, changes, node, is_draft=version is not None)
        copy = await self._copy(session, target, name, state, changes, version=version)
        try:
            return await self._play(copy, rerun, None, parent=run.id)
        except (BusyError, StreamError):  # nothing has run
            await self.delete_session(copy)
            raise

    async def fork(
        self,
        run: RunRow,
        checkpoint: str = "",
        name: str = "",
        changes: Mapping[str, Any] | None = None,
        version: VersionRow | None = None,
    ) -> RunRow:
        """Create a session that begins at a checkpoint or where a run ended. Return the run that represents it.

        Some values are changed, and another ``version`` of the canvas is used, if they are given.

        Raises:
            RequestError: If the checkpoint does not exist, a change is invalid, or the session is busy.
            CanvasChangedError: If the other version cannot continue the turn. There is no new session then.
        """
        session, app_state = await self.session(run.session_id), self._app_state
        await self.require_free(session.id)
        if not checkpoint:
            checkpoint = await self._end_of(run)
        is_draft = version is not None
        version = version or await self._turns.canvases.version(self._agent, session.version_id)
        canvas = await self._turns.canvases.compile(version)
        services, target = app_state.services, app_state.new_id()
        own = await self.record(run)
        parent = own.parent_run if own is not None and run.start_ms == run.end_ms else ""
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
                parent_run=parent or run.id,  # a copy has played nothing, and can be deleted
                changes=changes,
            )
        except CheckpointError as error:
            raise _place_error(error) from error
        runner = await self._turns.runner(self._agent, session, version)
        if version.id != session.version_id:
            await self._require_continuable(runner, target)
        state = await runner.state(target)
        name = name or await _name_branch(runner, session, target, state, changes, is_draft=is_draft)
        answered_by = "" if record.status == "running" else record.run_id
        await self._copy(session, target, name, state, changes, answered_by=answered_by, version=version)
        row = RunRow(
            id=record.run_id,
            agent_id=self._agent.id,
            version_id=version.id,
            session_id=target,
            status=FORKED if record.status == "running" else record.status,
            error=record.reason,
            start_ms=record.started_ms,
            end_ms=record.started_ms,
        )
        await self._runs.add(row)
        return row

    async def after(self, run: RunRow) -> RunRow:
        """Return the run after which a conversation goes on: this one, or a fork of it if others have followed it.

        Raises:
            RequestError: If the session is busy, or the run cannot be forked.
        """
        await self.require_free(run.session_id)
        newest = await newest_run(self._app_state.store, run.session_id)
        if newest is None or newest.run_id != run.id:
            was_waiting, run = run.status == "waiting", await self.fork(run)
            if was_waiting and run.status == FORKED:
                run = await self._continue_to_form(run)
        return run

    async def resume_from(self, run: RunRow, request: TurnRequest, answers: Mapping[str, Any]) -> Turn:
        """Continue from a run according to its state. If it is followed by later runs, it is forked first.

        ``answers`` is the same as for `resume` and is used for a waiting run. ``request`` opens a new turn after a
        run that succeeded.

        Raises:
            RequestError: If the run cannot be continued.
        """
        run = await self.after(run)
        session, state = await self.session(run.session_id), await self.state(run)
        if state == "waiting":
            return await self.resume(run, answers)
        if state in ("interrupted", "cancelled"):
            return await self.continue_(run)
        request = {**request, "user_id": session.user_id or self._agent.tenant}
        runner = await self._turns.runner(self._agent, session)
        failed = (await runner.state(session.id)).get("turn", {}).get("error")
        if state == "failed" and failed:
            return await self.rerun(run, failed[2])
        check_begin(runner.plan, request)
        return await self._play(session, runner.start(session.id, request), question_text(request), parent=run.id)

    async def cancel(self, run: RunRow) -> None:
        """Stop a run, wherever it is running. A waiting run is abandoned, and a finished one is left unchanged."""
        state = await self.state(run)
        if state == "running" and await self._turns.playing.cancel(self._agent.tenant, run.id):
            return
        if state in ("running", "interrupted"):  # for the process that takes it over
            await self._app_state.store.cancels.request(run.id)
        elif state == "waiting":
            session = await self.session(run.session_id)
            canvas = await self._turns.canvases.compile_version(self._agent, session.version_id)
            await abandon(canvas, session.id, self._app_state.store, self._app_state.services.clock)

    async def pin(self, session: SessionRow, version_id: str) -> None:
        """Switch a session to another version.

        Raises:
            RequestError: If the session is busy.
        """
        await self.require_free(session.id)
        await self._sessions.set(session.id, version_id=version_id)
        audit("session.changed", agent=self._agent.id, session=session.id, version=version_id)

    async def change_session(self, session: SessionRow, **values: str | bool | None) -> None:
        """Change what a session's owner may choose. None leaves a value; no name becomes the first question."""
        changed = {name: value for name, value in values.items() if value is not None}
        if changed.get("name") == "":
            changed["name"] = (await self._sessions.first_question(session.id))[:NAME_CHARS]
        if changed:
            await self._sessions.set(session.id, **changed)
            audit("session.changed", agent=self._agent.id, session=session.id, what=",".join(changed))

    async def prune_session(self, session: SessionRow, limits: PruneLimits, *, is_dry_run: bool) -> Pruned:
        """Delete the stored steps of a session's old turns. Its messages and runs stay in the database.

        Raises:
            RequestError: If the session is busy.
        """
        try:
            pruned = await prune_session(self._app_state.store, session.id, limits, is_dry_run=is_dry_run)
        except ConflictError as error:
            raise busy_error(str(error)) from error
        if not is_dry_run:
            audit("session.pruned", agent=self._agent.id, session=session.id, checkpoints=str(pruned.checkpoints))
        return pruned

    async def delete_session(self, session: SessionRow) -> None:
        """Delete a session and everything stored for it.

        Raises:
            RequestError: If the session is busy.
        """
        try:
            await delete_session(self._app_state, self._agent.tenant, self._agent.id, session.id)
        except ConflictError as error:
            raise busy_error(str(error)) from error

    async def discard_copy(self, session_id: str, run_id: str) -> None:
        """Delete a copy of a session, unless something has run in it since the run with which it begins."""
        newest = await newest_run(self._app_state.store, session_id)
        if newest is not None and newest.run_id == run_id:
            await self.delete_session(await self.session(session_id))

    async def _last(self, run: RunRow, session: SessionRow) -> Runner:
        """Return the runner for a session after checking that this is its last run."""
        await self.require_free(session.id)
        newest = await newest_run(self._app_state.store, session.id)
        if newest is None or newest.run_id != run.id:
            if await self.record(run) is None:
                raise RequestError(NEVER_BEGAN, 103, status=409, reason="run-not-begun")
            hint = f"the last one is {newest.run_id}. To continue here, fork this run." if newest else "none is stored."
            if newest and run.status == "waiting":
                hint = f"its form has been answered, or its time has passed, and {hint}"
            raise RequestError(
                f"This is not the last run in its session: {hint}", 103, status=409, reason="run-not-last"
            )
        return await self._turns.runner(self._agent, session, is_page=bool(self._page_key))

    async def _require_continuable(self, runner: Runner, session_id: str) -> None:
        """Delete a new session and raise if the canvas of its runner cannot continue the turn in it."""
        try:
            await runner.require_continuable(session_id)
        except CanvasChangedError:
            await self._app_state.store.delete_session(session_id)
            raise

    async def _play(
        self, session: SessionRow | TurnSession, run: Run, question: str | None, *, parent: str = ""
    ) -> Turn:
        if isinstance(session, SessionRow):
            session = TurnSession(session)
        run.record = replace(run.record, parent_run=parent, tenant=self._agent.tenant)
        return await self._turns.play(self._agent, session, run, question, self._policy, page_key=self._page_key)

    async def _end_of(self, run: RunRow) -> str:
        record = await self.record(run)
        if record is None or not record.checkpoint:
            newest = await newest_run(self._app_state.store, run.session_id)
            if newest is None or newest.run_id != run.id:
                raise RequestError(
                    "The checkpoint at which the run ended is unknown; specify one from the session's history.",
                    status=422,
                    reason="place-unknown",
                )
            return ""  # the session's current state
        return record.checkpoint

    async def _continue_to_form(self, run: RunRow) -> RunRow:
        """Continue a fork up to the form at which the original run was waiting."""
        with use_notes(RequestNotes(tenant=self._agent.tenant)):  # the next run answers the request
            turn = await self.continue_(run)
        async with aclosing(turn.events()) as events:
            async for _ in events:
                pass
        return await self.run(turn.envelope.message_id)

    async def _find_unstored_question(self, runner: Runner, session: SessionRow) -> str | None:
        """Return the question from a turn whose process died before storing it, or None if it has been stored."""
        history: Sequence[Any] = (await runner.state(session.id)).get("history") or []
        questions = [payload for role, payload in history if role == "user"]
        messages = (await self._sessions.messages([session.id]))[session.id]
        stored_count = sum(row.role == "user" for row in messages)
        return to_text(questions[-1]) if len(questions) > stored_count else None

    async def _copy(
        self,
        session: SessionRow,
        target: str,
        name: str,
        state: Mapping[str, Any],
        changes: Mapping[str, Any] | None,
        *,
        answered_by: str = "",
        version: VersionRow | None = None,
    ) -> SessionRow:
        """Create a copy of a session, with the messages up to the given state, that may use another version.

        ``answered_by`` is the run to which the last answer belongs in the copy, or ``""`` if its turn is still open:
        it then shows the question that ``changes`` have put in place of the user's.
        """
        copy = copy_session(session, target, name, version, self._app_state.now_ms())
        copy.stored_bytes = self._app_state.store.take_written_bytes(target)
        users = sum(role == "user" for role, _ in state.get("history") or ())
        messages = (await self._sessions.messages([session.id]))[session.id]
        copies = copy_messages(messages_before(messages, users, is_open=not answered_by), target)
        if answered_by and copies and copies[-1].role == "assistant":
            copies[-1].run_id = answered_by
        asked = next((row for row in reversed(copies) if row.role == "user"), None)
        if not answered_by and asked is not None and asked.content == _question(state):
            asked.content = _question(state, changes)
        await self._sessions.add(copy, *copies)
        return copy


BRANCH = "↳ "
"""What the names of sessions begin with that were made from others."""


def _question(state: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> str:
    """Return what the user has asked in the last turn, or what ``changes`` have put in its place."""
    questions = [payload for role, payload in state.get("history") or () if role == "user"]
    return to_text((changes or {}).get("sys.query", questions[-1])) if questions else ""


async def _name_branch(
    runner: Runner,
    session: SessionRow,
    target: str,
    state: Mapping[str, Any],
    changes: Mapping[str, Any] | None,
    node: str = "",
    *,
    is_draft: bool,
) -> str:
    """Return a name that says where a new session begins: the node that runs next, and the question of its turn."""
    following: Sequence[str] = [node]
    nodes = cast("Mapping[str, PlanNode]", runner.plan.nodes)
    if not node:
        async with aclosing(cast("AsyncGenerator[CheckpointInfo]", runner.history(target))) as steps:
            newest = await anext(steps, None)
        following = newest.next if newest is not None else ()
    titles = ", ".join((id_ in nodes and nodes[id_].title) or id_ for id_ in following)
    titles += " (draft)" if titles and is_draft else ""
    question = (titles and _question(state, changes)) or session.name.removeprefix(BRANCH)
    return BRANCH + ": ".join(part for part in (titles, " ".join(question.split())) if part)


def wrap_answers(pauses: Sequence[Pause], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap plain values as ``{"value": …}``. A map with the key ``value`` is also a plain value."""
    ids = {pause.id for pause in pauses}
    is_by_pause = any(key in ids for key in answers)
    if is_by_pause:
        return {key: _fields(value) for key, value in answers.items()}
    return _fields(answers)


def _fields(answer: Any) -> Any:
    if not isinstance(answer, Mapping):
        return answer
    return {name: {"value": value} for name, value in cast("Mapping[str, Any]", answer).items()}


def _place_error(error: CheckpointError) -> Exception:
    """Distinguish an invalid checkpoint or node specified by the client from a store failure."""
    if isinstance(error, ConflictError) or error.__cause__ is not None:
        return error
    text = str(error).partition(" List them with: ragflow-lg")[0]
    return RequestError(text, 101, status=422, reason="place-unknown")
