"""Versions: the draft, and what was published. A published version never changes."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.server.agents.agent_versions import delete_version, find_version, publish
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.http.native.native_requests import PublishRequest
from ragflow_lg.server.http.native.native_responses import VersionAnswer, VersionListAnswer, VersionWhole, respond
from ragflow_lg.server.http.native.native_routing import Agent, agent_router
from ragflow_lg.server.http.native.native_views import version_view
from ragflow_lg.server.http.native.problem_details import problem_responses
from ragflow_lg.server.http.shared.auth import app_state_of

__all__ = ["router"]

router = agent_router("versions")


@router.get("/versions", response_model=VersionListAnswer, responses=problem_responses(404), summary="List versions")
async def list_versions(request: Request, agent: Agent) -> Response:
    """List all versions, the newest first, without their canvases."""
    rows = await AgentRepository(app_state_of(request).database, agent.tenant).all_versions(agent.id)
    return respond(VersionListAnswer(versions=[version_view(row, agent) for row in rows]))


@router.post(
    "/versions",
    response_model=VersionAnswer,
    status_code=201,
    responses=problem_responses(400, 404, 422),
    summary="Publish",
)
async def publish_version(body: PublishRequest, request: Request, agent: Agent) -> Response:
    """Publish the draft, or a canvas that becomes the draft: always as a new version, nothing is overwritten."""
    app_state = app_state_of(request)
    made = await publish(app_state, agent, title=body.title, description=body.description, dsl=body.dsl)
    return respond(version_view(made, agent), 201)


@router.get(
    "/versions/{version}", response_model=VersionWhole, responses=problem_responses(404), summary="Show a version"
)
async def get_version(version: str, request: Request, agent: Agent) -> Response:
    """Show a version with its canvas: `draft`, `published` (the last one), or an id."""
    row = await find_version(app_state_of(request).database, agent, version)
    return respond(VersionWhole(**version_view(row, agent).model_dump(), dsl=orjson.loads(row.dsl)))


@router.delete(
    "/versions/{version}",
    response_class=Response,
    status_code=204,
    responses=problem_responses(404, 409),
    summary="Delete a version",
)
async def remove_version(version: str, request: Request, agent: Agent) -> Response:
    """Delete a version, by its id. The draft, and what sessions keep to, stay."""
    app_state = app_state_of(request)
    await delete_version(app_state, agent, await find_version(app_state.database, agent, version))
    return Response(status_code=204)
