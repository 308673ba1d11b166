"""The route for a session as a run file."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.canvas_checks import draw_canvas
from ragflow_lg.server.drawing import Sketch, ThemeName, to_svg
from ragflow_lg.server.http.native.native_routing import Agent, Control, make_agent_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.run_file import SessionReader, build_run_file
from ragflow_lg.server.runs.stored_sessions import newest_run

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import VersionRow

router = make_agent_router("sessions")

_THEMES: tuple[ThemeName, ...] = ("light", "dark")


@router.get(
    "/sessions/{session_id}/run-file",
    response_class=Response,
    responses={
        200: {"description": "The run file.", "content": {"text/html": {"schema": {"type": "string"}}}},
        **describe_problems(404, 409),
    },
    summary="Download a run file",
)
async def get_run_file(session_id: str, request: Request, agent: Agent, control: Control) -> Response:
    """Return a session as one HTML file that opens without a server: graph, conversation, calls, state at every step.

    Secrets are taken out, and long values are cut.
    """
    session, app_state, canvases = (
        await control.session(session_id),
        get_app_state(request),
        get_turns(request).canvases,
    )
    if await newest_run(app_state.store, session.id) is None:
        raise RequestError("Nothing has run in this session.", status=404)
    version = await canvases.version(agent, session.version_id)
    reader = SessionReader(
        await canvases.compile(version), app_state.store, session.id, app_state.settings_of(agent.tenant).secrets
    )
    record = await reader.read(agent.title, await _draw(app_state, version))
    content = await asyncio.to_thread(build_run_file, record)
    name = f'attachment; filename="{session.id}.html"'
    return Response(content, media_type="text/html", headers={"content-disposition": name})


async def _draw(app_state: AppState, version: VersionRow) -> dict[str, str]:
    settings, workers = app_state.settings_of(version.tenant), app_state.workers_of(version.tenant)
    content = version.dsl.encode()
    pictures = [await draw_canvas(workers, settings, content, partial(_draw_svg, theme=theme)) for theme in _THEMES]
    return {theme: picture.decode() for theme, picture in zip(_THEMES, pictures, strict=True)}


def _draw_svg(sketch: Sketch, *, theme: ThemeName) -> str:
    return to_svg(sketch, direction="down", theme=theme, as_in_editor=sketch.has_positions)
