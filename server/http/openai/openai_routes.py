"""Routes of the OpenAI-compatible API: agents as models, and chat completions."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import QuotaError, RagflowLgError, RequestError
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.http.openai.chat_writer import ChatWriter, ChatWriter1
from ragflow_lg.server.http.openai.openai_input import read_question
from ragflow_lg.server.http.openai.openai_parameters import check_parameters
from ragflow_lg.server.http.openai.openai_turns import OpenaiBody, begin_turn, load_agent_of_model, open_session, play
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.event_stream import Options, StreamOptions
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import OpenaiRoute, Text, make_router, with_examples
from ragflow_lg.server.http.shared.responses import respond_json, to_request_error
from ragflow_lg.server.http.shared.turn_sessions import load_agent, name_ignored

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow


def _check_messages(value: Any) -> Any:
    messages: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value] if value else []
    if not all(isinstance(message, dict) for message in messages) or isinstance(value, dict):
        raise RequestError("`messages` must be a list of objects.", 102)
    if any(not isinstance(message.get("content"), str | list | None) for message in messages):
        raise RequestError("The `content` of a message must be a text or a list of parts.", 102)
    return messages


class ChatBody(OpenaiBody):
    """A conversation. Its last message with the role `user` is the query.

    With `inputs`, messages are optional; if a form is open, the inputs are the whole answer.
    """

    model_config = with_examples(
        {"model": "0c7f4a1e2b5d11f0", "messages": [{"role": "user", "content": "Where is my parcel?"}]},
        {"model": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    messages: Annotated[
        list[dict[str, Any]],
        BeforeValidator(_check_messages),
        Field(description="Required unless `inputs` is set. Images and files need an agent that reads files."),
    ] = Field(default=[])
    id: Annotated[Text, Field(description="Alternative to `session_id`, which takes precedence.")] = ""
    store: Annotated[Any, Field(description="Sessions are always stored.")] = None


router = make_router("OpenAI-compatible", "", OpenaiRoute)

STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


MODELS_PER_QUERY = 1000
_QUOTA = "insufficient_quota"
"""OpenAI's type and code for a quota that is used up."""
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_RAGFLOW_AREAS = frozenset(
    ("canvas", "chunk", "connector", "dataflow", "document", "file2document", "kb", "langfuse", "llm", "mcp_server")
) | {"plugin", "system", "tenant", "user"}
"""First parts of the paths below `/v1` that RAGFlow has used until 0.25. OpenAI has none of them."""
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
    models: list[dict[str, Any]] = []
    for page in count(1):
        rows, total = await agents.find(AgentQuery(page=page, page_size=MODELS_PER_QUERY))
        models += [_build_model(agent) for agent in rows]
        if not rows or len(models) >= total:
            break
    return {"object": "list", "data": models}


@router.get("/v1/models/{agent_id}")
async def get_model(agent_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Return an agent as a model."""
    return _build_model(await load_agent_of_model(request, caller, agent_id))


@router.get("/api/v1/agents_openai/{agent_id}/models")
async def list_model(agent_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """List the only model at an agent's own endpoint."""
    return {"object": "list", "data": [_build_model(await load_agent(request, caller, agent_id))]}


@router.post("/v1/chat/completions", responses=STREAM)
async def complete(body: ChatBody, request: Request, caller: Authenticated, options: Options) -> Response:
    """Run a turn with the agent whose id or title is given as the model."""
    agent = await load_agent_of_model(request, caller, body.model)
    return await run_openai_turn(request, caller, agent, body, options.policy)


@router.post("/api/v1/agents_openai/{agent_id}/chat/completions", responses=STREAM)
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
    question = read_question(body.messages, "messages")
    ignored = [*check_parameters(body.model_extra or {}), *question.ignored]
    if not question.is_asked and not body.inputs:
        raise RequestError("You have to provide messages: at least one message of the role user.", 102)
    session = await open_session(request, caller, agent, body, question, body.id)
    begun = begin_turn(request, caller, agent, session, body, question, policy)
    make_writer = ChatWriter1 if may_be_1 and speaks_1() else ChatWriter
    writer = make_writer(agent.id, get_app_state(request).now_ms() // 1000, session.row.id)
    return name_ignored(await play(request, begun, writer, is_streamed=body.stream), ignored)


def _build_model(agent: AgentRow) -> dict[str, Any]:
    model = {"id": agent.id, "object": "model", "created": agent.create_ms // 1000}
    return {**model, "owned_by": agent.tenant, "name": agent.title}
