"""Routes for what happens to an agent's forms that nobody answers: show it, set it, return to the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.http.native.native_requests import NoBoolean
from ragflow_lg.server.http.native.native_responses import respond_model
from ragflow_lg.server.http.native.native_routing import Agent, make_agent_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.settings.limits_section import MAX_TIMEOUT_S, PauseAnswerKind

router = make_agent_router("runs")

_Timeout = Annotated[
    int, Field(ge=0, le=MAX_TIMEOUT_S, description="Seconds that a form waits for its answer; 0 for ever."), NoBoolean
]
_AnswerKind = Annotated[
    PauseAnswerKind,
    Field(
        description="`defaults`: the form is answered with the values of its fields. `cancel`: the turn is cancelled."
    ),
]


class PauseTimeoutRequest(BaseModel):
    """What happens to forms that nobody answers."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"timeout_s": 86400}]})

    timeout_s: _Timeout
    answer: _AnswerKind = "defaults"


class PauseTimeoutAnswer(BaseModel):
    """What happens to forms that nobody answers."""

    timeout_s: _Timeout
    answer: _AnswerKind
    is_own: Annotated[bool, Field(description="Whether it is set for this agent; otherwise by the server's settings.")]


_PROBLEMS = describe_problems(400, 404, 422)


@router.get(
    "/pause-timeout", response_model=PauseTimeoutAnswer, responses=describe_problems(404), summary="Show the time limit"
)
async def get_pause_timeout(request: Request, agent: Agent) -> Response:
    """Return how long the forms of an agent wait, and what happens then."""
    return _respond(request, agent.pause_timeout_s, agent.pause_answer)


@router.put("/pause-timeout", response_model=PauseTimeoutAnswer, responses=_PROBLEMS, summary="Limit the time of forms")
async def put_pause_timeout(body: PauseTimeoutRequest, request: Request, agent: Agent) -> Response:
    """Set how long forms wait that are opened from now on, and what happens then."""
    await _change(request, agent, body.timeout_s, body.answer)
    return _respond(request, body.timeout_s, body.answer)


@router.delete(
    "/pause-timeout",
    response_model=PauseTimeoutAnswer,
    responses=describe_problems(404),
    summary="Return to the settings' time limit",
)
async def delete_pause_timeout(request: Request, agent: Agent) -> Response:
    """Apply the server's settings to forms that are opened from now on."""
    await _change(request, agent, None, "")
    return _respond(request, None, "")


async def _change(request: Request, agent: Agent, timeout_s: int | None, answer: str) -> None:
    values = {"pause_timeout_s": timeout_s, "pause_answer": answer}
    await AgentRepository(get_app_state(request).database, agent.tenant).change(agent.id, values, None)
    audit("agent.changed", agent=agent.id, what="pause_timeout")


def _respond(request: Request, own_s: int | None, own_answer: str) -> Response:
    section, is_own = get_app_state(request).settings.pauses, own_s is not None
    answer: PauseAnswerKind = ("cancel" if own_answer == "cancel" else "defaults") if is_own else section.answer
    return respond_model(
        PauseTimeoutAnswer(timeout_s=own_s if own_s is not None else section.timeout_s, answer=answer, is_own=is_own)
    )
