"""The Agent2Agent protocol as a further API of the server: how much code a new surface needs.

A context is a session and a task is a run. A form makes a task wait for input; the next message answers it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from msgspec import Struct, ValidationError, convert, field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ragflow_lg.base.errors import RagflowLgError, RequestError
from ragflow_lg.runs.wire.answer_text import AnswerText
from ragflow_lg.runs.wire.wire_events import MessageReset
from ragflow_lg.server.agents.agent_versions import DRAFT
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import EventStream, await_while_connected
from ragflow_lg.server.http.shared.request_bodies import read_body, to_text
from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.server.http.shared.row_loading import load_agent, load_turn_rows
from ragflow_lg.server.http.shared.turn_sessions import QuestionFields, build_turn_request, open_turn_session

if TYPE_CHECKING:
    from ragflow_lg.server.runs.turns import Turn

router = APIRouter(prefix="/a2a", tags=["Agent2Agent"])

_INVALID_REQUEST, _NO_METHOD, _FAILED = -32600, -32601, -32000


@router.get("/{agent_id}/.well-known/agent-card.json")
async def show_card(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Describe an agent."""
    agent = await load_agent(request, caller, agent_id)
    skill: dict[str, Any] = {"id": agent.id, "name": agent.title, "description": agent.description or "", "tags": []}
    card: dict[str, Any] = {
        "name": agent.title,
        "url": str(request.url_for("call", agent_id=agent.id)),
        "skills": [skill],
    }
    modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
    return JSONResponse({"protocolVersion": "0.3.0", "capabilities": {"streaming": True}, **card, **modes})


@router.post("/{agent_id}")
async def call(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Answer a JSON-RPC request: ``message/send``, ``message/stream`` or ``tasks/cancel``."""
    body = await read_body(request, "turn")
    id_, method = body.get("id"), body.get("method")
    try:
        params = _read_params(body)
        if method == "tasks/cancel":
            head = await get_turns(request).head(caller.tenant, params.id)
            await get_turns(request).cancel(head.envelope.session_id, caller.tenant)
            task = Task(head.run_id, head.envelope.session_id)
            return JSONResponse(_result(id_, task.whole("canceled")))
        if method not in ("message/send", "message/stream"):
            raise RequestError(f"There is no method {str(method)[:40]!r}.", _NO_METHOD)
        turn = await _begin(agent_id, request, caller, params.message)
        frames = _play(turn, Task(turn.envelope.message_id, turn.envelope.session_id), id_)
        if method == "message/stream":
            return EventStream(_encode(frames), get_app_state(request).settings.server.heartbeat_s)
        return await await_while_connected(request, _collect(frames))
    except RagflowLgError as error:
        return JSONResponse(_error(id_, error))


class Part(Struct):
    """A text or the fields of a form."""

    text: str = ""
    data: dict[str, Any] = {}


class UserMessage(Struct):
    """What the user sends."""

    parts: list[Part] = []
    contextId: str = ""


class Params(Struct):
    """The parameters of all methods."""

    id: str = ""
    message: UserMessage = field(default_factory=UserMessage)


def _read_params(body: dict[str, Any]) -> Params:
    try:
        return convert(body.get("params", {}), Params)
    except ValidationError as error:
        raise RequestError(f"Invalid `params`: {error}.", _INVALID_REQUEST) from None


async def _begin(agent_id: str, request: Request, caller: ApiCaller, message: UserMessage) -> Turn:
    """Start a turn in the message's context, or in a new one.

    Raises:
        RequestError: if the message is empty, or there is no such agent or context.
    """
    fields = {name: value for part in message.parts for name, value in part.data.items()}
    query = "\n".join(to_text(part.text) for part in message.parts if part.text)
    if not query and not fields:
        raise RequestError("`message` must have parts with text or data.", _INVALID_REQUEST)
    context, turns = to_text(message.contextId), get_turns(request)
    rows = await load_turn_rows(request, caller, agent_id, context)
    session = await open_turn_session(
        request, rows.agent, context, DRAFT, rows=rows, user_id=caller.tenant, name=query, source="a2a"
    )
    turn_request = build_turn_request(caller, session.row, query, QuestionFields(inputs=fields))
    return await turns.begin(rows.agent, session, turn_request)


class Task:
    """A task of the protocol, and its updates."""

    def __init__(self, id_: str, context: str) -> None:
        self._ids = {"taskId": id_, "contextId": context}
        self.answer = AnswerText()

    def whole(self, state: str) -> dict[str, Any]:
        """Return the task with everything that is known."""
        ids = {"id": self._ids["taskId"], "contextId": self._ids["contextId"]}
        artifacts = [self._artifact(self.answer.text)] if self.answer.text else []
        return {"kind": "task", **ids, "status": self._status(state), "artifacts": artifacts}

    def text(self, text: str, *, is_added: bool) -> dict[str, Any]:
        """Return an update with a text, which is added to the others or replaces them."""
        return {"kind": "artifact-update", **self._ids, "artifact": self._artifact(text), "append": is_added}

    def end(self, state: str) -> dict[str, Any]:
        """Return the last update."""
        return {"kind": "status-update", **self._ids, "status": self._status(state), "final": True}

    def _artifact(self, text: str) -> dict[str, Any]:
        return {"artifactId": "answer", "parts": [{"kind": "text", "text": text}]}

    def _status(self, state: str) -> dict[str, Any]:
        if state != "input-required":
            return {"state": state}
        parts = [{"kind": "text", "text": self.answer.tips}]
        message = {"kind": "message", "role": "agent", "messageId": self._ids["taskId"], "parts": parts}
        return {"state": state, "message": message}


async def _play(turn: Turn, task: Task, id_: Any) -> AsyncGenerator[tuple[Task, dict[str, Any]]]:
    yield task, _result(id_, task.whole("working"))
    try:
        async with aclosing(turn.events()) as events:
            async for _, event in events:
                if text := task.answer.feed(event):
                    yield task, _result(id_, task.text(text, is_added=True))
                elif isinstance(event, MessageReset):
                    yield task, _result(id_, task.text(task.answer.text, is_added=False))
        status, _ = await turn.result()
        states = {"succeeded": "completed", "waiting": "input-required", "cancelled": "canceled"}
        yield task, _result(id_, task.end(states.get(status, "failed")))
    except RagflowLgError as error:
        yield task, _error(id_, error)


async def _encode(frames: AsyncGenerator[tuple[Task, dict[str, Any]]]) -> AsyncGenerator[bytes]:
    async with aclosing(frames):
        async for _, frame in frames:
            yield b"data: " + encode_json(frame) + b"\n\n"


async def _collect(frames: AsyncGenerator[tuple[Task, dict[str, Any]]]) -> Response:
    last: dict[str, Any] = {}
    async with aclosing(frames):
        async for task, last in frames:
            if "result" in last:
                last["result"] = task.whole(last["result"].get("status", {}).get("state", "working"))
    return JSONResponse(last)


def _result(id_: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def _error(id_: Any, error: RagflowLgError) -> dict[str, Any]:
    number = error.number if isinstance(error, RequestError) and error.number < 0 else _FAILED
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": number, "message": str(error)}}
