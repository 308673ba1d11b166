"""Plays turns for OpenAI's APIs: finds the session, begins the turn, and hands its events to a writer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RagflowLgError, RequestError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.runs.wire.wire_events import AnswerText, MessageEnd, WireNodeFinished
from ragflow_lg.server.agents.agent_versions import DRAFT, PUBLISHED
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.http.openai.chat_conversations import find_session, read_conversation
from ragflow_lg.server.http.openai.openai_input import Question, load_files, require_reader, require_turn_size
from ragflow_lg.server.http.shared.auth import ApiCaller, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected, begin_stream
from ragflow_lg.server.http.shared.ragflow_routes import Text
from ragflow_lg.server.http.shared.request_bodies import to_text
from ragflow_lg.server.http.shared.responses import encode_json, respond_json
from ragflow_lg.server.http.shared.turn_sessions import QuestionFields, build_turn_request, open_turn_session
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.turn_session import SessionFields, TurnSession
from ragflow_lg.services.chat import NO_USAGE, Usage

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import Envelope, UserInputs, WireEvent
    from ragflow_lg.server.database.tables import AgentRow, SessionRow
    from ragflow_lg.server.runs.turns import Turn

_USER_HEADER = "x-openwebui-user-id"
_ANSWERING = ("LLM", "Agent")
"""The components whose answers may be that of the turn."""


class OpenaiBody(QuestionFields):
    """What begins a turn over OpenAI's APIs."""

    begins_turn = False  # it can contain files; what else it contains is limited here

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        require_turn_size(len(encode_json((self.inputs, self.files, self.chat_template_kwargs, self.metadata))))
        return self

    model: Annotated[Any, Field(description="Id or title of the agent; ignored if the path names an agent.")] = ""
    metadata: Annotated[Any, Field(description="`id` is an alternative to `session_id`, which takes precedence.")] = (
        None
    )
    user: Annotated[Text, Field(description="Id of the user; `user_id` takes precedence.")] = ""


class TurnEnd(NamedTuple):
    """How a turn has ended."""

    status: str
    error: str = ""
    usage: Usage = NO_USAGE

    @property
    def has_failed(self) -> bool:
        """Whether the run has failed."""
        return self.status == "failed"


def describe_forms(form: UserInputs) -> dict[str, Any]:
    """Return the fields and the tips of all open forms."""
    return {**form.data(), "tips": form.text}


class TurnWriter:
    """Builds what a client gets of a turn: frames of a stream, or one object. Each API has its own."""

    def __init__(self, model: str, created: int, session_id: str) -> None:
        """Initialize. ``created`` is when the turn was created, in epoch seconds."""
        self.model = model
        self.created = created
        self.session_id = session_id
        self.run_id = ""
        self.answer = AnswerText("tagged")
        self.finish_reason = "stop"
        """Why the last answer of a model ended."""
        self.reference: dict[str, Any] = {}
        """The sources of the last Message that has some."""

    def begin(self, envelope: Envelope) -> bytes:
        """Note the turn that answers the request, which an earlier request may have begun. Return the first frames."""
        self.run_id, self.session_id, self.created = envelope.message_id, envelope.session_id, envelope.created_at
        return b""

    def note(self, event: WireEvent) -> str:
        """Note an event; return the text that it adds."""
        if isinstance(event, WireNodeFinished) and event.component_type in _ANSWERING:
            self.finish_reason = event.finish_reason or "stop"
        elif isinstance(event, MessageEnd):
            self.reference = dict(as_map(event.extras.get("reference"))) or self.reference
        return self.answer.feed(event)

    def write(self, event: WireEvent) -> bytes:
        """Return the frames of an event."""
        raise NotImplementedError

    def finish(self, end: TurnEnd) -> bytes:
        """Return the last frames."""
        raise NotImplementedError

    def build(self, end: TurnEnd) -> dict[str, Any]:
        """Return the whole answer of a turn, which has not failed."""
        raise NotImplementedError

    def refuse(self, error: RagflowLgError) -> list[bytes]:
        """Return the frames of a turn that is refused after it has waited."""
        return [self.finish(TurnEnd("failed", str(error)))]


async def load_agent_of_model(request: Request, caller: ApiCaller, model: Any) -> AgentRow:
    """Load the agent with a model's id, or else the only one with that title."""
    agents = AgentRepository(get_app_state(request).database, caller.tenant)
    name = model if isinstance(model, str) and "\0" not in model else ""  # no agent has what cannot be stored
    if (agent := await agents.get(name)) is not None:
        return agent
    same, count = await agents.find(AgentQuery(title=name, page_size=2)) if name else ([], 0)
    if count > 1:
        message = f"{count} agents have the title {name[:64]!r}; use an id. `GET /v1/models` lists your agents."
        raise RequestError(message, 400, status=400, reason="model_ambiguous")
    if not same:
        audit("agent.refused", agent=name)
        message = f"No agent has the id or the title {name[:64]!r}; `GET /v1/models` lists your agents."
        raise RequestError(message, 404, status=404, reason="model_not_found")
    return same[0]


async def open_session(
    request: Request,
    caller: ApiCaller,
    agent: AgentRow,
    body: OpenaiBody,
    question: Question,
    session_id: str = "",
    referenced: SessionRow | None = None,
) -> TurnSession:
    """Return the session for a question.

    That is the named one, or that of the conversation in which a chat program asks, or a new one that starts with the
    earlier messages. ``referenced`` is the session of the answer that comes before the question, if that is known.
    """
    session_id = body.session_id or session_id or to_text(as_map(body.metadata).get("id"))
    user_id = body.user_id or body.user or request.headers.get(_USER_HEADER, "") or caller.tenant
    conversation = "" if session_id else read_conversation(request.headers, body.given(), question.query)
    sessions = SessionRepository(get_app_state(request).database, caller.tenant)
    candidates: list[SessionRow] = []
    if conversation:
        candidates = await sessions.of_conversation(agent.id, user_id, conversation)
    elif referenced is not None and (referenced.agent_id, referenced.user_id) == (agent.id, user_id):
        candidates = [referenced]
    if candidates and (session := await find_session(sessions, candidates, question.earlier)) is not None:
        return TurnSession(session)
    version = PUBLISHED if body.release else DRAFT
    fields: SessionFields = {
        "user_id": user_id,
        "source": "workflow",
        "earlier": question.earlier,
        "conversation": conversation,
    }
    return await open_turn_session(request, agent, session_id, version, **fields)


async def begin_turn(
    request: Request,
    caller: ApiCaller,
    agent: AgentRow,
    session: TurnSession,
    body: OpenaiBody,
    question: Question,
    policy: str | None,
) -> Turn:
    """Begin the turn of a question.

    Raises:
        RequestError: If it is refused.
    """
    turns, query = get_turns(request), question.query
    parts = [*(question.earlier_files if session.is_new else ()), *question.files]
    runner = None
    if parts or (body.inputs and not session.is_new):
        runner = await turns.runner(agent, session.row, session.version)
    if runner is not None and parts:
        require_reader(runner.plan, parts[0])
        http = get_app_state(request).services_of(caller.tenant).http
        body = body.model_copy(update={"files": [*body.files, *await load_files(parts, http)]})
    if runner is not None and body.inputs and not session.is_new and await runner.pauses(session.row.id):
        query = ""  # the fields are the answer; the last message was answered before
    turn_request = build_turn_request(caller, session.row, query, body)
    if session.is_new and question.earlier:
        turn_request["earlier"] = question.earlier
    return await turns.begin(agent, session, turn_request, policy)


async def play(
    request: Request, begun: Coroutine[Any, Any, Turn], writer: TurnWriter, *, is_streamed: bool
) -> Response:
    """Respond with a turn as its writer writes it."""
    if is_streamed:
        return await begin_stream(request, _begin_frames(begun, writer), writer.refuse)
    return await await_while_connected(request, _collect(await begun, writer))


async def collect(turn: Turn, writer: TurnWriter) -> TurnEnd:
    """Follow a turn to its end."""
    writer.begin(turn.envelope)
    async with aclosing(turn.events()) as events:
        async for _, event in events:
            writer.note(event)
    return TurnEnd(*await turn.result(), await turn.usage())


async def _collect(turn: Turn, writer: TurnWriter) -> Response:
    end = await collect(turn, writer)
    if end.has_failed and writer.finish_reason != "content_filter":
        raise RequestError(end.error or "The run failed.", 500, status=500)
    return respond_json(writer.build(end))


async def _begin_frames(begun: Coroutine[Any, Any, Turn], writer: TurnWriter) -> AsyncGenerator[bytes]:
    """Wait for the first event of a turn, and return its frames."""
    return await stream_turn(await begun, writer)


async def stream_turn(turn: Turn, writer: TurnWriter) -> AsyncGenerator[bytes]:
    """Wait for the first event, and return all frames: an early refusal must not start a stream."""
    head, pages = writer.begin(turn.envelope), turn.pages()
    return _write_pages(head, await anext(pages, None), pages, turn, writer)


async def _write_pages(
    head: bytes,
    page: list[tuple[int, WireEvent]] | None,
    pages: AsyncGenerator[list[tuple[int, WireEvent]]],
    turn: Turn,
    writer: TurnWriter,
) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(pages):
            while page is not None:
                yield head + b"".join([writer.write(event) for _, event in page])
                head = b""
                page = await anext(pages, None)
        status, error = await turn.result()
        end = TurnEnd(status, (error or "The run failed.") if status == "failed" else "", await turn.usage())
    except RagflowLgError as failure:
        end = TurnEnd("failed", str(failure))
    yield head + writer.finish(end)
