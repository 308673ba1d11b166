"""Agents as models of an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RagflowLgError, RequestError
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.engine.prior_messages import merge_by_role
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.http.shared.agent_lookup import load_agent
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_following import await_while_connected, read_disconnect_policy
from ragflow_lg.server.http.shared.event_stream import EventStream
from ragflow_lg.server.http.shared.request_parsing import (
    MAX_PAGE_SIZE,
    build_turn_request,
    parse_flag,
    read_body,
    to_text,
)
from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.wire.wire_events import Message, MessageEnd, UserInputs

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow, SessionRow
    from ragflow_lg.server.runs.turns import Turn
    from ragflow_lg.wire.wire_events import WireEvent

__all__ = ["is_openai_path", "respond_openai_error", "router", "run_openai_turn"]

router = APIRouter(tags=["OpenAI-compatible"])


DONE = b"data: [DONE]\n\n"
MAX_MODELS = 1000
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_UNREAD = frozenset({"image_url", "input_image", "input_audio", "video_url", "input_video", "file", "input_file"})
"""Types of parts that say something which is no text."""
_NO_RETRY = {"x-should-retry": "false"}
"""The openai package would play a turn that failed again, whatever it has done."""


def is_openai_path(path: str) -> bool:
    """Tell whether errors of a path are told in OpenAI's shape."""
    is_ragflow = path.startswith("/v1/document/")  # an old route of its own
    return path.startswith(("/v1/", "/api/v1/agents_openai/")) and not is_ragflow


def respond_openai_error(error: RequestError) -> Response:
    """Answer that a request is refused."""
    message = "Invalid access token." if error.status == 401 else str(error)
    kind = _TYPES.get(error.status, "server_error" if error.status >= 500 else "invalid_request_error")
    body = {"error": {"message": message, "type": kind, "param": None, "code": error.reason or None}}
    return Response(encode_json(body), error.status, media_type="application/json", headers=_NO_RETRY)


@router.get("/v1/models")
async def list_models(request: Request, caller: Authenticated) -> Response:
    """List the agents as models."""
    agents, rows = AgentRepository(get_app_state(request).database, caller.tenant), list[Any]()
    for page in range(1, MAX_MODELS // MAX_PAGE_SIZE + 1):
        found, total = await agents.find(AgentQuery(page=page, page_size=MAX_PAGE_SIZE))
        rows += [_model(agent) for agent in found]
        if len(rows) >= total:
            break
    return _json({"object": "list", "data": rows})


@router.get("/v1/models/{agent_id}")
async def get_model(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Show an agent as a model."""
    return _json(_model(await _agent_of_model(request, caller, agent_id)))


@router.get("/api/v1/agents_openai/{agent_id}/models")
async def list_model(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """List the one model of an agent's own endpoint."""
    return _json({"object": "list", "data": [_model(await load_agent(request, caller, agent_id))]})


@router.post("/v1/chat/completions")
async def complete(request: Request, caller: Authenticated) -> Response:
    """Play a turn of the agent whose id is the model."""
    body = await read_body(request)
    agent = await _agent_of_model(request, caller, to_text(body.get("model")))
    return await run_openai_turn(request, caller, agent, body)


@router.post("/api/v1/agents_openai/{agent_id}/chat/completions")
async def complete_of_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Play a turn; whatever model is named."""
    agent = await load_agent(request, caller, agent_id)
    return await run_openai_turn(request, caller, agent, await read_body(request))


async def run_openai_turn(request: Request, caller: ApiCaller, agent: AgentRow, body: dict[str, Any]) -> Response:
    """Play a turn of an agent and answer as OpenAI does.

    Raises:
        RequestError: if the request does not fit.
    """
    said = _said(body)
    last = max((place for place, (role, _) in enumerate(said) if role == "user"), default=None)
    if last is None and not body.get("inputs"):
        raise RequestError("You have to provide messages: at least one message of the role user.", 102)
    query, earlier = ("", list[list[str]]()) if last is None else (said[last][1], merge_by_role(said[:last]))
    policy = read_disconnect_policy(request)
    session, is_new = await _session(request, caller, agent, body, query, earlier)
    if body.get("inputs") and not is_new and await _is_waiting(request, agent, session):
        query = ""  # the fields are the answer; the last message is one that has been answered
    asked = sum(estimate_tokens(text) for _, text in said)
    given = build_turn_request(caller, session, {**body, "query": query, "question": ""})
    if is_new and earlier:
        given["earlier"] = earlier
    turn = await get_turns(request).begin(agent, session, given, policy)
    shapes = _Shapes(session.id, agent.id, turn.run.envelope.created_at, asked)
    events = turn.events()
    if not parse_flag(body.get("stream")):
        return await await_while_connected(request, _whole(turn, events, shapes))
    first = await anext(events, None)
    return EventStream(_stream(first, events, turn, shapes), get_app_state(request).settings.server.heartbeat_s)


async def _agent_of_model(request: Request, caller: ApiCaller, model: str) -> AgentRow:
    """Give the agent that a model stands for; people write its title there."""
    try:
        return await load_agent(request, caller, model)
    except RequestError as error:
        told = f"There is no agent of the id {model[:64]!r}; `GET /v1/models` lists yours."
        raise RequestError(told, error.number, status=404, reason="model_not_found") from None


async def _session(
    request: Request, caller: ApiCaller, agent: AgentRow, body: dict[str, Any], query: str, earlier: list[list[str]]
) -> tuple[SessionRow, bool]:
    """Give the session that is named, or a new one, which begins with what was said ``earlier``; and whether it is."""
    metadata: Any = body.get("metadata")
    named: Any = cast("dict[str, Any]", metadata).get("id") if isinstance(metadata, dict) else ""
    session_id = to_text(body.get("session_id")) or to_text(body.get("id")) or to_text(named)
    if session_id:
        session = await SessionRepository(get_app_state(request).database, caller.tenant).get(session_id)
        if session is None or session.agent_id != agent.id:
            raise RequestError("Session not found!", status=404)
        return session, False
    turns = get_turns(request)
    version = await turns.version(agent, is_released=parse_flag(body.get("release")))
    user = to_text(body.get("user_id")) or to_text(body.get("user")) or caller.tenant
    session, _ = await turns.open_session(agent, version, user_id=user, name=query, source="workflow", earlier=earlier)
    return session, True


async def _is_waiting(request: Request, agent: AgentRow, session: SessionRow) -> bool:
    runner = await get_turns(request).runner(agent, session)
    return bool(await runner.pauses(session.id))


def _said(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Give the role and the text of each message, oldest first; a content may be a list of parts.

    Raises:
        RequestError: if the messages are no list of objects, or one of them holds a part that is not read.
    """
    messages: Any = body.get("messages") or []
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in cast("list[Any]", messages)):
        raise RequestError("`messages` should be a list of objects.", 102)
    given = cast("list[dict[str, Any]]", messages)
    if any(not isinstance(message.get("content"), str | list | None) for message in given):
        raise RequestError("The `content` of a message should be a text, or a list of parts.", 102)
    for place, message in enumerate(given):
        _refuse_unread(message, f"messages[{place}].content")
    return [(to_text(message.get("role")), _content(message.get("content"))) for message in given]


def _refuse_unread(message: dict[str, Any], name: str) -> None:
    """Refuse pictures, sound and files among the parts: they would be lost without a word."""
    if message.get("role") not in ("user", "assistant") or not isinstance(message.get("content"), list):
        return
    for place, part in enumerate(cast("list[Any]", message["content"])):
        kind = to_text(cast("dict[str, Any]", part).get("type")) if isinstance(part, dict) else ""
        if kind in _UNREAD:
            raise RequestError(
                f"{name}[{place}] is a part of the type {kind!r}, which is not read. Upload the file with "
                "`POST /api/v1/agents/ID/upload`, and send the `data` of its answer in a list as `files`, "
                "beside `messages`.",
                101,
            )


def _content(content: Any) -> str:
    if not isinstance(content, list):
        return to_text(content)
    parts = cast("list[Any]", content)
    return "\n".join(to_text(cast("dict[str, Any]", part).get("text")) for part in parts if isinstance(part, dict))


async def _whole(turn: Turn, events: AsyncGenerator[WireEvent], shapes: _Shapes) -> Response:
    said: list[str] = []
    reference: dict[str, Any] = {}
    form: UserInputs | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Message):
                said.append(_text(event))
            elif isinstance(event, MessageEnd):
                reference = _reference(event) or reference
            elif isinstance(event, UserInputs):
                form = event
    if turn.run.status == "failed":
        raise RequestError(turn.run.error or "The run failed.", 500, status=500)
    text = "".join(said) or (form.tips if form is not None else "")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reference:
        message["reference"] = reference
    if form is not None:
        message["waiting_for_user"] = form.data()
    return _json(shapes.whole(message, text, "waiting_for_user" if form is not None else "stop"))


async def _stream(
    first: WireEvent | None, events: AsyncGenerator[WireEvent], turn: Turn, shapes: _Shapes
) -> AsyncGenerator[bytes]:
    said: list[str] = []
    end: dict[str, Any] = {}
    reason = "stop"
    event = first
    try:
        async with aclosing(events):
            while event is not None:
                if isinstance(event, Message):
                    said.append(_text(event))
                    yield shapes.chunk({"content": said[-1]})
                elif isinstance(event, MessageEnd):
                    reference = _reference(event)
                    yield shapes.chunk({"content": "", **({"reference": reference} if reference else {})})
                elif isinstance(event, UserInputs):
                    reason, end = "waiting_for_user", {"waiting_for_user": event.data()}
                    if event.tips and not any(said):
                        said.append(event.tips)
                        yield shapes.chunk({"content": event.tips})
                event = await anext(events, None)
        error = (turn.run.error or "The run failed.") if turn.run.status == "failed" else ""
    except RagflowLgError as failure:
        error = str(failure)
    if error:
        yield shapes.chunk({"content": f"**ERROR**: {error}", "error": error})
    yield shapes.chunk({"content": "", **end}, reason, shapes.usage("".join(said)))
    yield DONE


class _Shapes:
    """Makes the objects that OpenAI's clients read."""

    def __init__(self, id_: str, model: str, created: int, prompt_tokens: int) -> None:
        self._id = id_
        self._model = model
        self._created = created
        self._prompt_tokens = prompt_tokens

    def usage(self, text: str) -> dict[str, Any]:
        """Estimate the tokens of the messages and of the answer."""
        written = estimate_tokens(text)
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": written,
            "total_tokens": self._prompt_tokens + written,
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "accepted_prediction_tokens": written,
                "rejected_prediction_tokens": 0,
            },
        }

    def chunk(self, delta: dict[str, Any], reason: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
        """Make a frame of a stream."""
        content, more = delta["content"], {name: value for name, value in delta.items() if name != "content"}
        shown = {"content": content, "role": "assistant", "function_call": None, "tool_calls": None, **more}
        frame = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "system_fingerprint": "",
            "usage": usage,
            "choices": [{"delta": shown, "finish_reason": reason, "index": 0, "logprobs": None}],
        }
        return b"data: " + encode_json(frame) + b"\n\n"

    def whole(self, message: dict[str, Any], text: str, reason: str) -> dict[str, Any]:
        """Make the answer of those who do not stream."""
        return {
            "id": self._id,
            "object": "chat.completion",
            "created": self._created,
            "model": self._model,
            "param": None,
            "usage": self.usage(text),
            "choices": [{"message": message, "logprobs": None, "finish_reason": reason, "index": 0}],
        }


def _text(event: Message) -> str:
    if event.start_to_think:
        return "<think>"
    return "</think>" if event.end_to_think else event.content


def _reference(event: MessageEnd) -> dict[str, Any]:
    found = event.extras.get("reference")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _model(agent: AgentRow) -> dict[str, Any]:
    return {
        "id": agent.id,
        "object": "model",
        "created": agent.create_ms // 1000,
        "owned_by": agent.tenant,
        "name": agent.title,
    }


def _json(body: dict[str, Any]) -> Response:
    return Response(encode_json(body), media_type="application/json")
