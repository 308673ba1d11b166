"""The route for a session as a run file."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import BusyError, RequestError, WorkLimitError
from ragflow_lg.dsl_compiler.drawing import Sketch, ThemeName, to_svg
from ragflow_lg.runs.runner import newest_run
from ragflow_lg.server.agents.canvas_checks import draw_canvas
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.http.native.native_routing import Agent, Control, make_agent_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected
from ragflow_lg.server.page.run_file import SessionReader, build_run_file
from ragflow_lg.server.page.run_file.session_record import MAX_RUNS

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, SessionRow, VersionRow

router = make_agent_router("sessions")

LIMIT_S = 60.0
"""How long building a file may take."""
MAX_OLDER_VERSIONS = 50
"""How many canvases of earlier runs are searched for secrets."""

_THEMES: tuple[ThemeName, ...] = ("light", "dark")


@router.get(
    "/sessions/{session_id}/run-file",
    responses={
        200: {"description": "The run file.", "content": {"text/html": {"schema": {"type": "string"}}}},
        **describe_problems(409),
    },
    summary="Download a run file",
)
async def get_run_file(session_id: str, request: Request, agent: Agent, control: Control) -> Response:
    """Return a session as one HTML file that opens without a server: graph, conversation, calls, state at every step.

    Secrets are taken out, and long values are cut.
    """
    app_state, canvases = get_app_state(request), get_turns(request).canvases
    session = await control.session(session_id)
    if await newest_run(app_state.store, session.id) is None:
        raise RequestError("Nothing has run in this session.", status=404)
    version = await canvases.version(agent, session.version_id)
    reader = SessionReader(
        await canvases.compile(version), app_state.store, session.id, app_state.settings_of(agent.tenant).secrets
    )
    content = await await_while_connected(request, _build(app_state, agent, session, version, reader))
    name = f'attachment; filename="{session.id}.html"'
    return Response(content, media_type="text/html", headers={"content-disposition": name})


async def _build(
    app_state: AppState, agent: AgentRow, session: SessionRow, version: VersionRow, reader: SessionReader
) -> bytes:
    """Return the file."""
    try:
        async with asyncio.timeout(LIMIT_S):
            await _learn_from_older(app_state, agent, session, reader)
            record = await reader.read(agent.title, await _draw(app_state, version))
            return await asyncio.to_thread(build_run_file, record)
    except TimeoutError:
        text = f"The run file was not finished within {LIMIT_S:g} s. Prune the session, and try again."
        raise RequestError(text, status=422, reason="work-limit") from None
    except WorkLimitError as error:
        if not error.is_retryable:
            raise
        raise BusyError(str(error)) from None


async def _learn_from_older(app_state: AppState, agent: AgentRow, session: SessionRow, reader: SessionReader) -> None:
    """Learn the secrets of the other versions that runs of a session have used, as far as these are still stored."""
    rows, _ = await RunRepository(app_state.database, agent.tenant).find(agent.id, session.id, 1, MAX_RUNS)
    ids = dict.fromkeys(row.version_id for row in rows if row.version_id != session.version_id)
    agents = AgentRepository(app_state.database, agent.tenant)
    for id_ in list(ids)[:MAX_OLDER_VERSIONS]:
        if (older := await agents.version(agent.id, id_)) is not None:
            reader.learn_from(older.dsl)


async def _draw(app_state: AppState, version: VersionRow) -> dict[str, str]:
    settings, workers = app_state.settings_of(version.tenant), app_state.services.workers
    content = version.dsl.encode()
    pictures = [await draw_canvas(workers, settings, content, partial(_draw_svg, theme=theme)) for theme in _THEMES]
    return {theme: picture.decode() for theme, picture in zip(_THEMES, pictures, strict=True)}


def _draw_svg(sketch: Sketch, *, theme: ThemeName) -> str:
    return to_svg(sketch, direction="down", theme=theme, as_in_editor=sketch.has_positions)
