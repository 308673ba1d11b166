"""Routes for the time limit of forms that wait."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.http.native.native_requests import Body, NoBoolean
from ragflow_lg.server.http.native.native_routing import Agent, make_agent_router
from ragflow_lg.server.http.shared.auth import get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import with_examples
from ragflow_lg.server.observability.logs import audit
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


@router.get("/pause-timeout", summary="Show the time limit")
async def get_pause_timeout(request: Request, agent: Agent) -> PauseTimeoutAnswer:
    """Return how long the forms of an agent wait, and what happens then."""
    return _build_pause_timeout(request, agent.pause_timeout_s, agent.pause_answer)


@router.put("/pause-timeout", summary="Limit the time of forms")
async def put_pause_timeout(body: PauseTimeoutRequest, request: Request, agent: Agent) -> PauseTimeoutAnswer:
    """Set how long forms wait that are opened from now on, and what happens then."""
    await _change_timeout(request, agent, body.timeout_s, body.answer)
    return _build_pause_timeout(request, body.timeout_s, body.answer)


@router.delete("/pause-timeout", summary="Return to the settings' time limit")
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
