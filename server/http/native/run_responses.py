"""Responses to requests that start or follow a run: the finished run, the started run, or its events.

Every event has a number from which a client can resume.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from fastapi import Depends, Query
from msgspec import Struct
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RagflowLgError, RequestError, SettingsError, StreamUnknownError
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.server.agents.agent_versions import stored_trial
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.http.native.native_responses import RunAnswer, build_run_answer
from ragflow_lg.server.http.native.native_routing import Agent
from ragflow_lg.server.http.native.problem_details import PREFIX, describe_problems, to_problem
from ragflow_lg.server.http.shared.auth import RequestKey, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import EventStream, await_while_connected, begin_stream
from ragflow_lg.server.http.shared.responses import respond_json
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.streaming.run_task import CONTINUE, parse_policy
from ragflow_lg.server.streaming.sse import event_id, native_frame, parse_event_position, retry_frame

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragflow_lg.server.database.tables import RunRow, VersionRow
    from ragflow_lg.server.runs.turns import Turn
    from ragflow_lg.server.streaming.event_codec import StreamEvent


RETRY_S = 1.0


EVENT_STREAM: dict[str, Any] = {
    "examples": {
        "stream": {
            "value": "retry: 1000\n\nid: 9b1f…:1\nevent: workflow_started\ndata: "
            '{"run_id":"9b1f…","session_id":"0c7f…","event":"workflow_started","data":{"inputs":{}}}\n\n'
            'event: end\ndata: {"run":{"status":"succeeded"},"error":null}\n\n'
        }
    }
}
"""Description of a stream for the OpenAPI document."""


def read_event_position(request: Request, run_id: str, from_: str | None) -> int:
    """Return the number of the last event that the client has received, or 0. ``Last-Event-ID`` overrides ``from``.

    Raises:
        RequestError: if the id belongs to another run.
        StreamPositionError: if the position is not a number.
    """
    named_run, after = parse_event_position(request.headers.get("last-event-id"), from_, run_id)
    if named_run != run_id:
        raise RequestError(
            f"Last-Event-ID belongs to another run, {named_run[:40]!r}.", 101, status=400, reason="event-unknown"
        )
    return after


async def write_event_frames(
    run_id: str,
    session_id: str,
    page: list[tuple[int, StreamEvent]] | None,
    pages: AsyncGenerator[list[tuple[int, StreamEvent]]],
    show: Callable[[], Awaitable[BaseModel]],
) -> AsyncGenerator[bytes]:
    """Write the events of a run, starting with the first ``page``, and finally the run as returned by ``show``.

    The last frame has no id, so that a client that missed only this frame receives it again.
    """
    error: dict[str, Any] | None = None
    try:
        yield retry_frame(RETRY_S) + (_write_page(run_id, session_id, page) if page else b"")
        async for page in pages:
            yield _write_page(run_id, session_id, page)
    except RagflowLgError as failure:
        error = to_problem(failure).model_dump()
    finally:
        await pages.aclose()
    try:
        run = (await show()).model_dump()
    except RagflowLgError as failure:
        run, error = None, error or to_problem(failure).model_dump()
    yield native_frame({"run": run, "error": error}, "end")


def queue_frame(run_id: str, session_id: str, position: int) -> bytes:
    """Write the place of a run that waits, from 1. It is not an event of the run, so it has no id."""
    data = {"run_id": run_id, "session_id": session_id, "event": "queued", "data": {"position": position}}
    return native_frame(data, "queued")


def refuse_frames(error: RagflowLgError) -> list[bytes]:
    """Write the end of a stream whose run was refused after it had waited."""
    return [native_frame({"run": None, "error": to_problem(error).model_dump()}, "end")]


def _write_page(run_id: str, session_id: str, page: list[tuple[int, StreamEvent]]) -> bytes:
    frames: list[bytes] = []
    for number, event in page:
        data = {"run_id": run_id, "session_id": session_id, "event": event.event, "data": event.data()}
        frames.append(native_frame(data, event.event, event_id(run_id, number)))
    return b"".join(frames)


START_TIMEOUT_S = 0.5
"""Time after which a background run counts as started once its session is free. Its followers receive later errors."""

Mode: TypeAlias = Annotated[
    Literal["wait", "background", "stream"],
    Query(
        description="`wait`: respond when the run has ended. `background`: respond at once (202); follow its events "
        "separately. `stream`: respond with its events."
    ),
]


def _parse_policy(text: str) -> str:
    try:
        parse_policy(text or CONTINUE)
    except SettingsError:
        raise ValueError("must be `cancel`, `continue` or `grace:SECONDS`") from None
    return text


OnDisconnect: TypeAlias = Annotated[
    str,
    AfterValidator(_parse_policy),
    Query(
        description="What happens to the run when its last follower disconnects: `cancel`, `continue` or "
        "`grace:SECONDS`. Default: the server's settings; a background run continues.",
        examples=["continue", "grace:30"],
        json_schema_extra={"pattern": r"^(|cancel|continue|grace:[0-9]{1,6}(\.[0-9]{1,3})?)$"},
    ),
]
Records: TypeAlias = Annotated[bool, Query(description="Whether to send the records of agents as well.")]

RUN_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": RunAnswer,
        "description": "The ended or waiting run, or its events. A failed component is a failed run, not a problem.",
        "content": {"text/event-stream": EVENT_STREAM},
    },
    202: {"model": RunAnswer, "description": "The started run."},
}
"""Successful responses from routes that start a run."""
BEGIN_RESPONSES = {**RUN_RESPONSES, **describe_problems(409)}


class EventResponder(Struct, frozen=True):
    """Starts a run and responds in the requested mode: when it has ended, immediately, or with its events."""

    request: Request
    agent: AgentRow
    mode: Literal["wait", "background", "stream"]
    on_disconnect: str
    has_records: bool

    async def respond(self, start: Callable[[RunControl], Awaitable[Turn]]) -> Response:
        """Start a run and respond.

        Raises:
            RagflowLgError: if the run is refused.
        """
        request = self.request
        policy = self.on_disconnect or (CONTINUE if self.mode == "background" else None)
        control = RunControl(get_app_state(request), get_turns(request), self.agent, policy)
        if self.mode == "stream":
            frames = self._begin_frames(control, self._begin(control, start))
            return await begin_stream(request, frames, refuse_frames, notice=queue_frame)
        turn = await self._begin(control, start)
        run_id = turn.envelope.message_id
        if self.mode == "background":
            app_state = get_app_state(request)
            await app_state.run_manager.wait_until_begun(run_id, app_state.settings.server.busy_s + START_TIMEOUT_S)
            run = await control.run(run_id)
            headers = {"Location": f"{PREFIX}/agents/{self.agent.id}/runs/{run_id}"}
            return respond_json(await build_run_answer(control, run), 202, headers)
        with suppress(StreamUnknownError):  # the run of an earlier request may have ended long ago
            await await_while_connected(request, _await_end(get_turns(request).run_manager.follow(run_id)))
        return respond_json(await load_run_answer(control, run_id))

    async def _begin(self, control: RunControl, start: Callable[[RunControl], Awaitable[Turn]]) -> Turn:
        """Start a run, unless the request has started one before."""
        return await get_turns(self.request).find_repeated(self.agent.tenant) or await start(control)

    async def _begin_frames(self, control: RunControl, begun: Awaitable[Turn]) -> AsyncGenerator[bytes]:
        run = await control.run((await begun).envelope.message_id)
        return await _begin_frames(self.request, control, run, 0, has_records=self.has_records)


def make_responder(
    request: Request,
    agent: Agent,
    mode: Mode = "wait",
    on_disconnect: OnDisconnect = "",
    records: Records = False,
    _: RequestKey = None,
) -> EventResponder:
    """Create the responder for a request that sets a mode."""
    return EventResponder(request, agent, mode, on_disconnect, records)


def make_stream_responder(
    request: Request, agent: Agent, on_disconnect: OnDisconnect = "", records: Records = False, _: RequestKey = None
) -> EventResponder:
    """Create the responder for a request that streams."""
    return EventResponder(request, agent, "stream", on_disconnect, records)


Responder: TypeAlias = Annotated[EventResponder, Depends(make_responder)]
StreamResponder: TypeAlias = Annotated[EventResponder, Depends(make_stream_responder)]


def trial_of(
    request: Request, agent: AgentRow, dsl: dict[str, Any] | None
) -> AbstractAsyncContextManager[VersionRow | None]:
    """Store the canvas of a request as a trial, if it has one; see `stored_trial`."""
    return nullcontext() if dsl is None else stored_trial(get_app_state(request), agent, dsl)


async def _await_end(events: AsyncGenerator[tuple[int, StreamEvent]]) -> None:
    """Wait for a run to end. Errors before its first event are raised; later errors are part of its record."""
    has_begun = False
    async with aclosing(events):
        try:
            async for _ in events:
                has_begun = True
        except RagflowLgError:
            if not has_begun:
                raise


async def load_run_answer(control: RunControl, run_id: str) -> RunAnswer:
    """Load a run with its answer and its open forms."""
    run = await control.run(run_id)
    messages, pauses = await control.outcome(run)
    return await build_run_answer(control, run, messages, pauses)


async def stream_run(
    request: Request, control: RunControl, run: RunRow, after: int, *, has_records: bool
) -> EventStream:
    """Respond with a run's events after number ``after``.

    Raises:
        RagflowLgError: if the events are not available, or the run was refused before its first event.
    """
    frames = _begin_frames(request, control, run, after, has_records=has_records)
    notes = current_notes()
    notes.run, notes.session = run.id, run.session_id
    return await begin_stream(request, frames, refuse_frames, notice=queue_frame)


async def _begin_frames(
    request: Request, control: RunControl, run: RunRow, after: int, *, has_records: bool
) -> AsyncGenerator[bytes]:
    """Wait for the first event of a run after number ``after``, and return the frames from there on."""
    pages = get_turns(request).run_manager.pages(run.id, after, has_records=has_records)
    try:
        first: list[tuple[int, StreamEvent]] | None = await anext(pages, None)
    except BaseException:
        await pages.aclose()
        raise
    return write_event_frames(run.id, run.session_id, first, pages, lambda: load_run_answer(control, run.id))
