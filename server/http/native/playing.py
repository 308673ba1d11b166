"""Answering a request that begins a run: with the run once it is over, at once, or with its events."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from fastapi import Query
from starlette.responses import Response

from ragflow_lg.errors import RagflowLgError
from server.http.auth import parts_of, turns_of
from server.http.event_stream import EventStream
from server.http.following import while_there
from server.http.native.answers import RunAnswer, respond
from server.http.native.events import EVENT_STREAM, event_frames
from server.http.native.problems import PREFIX, problem_responses
from server.http.native.views import run_view
from server.runs.run_control import RunControl
from server.streaming import CONTINUE, DisconnectPolicy, parse_policy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from starlette.requests import Request

    from server.database.models import AgentRow, RunRow
    from server.runs.turns import Turn
    from server.streaming import Followed

__all__ = ["PLAYED", "PLAYS", "Mode", "OnDisconnect", "Records", "play", "shown_run", "stream_run"]

OPENING_S = 1.0
"""How long a run in the background may take to be refused: what comes later is told to its followers."""

Mode: TypeAlias = Annotated[
    Literal["wait", "background", "stream"],
    Query(
        description="`wait`: answer when the run is over. `background`: answer at once (202); its events can be "
        "followed. `stream`: answer with its events."
    ),
]
OnDisconnect: TypeAlias = Annotated[
    str,
    Query(
        pattern=r"^(|cancel|continue|grace:[0-9]{1,6}(\.[0-9]{1,3})?)$",
        description="What becomes of the run when nobody follows it any more: `cancel`, `continue` or "
        "`grace:SECONDS`. Left out: what the server's settings say; a run in the background continues.",
        examples=["continue", "grace:30"],
    ),
]
Records: TypeAlias = Annotated[bool, Query(description="Whether records of what agents do are sent, too.")]

PLAYED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": RunAnswer,
        "description": "The run, over or waiting; or its events. A failed component makes a failed run, no problem.",
        "content": {"text/event-stream": EVENT_STREAM},
    },
    202: {"model": RunAnswer, "description": "The run, on its way."},
}
"""What a request that begins a run is answered with."""
PLAYS = {**PLAYED, **problem_responses(400, 404, 409, 422)}


async def play(
    request: Request,
    agent: AgentRow,
    begin: Callable[[RunControl], Awaitable[Turn]],
    mode: str,
    on_disconnect: str,
    *,
    has_records: bool = False,
) -> Response:
    """Begin a run and answer as asked.

    Raises:
        RagflowLgError: if it is refused.
    """
    policy: DisconnectPolicy | None = parse_policy(on_disconnect) if on_disconnect else None
    if mode == "background" and policy is None:
        policy = CONTINUE
    control = RunControl(parts_of(request), turns_of(request), agent, policy)
    turn = await begin(control)
    run_id = turn.run.envelope.message_id
    if mode == "background":
        await parts_of(request).hub.opened(run_id, OPENING_S)
        run = await control.run(run_id)
        headers = {"Location": f"{PREFIX}/agents/{agent.id}/runs/{run_id}"}
        return respond(await run_view(control, run), 202, headers)
    if mode == "stream":
        return await stream_run(request, control, await control.run(run_id), 0, has_records=has_records)
    await while_there(request, _finish(turns_of(request).follow(run_id)))
    return respond(await shown_run(control, run_id))


async def _finish(events: AsyncGenerator[tuple[int, Followed]]) -> None:
    """Wait for the end of a run. One that fails is shown as it is; one that never began is refused."""
    has_begun = False
    async with aclosing(events):
        try:
            async for _ in events:
                has_begun = True
        except RagflowLgError:
            if not has_begun:
                raise


async def shown_run(control: RunControl, run_id: str) -> RunAnswer:
    """Show a run with its answer and what it waits for."""
    run = await control.run(run_id)
    said, pauses = await control.outcome(run)
    return await run_view(control, run, said, pauses)


async def stream_run(
    request: Request, control: RunControl, run: RunRow, after: int, *, has_records: bool
) -> EventStream:
    """Answer with the events of a run behind number ``after``.

    Raises:
        RagflowLgError: if there is nothing to follow, or the run was refused before its first event.
    """
    events = turns_of(request).follow(run.id, after)
    try:
        first: tuple[int, Followed] | None = await anext(events, None)
    except BaseException:
        await events.aclose()
        raise
    frames = event_frames(
        run.id, run.session_id, events, lambda: shown_run(control, run.id), first=first, has_records=has_records
    )
    return EventStream(frames, parts_of(request).settings.server.heartbeat_s)
