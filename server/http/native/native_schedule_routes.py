"""Routes for what happens to an agent by itself: schedules that start turns, and the time limit of forms that wait."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.runs.graph_input import check_begin
from ragflow_lg.server.agents.agent_schedules import NewSchedule, create_schedule, delete_schedule, find_next_times
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.due_rows import ScheduleRepository
from ragflow_lg.server.database.tables import CRON_CHARS, TIME_ZONE_CHARS, ScheduleRow
from ragflow_lg.server.http.native.native_requests import Body, Inputs, Line, NoBoolean, Text, Version
from ragflow_lg.server.http.native.native_responses import build_answer
from ragflow_lg.server.http.native.native_routing import Agent, Page, PageSize, make_agent_router
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.ragflow_routes import with_examples
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.settings.limits_section import MAX_TIMEOUT_S, PauseAnswerKind

router = make_agent_router("schedules")


class ScheduleRequest(Body):
    """A schedule to create."""

    model_config = with_examples(
        {"cron": "0 9 * * MON", "time_zone": "Europe/Berlin", "query": "What is new this week?"}
    )

    cron: Annotated[
        str,
        Field(
            min_length=1,
            max_length=CRON_CHARS,
            description="Five fields: minute, hour, day of the month, month, day of the week.",
        ),
    ]
    time_zone: Annotated[
        str, Field(min_length=1, max_length=TIME_ZONE_CHARS, description="Name in the IANA database.")
    ] = "UTC"
    query: Annotated[Text, Field(description="Message that each turn starts with.")] = ""
    inputs: Inputs = Field(default_factory=dict[str, Any])
    session_name: Annotated[Line, Field(description="Name of its sessions. Default: the beginning of the query.")] = ""
    version: Version = ""


class ScheduleAnswer(BaseModel):
    """A schedule."""

    id: str
    cron: str
    time_zone: str
    session_name: str
    version: str
    next_ms: Annotated[list[int], Field(description="The next starts, in epoch milliseconds; none if it has ended.")]
    last_run_id: Annotated[str, Field(description="The last run that it started; empty if none.")]
    error: Annotated[str, Field(description="Why the last start was refused; empty if it was not.")]
    create_ms: Annotated[int, Field(description="Epoch milliseconds.")]


class ScheduleListAnswer(BaseModel):
    """Schedules of an agent."""

    schedules: list[ScheduleAnswer]


@router.post("/schedules", status_code=201, summary="Create a schedule")
async def create_schedule_of_agent(body: ScheduleRequest, request: Request, agent: Agent) -> ScheduleAnswer:
    """Create a schedule. At each of its times, a turn starts in a new session."""
    app_state, turns = get_app_state(request), get_turns(request)
    version = await find_version(app_state.database, agent, body.version)
    check_begin((await turns.canvases.compile(version)).plan, {"query": body.query, "inputs": body.inputs})
    new = NewSchedule(body.cron, body.time_zone, body.query, body.inputs, body.session_name, body.version)
    row = await create_schedule(app_state.database, agent, app_state.new_id(), new, app_state.now_ms())
    return _build_answer(row, app_state.now_ms())


@router.get("/schedules", summary="List schedules")
async def list_schedules(
    request: Request, agent: Agent, page: Page = 1, page_size: PageSize = 30
) -> ScheduleListAnswer:
    """List the schedules of an agent, oldest first."""
    app_state = get_app_state(request)
    rows = await ScheduleRepository(app_state.database, agent.tenant).list(agent.id, page, page_size)
    return ScheduleListAnswer(schedules=[_build_answer(row, app_state.now_ms()) for row in rows])


@router.delete("/schedules/{schedule_id}", summary="Delete a schedule")
async def delete_schedule_of_agent(schedule_id: str, request: Request, agent: Agent) -> None:
    """Delete a schedule. Runs that it has started go on."""
    if not await delete_schedule(get_app_state(request).database, agent.tenant, schedule_id, agent.id):
        raise RequestError("Schedule not found.", status=404)


def _build_answer(row: ScheduleRow, now_ms: int) -> ScheduleAnswer:
    try:
        next_ms = find_next_times(row, now_ms)
    except RequestError:  # its error says that it has ended
        next_ms = []
    return build_answer(ScheduleAnswer, row, session_name=row.name, next_ms=next_ms)


pause_router = make_agent_router("runs")

_Timeout = Annotated[
    int, Field(ge=0, le=MAX_TIMEOUT_S, description="Seconds that a form waits for its answer; 0 for ever."), NoBoolean
]
_AnswerKind = Annotated[
    PauseAnswerKind,
    Field(
        description="`defaults`: the form is answered with the values of its fields. `cancel`: the turn is cancelled."
    ),
]


class PauseTimeoutRequest(Body):
    """What happens to forms that nobody answers."""

    model_config = with_examples({"timeout_s": 86400})

    timeout_s: _Timeout
    answer: _AnswerKind = "defaults"


class PauseTimeoutAnswer(BaseModel):
    """What happens to forms that nobody answers."""

    timeout_s: _Timeout
    answer: _AnswerKind
    is_own: Annotated[bool, Field(description="Whether it is set for this agent; otherwise by the server's settings.")]


@pause_router.get("/pause-timeout", summary="Show the time limit")
async def get_pause_timeout(request: Request, agent: Agent) -> PauseTimeoutAnswer:
    """Return how long the forms of an agent wait, and what happens then."""
    return _build_pause_timeout(request, agent.pause_timeout_s, agent.pause_answer)


@pause_router.put("/pause-timeout", summary="Limit the time of forms")
async def put_pause_timeout(body: PauseTimeoutRequest, request: Request, agent: Agent) -> PauseTimeoutAnswer:
    """Set how long forms wait that are opened from now on, and what happens then."""
    await _change_timeout(request, agent, body.timeout_s, body.answer)
    return _build_pause_timeout(request, body.timeout_s, body.answer)


@pause_router.delete("/pause-timeout", summary="Return to the settings' time limit")
async def delete_pause_timeout(request: Request, agent: Agent) -> PauseTimeoutAnswer:
    """Apply the server's settings to forms that are opened from now on."""
    await _change_timeout(request, agent, None, "")
    return _build_pause_timeout(request, None, "")


async def _change_timeout(request: Request, agent: Agent, timeout_s: int | None, answer: str) -> None:
    values = {"pause_timeout_s": timeout_s, "pause_answer": answer}
    await AgentRepository(get_app_state(request).database, agent.tenant).change(agent.id, values, None)
    audit("agent.changed", agent=agent.id, what="pause_timeout")


def _build_pause_timeout(request: Request, own_s: int | None, own_answer: str) -> PauseTimeoutAnswer:
    section, is_own = get_app_state(request).settings.pauses, own_s is not None
    answer: PauseAnswerKind = ("cancel" if own_answer == "cancel" else "defaults") if is_own else section.answer
    timeout_s = own_s if own_s is not None else section.timeout_s
    return PauseTimeoutAnswer(timeout_s=timeout_s, answer=answer, is_own=is_own)
