"""Runs: begin, look, follow, answer, continue, begin again, fork, cancel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.http.native.native_events import EVENT_STREAM, read_event_position
from ragflow_lg.server.http.native.native_requests import ForkRequest, NoFields, RerunRequest, ResumeRequest, RunRequest
from ragflow_lg.server.http.native.native_responses import RunAnswer, RunListAnswer, respond_model
from ragflow_lg.server.http.native.native_routing import Agent, Control, make_agent_router
from ragflow_lg.server.http.native.native_views import build_run
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.native.run_responses import (
    BEGIN_RESPONSES,
    RUN_RESPONSES,
    Records,
    Responder,
    RunResponder,
    StreamResponder,
    load_run,
    stream_run,
)
from ragflow_lg.server.http.native.validation_messages import check_input_names
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.runs.run_control import RunControl

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.server.runs.turns import Turn

__all__ = ["router"]

router = make_agent_router("runs")

_FOUND = describe_problems(404)


@router.post("/runs", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Begin a run")
async def begin_run(body: RunRequest, player: Responder) -> Response:
    """Begin a turn, in a new session or in one that there is. A session that waits for an answer refuses it."""
    return await player.play(_beginning(player, body))


@router.post(
    "/runs/stream",
    response_class=Response,
    responses={200: {"description": RUN_RESPONSES[200]["description"], "content": {"text/event-stream": EVENT_STREAM}}}
    | describe_problems(400, 404, 409, 422),
    summary="Begin a run and follow it",
)
async def stream_new_run(body: RunRequest, player: StreamResponder) -> Response:
    """Begin a turn as `runs?mode=stream` does. Every event has an id, the last frame, `end`, has the run."""
    return await player.play(_beginning(player, body))


@router.get("/runs", response_model=RunListAnswer, responses=describe_problems(404, 422), summary="List runs")
async def list_runs(
    agent: Agent,
    control: Control,
    session_id: Annotated[str, Query(max_length=64, description="Only those of this session.")] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000, description="From 1.")] = 1,
    page_size: Annotated[int, Query(ge=1, le=100, description="Rows of a page.")] = 30,
) -> Response:
    """List runs, the newest first, without answers and pauses."""
    rows, total = await control.runs(session_id, page, page_size)
    return respond_model(RunListAnswer(runs=[await build_run(control, row) for row in rows], total=total))


@router.get("/runs/{run_id}", response_model=RunAnswer, responses=_FOUND, summary="Show a run")
async def get_run(run_id: str, control: Control) -> Response:
    """Show a run, with its answer and what it waits for."""
    return respond_model(await load_run(control, run_id))


@router.get(
    "/runs/{run_id}/events",
    response_class=Response,
    responses={200: {"description": "The events.", "content": {"text/event-stream": EVENT_STREAM}}}
    | describe_problems(400, 404, 410),
    summary="Follow a run",
)
async def follow_run(
    run_id: str,
    request: Request,
    control: Control,
    from_: Annotated[
        str | None, Query(alias="from", max_length=64, description="Number of the first event that is wanted, from 1.")
    ] = None,
    records: Records = False,
) -> Response:
    """Give the events of a run from the first, or behind one, and follow it to its end; on any replica.

    `Last-Event-ID`, the id of the last event that came, goes before `from`. Nothing is lost or repeated.
    Events are kept for some minutes behind the end of a run; then this is 410.
    """
    run = await control.run(run_id)
    return await stream_run(request, control, run, read_event_position(request, run.id, from_), has_records=records)


@router.post("/runs/{run_id}/resume", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Answer a run")
async def resume_run(run_id: str, body: ResumeRequest, player: Responder) -> Response:
    """Answer what a run waits for; a new run goes on from there. A wrong answer names the field."""
    if bool(body.answers) == bool(body.fields):
        raise RequestError("Give either `answers` or `fields`.", 101, status=422)

    async def begin(control: RunControl) -> Turn:
        return await control.resume(await control.run(run_id), body.answers or body.fields)

    return await player.play(begin)


@router.post("/runs/{run_id}/continue", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Continue a run")
async def continue_run(run_id: str, player: Responder, body: NoFields | None = None) -> Response:
    """Go on with a run that a crash, a stop or a cancel has interrupted. What has finished does not run again."""

    async def begin(control: RunControl) -> Turn:
        return await control.continue_(await control.run(run_id))

    return await player.play(begin)


@router.post(
    "/runs/{run_id}/rerun", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Begin again at a node"
)
async def rerun_run(run_id: str, body: RerunRequest, player: Responder) -> Response:
    """Begin the last turn of a session again at a node, with some values changed, as a new session."""

    async def begin(control: RunControl) -> Turn:
        run = await control.run(run_id)
        return await control.rerun(run, body.node, body.round, body.changes, body.session_name)

    return await player.play(begin)


@router.post(
    "/runs/{run_id}/fork",
    response_model=RunAnswer,
    status_code=201,
    responses=describe_problems(400, 404, 409, 422),
    summary="Fork a run",
)
async def fork_run(run_id: str, body: ForkRequest, control: Control) -> Response:
    """Make a new session that begins where the run ended, or at a checkpoint of its session.

    The answer is a run that stands for the new session: resume it if it waits, continue it if it is interrupted, or
    begin a new turn in its session.
    """
    row = await control.fork(await control.run(run_id), body.checkpoint, body.session_name)
    return respond_model(await load_run(control, row.id), 201)


@router.post(
    "/runs/{run_id}/cancel", response_model=RunAnswer, status_code=202, responses=_FOUND, summary="Cancel a run"
)
async def cancel_run(run_id: str, control: Control, body: NoFields | None = None) -> Response:
    """Stop a run, wherever it is played; it can be continued. One that waits is given up. One that is over stays so."""
    await control.cancel(await control.run(run_id))
    return respond_model(await load_run(control, run_id), 202)


def _beginning(player: RunResponder, body: RunRequest) -> Callable[[RunControl], Awaitable[Turn]]:
    request, agent, turns = player.request, player.agent, get_turns(player.request)

    async def begin(control: RunControl) -> Turn:
        asked = _turn_request(body)
        if body.resume_from:
            if body.session_id or body.version:
                raise RequestError(
                    "`resume_from` names the session and the version, too: leave out `session_id` and `version`.",
                    101,
                    status=422,
                )
            return await control.resume_from(await control.run(body.resume_from), asked, body.inputs)
        if body.session_id:
            if body.version:
                raise RequestError("A session keeps to its version; pin another one to it first.", 101, status=422)
            session = await control.session(body.session_id)
            if body.inputs:
                version = await turns.version(agent, session.version_id)
                check_input_names((await turns.canvas(version)).plan, body.inputs)
        else:
            version = await find_version(get_app_state(request).database, agent, body.version)
            canvas = await turns.canvas(version)  # a broken one makes no session
            check_input_names(canvas.plan, body.inputs)
            name = body.session_name or (body.query if isinstance(body.query, str) else "")
            user_id = body.user_id or agent.tenant
            session, _ = await turns.open_session(agent, version, user_id=user_id, name=name, source="workflow")
        asked["user_id"] = session.user_id or agent.tenant
        return await control.start(session, asked)

    return begin


def _turn_request(body: RunRequest) -> TurnRequest:
    inputs: dict[str, Any] = {name: {"value": value} for name, value in body.inputs.items()}
    asked: TurnRequest = {"query": body.query, "inputs": inputs}
    if body.files:
        asked["files"] = list(body.files)
    return asked
