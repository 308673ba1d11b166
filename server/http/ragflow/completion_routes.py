"""RAGFlow's routes that run turns, streamed or not, and cancel them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Struct
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RagflowLgError, RequestError, RunFailedError, StreamGapError, StreamInterruptedError
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.runs.wire.wire_events import Message, MessageEnd
from ragflow_lg.server.agents.agent_versions import DRAFT, PUBLISHED
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.http.openai.openai_routes import ChatBody, complete_as_openai
from ragflow_lg.server.http.ragflow.ragflow_1_frames import AnswerCollector1, FrameBuilder1
from ragflow_lg.server.http.ragflow.ragflow_frames import (
    AnswerCollector,
    Forwarding,
    FrameBuilder,
    build_error_frame,
    describe_failure,
)
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import (
    EventStream,
    Options,
    StreamOptions,
    StreamPosition,
    await_while_connected,
    begin_stream,
)
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import Fields, Flag, Text, make_router, with_examples
from ragflow_lg.server.http.shared.responses import PAGE_FAILURE, respond_plain, to_request_error
from ragflow_lg.server.http.shared.turn_sessions import (
    QuestionFields,
    build_turn_request,
    follow_canvas,
    load_session,
    load_turn_rows,
    name_ignored,
    open_turn_session,
    require_own,
    unread_inputs,
)
from ragflow_lg.server.runs.turns import Turn
from ragflow_lg.server.streaming.sse import RAGFLOW_DONE, event_id, ragflow_frame, ragflow_frames

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import Envelope, WireEvent
    from ragflow_lg.server.database.tables import SessionRow, VersionRow


Query = Annotated[
    str | dict[str, Any],
    BeforeValidator(lambda value: cast("dict[str, Any]", value) if isinstance(value, dict) else str(value)),
]


class CompletionBody(QuestionFields):
    """A turn."""

    model_config = with_examples(
        {"agent_id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?", "stream": False},
        {"agent_id": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    agent_id: Annotated[Text, Field(description="Id of the agent, unless the path names it.")] = ""
    query: Annotated[Query, Field(description="Message of the user, or fields of Begin's form.")] = ""
    question: Annotated[Query, Field(description="Alternative to `query`, which takes precedence.")] = ""
    name: Annotated[Text, Field(description="Name of a new session. Default: the beginning of the query.")] = ""
    return_trace: Annotated[Flag, Field(description="Whether to include the trace of nodes.")] = False
    openai_compatible: Annotated[
        Flag, Field(alias="openai-compatible", description="Whether to read `messages` and respond as OpenAI does.")
    ] = False
    messages: Annotated[Any, Field(description="The conversation, with `openai-compatible`.")] = None


class EmbeddedBody(CompletionBody):
    """A turn from an embedded page, or the continuation of one that its visitor has stopped."""

    may_be_query = True

    stream: Flag = True
    resume_from: Annotated[Text, Field(description="Run to continue after it was stopped.")] = ""
    pauses: Annotated[
        list[str], Field(description="Ids of the forms that `inputs` answers. Default: all open ones.")
    ] = Field(default=[])


class PlayBody(CompletionBody):
    """A turn with a version, or the continuation of a run. All fields can also be sent as query parameters."""

    model_config = with_examples({"query": "Where is my parcel?", "version": "draft"})

    may_be_query = True

    user_input: Annotated[Query, Field(description="Alternative to `query`; takes precedence over it.")] = ""
    message: Annotated[Query, Field(description="Alternative to `query`, which takes precedence.")] = ""
    version: Annotated[Text, Field(description="Version for a new session: `draft`, `published` or an id.")] = ""
    resume_from: Annotated[Text, Field(description="Run to continue, in any state.")] = ""
    on_disconnect: Annotated[Any, Field(description="`cancel`, `continue` or `grace:SECONDS`.")] = None


class CancelBody(Fields):
    """The turn to cancel."""

    may_be_query = True

    session_id: Text = ""
    task_id: Annotated[Text, Field(description="Alternative to `session_id`, which takes precedence.")] = ""


class TaskChange(Fields):
    """A change of a task."""

    action: Any


router = make_router("RAGFlow: completions")

STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""A route that may answer with a stream."""
_ACTION_CHARS = 40
OTHER_AGENT = "Session does not belong to the requested agent."


@router.post("/agents/chat/completions", responses=STREAM)
@router.post("/agents/chat/completion", responses=STREAM)
async def complete(body: CompletionBody, request: Request, caller: Authenticated, options: Options) -> Response:
    """Run a turn with the agent ``agent_id``."""
    if not body.agent_id:
        raise RequestError("`agent_id` is required.", 101, data=False, has_data=True)
    return await complete_with(request, caller, body.agent_id, body, options)


@router.post("/agents/{agent_id}/completions", responses=STREAM)
async def complete_of_agent(
    agent_id: str, body: CompletionBody, request: Request, caller: Authenticated, options: Options
) -> Response:
    """Run a turn. Clients of RAGFlow 0.25.0 and older use this path, which 1.0 does not have."""
    return await complete_with(request, caller, agent_id, body, options, is_old_path=True)


@router.post("/tasks/{task_id}/cancel")
async def cancel_task(task_id: str, request: Request, caller: Authenticated) -> Literal[True]:
    """Cancel a session's turn. Unknown sessions and other tenants' sessions are ignored."""
    if await SessionRepository(get_app_state(request).database, caller.tenant).get(task_id) is not None:
        await get_turns(request).playing.cancel_session(task_id, caller.tenant)
    return True


@router.patch("/tasks/{task_id}")
async def change_task(task_id: str, body: TaskChange, request: Request, caller: Authenticated) -> Literal[True]:
    """Cancel a session's turn; ``stop`` is the only action."""
    if body.action != "stop":
        action = str(body.action)[:_ACTION_CHARS]
        raise RequestError(f"Invalid action '{action}'. Only 'stop' is supported.", 101, has_data=True)
    return await cancel_task(task_id, request, caller)


async def complete_with(
    request: Request,
    caller: ApiCaller,
    agent_id: str,
    body: CompletionBody,
    options: StreamOptions,
    *,
    is_old_path: bool = False,
    source: str = "workflow",
    conversation: str = "",
    end: bytes = RAGFLOW_DONE,
) -> Response:
    """Run a turn in the session named in the body, else in that of the ``conversation``, else in a new one.

    ``is_old_path`` says that the client reads only the events of RAGFlow's oldest path. ``source`` is that of a new
    session, ``end`` the last frame of a stream.
    """
    if body.openai_compatible:
        known = ChatBody.model_fields.keys() | (body.model_extra or {}).keys()
        chat = ChatBody.model_validate({name: value for name, value in body.given().items() if name in known})
        return await complete_as_openai(request, caller, agent_id, chat, options)
    agent = (rows := await load_turn_rows(request, caller, agent_id, body.session_id)).agent
    is_streamed = body.stream if "stream" in body.model_fields_set else is_old_path and caller.is_old
    position, turns, asked = options.position, get_turns(request), body.query or body.question or body.inputs
    ignored = list(body.model_extra or ())
    if position.run_id:
        turn, forwarding, question = await rejoin_run(request, caller, agent, position.run_id)
        asked = asked or question
        begun: Coroutine[Any, Any, Turn] = follow_turn(turn)
    else:
        user_id = body.user_id or caller.tenant
        session = await open_turn_session(
            request,
            agent,
            body.session_id,
            PUBLISHED if body.release else DRAFT,
            foreign=OTHER_AGENT,
            rows=rows,
            find_continued=partial(_find_continued, request, agent, user_id, conversation) if conversation else None,
            user_id=user_id,
            exp_user_id=user_id if source == "workflow" else "",  # RAGFlow's pages do not list those of embedded ones
            name=body.name,
            source=source,
            conversation=conversation,
        )
        forwarding = choose_events(session.row)
        if body.inputs:
            ignored += unread_inputs((await turns.runner(agent, session.row, session.version)).plan, body.inputs)
        turn_request = build_turn_request(caller, session.row, body.query or body.question, body)
        begun = turns.begin(agent, session, turn_request, options.policy)
    responder = CompletionResponder(
        "messages" if is_old_path else forwarding,
        position,
        get_app_state(request).now_ms,
        asked,
        has_trace=body.return_trace,
        end=end,
        is_old=caller.is_old,
    )
    return name_ignored(await responder.respond(request, caller, begun, is_streamed=is_streamed), ignored)


async def follow_turn(turn: Turn) -> Turn:
    """Return a turn that has begun already."""
    return turn


async def rejoin_run(request: Request, caller: ApiCaller, agent: AgentRow, run_id: str) -> tuple[Turn, Forwarding, str]:
    """Return the turn of a run to resume, which of its events the client receives, and what 1.0 says was asked."""
    turns = get_turns(request)
    head = await turns.playing.head(caller.tenant, run_id)
    notes = current_notes()
    notes.run, notes.session = run_id, head.envelope.session_id
    session = require_own(caller, await load_session(request, agent, head.envelope.session_id))
    await follow_canvas(request, agent, session.version_id)
    question = await _find_question(request, session, run_id) if speaks_1() else ""
    return turns.rejoin(caller.tenant, head), choose_events(session), question


async def _find_question(request: Request, session: SessionRow, run_id: str) -> str:
    sessions = SessionRepository(get_app_state(request).database, session.tenant)
    messages = (await sessions.messages([session.id]))[session.id]
    return next((each.content for each in messages if (each.run_id, each.role) == (run_id, "user")), "")


def choose_events(session: SessionRow) -> Forwarding:
    """Return which events the clients of a session receive: in 1.0 all of them."""
    return "session" if session.source == "agent" and not speaks_1() else "all"


async def _find_continued(
    request: Request, agent: AgentRow, user: str, key: str, version: VersionRow
) -> SessionRow | None:
    sessions = SessionRepository(get_app_state(request).database, agent.tenant)
    found = await sessions.of_conversation(agent.id, user, key)
    return next((session for session in found if session.version_id == version.id), None)


class CompletionResponder(Struct, frozen=True):
    """Responds with turns in the form that a client expects: with their frames, or with one answer."""

    forwarding: Forwarding
    position: StreamPosition
    now_ms: Callable[[], int]
    asked: Any = ""
    """What the user sent."""
    has_trace: bool = False
    error_prefix: str = "**ERROR**: "
    end: bytes = RAGFLOW_DONE
    """The last frame of a stream."""
    is_old: bool = False
    """Whether the client expects nothing but RAGFlow's frames of a failed turn, which do not say that it has failed.

    The oldest path does say it, since its clients would find no text."""

    async def respond(
        self, request: Request, caller: ApiCaller, begun: Coroutine[Any, Any, Turn], *, is_streamed: bool
    ) -> Response:
        """Respond with a turn.

        Raises:
            RagflowLgError: if it is refused.
        """
        if not is_streamed:
            return await await_while_connected(request, self._collect(await begun, caller))
        frames = self._begin(begun)
        if self.forwarding == "messages":  # the oldest clients do not know comments
            return EventStream(await frames, has_heartbeats=False)
        return await begin_stream(request, frames, self._refuse)

    async def _collect(self, turn: Turn, caller: ApiCaller) -> Response:
        collector = self._collector(turn.envelope)
        try:
            async with aclosing(turn.events()) as events:
                async for _, event in events:
                    collector.feed(event)
            if not collector.has_ended and (failure := await self._find_failure(turn)) is not None:
                if not self.is_old:
                    raise failure
                collector.feed(Message(f"**ERROR**: {failure}"))
                collector.feed(MessageEnd())
        except RagflowLgError as error:
            if caller.is_old:
                return respond_plain(f"**ERROR**: {error}")
            message, number = describe_failure(error, self.forwarding), to_request_error(error).number
            data: dict[str, Any] = {"session_id": turn.envelope.session_id}
            if isinstance(error, RunFailedError):  # RAGFlow's SDK reads the content whatever the code is
                data["data"] = {"content": f"{self.error_prefix}{message}"}
            raise RequestError(message, number, status=409, data=data, has_data=True) from error
        return respond_plain(collector.build_answer())

    def _builder(self, envelope: Envelope) -> FrameBuilder:
        if speaks_1():
            return self._builder_1(envelope)
        return FrameBuilder(envelope, self.forwarding, has_trace=self.has_trace)

    def _builder_1(self, envelope: Envelope) -> FrameBuilder1:
        return FrameBuilder1(envelope, self.forwarding, asked=self.asked, now_ms=self.now_ms)

    def _collector(self, envelope: Envelope) -> AnswerCollector:
        if speaks_1():
            return AnswerCollector1(self._builder_1(envelope), has_trace=self.has_trace)
        return AnswerCollector(envelope, self.forwarding, has_trace=self.has_trace)

    async def _find_failure(self, turn: Turn) -> RunFailedError | None:
        """Return the failure of a turn whose events have ended, if the client is to learn of it."""
        if self.is_old and self.forwarding != "messages":
            return None
        status, error = await turn.result()
        return RunFailedError(error) if status == "failed" else None

    async def _begin(self, begun: Coroutine[Any, Any, Turn]) -> AsyncGenerator[bytes]:
        """Wait for the first event of a turn after the client's position, and return the frames from there on."""
        turn = await begun
        needs_all = speaks_1() or (self.has_trace and self.forwarding != "all")  # for the message's end, or the trace
        pages = turn.pages(0 if needs_all else self.position.after)
        try:
            first = await anext(pages, None)  # an early refusal must not start a stream
        except StreamGapError as gap:
            if not needs_all:
                raise
            raise StreamGapError(
                f"The first events of run {turn.envelope.message_id} have been dropped, and the last ones need them. "
                "Read the session's messages instead.",
                first=gap.first,
            ) from gap
        return self.write(turn, first, pages)

    def _refuse(self, error: RagflowLgError) -> list[bytes]:
        """Return the frames of a turn that is refused after it has waited."""
        if self.position.has_ids and isinstance(error, StreamInterruptedError):
            return []  # no end event, so that the client repeats its request
        failure = build_error_frame(describe_failure(error, self.forwarding), current_notes().session, self.forwarding)
        frame = ragflow_frame(failure)
        return [frame, *([self.end] if self.end else ())]

    async def write(
        self, turn: Turn, page: list[tuple[int, WireEvent]] | None, pages: AsyncGenerator[list[tuple[int, WireEvent]]]
    ) -> AsyncGenerator[bytes]:
        """Yield the frames of the first ``page`` of a turn's events and of the following ones.

        Those up to the client's position are not sent again.
        """
        envelope = turn.envelope
        frames, position = self._builder(envelope), self.position
        try:
            async with aclosing(pages):
                if page is None and not position.after:
                    yield ragflow_frame(frames.build_empty())
                while page is not None:
                    built = ((number, frames.build(event)) for number, event in page)
                    yield b"".join(
                        ragflow_frames(each, event_id(envelope.message_id, number) if position.has_ids else None)
                        for number, each in built
                        if number > position.after
                    )
                    page = await anext(pages, None)
            if self.forwarding == "page" and not frames.has_ended:
                yield ragflow_frame(build_error_frame(PAGE_FAILURE, envelope.session_id, self.forwarding))
            elif not frames.has_ended and (failure := await self._find_failure(turn)) is not None:
                raise failure
        except RagflowLgError as error:
            if position.has_ids and isinstance(error, StreamInterruptedError):
                return  # no end event, so that the client reconnects and resumes
            message = describe_failure(error, self.forwarding)
            failure = frames.build_failure(message, self.error_prefix, is_of_run=isinstance(error, RunFailedError))
            yield ragflow_frames(failure)
        if self.end:
            yield self.end
