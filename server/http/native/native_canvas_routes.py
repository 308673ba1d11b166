"""Routes for canvases in the request body, which are checked or drawn, for the list of agents, and for versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.dsl_compiler import with_components
from ragflow_lg.dsl_compiler.drawing import Direction, ThemeName, to_mermaid, to_png, to_svg, to_text_drawing
from ragflow_lg.server.agents.agent_versions import delete_version, find_version, publish
from ragflow_lg.server.agents.canvas_file_agents import EXAMPLE
from ragflow_lg.server.agents.drafts import draw_canvas, draw_picture, find_diagnostics, upgraded_canvas
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.http.native.agent_cards import Kind, find_kind, find_picture, sketch_canvas
from ragflow_lg.server.http.native.native_requests import PublishRequest
from ragflow_lg.server.http.native.native_responses import (
    CheckAnswer,
    DiagnosticAnswer,
    Translations,
    VersionAnswer,
    VersionListAnswer,
    VersionWhole,
    build_answer,
    build_version_answer,
)
from ragflow_lg.server.http.native.native_routing import (
    Agent,
    Authenticated,
    Page,
    PageSize,
    make_agent_router,
    make_native_router,
)
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state

router = make_native_router("canvases")

_FORMATS: dict[str, tuple[Callable[..., str | bytes], str]] = {
    "svg": (to_svg, "image/svg+xml"),
    "png": (to_png, "image/png"),
    "mermaid": (to_mermaid, "text/vnd.mermaid; charset=utf-8"),
    "text": (to_text_drawing, "text/plain; charset=utf-8"),
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A canvas in RAGFlow's export format.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"components": {}}}},
    }
}
Format = Literal["svg", "png", "mermaid", "text"]
Layout = Literal["auto", "editor"]

list_router = make_native_router("agents")
version_router = make_agent_router("versions")


class AgentCard(BaseModel):
    """An agent as a list shows it."""

    id: str
    title: str
    description: str
    translations: Translations
    picture: Annotated[str, Field(description="Its avatar as a data URL of a raster image; empty if it has none.")]
    kind: Annotated[Kind, Field(description="How it is used.")]
    is_example: bool
    sessions: Annotated[int, Field(description="Number of its conversations.")]
    last_use_ms: Annotated[int, Field(description="When the last conversation was used; 0 for never.")]
    update_ms: int
    nodes: Annotated[list[tuple[int, int]], Field(description="Where the nodes are in a small drawing: x and y.")]
    edges: Annotated[list[tuple[int, int]], Field(description="The numbers of the nodes that an edge connects.")]


class AgentListAnswer(BaseModel):
    """A page of agents."""

    agents: list[AgentCard]
    total: int


@list_router.get("/agents", summary="List agents")
async def list_agents(
    request: Request, caller: Authenticated, page: Page = 1, page_size: PageSize = 30
) -> AgentListAnswer:
    """List the agents, last changed first, with how they are used and a small drawing of their drafts."""
    repository = AgentRepository(get_app_state(request).database, caller.tenant)
    rows, total = await repository.find(AgentQuery(order="update", page=page, page_size=page_size))
    ids = [row.id for row in rows]
    versions = await repository.versions([row.version_id for row in rows])
    uses, scheduled = await repository.uses(ids), await repository.scheduled(ids)
    canvases: dict[str, Any] = await asyncio.to_thread(lambda: {id_: row.canvas for id_, row in versions.items()})
    cards = [
        build_answer(
            AgentCard,
            row,
            description=row.description or "",
            translations=row.texts,
            picture=find_picture(row),
            kind=find_kind(canvas, is_scheduled=row.id in scheduled),
            is_example=row.canvas_type == EXAMPLE,
            sessions=uses.get(row.id, (0, 0))[0],
            last_use_ms=uses.get(row.id, (0, 0))[1],
            **sketch_canvas(canvas)._asdict(),
        )
        for row in rows
        for canvas in [with_components(as_map(canvases.get(row.version_id)))]
    ]
    return AgentListAnswer(agents=cards, total=total)


@router.post("/check", openapi_extra=_BODY, summary="Check")
async def check(request: Request, caller: Authenticated) -> CheckAnswer:
    """Check a canvas and return all diagnostics, with line and column in the request body; also for invalid JSON."""
    document, app_state = await request.body(), get_app_state(request)
    settings, workers = app_state.settings_of(caller.tenant), app_state.services.workers
    can_run, diagnostics = await find_diagnostics(workers, settings, document)
    answers = [DiagnosticAnswer(**diagnostic.as_dict()) for diagnostic in diagnostics]
    return CheckAnswer(runs=can_run, diagnostics=answers)


@router.post(
    "/draw",
    responses={
        200: {
            "description": "The drawing.",
            "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for _, kind in _FORMATS.values()},
        }
    },
    openapi_extra=_BODY,
    summary="Draw",
)
async def draw(
    request: Request,
    caller: Authenticated,
    format: Annotated[Format, Query(description="Format of the drawing.")] = "svg",
    direction: Annotated[Direction, Query(description="Where the flow leads; not for text.")] = "right",
    theme: Annotated[ThemeName, Query(description="Colours of SVG and PNG.")] = "light",
    layout: Annotated[
        Layout, Query(description="`editor` puts nodes where RAGFlow's editor shows them, if the canvas says where.")
    ] = "auto",
) -> Response:
    """Draw a canvas with titles, tools, dashed edges for conditional paths, and boxes around loops.

    A canvas that cannot run is drawn with its errors marked.
    """
    document, app_state = await request.body(), get_app_state(request)
    settings, workers = app_state.settings_of(caller.tenant), app_state.services.workers
    render, kind = _FORMATS[format]
    if format in ("svg", "png"):
        render = partial(draw_picture, render=render, direction=direction, theme=theme, is_editors=layout == "editor")
    elif format == "mermaid":
        render = partial(render, direction=direction)
    return Response(await draw_canvas(workers, settings, document, render), media_type=kind)


@version_router.get("/versions", summary="List versions")
async def list_versions(request: Request, agent: Agent) -> VersionListAnswer:
    """List all versions, newest first, without their canvases."""
    rows = await AgentRepository(get_app_state(request).database, agent.tenant).all_versions(agent.id)
    return VersionListAnswer(versions=[build_version_answer(row, agent) for row in rows])


@version_router.post("/versions", status_code=201, summary="Publish")
async def publish_version(body: PublishRequest, request: Request, agent: Agent) -> VersionAnswer:
    """Publish the draft, or a canvas that replaces the draft first. Creates a new version; nothing is overwritten."""
    app_state = get_app_state(request)
    version = await publish(app_state, agent, title=body.title, description=body.description, dsl=body.dsl)
    return build_version_answer(version, agent)


@version_router.get("/versions/{version}", summary="Show a version")
async def get_version(
    version: str,
    request: Request,
    agent: Agent,
    upgraded: Annotated[
        bool, Query(description="Whether the canvas is returned with the components that run, not as it is stored.")
    ] = False,
) -> VersionWhole:
    """Return a version with its canvas: `draft`, `published` (the last one), or an id.

    A canvas from before RAGFlow 0.20, or one that has only the editor's graph, runs with other components than it
    stores.
    """
    app_state = get_app_state(request)
    row = await find_version(app_state.database, agent, version)
    dsl = await upgraded_canvas(app_state.services.workers, row) if upgraded else row.canvas
    return VersionWhole(**build_version_answer(row, agent).model_dump(), dsl=dsl)


@version_router.delete("/versions/{version}", responses=describe_problems(409), summary="Delete a version")
async def remove_version(version: str, request: Request, agent: Agent) -> None:
    """Delete a version by its id. The draft and versions in use by sessions cannot be deleted."""
    app_state = get_app_state(request)
    await delete_version(app_state, agent, await find_version(app_state.database, agent, version))
