"""Routes for versions: the draft and published versions. A published version never changes."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.server.agents.agent_versions import delete_version, find_version, publish
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.http.native.native_requests import PublishRequest
from ragflow_lg.server.http.native.native_responses import (
    VersionAnswer,
    VersionListAnswer,
    VersionWhole,
    build_version_answer,
    respond_model,
)
from ragflow_lg.server.http.native.native_routing import Agent, make_agent_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state

router = make_agent_router("versions")


@router.get("/versions", response_model=VersionListAnswer, responses=describe_problems(404), summary="List versions")
async def list_versions(request: Request, agent: Agent) -> Response:
    """List all versions, newest first, without their canvases."""
    rows = await AgentRepository(get_app_state(request).database, agent.tenant).all_versions(agent.id)
    return respond_model(VersionListAnswer(versions=[build_version_answer(row, agent) for row in rows]))


@router.post(
    "/versions",
    response_model=VersionAnswer,
    status_code=201,
    responses=describe_problems(400, 404, 422),
    summary="Publish",
)
async def publish_version(body: PublishRequest, request: Request, agent: Agent) -> Response:
    """Publish the draft, or a canvas that replaces the draft first. Creates a new version; nothing is overwritten."""
    app_state = get_app_state(request)
    version = await publish(app_state, agent, title=body.title, description=body.description, dsl=body.dsl)
    return respond_model(build_version_answer(version, agent), 201)


@router.get(
    "/versions/{version}", response_model=VersionWhole, responses=describe_problems(404), summary="Show a version"
)
async def get_version(version: str, request: Request, agent: Agent) -> Response:
    """Return a version with its canvas: `draft`, `published` (the last one), or an id."""
    row = await find_version(get_app_state(request).database, agent, version)
    return respond_model(VersionWhole(**build_version_answer(row, agent).model_dump(), dsl=orjson.loads(row.dsl)))


@router.delete(
    "/versions/{version}",
    response_class=Response,
    status_code=204,
    responses=describe_problems(404, 409),
    summary="Delete a version",
)
async def remove_version(version: str, request: Request, agent: Agent) -> Response:
    """Delete a version by its id. The draft and versions in use by sessions cannot be deleted."""
    app_state = get_app_state(request)
    await delete_version(app_state, agent, await find_version(app_state.database, agent, version))
    return Response(status_code=204)
