"""RAGFlow's routes that play turns: completions, old and new, streamed or not; and cancelling."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RagflowLgError, RequestError, RunInterruptedError
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.http.openai.openai_routes import openai_answer
from ragflow_lg.server.http.ragflow.ragflow_frames import DONE, Collected, Forwarding, Frames, error_frame, sse
from ragflow_lg.server.http.shared.agent_lookup import NO_ACCESS, agent_of
from ragflow_lg.server.http.shared.auth import Caller, app_state_of, authenticated, turns_of
from ragflow_lg.server.http.shared.event_following import Place, place_in, policy_of, while_there
from ragflow_lg.server.http.shared.event_stream import EventStream
from ragflow_lg.server.http.shared.request_parsing import body_of, flag, text_of
from ragflow_lg.server.http.shared.responses import answer, request_error, result
from ragflow_lg.server.http.shared.turn_request import asked_of, query_of
from ragflow_lg.server.streaming.positions import event_id
from ragflow_lg.wire.wire_events import Message, MessageEnd

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow, SessionRow, VersionRow
    from ragflow_lg.server.runs.turns import Turn
    from ragflow_lg.wire.wire_events import Envelope, WireEvent

__all__ = ["answer_turn", "complete_of_page", "router"]

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: completions"])

Authenticated = Annotated[Caller, Depends(authenticated)]


@router.post("/agents/chat/completions")
@router.post("/agents/chat/completion")
async def complete(request: Request, caller: Authenticated) -> Response:
    """Play a turn of the agent ``agent_id``."""
    body = await body_of(request)
    agent_id = text_of(body.get("agent_id"))
    if not agent_id:
        raise RequestError("`agent_id` is required.", 101)
    return await _complete(request, caller, agent_id, body, is_old_path=False)


@router.post("/agents/{agent_id}/completions")
async def complete_of_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Play a turn; clients up to 0.25.0 ask here."""
    return await _complete(request, caller, agent_id, await body_of(request), is_old_path=True)


@router.post("/tasks/{task_id}/cancel")
async def cancel_task(task_id: str, request: Request, caller: Authenticated) -> Response:
    """Stop the turn of a session. One that nobody knows, or that is another's, is left alone without a word."""
    if await SessionRepository(app_state_of(request).database, caller.tenant).get(task_id) is not None:
        await turns_of(request).cancel(task_id)
    return answer(True)


async def complete_of_page(request: Request, caller: Caller, agent: AgentRow, body: dict[str, Any]) -> Response:
    """Play a turn for an embedded page: streamed unless it asks otherwise, all events, in a session of clients.

    Raises:
        RequestError: if the request does not fit.
    """
    place, turns = place_in(request), turns_of(request)
    if place.run_id:
        envelope, _ = await _run_of(request, caller, agent, place.run_id)
        events = turns.wire_events(place.run_id)
    else:
        policy = policy_of(request)
        session, version = await _session(request, caller, agent, body, source="agent")
        turn = await turns.begin(agent, session, asked_of(caller, session, body), policy, version)
        envelope, events = turn.run.envelope, turn.numbered_events()
    if not flag(body.get("stream"), default=True):
        collected = Collected(envelope, "all", has_trace=False)
        return await while_there(request, _whole(events, collected, envelope, caller))
    if place.after:
        events = turns.wire_events(place.run_id, place.after)
    first = await anext(events, None)  # what is refused at once is no stream yet
    frames = Frames(envelope, "all", has_trace=False)
    streamed = _stream(first, events, frames, place, error_prefix="Error 102: ")
    return EventStream(streamed, app_state_of(request).settings.server.heartbeat_s)


async def _complete(
    request: Request, caller: Caller, agent_id: str, body: dict[str, Any], *, is_old_path: bool
) -> Response:
    agent = await agent_of(request, caller, agent_id)
    if flag(body.get("openai-compatible")):
        return await openai_answer(request, caller, agent, body)
    place = place_in(request)
    turns = turns_of(request)
    forwarding: Forwarding
    if place.run_id:
        envelope, forwarding = await _run_of(request, caller, agent, place.run_id)
        events = turns.wire_events(place.run_id)
    else:
        policy = policy_of(request)
        session, version = await _session(request, caller, agent, body)
        forwarding = "session" if session.source == "agent" else "all"
        turn = await turns.begin(agent, session, asked_of(caller, session, body), policy, version)
        envelope, events = turn.run.envelope, turn.numbered_events()
    if is_old_path:
        forwarding = "messages"
    has_trace = flag(body.get("return_trace"))
    if not flag(body.get("stream"), default=is_old_path and caller.is_old):
        collected = Collected(envelope, forwarding, has_trace=has_trace)
        return await while_there(request, _whole(events, collected, envelope, caller))
    if place.after and not (has_trace and forwarding != "all"):  # a trace is told from its beginning
        events = turns.wire_events(place.run_id, place.after)
    first = await anext(events, None)  # what is refused at once is no stream yet
    frames = Frames(envelope, forwarding, has_trace=has_trace)
    heartbeat_s = 0.0 if is_old_path else app_state_of(request).settings.server.heartbeat_s
    return EventStream(_stream(first, events, frames, place), heartbeat_s)


async def answer_turn(
    request: Request, caller: Caller, turn: Turn, body: dict[str, Any], *, is_streamed: bool
) -> Response:
    """Answer with a turn that begins, its events or the whole of it."""
    envelope, events, place = turn.run.envelope, turn.numbered_events(), Place(place_in(request).has_ids)
    has_trace = flag(body.get("return_trace"))
    if not is_streamed:
        collected = Collected(envelope, "all", has_trace=has_trace)
        return await while_there(request, _whole(events, collected, envelope, caller))
    first = await anext(events, None)
    frames = Frames(envelope, "all", has_trace=has_trace)
    return EventStream(_stream(first, events, frames, place), app_state_of(request).settings.server.heartbeat_s)


async def _run_of(request: Request, caller: Caller, agent: AgentRow, run_id: str) -> tuple[Envelope, Forwarding]:
    """Give the envelope of a run that its client comes back to, and which events that expects."""
    head = await turns_of(request).head(caller.tenant, run_id)
    session = await SessionRepository(app_state_of(request).database, caller.tenant).get(head.envelope.session_id)
    if session is None or session.agent_id != agent.id:
        raise RequestError("Session not found!", status=404)
    return head.envelope, "session" if session.source == "agent" else "all"


async def _session(
    request: Request, caller: Caller, agent: AgentRow, body: dict[str, Any], source: str = "workflow"
) -> tuple[SessionRow, VersionRow | None]:
    """Give the session that is named, or a new one; and the version of that."""
    session_id = text_of(body.get("session_id"))
    if session_id:
        session = await SessionRepository(app_state_of(request).database, caller.tenant).get(session_id)
        if session is None:
            raise RequestError("Session not found!", status=404)
        if session.agent_id != agent.id:
            raise RequestError(NO_ACCESS, 103, status=404, data=False, has_data=True)
        return session, None
    turns = turns_of(request)
    version = await turns.version(agent, is_released=flag(body.get("release")))
    query = query_of(body)
    session, _ = await turns.open_session(
        agent,
        version,
        user_id=text_of(body.get("user_id")) or caller.tenant,
        name=text_of(body.get("name")) or (query if isinstance(query, str) else ""),
        source=source,
    )
    return session, version


async def _whole(
    events: AsyncGenerator[tuple[int, WireEvent]], collected: Collected, envelope: Envelope, caller: Caller
) -> Response:
    try:
        async with aclosing(events):
            async for _, event in events:
                collected.feed(event)
    except RagflowLgError as error:
        refused = request_error(error)
        if caller.is_old:
            return result(f"**ERROR**: {error}")
        session = {"session_id": envelope.session_id}
        raise RequestError(str(error), refused.number, status=409, data=session, has_data=True) from error
    return result(collected.answer())


async def _stream(
    first: tuple[int, WireEvent] | None,
    events: AsyncGenerator[tuple[int, WireEvent]],
    frames: Frames,
    place: Place,
    *,
    error_prefix: str = "**ERROR**: ",
) -> AsyncGenerator[bytes]:
    envelope = frames.envelope
    run_id = envelope.message_id
    pair = first
    try:
        async with aclosing(events):
            if pair is None and not place.after:
                yield sse({"session_id": envelope.session_id, "data": {}})
            while pair is not None:
                number, event = pair
                if (frame := frames.frame(event)) is not None and number > place.after:
                    yield sse(frame, event_id(run_id, number) if place.has_ids else "")
                pair = await anext(events, None)
    except RagflowLgError as error:
        if place.has_ids and isinstance(error, RunInterruptedError):
            return  # no end: its client comes back, and goes on where it was
        yield sse(envelope.wrap(Message(f"{error_prefix}{error}")))
        # The oldest clients fall over the frame of errors; the end of a message they understand.
        is_oldest = frames.forwarding == "messages"
        yield sse(envelope.wrap(MessageEnd()) if is_oldest else error_frame(str(error)))
    yield DONE
