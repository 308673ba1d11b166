"""Routes for runs: show what they begin with, start, list, show, follow, answer, continue, rerun, fork, cancel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError, StreamGapError, StreamUnknownError
from ragflow_lg.dsl.forms import form_schema
from ragflow_lg.runs.graph_input import check_begin
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.http.native.native_requests import ForkRequest, NoFields, RerunRequest, ResumeRequest, RunRequest
from ragflow_lg.server.http.native.native_responses import RunAnswer, RunListAnswer, Translations, build_run_answer
from ragflow_lg.server.http.native.native_routing import Agent, Control, Page, PageSize, make_agent_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.native.run_responses import (
    BEGIN_RESPONSES,
    EVENT_STREAM,
    RUN_RESPONSES,
    EventResponder,
    Records,
    Responder,
    StreamResponder,
    load_run_answer,
    read_event_position,
    stream_run,
    trial_of,
)
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.runs.turn_session import TurnSession

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.server.runs.turns import Turn

router = make_agent_router("runs")


class BeginAnswer(BaseModel):
    """What a conversation begins with."""

    title: Annotated[str, Field(description="Title of the agent.")]
    translations: Translations
    mode: Annotated[str, Field(description="`conversational`, `task` or `Webhook`. A task needs no `query`.")]
    prologue: Annotated[str, Field(description="Opening words; empty if none.")]
    fields: Annotated[dict[str, Any], Field(description="Fields of Begin's form, as declared in the canvas.")]
    inputs_schema: Annotated[dict[str, Any], Field(description="JSON Schema of a run's `inputs`.")]
    is_demo: Annotated[bool, Field(description="Whether the demo model answers, with samples in place of services.")]


def _describe_stream(description: str, *problems: int) -> dict[int | str, dict[str, Any]]:
    stream = {200: {"description": description, "content": {"text/event-stream": EVENT_STREAM}}}
    return stream | describe_problems(*problems)


@router.post("/runs", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Start a run")
async def begin_run(body: RunRequest, responder: Responder) -> Response:
    """Start a turn in a new or an existing session. A session with open forms refuses new turns."""
    return await responder.respond(_bind_start(responder, body))


@router.post(
    "/runs/stream",
    responses=_describe_stream(RUN_RESPONSES[200]["description"], 409),
    summary="Start a run and stream it",
)
async def stream_new_run(body: RunRequest, responder: StreamResponder) -> Response:
    """Start a turn as `runs?mode=stream` does. Every event has an id; the last frame, `end`, contains the run."""
    return await responder.respond(_bind_start(responder, body))


@router.get("/runs", summary="List runs")
async def list_runs(
    agent: Agent,
    control: Control,
    session_id: Annotated[str, Query(max_length=64, description="Only runs of this session.")] = "",
    page: Page = 1,
    page_size: PageSize = 30,
) -> RunListAnswer:
    """List runs, newest first, without answers or pauses."""
    rows, total = await control.runs(session_id, page, page_size)
    questions = await control.questions(rows)
    return RunListAnswer(runs=[await build_run_answer(control, row, questions) for row in rows], total=total)


@router.get("/runs/{run_id}", summary="Show a run")
async def get_run(run_id: str, control: Control) -> RunAnswer:
    """Return a run with its answer and its open forms."""
    return await load_run_answer(control, run_id)


@router.get(
    "/runs/{run_id}/events",
    responses=_describe_stream("The events.", 400, 410)
    | {204: {"description": "The events are no longer stored, and `if_stored` is true."}},
    summary="Follow a run",
)
async def follow_run(
    run_id: str,
    request: Request,
    control: Control,
    from_: Annotated[
        str | None, Query(alias="from", max_length=64, description="Number of the first event to send, from 1.")
    ] = None,
    records: Records = False,
    if_stored: Annotated[
        bool, Query(description="Whether events that are no longer stored are a 204, not a 410.")
    ] = False,
) -> Response:
    """Stream a run's events, starting with the first or a given event, until the run ends. Works on any replica.

    `Last-Event-ID`, the id of the last event received, overrides `from`. No event is lost or repeated.
    Events are stored for a few minutes after a run ends; later requests return 410.
    """
    run = await control.run(run_id)
    after = read_event_position(request, run.id, from_)
    try:
        return await stream_run(request, control, run, after, has_records=records)
    except (StreamGapError, StreamUnknownError):
        if not if_stored:
            raise
        return Response(status_code=204)


@router.post("/runs/{run_id}/resume", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Answer a run")
async def resume_run(run_id: str, body: ResumeRequest, responder: Responder) -> Response:
    """Answer a run's open forms; a new run continues from there. Errors name the invalid field."""
    if bool(body.answers) == bool(body.fields):
        raise RequestError("Send either `answers` or `fields`.", 101, status=422)

    async def start(control: RunControl) -> Turn:
        return await control.resume(await control.run(run_id), body.answers or body.fields)

    return await responder.respond(start)


@router.post("/runs/{run_id}/continue", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Continue a run")
async def continue_run(run_id: str, responder: Responder, body: NoFields | None = None) -> Response:
    """Continue a run interrupted by a crash, a shutdown or a cancellation. Finished nodes do not run again."""

    async def start(control: RunControl) -> Turn:
        return await control.continue_(await control.run(run_id))

    return await responder.respond(start)


@router.post("/runs/{run_id}/rerun", response_model=RunAnswer, responses=BEGIN_RESPONSES, summary="Rerun from a node")
async def rerun_run(run_id: str, body: RerunRequest, responder: Responder) -> Response:
    """Rerun the last turn of a session from a node, with changed values or another canvas, in a new session."""

    async def start(control: RunControl) -> Turn:
        run = await control.run(run_id)
        async with trial_of(responder.request, responder.agent, body.dsl) as version:
            return await control.rerun(run, body.node, body.round, body.changes, body.session_name, version)

    return await responder.respond(start)


@router.post("/runs/{run_id}/fork", status_code=201, responses=describe_problems(409), summary="Fork a run")
async def fork_run(run_id: str, body: ForkRequest, request: Request, agent: Agent, control: Control) -> RunAnswer:
    """Create a session that starts where the run ended, or at a checkpoint in its session, with changed values.

    The response is a run that represents the new session: resume it if it waits, continue it if it is interrupted,
    or start a new turn in its session.
    """
    run = await control.run(run_id)
    async with trial_of(request, agent, body.dsl) as version:
        row = await control.fork(run, body.checkpoint, body.session_name, body.changes, version)
    return await load_run_answer(control, row.id)


@router.post("/runs/{run_id}/cancel", status_code=202, summary="Cancel a run")
async def cancel_run(run_id: str, control: Control, body: NoFields | None = None) -> RunAnswer:
    """Cancel a run on any replica; it can be continued later. A waiting run is abandoned; an ended run is unchanged."""
    await control.cancel(await control.run(run_id))
    return await load_run_answer(control, run_id)


@router.get("/begin", summary="Show how a session begins")
async def get_begin(
    request: Request,
    agent: Agent,
    version: Annotated[str, Query(max_length=32, description="Version of the canvas, as in `POST …/runs`.")] = "",
) -> BeginAnswer:
    """Return the greeting and Begin's form of the version that new sessions use, or of a given one."""
    app_state = get_app_state(request)
    row = await find_version(app_state.database, agent, version)
    plan = (await get_turns(request).canvases.compile(row)).plan
    params = plan.nodes[plan.entry].params
    fields: dict[str, Any] = getattr(params, "inputs", {})
    return BeginAnswer(
        title=agent.title,
        translations=agent.texts,
        mode=getattr(params, "mode", ""),
        prologue=getattr(params, "prologue", None) or "",
        fields=fields,
        inputs_schema=form_schema(fields),
        is_demo=app_state.services_of(agent.tenant, agent.id).is_demo,
    )


def _bind_start(responder: EventResponder, body: RunRequest) -> Callable[[RunControl], Awaitable[Turn]]:
    request, agent, turns = responder.request, responder.agent, get_turns(responder.request)

    async def start(control: RunControl) -> Turn:
        turn_request = _build_turn_request(body)
        if body.resume_from:
            if body.session_id or body.version:
                raise RequestError(
                    "`resume_from` determines the session and the version: omit `session_id` and `version`.",
                    101,
                    status=422,
                )
            return await control.resume_from(await control.run(body.resume_from), turn_request, body.inputs)
        if body.session_id:
            if body.version:
                raise RequestError("A session has a fixed version; pin another version first.", 101, status=422)
            session = TurnSession(await control.session(body.session_id))
        else:
            version = await find_version(get_app_state(request).database, agent, body.version)
            canvas = await turns.canvases.compile(version)  # an invalid canvas must not create a session
            check_begin(canvas.plan, turn_request)
            name = body.session_name or (body.query if isinstance(body.query, str) else "")
            user_id = body.user_id or agent.tenant
            session = await turns.new_session(agent, version, user_id=user_id, name=name, source="workflow")
        turn_request["user_id"] = session.row.user_id or agent.tenant
        return await control.start(session, turn_request)

    return start


def _build_turn_request(body: RunRequest) -> TurnRequest:
    inputs: dict[str, Any] = {name: {"value": value} for name, value in body.inputs.items()}
    request: TurnRequest = {"query": body.query, "inputs": inputs}
    if body.files:
        request["files"] = list(body.files)
    return request
