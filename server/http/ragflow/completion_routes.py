"""RAGFlow's routes that play turns: completions, old and new, streamed or not; and cancelling."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RagflowLgError, RequestError, RunInterruptedError
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.http.openai.openai_routes import run_openai_turn
from ragflow_lg.server.http.ragflow.ragflow_frames import (
    DONE,
    AnswerCollector,
    Forwarding,
    FrameBuilder,
    build_error_frame,
    write_frame,
)
from ragflow_lg.server.http.shared.agent_lookup import NO_ACCESS, load_agent
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_following import (
    StreamPosition,
    await_while_connected,
    read_disconnect_policy,
    read_position,
)
from ragflow_lg.server.http.shared.event_stream import EventStream
from ragflow_lg.server.http.shared.request_parsing import build_turn_request, parse_flag, read_body, read_query, to_text
from ragflow_lg.server.http.shared.responses import respond, respond_plain, to_request_error
from ragflow_lg.server.streaming.positions import event_id
from ragflow_lg.wire.wire_events import Message, MessageEnd

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow, SessionRow, VersionRow
    from ragflow_lg.server.runs.turns import Turn
    from ragflow_lg.wire.wire_events import Envelope, WireEvent

__all__ = ["respond_to_page", "respond_with_turn", "router"]

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: completions"])


@router.post("/agents/chat/completions")
@router.post("/agents/chat/completion")
async def complete(request: Request, caller: Authenticated) -> Response:
    """Play a turn of the agent ``agent_id``."""
    body = await read_body(request)
    agent_id = to_text(body.get("agent_id"))
    if not agent_id:
        raise RequestError("`agent_id` is required.", 101)
    return await _complete(request, caller, agent_id, body, is_old_path=False)


@router.post("/agents/{agent_id}/completions")
async def complete_of_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Play a turn; clients up to 0.25.0 ask here."""
    return await _complete(request, caller, agent_id, await read_body(request), is_old_path=True)


@router.post("/tasks/{task_id}/cancel")
async def cancel_task(task_id: str, request: Request, caller: Authenticated) -> Response:
    """Stop the turn of a session. One that nobody knows, or that is another's, is left alone without a word."""
    if await SessionRepository(get_app_state(request).database, caller.tenant).get(task_id) is not None:
        await get_turns(request).cancel(task_id)
    return respond(True)


async def respond_to_page(request: Request, caller: ApiCaller, agent: AgentRow, body: dict[str, Any]) -> Response:
    """Play a turn for an embedded page: streamed unless it asks otherwise, all events, in a session of clients.

    Raises:
        RequestError: if the request does not fit.
    """
    place, turns = read_position(request), get_turns(request)
    if place.run_id:
        envelope, _ = await _run_of(request, caller, agent, place.run_id)
        events = turns.wire_events(place.run_id)
    else:
        policy = read_disconnect_policy(request)
        session, version = await _session(request, caller, agent, body, source="agent")
        turn = await turns.begin(agent, session, build_turn_request(caller, session, body), policy, version)
        envelope, events = turn.run.envelope, turn.numbered_events()
    if not parse_flag(body.get("stream"), default=True):
        collected = AnswerCollector(envelope, "all", has_trace=False)
        return await await_while_connected(request, _whole(events, collected, envelope, caller))
    if place.after:
        events = turns.wire_events(place.run_id, place.after)
    first = await anext(events, None)  # what is refused at once is no stream yet
    frames = FrameBuilder(envelope, "all", has_trace=False)
    streamed = _stream(first, events, frames, place, error_prefix="Error 102: ")
    return EventStream(streamed, get_app_state(request).settings.server.heartbeat_s)


async def _complete(
    request: Request, caller: ApiCaller, agent_id: str, body: dict[str, Any], *, is_old_path: bool
) -> Response:
    agent = await load_agent(request, caller, agent_id)
    if parse_flag(body.get("openai-compatible")):
        return await run_openai_turn(request, caller, agent, body)
    place = read_position(request)
    turns = get_turns(request)
    forwarding: Forwarding
    if place.run_id:
        envelope, forwarding = await _run_of(request, caller, agent, place.run_id)
        events = turns.wire_events(place.run_id)
    else:
        policy = read_disconnect_policy(request)
        session, version = await _session(request, caller, agent, body)
        forwarding = "session" if session.source == "agent" else "all"
        turn = await turns.begin(agent, session, build_turn_request(caller, session, body), policy, version)
        envelope, events = turn.run.envelope, turn.numbered_events()
    if is_old_path:
        forwarding = "messages"
    has_trace = parse_flag(body.get("return_trace"))
    if not parse_flag(body.get("stream"), default=is_old_path and caller.is_old):
        collected = AnswerCollector(envelope, forwarding, has_trace=has_trace)
        return await await_while_connected(request, _whole(events, collected, envelope, caller))
    if place.after and not (has_trace and forwarding != "all"):  # a trace is told from its beginning
        events = turns.wire_events(place.run_id, place.after)
    first = await anext(events, None)  # what is refused at once is no stream yet
    frames = FrameBuilder(envelope, forwarding, has_trace=has_trace)
    heartbeat_s = 0.0 if is_old_path else get_app_state(request).settings.server.heartbeat_s
    return EventStream(_stream(first, events, frames, place), heartbeat_s)


async def respond_with_turn(
    request: Request, caller: ApiCaller, turn: Turn, body: dict[str, Any], *, is_streamed: bool
) -> Response:
    """Answer with a turn that begins, its events or the whole of it."""
    envelope, events, place = turn.run.envelope, turn.numbered_events(), StreamPosition(read_position(request).has_ids)
    has_trace = parse_flag(body.get("return_trace"))
    if not is_streamed:
        collected = AnswerCollector(envelope, "all", has_trace=has_trace)
        return await await_while_connected(request, _whole(events, collected, envelope, caller))
    first = await anext(events, None)
    frames = FrameBuilder(envelope, "all", has_trace=has_trace)
    return EventStream(_stream(first, events, frames, place), get_app_state(request).settings.server.heartbeat_s)


async def _run_of(request: Request, caller: ApiCaller, agent: AgentRow, run_id: str) -> tuple[Envelope, Forwarding]:
    """Give the envelope of a run that its client comes back to, and which events that expects."""
    head = await get_turns(request).head(caller.tenant, run_id)
    session = await SessionRepository(get_app_state(request).database, caller.tenant).get(head.envelope.session_id)
    if session is None or session.agent_id != agent.id:
        raise RequestError("Session not found!", status=404)
    return head.envelope, "session" if session.source == "agent" else "all"


async def _session(
    request: Request, caller: ApiCaller, agent: AgentRow, body: dict[str, Any], source: str = "workflow"
) -> tuple[SessionRow, VersionRow | None]:
    """Give the session that is named, or a new one; and the version of that."""
    session_id = to_text(body.get("session_id"))
    if session_id:
        session = await SessionRepository(get_app_state(request).database, caller.tenant).get(session_id)
        if session is None:
            raise RequestError("Session not found!", status=404)
        if session.agent_id != agent.id:
            raise RequestError(NO_ACCESS, 103, status=404, data=False, has_data=True)
        return session, None
    turns = get_turns(request)
    version = await turns.version(agent, is_released=parse_flag(body.get("release")))
    query = read_query(body)
    session, _ = await turns.open_session(
        agent,
        version,
        user_id=to_text(body.get("user_id")) or caller.tenant,
        name=to_text(body.get("name")) or (query if isinstance(query, str) else ""),
        source=source,
    )
    return session, version


async def _whole(
    events: AsyncGenerator[tuple[int, WireEvent]], collected: AnswerCollector, envelope: Envelope, caller: ApiCaller
) -> Response:
    try:
        async with aclosing(events):
            async for _, event in events:
                collected.feed(event)
    except RagflowLgError as error:
        refused = to_request_error(error)
        if caller.is_old:
            return respond_plain(f"**ERROR**: {error}")
        session = {"session_id": envelope.session_id}
        raise RequestError(str(error), refused.number, status=409, data=session, has_data=True) from error
    return respond_plain(collected.answer())


async def _stream(
    first: tuple[int, WireEvent] | None,
    events: AsyncGenerator[tuple[int, WireEvent]],
    frames: FrameBuilder,
    place: StreamPosition,
    *,
    error_prefix: str = "**ERROR**: ",
) -> AsyncGenerator[bytes]:
    envelope = frames.envelope
    run_id = envelope.message_id
    pair = first
    try:
        async with aclosing(events):
            if pair is None and not place.after:
                yield write_frame({"session_id": envelope.session_id, "data": {}})
            while pair is not None:
                number, event = pair
                if (frame := frames.frame(event)) is not None and number > place.after:
                    yield write_frame(frame, event_id(run_id, number) if place.has_ids else "")
                pair = await anext(events, None)
    except RagflowLgError as error:
        if place.has_ids and isinstance(error, RunInterruptedError):
            return  # no end: its client comes back, and goes on where it was
        yield write_frame(envelope.wrap(Message(f"{error_prefix}{error}")))
        # The oldest clients fall over the frame of errors; the end of a message they understand.
        is_oldest = frames.forwarding == "messages"
        yield write_frame(envelope.wrap(MessageEnd()) if is_oldest else build_error_frame(str(error)))
    yield DONE
