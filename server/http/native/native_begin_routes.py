"""Route for what a conversation with an agent begins with: its greeting and Begin's form."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.dsl.forms import form_schema
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.http.native.native_routing import Agent, make_agent_router
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns

router = make_agent_router("runs")


class BeginAnswer(BaseModel):
    """What a conversation begins with."""

    title: Annotated[str, Field(description="Title of the agent.")]
    mode: Annotated[str, Field(description="`conversational`, `task` or `Webhook`. A task needs no `query`.")]
    prologue: Annotated[str, Field(description="Opening words; empty if none.")]
    fields: Annotated[dict[str, Any], Field(description="Fields of Begin's form, as declared in the canvas.")]
    inputs_schema: Annotated[dict[str, Any], Field(description="JSON Schema of a run's `inputs`.")]


@router.get("/begin", summary="Show how a session begins")
async def get_begin(
    request: Request,
    agent: Agent,
    version: Annotated[str, Query(max_length=32, description="Version of the canvas, as in `POST …/runs`.")] = "",
) -> BeginAnswer:
    """Return the greeting and Begin's form of the version that new sessions use, or of a given one."""
    row = await find_version(get_app_state(request).database, agent, version)
    plan = (await get_turns(request).canvases.compile(row)).plan
    params = plan.nodes[plan.entry].params
    fields: dict[str, Any] = getattr(params, "inputs", {})
    return BeginAnswer(
        title=agent.title,
        mode=getattr(params, "mode", ""),
        prologue=getattr(params, "prologue", None) or "",
        fields=fields,
        inputs_schema=form_schema(fields),
    )
