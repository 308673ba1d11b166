"""Routes for sessions: create, list, show, change, delete, open forms, history, pinned version, run file."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import BusyError, RagflowLgError, RequestError, WorkLimitError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.checkpoints.sessions.session_pruning import PruneLimits
from ragflow_lg.dsl_compiler.drawing import ThemeName
from ragflow_lg.runs.runner import newest_run
from ragflow_lg.runs.stored_steps import page_checkpoints
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.agents.drafts import draw_canvas, draw_picture
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.feedback_repository import FeedbackRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionQuery, SessionRepository
from ragflow_lg.server.database.turn_writer import read_files
from ragflow_lg.server.http.native.native_requests import OpenSession, PinRequest, PruneRequest, SessionChange
from ragflow_lg.server.http.native.native_responses import (
    FoundSession,
    HistoryAnswer,
    PauseAnswer,
    PruneAnswer,
    SessionAnswer,
    SessionListAnswer,
    SessionWhole,
    VisitAnswer,
    build_answer,
    build_moment_answer,
    build_pause_answer,
    build_session_answers,
    build_session_whole,
    build_visit_pause,
    build_visit_run,
)
from ragflow_lg.server.http.native.native_routing import (
    Agent,
    Control,
    Page,
    PageSize,
    build_control,
    make_agent_router,
)
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import WithAnyKey, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected
from ragflow_lg.server.http.shared.turn_sessions import load_agent, load_session, require_own
from ragflow_lg.server.page.run_file import MAX_RUNS, SessionReader, build_run_file

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, MessageRow, SessionRow, VersionRow
    from ragflow_lg.server.runs.run_control import RunControl


router = make_agent_router("sessions")
logger = logging.getLogger(__name__)

DAY_MS = 24 * 3600 * 1000
MAX_VISIT_RUNS = 100
"""How many of the last runs of a session its visitor learns the states of."""


@router.post("/sessions", status_code=201, summary="Create a session")
async def open_session(body: OpenSession, request: Request, agent: Agent, control: Control) -> SessionWhole:
    """Create a session. It uses one version of the canvas until another version is pinned."""
    version = await find_version(get_app_state(request).database, agent, body.version)
    session, messages = await get_turns(request).open_session(
        agent, version, user_id=body.user_id or agent.tenant, name=body.name, source="workflow", has_prologue=True
    )
    (answer,) = await build_session_answers(control, [session])
    return build_session_whole(answer, messages)


@router.get("/sessions", summary="List sessions")
async def list_sessions(
    request: Request,
    agent: Agent,
    control: Control,
    user_id: Annotated[str, Query(max_length=255, description="Only sessions of this user.")] = "",
    keywords: Annotated[
        str, Query(max_length=255, description="Only sessions with this in the name or in a message.")
    ] = "",
    page: Page = 1,
    page_size: PageSize = 30,
) -> SessionListAnswer:
    """List sessions: pinned ones first, then most recently used first."""
    query = SessionQuery(
        user_id=user_id, keywords=keywords, page=page, page_size=page_size, has_pinned_first=True, has_names=True
    )
    sessions = SessionRepository(get_app_state(request).database, agent.tenant)
    rows, total = await sessions.find(agent.id, query)
    excerpts = await sessions.excerpts([row.id for row in rows], keywords) if keywords else {}
    found = [
        FoundSession(**vars(answer), excerpt=excerpts.get(answer.id, ""))
        for answer in await build_session_answers(control, rows)
    ]
    shareable = get_app_state(request).settings.server.shared_links
    return SessionListAnswer(sessions=found, total=total, shareable=shareable)


@router.get("/sessions/{session_id}", summary="Show a session")
async def get_session(session_id: str, request: Request, agent: Agent, control: Control) -> SessionWhole:
    """Return a session with its messages and open forms."""
    return await _build_whole(request, agent, control, await control.session(session_id))


@router.get("/sessions/{session_id}/visit", summary="Show a session to its visitor")
async def get_visit(agent_id: str, session_id: str, request: Request, caller: WithAnyKey) -> VisitAnswer:
    """Return what the visitor of an embedded page has seen of a session, with its open forms and states.

    With a key of embedded pages, only the visitor's own sessions exist, with `X-RAGFlow-Visitor`.
    """
    agent = await load_agent(request, caller, agent_id)
    session = require_own(caller, await load_session(request, agent, session_id))
    control, app_state = build_control(request, agent), get_app_state(request)
    hides_questions = caller.is_page and not app_state.settings.agents.visitors_approve
    try:
        plan = (await get_turns(request).canvases.compile_version(agent, session.version_id)).plan
        whole = await _build_whole(request, agent, control, session)
    except RequestError:
        raise
    except RagflowLgError as error:
        logger.error("a session cannot be shown to its visitor: %s", error)  # it may name hosts, and contain values
        raise RequestError("Internal server error; see the server log.", status=503) from None
    runs, _ = await control.runs(session.id, 1, MAX_VISIT_RUNS)
    nodes = {id_: node.spec.kind for id_, node in plan.nodes.items()} if hides_questions else {}
    return VisitAnswer(
        id=session.id,
        messages=whole.messages,
        pauses=[
            build_visit_pause(pause, is_hidden=nodes.get(NodeId(pause.node), "interrupt") != "interrupt")
            for pause in whole.pauses
        ],
        runs=[await build_visit_run(control, run) for run in runs],
    )


async def _build_whole(request: Request, agent: AgentRow, control: RunControl, session: SessionRow) -> SessionWhole:
    messages = await SessionRepository(get_app_state(request).database, agent.tenant).messages([session.id])
    is_busy = await control.is_busy(session.id)
    pauses = [] if is_busy else await control.pauses(session)
    expiry = await control.expiry(session.id, pauses)
    rows = messages[session.id]
    feedback = await FeedbackRepository(get_app_state(request).database, agent.tenant).of_runs(
        [row.run_id for row in rows if row.run_id]
    )
    demo_runs = await control.demo_runs([row.run_id for row in rows if row.run_id and row.role == "assistant"])
    (answer,) = await build_session_answers(control, [session])
    return build_session_whole(
        answer, rows, pauses, is_busy=is_busy, expiry=expiry, feedback=feedback, demo_runs=demo_runs
    )


@router.patch("/sessions/{session_id}", summary="Rename or pin a session")
async def change_session(session_id: str, body: SessionChange, control: Control) -> SessionAnswer:
    """Change the name of a session, or whether it is above the others in lists."""
    session = await control.session(session_id)
    await control.change_session(session, name=body.name, is_pinned=body.pinned)
    (answer,) = await build_session_answers(control, [await control.session(session_id)])
    return answer


@router.delete("/sessions/{session_id}", responses=describe_problems(409), summary="Delete a session")
async def delete_session(session_id: str, control: Control) -> None:
    """Delete a session and everything stored for it. Runs that its forks show stay, in one of these."""
    await control.delete_session(await control.session(session_id))


@router.post("/sessions/{session_id}/prune", responses=describe_problems(409), summary="Prune a session")
async def prune_session(session_id: str, body: PruneRequest, request: Request, control: Control) -> PruneAnswer:
    """Delete the stored steps of a session's old turns. Messages stay, and the conversation goes on as before.

    The last turn is always kept, with its open forms. Deleted steps can no longer be used by `fork` and `rerun`.
    """
    since_ms = get_app_state(request).now_ms() - int(body.keep_days * DAY_MS) if body.keep_days else 0
    limits, session = PruneLimits(body.keep_turns, since_ms), await control.session(session_id)
    pruned = await control.prune_session(session, limits, is_dry_run=body.dry_run)
    return build_answer(PruneAnswer, pruned)


@router.get("/sessions/{session_id}/pauses", summary="List open forms")
async def list_pauses(session_id: str, control: Control) -> list[PauseAnswer]:
    """List the open forms of a session, each with the JSON Schema of its answer."""
    session = await control.session(session_id)
    pauses = await control.pauses(session)
    expiry = await control.expiry(session.id, pauses)
    return [build_pause_answer(pause, expiry) for pause in pauses]


@router.get("/sessions/{session_id}/history", summary="List steps")
async def get_history(
    session_id: str,
    request: Request,
    agent: Agent,
    control: Control,
    offset: Annotated[int, Query(ge=0, le=1_000_000, description="Steps to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most steps to return.")] = 100,
) -> HistoryAnswer:
    """List the stored steps of a session, newest first, with their times, sizes and next nodes."""
    session, turns = await control.session(session_id), get_turns(request)
    canvas = await turns.canvases.compile_version(agent, session.version_id)
    saver = get_app_state(request).store.saver
    steps, has_more = await page_checkpoints(canvas.with_saver(saver), saver, session.id, offset, limit)
    return HistoryAnswer(moments=[build_moment_answer(step, canvas.plan) for step in steps], has_more=has_more)


@router.put("/sessions/{session_id}/version", responses=describe_problems(409), summary="Pin a version")
async def pin_version(
    session_id: str, body: PinRequest, request: Request, agent: Agent, control: Control
) -> SessionAnswer:
    """Pin a session to another version of the canvas, starting with its next run.

    A waiting or interrupted turn continues only if that version still contains the nodes that run next.
    """
    session = await control.session(session_id)
    version = await find_version(get_app_state(request).database, agent, body.version)
    await control.pin(session, version.id)
    (answer,) = await build_session_answers(control, [await control.session(session_id)])
    return answer


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
    content = await await_while_connected(request, _build_run_file(app_state, agent, session, version, reader))
    name = f'attachment; filename="{session.id}.html"'
    return Response(content, media_type="text/html", headers={"content-disposition": name})


async def _build_run_file(
    app_state: AppState, agent: AgentRow, session: SessionRow, version: VersionRow, reader: SessionReader
) -> bytes:
    try:
        async with asyncio.timeout(LIMIT_S):
            await _learn_from_older(app_state, agent, session, reader)
            rows = await SessionRepository(app_state.database, agent.tenant).messages([session.id])
            messages = [(row.role, row.content or _name_files(row)) for row in rows[session.id]]
            record = await reader.read(agent.title, await _draw(app_state, version), messages)
            return await asyncio.to_thread(build_run_file, record)
    except TimeoutError:
        text = f"The run file was not finished within {LIMIT_S:g} s. Prune the session, and try again."
        raise RequestError(text, status=422, reason="work-limit") from None
    except WorkLimitError as error:
        if not error.is_retryable:
            raise
        raise BusyError(str(error)) from None


def _name_files(row: MessageRow) -> str:
    return ", ".join(file.get("name", "") for file in read_files(row.files))


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
    return {
        theme: (await draw_canvas(workers, settings, content, partial(draw_picture, theme=theme))).decode()
        for theme in _THEMES
    }
