"""Routes for schedules, at whose times turns of an agent start by themselves: create, list and delete them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.runs.begin_check import check_begin
from ragflow_lg.server.agents.agent_schedules import NewSchedule, create_schedule, delete_schedule, find_next_times
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.database.schedule_repository import ScheduleRepository
from ragflow_lg.server.database.tables import CRON_CHARS, TIME_ZONE_CHARS, ScheduleRow
from ragflow_lg.server.http.native.native_requests import Body, Inputs, Line, Text, Version
from ragflow_lg.server.http.native.native_responses import build_answer
from ragflow_lg.server.http.native.native_routing import Agent, Page, PageSize, make_agent_router
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.route_schemas import with_examples

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
    async with turns.quotas.room(agent.tenant, "schedules"):
        row = await create_schedule(app_state.database, agent, app_state.new_id(), new, app_state.now_ms())
    return _build_answer(row, app_state.now_ms())


@router.get("/schedules", summary="List schedules")
async def list_schedules(
    request: Request,
    agent: Agent,
    page: Page = 1,
    page_size: PageSize = 30,
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
