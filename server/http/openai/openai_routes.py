"""Routes of the OpenAI-compatible API: agents as models, and chat completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import QuotaError, RagflowLgError, RequestError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.dsl.chat_messages import merge_by_role
from ragflow_lg.runs.wire.wire_events import AnswerText, Message, MessageEnd, MessageReset, UserInputs, WireNodeFinished
from ragflow_lg.server.agents.agent_versions import DRAFT, PUBLISHED
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.http.openai.chat_conversations import find_session, read_conversation
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import Options, StreamOptions, await_while_connected, begin_stream
from ragflow_lg.server.http.shared.ragflow_1 import CANCELLED, describe_form, list_reference, speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import OpenaiRoute, Text, make_router, with_examples
from ragflow_lg.server.http.shared.request_bodies import to_text
from ragflow_lg.server.http.shared.responses import respond_json, to_request_error
from ragflow_lg.server.http.shared.turn_sessions import (
    QuestionFields,
    build_turn_request,
    load_agent,
    open_turn_session,
)
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.turn_session import SessionFields, TurnSession
from ragflow_lg.server.streaming.sse import OPENAI_DONE, openai_frame

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import Envelope, WireEvent
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.runs.turns import Turn


def _check_messages(value: Any) -> Any:
    messages: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value] if value else []
    if not all(isinstance(message, dict) for message in messages) or isinstance(value, dict):
        raise RequestError("`messages` must be a list of objects.", 102)
    if any(not isinstance(message.get("content"), str | list | None) for message in messages):
        raise RequestError("The `content` of a message must be a text or a list of parts.", 102)
    return messages


class ChatBody(QuestionFields):
    """A conversation. Its last message with the role `user` is the query.

    With `inputs`, messages are optional; if a form is open, the inputs are the whole answer.
    """

    model_config = with_examples(
        {"model": "0c7f4a1e2b5d11f0", "messages": [{"role": "user", "content": "Where is my parcel?"}]},
        {"model": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    model: Annotated[Any, Field(description="Id of the agent; ignored if the path names an agent.")] = ""
    messages: Annotated[
        list[dict[str, Any]],
        BeforeValidator(_check_messages),
        Field(
            description="Required unless `inputs` is set. Images, audio and files are refused: list them in `files`."
        ),
    ] = Field(default=[])
    id: Annotated[Text, Field(description="Alternative to `session_id`, which takes precedence.")] = ""
    metadata: Annotated[Any, Field(description="`id` is an alternative to `session_id`, which takes precedence.")] = (
        None
    )
    user: Annotated[Text, Field(description="Id of the user; `user_id` takes precedence.")] = ""


router = make_router("OpenAI-compatible", "", OpenaiRoute)

_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


MAX_MODELS = 1000
_QUOTA = "insufficient_quota"
"""OpenAI's type and code for a quota that is used up."""
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_UNSUPPORTED = frozenset({"image_url", "input_image", "input_audio", "video_url", "input_video", "file", "input_file"})
"""Message part types that contain something other than text."""
_RAGFLOW_AREAS = frozenset(
    ("canvas", "chunk", "connector", "dataflow", "document", "file2document", "kb", "langfuse", "llm", "mcp_server")
) | {"plugin", "system", "tenant", "user"}
"""First parts of the paths below `/v1` that RAGFlow has used until 0.25. OpenAI has none of them."""
_USER_HEADER = "x-openwebui-user-id"
_NO_RETRY = {"x-should-retry": "false"}
"""Without it, the `openai` package retries failed turns, which may have had side effects."""


def is_openai_path(path: str) -> bool:
    """Return whether a path belongs to the OpenAI-compatible API and uses its error format."""
    is_ragflow = path.startswith("/v1/") and path.split("/")[2] in _RAGFLOW_AREAS
    return path.startswith(("/v1/", "/api/v1/agents_openai/")) and not is_ragflow


def respond_openai_error(error: RequestError) -> Response:
    """Respond with OpenAI's error object."""
    message = "Missing or invalid API key. `ragflow-lg keys create` creates one." if error.status == 401 else str(error)
    kind = (
        _QUOTA
        if isinstance(error, QuotaError)
        else _TYPES.get(error.status, "server_error" if error.status >= 500 else "invalid_request_error")
    )
    code = kind if kind == _QUOTA else error.reason or None
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return respond_json(body, error.status, _NO_RETRY)


@router.get("/v1/models")
async def list_models(request: Request, caller: Authenticated) -> dict[str, Any]:
    """List the agents as models."""
    agents = AgentRepository(get_app_state(request).database, caller.tenant)
    rows, _ = await agents.find(AgentQuery(page_size=MAX_MODELS))
    return {"object": "list", "data": [_build_model(agent) for agent in rows]}


@router.get("/v1/models/{agent_id}")
async def get_model(agent_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Return an agent as a model."""
    return _build_model(await _load_agent_of_model(request, caller, agent_id))


@router.get("/api/v1/agents_openai/{agent_id}/models")
async def list_model(agent_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """List the only model at an agent's own endpoint."""
    return {"object": "list", "data": [_build_model(await load_agent(request, caller, agent_id))]}


@router.post("/v1/chat/completions", responses=_STREAM)
async def complete(body: ChatBody, request: Request, caller: Authenticated, options: Options) -> Response:
    """Run a turn with the agent whose id or title is given as the model."""
    is_storable = isinstance(body.model, str) and "\0" not in body.model  # no agent has a name that cannot be stored
    agent = await _load_agent_of_model(request, caller, body.model if is_storable else "")
    return await run_openai_turn(request, caller, agent, body, options.policy)


@router.post("/api/v1/agents_openai/{agent_id}/chat/completions", responses=_STREAM)
async def complete_of_agent(
    agent_id: str, body: ChatBody, request: Request, caller: Authenticated, options: Options
) -> Response:
    """Run a turn with the agent in the path; the model in the body is ignored."""
    return await run_openai_turn(request, caller, await load_agent(request, caller, agent_id), body, options.policy)


async def complete_as_openai(
    request: Request, caller: ApiCaller, agent_id: str, body: ChatBody, options: StreamOptions
) -> Response:
    """Run a turn on RAGFlow's own path. 1.0 refuses as OpenAI does, but for messages that are missing."""
    try:
        agent = await load_agent(request, caller, agent_id)
        return await run_openai_turn(request, caller, agent, body, options.policy, may_be_1=True)
    except RagflowLgError as error:
        refusal = to_request_error(error)
        current_notes().is_openai = speaks_1() and (refusal.number, refusal.status) != (102, 400)
        raise


async def run_openai_turn(
    request: Request, caller: ApiCaller, agent: AgentRow, body: ChatBody, policy: str | None, *, may_be_1: bool = False
) -> Response:
    """Run a turn with an agent and respond as OpenAI does.

    ``may_be_1`` says that the path is one of RAGFlow 1.0, whose clients get its ends of a turn.
    """
    messages = [_read_message(number, message) for number, message in enumerate(body.messages)]
    last = max((index for index, (role, _) in enumerate(messages) if role == "user"), default=None)
    if last is None and not body.inputs:
        raise RequestError("You have to provide messages: at least one message of the role user.", 102)
    query, earlier = ("", list[list[str]]()) if last is None else (messages[last][1], merge_by_role(messages[:last]))
    session = await _open_session(request, caller, agent, body, query, earlier)
    if body.inputs and not session.is_new:
        runner = await get_turns(request).runner(agent, session.row)
        if await runner.pauses(session.row.id):
            query = ""  # the fields are the answer; the last message was answered before
    prompt_tokens = sum(estimate_tokens(text) for _, text in messages)
    turn_request = build_turn_request(caller, session.row, query, body)
    if session.is_new and earlier:
        turn_request["earlier"] = earlier
    begun = get_turns(request).begin(agent, session, turn_request, policy)
    make_builder = _ResponseBuilder1 if may_be_1 and speaks_1() else _ResponseBuilder
    builder = make_builder(session.row.id, agent.id, get_app_state(request).now_ms() // 1000, prompt_tokens)
    if body.stream:
        return await begin_stream(request, _begin_chunks(begun, builder), builder.refuse)
    turn = await begun
    builder.begin(turn.envelope)
    return await await_while_connected(request, _collect(turn, turn.events(), builder))


async def _begin_chunks(begun: Coroutine[Any, Any, Turn], builder: _ResponseBuilder) -> AsyncGenerator[bytes]:
    """Wait for the first event of a turn, and return its frames."""
    turn = await begun
    builder.begin(turn.envelope)
    pages = turn.pages()
    first = await anext(pages, None)  # an early refusal must not start a stream
    return _stream_chunks(first, pages, turn, builder)


async def _load_agent_of_model(request: Request, caller: ApiCaller, model: str) -> AgentRow:
    """Load the agent with a model's id, or else the only one with that title."""
    agents = AgentRepository(get_app_state(request).database, caller.tenant)
    if (agent := await agents.get(model)) is not None:
        return agent
    same, count = await agents.find(AgentQuery(title=model, page_size=2)) if model else ([], 0)
    if count > 1:
        message = f"{count} agents have the title {model[:64]!r}; use an id. `GET /v1/models` lists your agents."
        raise RequestError(message, 400, status=400, reason="model_ambiguous")
    if not same:
        audit("agent.refused", agent=model)
        message = f"No agent has the id or the title {model[:64]!r}; `GET /v1/models` lists your agents."
        raise RequestError(message, 404, status=404, reason="model_not_found")
    return same[0]


async def _open_session(
    request: Request, caller: ApiCaller, agent: AgentRow, body: ChatBody, query: str, earlier: list[list[str]]
) -> TurnSession:
    """Return the named session or that of a chat program's conversation, or make one that starts with ``earlier``."""
    metadata_id: Any = as_map(body.metadata).get("id")
    session_id = body.session_id or body.id or to_text(metadata_id)
    user = body.user_id or body.user or request.headers.get(_USER_HEADER, "")
    user_id = user or caller.tenant
    conversation = "" if session_id else read_conversation(request.headers, body.given(), query)
    if conversation:
        sessions = SessionRepository(get_app_state(request).database, caller.tenant)
        if (session := await find_session(sessions, agent.id, user_id, conversation, earlier)) is not None:
            return TurnSession(session)
    version = PUBLISHED if body.release else DRAFT
    fields: SessionFields = {"user_id": user_id, "source": "workflow", "earlier": earlier, "conversation": conversation}
    return await open_turn_session(request, agent, session_id, version, **fields)


def _read_message(number: int, message: dict[str, Any]) -> tuple[str, str]:
    """Return the role and the text of a message. ``content`` may be a list of parts.

    Image, audio and file parts are refused, which would otherwise be ignored silently.
    """
    role, content = to_text(message.get("role")), message.get("content")
    if not isinstance(content, list):
        return role, to_text(content)
    parts = cast("list[Any]", content)
    for index, part in enumerate(parts):
        kind = to_text(as_map(part).get("type"))
        if kind in _UNSUPPORTED and role in ("user", "assistant"):
            raise RequestError(
                f"messages[{number}].content[{index}] has the unsupported type {kind!r}. Upload the file with "
                "`POST /api/v1/agents/ID/upload`, and send the `data` of the response in a list as `files`, "
                "next to `messages`.",
                101,
            )
    return role, "\n".join(to_text(as_map(part).get("text")) for part in parts if isinstance(part, dict))


async def _collect(turn: Turn, events: AsyncGenerator[tuple[int, WireEvent]], builder: _ResponseBuilder) -> Response:
    answer = AnswerText("tagged")
    reference: dict[str, Any] = {}
    async with aclosing(events):
        async for _, event in events:
            answer.feed(event)
            builder.note_end(event)
            if isinstance(event, MessageEnd):
                reference = _get_reference(event) or reference
    status, failure = await turn.result()
    is_blocked = builder.end == "content_filter"
    if status == "failed" and not is_blocked:
        raise RequestError(failure or "The run failed.", 500, status=500)
    text, form = answer.text or answer.tips, answer.form
    builder.require_answer(status, form)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if status == "failed":
        message["refusal"] = failure
    if reference:
        message["reference"] = builder.show_reference(reference)
    if form is not None:
        message["waiting_for_user"] = form.data()
    return respond_json(
        builder.build_completion(message, text, "waiting_for_user" if form is not None else builder.end)
    )


async def _stream_chunks(
    page: list[tuple[int, WireEvent]] | None,
    pages: AsyncGenerator[list[tuple[int, WireEvent]]],
    turn: Turn,
    builder: _ResponseBuilder,
) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(pages):
            while page is not None:
                yield b"".join(builder.build_event(event) for _, event in page)
                page = await anext(pages, None)
        status, failure = await turn.result()
        error = (failure or "The run failed.") if status == "failed" else ""
    except RagflowLgError as failure:
        status, error = "failed", str(failure)
    yield builder.build_end(status, error) + OPENAI_DONE


_ANSWERING = ("LLM", "Agent")
"""The components whose answers may be that of the turn."""


class _ResponseBuilder:
    """A builder for OpenAI response objects."""

    def __init__(self, id_: str, model: str, created: int, prompt_tokens: int) -> None:
        self._id = id_
        self._model = model
        self.created = created
        """When the turn was created, in epoch seconds."""
        self._prompt_tokens = prompt_tokens
        self.texts: list[str] = []
        """The text of the stream so far."""
        self.form: UserInputs | None = None
        """The form that the turn waits at."""
        self.end = "stop"
        """Why the last answer of a model ended."""

    def begin(self, envelope: Envelope) -> None:
        """Note the turn that answers the request. An earlier request may have begun it."""
        self._id, self.created = envelope.session_id, envelope.created_at

    def note_end(self, event: WireEvent) -> None:
        if isinstance(event, WireNodeFinished) and event.component_type in _ANSWERING:
            self.end = event.finish_reason or "stop"

    def build_event(self, event: WireEvent) -> bytes:
        self.note_end(event)
        if isinstance(event, Message) and not event.audio_binary:  # chunks contain text only
            text = "</think>" if event.end_to_think else event.content
            self.texts.append("<think>" if event.start_to_think else text)
            return self.build_chunk({"content": self.texts[-1]})
        if isinstance(event, MessageReset):  # what was sent cannot be taken back
            return self.build_chunk({"content": "", "message_reset": event.data()})
        if isinstance(event, MessageEnd):
            reference = _get_reference(event)
            shown = {"reference": self.show_reference(reference)} if reference else {}
            return self.build_chunk({"content": "", **shown})
        if isinstance(event, UserInputs):
            self.form = event
            if event.tips and not any(self.texts):
                self.texts.append(event.tips)
                return self.build_chunk({"content": event.tips})
        return b""

    def estimate_usage(self, text: str) -> dict[str, Any]:
        """Return the estimated token counts of the messages and the answer."""
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

    def build_chunk(
        self, delta: dict[str, Any], reason: str | None = None, usage: dict[str, Any] | None = None
    ) -> bytes:
        content, more = delta["content"], {name: value for name, value in delta.items() if name != "content"}
        choice_delta = {"content": content, "role": "assistant", "function_call": None, "tool_calls": None, **more}
        frame = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self._model,
            "system_fingerprint": "",
            "usage": usage,
            "choices": [{"delta": choice_delta, "finish_reason": reason, "index": 0, "logprobs": None}],
        }
        return openai_frame(frame)

    def build_end(self, status: str, error: str) -> bytes:
        """Return the last chunks of a turn."""
        failure = self.build_chunk({"content": f"**ERROR**: {error}", "error": error}) if error else b""
        form = self.form
        reason, end = ("waiting_for_user", {"waiting_for_user": form.data()}) if form else (self.end, {})
        return failure + self.build_chunk({"content": "", **end}, reason, self.estimate_usage("".join(self.texts)))

    def refuse(self, error: RagflowLgError) -> list[bytes]:
        """Return the frames of a turn that is refused after it has waited."""
        return [self.build_end("failed", str(error)), OPENAI_DONE]

    def require_answer(self, status: str, form: UserInputs | None) -> None:
        """Check that a turn has ended in a way that an answer can express."""

    def show_reference(self, reference: dict[str, Any]) -> dict[str, Any]:
        return reference

    def build_completion(self, message: dict[str, Any], text: str, reason: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "chat.completion",
            "created": self.created,
            "model": self._model,
            "param": None,
            "usage": self.estimate_usage(text),
            "choices": [{"message": message, "logprobs": None, "finish_reason": reason, "index": 0}],
        }


class _ResponseBuilder1(_ResponseBuilder):
    """A builder for what RAGFlow 1.0 sends on its own path."""

    def build_end(self, status: str, error: str) -> bytes:
        usage = self.estimate_usage("".join(self.texts))
        if error:
            failure = {"message": error, "type": "server_error"}
            return self.build_chunk({"content": f"**ERROR**: {error}", "error": failure}, "error", usage)
        if status == "cancelled":
            return self.build_chunk({"content": None, "cancelled": {"message": CANCELLED}}, "cancelled", usage)
        if self.form is not None:
            delta = {"content": None, "waiting_for_user": describe_form(self.form)}
            return self.build_chunk(delta, "waiting_for_user", usage)
        return self.build_chunk({"content": None}, self.end, usage)

    def require_answer(self, status: str, form: UserInputs | None) -> None:
        if status == "cancelled":
            raise RequestError(CANCELLED, 409, status=409)
        if form is not None:
            node = next(iter(form.nodes), "")
            message = f"Agent is waiting for user input. cpn_id: {node} {form.tips}".rstrip()
            raise RequestError(f"{message} session_id: {self._id}", 409, status=409)

    def show_reference(self, reference: dict[str, Any]) -> dict[str, Any]:
        return list_reference(reference)


def _get_reference(event: MessageEnd) -> dict[str, Any]:
    reference = event.extras.get("reference")
    return cast("dict[str, Any]", reference) if isinstance(reference, dict) else {}


def _build_model(agent: AgentRow) -> dict[str, Any]:
    model = {"id": agent.id, "object": "model", "created": agent.create_ms // 1000}
    return {**model, "owned_by": agent.tenant, "name": agent.title}
