"""Routes for what readers think of answers: give it, take it back, list it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.feedback_repository import FeedbackRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import TITLE_CHARS, FeedbackRow, SessionRow
from ragflow_lg.server.http.native.native_requests import FeedbackRequest
from ragflow_lg.server.http.native.native_responses import Feedback, FeedbackAnswer, FeedbackListAnswer, build_answer
from ragflow_lg.server.http.native.native_routing import Agent, Page, PageSize, make_agent_router
from ragflow_lg.server.http.shared.auth import ApiCaller, WithAnyKey, get_app_state
from ragflow_lg.server.observability.logs import audit

router = make_agent_router("feedback")


@router.put("/runs/{run_id}/feedback", summary="Rate an answer")
async def put_feedback(
    agent_id: str, run_id: str, body: FeedbackRequest, request: Request, caller: WithAnyKey
) -> Feedback:
    """Store what a reader thinks of the answer of a run, in place of earlier feedback.

    With a key of embedded pages, only answers in the visitor's own sessions can be rated, with `X-RAGFlow-Visitor`.
    """
    if body.note and body.rating is None:
        raise RequestError("A note needs a rating.", status=422)
    app_state = get_app_state(request)
    session = await _find_session(request, caller, agent_id, run_id)
    feedback = FeedbackRepository(app_state.database, caller.tenant)
    if body.rating is None:
        await feedback.delete(run_id, session.id)
        return Feedback(rating=None, note="")
    now_ms = app_state.now_ms()
    row = FeedbackRow(
        run_id=run_id,
        agent_id=session.agent_id,
        session_id=session.id,
        rating=body.rating,
        note=body.note,
        author=(caller.visitor or caller.owner.id)[:TITLE_CHARS],
        create_ms=now_ms,
        update_ms=now_ms,
    )
    if not await feedback.put(row):
        raise _unknown_run(run_id)
    return build_answer(Feedback, row)


@router.get("/feedback", summary="List feedback")
async def list_feedback(
    request: Request,
    agent: Agent,
    rating: Annotated[Literal["up", "down", ""], Query(description="Only feedback with this rating.")] = "",
    since: Annotated[
        int, Query(ge=0, le=2**53, description="Only feedback since this time, in epoch milliseconds.")
    ] = 0,
    page: Page = 1,
    page_size: PageSize = 30,
) -> FeedbackListAnswer:
    """List the feedback on the answers of an agent, newest first."""
    feedback = FeedbackRepository(get_app_state(request).database, agent.tenant)
    rows, total = await feedback.find(agent.id, rating, since, page, page_size)
    return FeedbackListAnswer(feedback=[build_answer(FeedbackAnswer, row) for row in rows], total=total)


async def _find_session(request: Request, caller: ApiCaller, agent_id: str, run_id: str) -> SessionRow:
    """Return the session of a run, which is open to the caller; a copy of it, if it has been deleted."""
    database = get_app_state(request).database
    run, session = await RunRepository(database, caller.tenant).get(run_id), None
    sessions = SessionRepository(database, caller.tenant)
    if run is not None:
        session = await sessions.get(run.session_id)
    elif not caller.is_page:  # visitors have no copies
        session = await sessions.with_answer(agent_id, run_id)
    if session is None or session.agent_id != agent_id or not caller.reaches(session):
        raise _unknown_run(run_id)
    return session


def _unknown_run(run_id: str) -> RequestError:
    audit("run.refused", run=run_id)
    return RequestError("The agent has no such run.", status=404)
