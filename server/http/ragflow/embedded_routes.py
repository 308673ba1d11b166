"""RAGFlow's routes for embedded pages. Anybody who opens such a page can read its beta key and send other requests."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RagflowLgError, RequestError
from ragflow_lg.server.agents.agent_versions import PUBLISHED, find_version
from ragflow_lg.server.agents.file_store import has_secret
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.http.ragflow.completion_routes import (
    OTHER_AGENT,
    STREAM,
    CompletionResponder,
    EmbeddedBody,
    follow_turn,
    rejoin_run,
)
from ragflow_lg.server.http.ragflow.ragflow_frames import describe_failure
from ragflow_lg.server.http.shared.auth import VISITOR_HEADER, ApiCaller, authenticate_beta, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import Options, StreamOptions
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.responses import respond_plain, to_request_error
from ragflow_lg.server.http.shared.signed_tokens import make_visitor_secret
from ragflow_lg.server.http.shared.turn_sessions import (
    build_turn_request,
    name_ignored,
    open_turn_session,
    require_own,
    unread_inputs,
)
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.run_control import RunControl

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest

router = make_router("RAGFlow: embedded")

Page = Annotated[ApiCaller, Depends(authenticate_beta)]

_T = TypeVar("_T")


@router.post("/agentbots/{agent_id}/completions", responses=STREAM)
async def complete_embedded(
    agent_id: str, body: EmbeddedBody, request: Request, caller: Page, options: Options
) -> Response:
    """Run a turn with an embedded agent, streamed by default, in a session with source `agent`."""
    agent = await _load_agent(request, caller, agent_id)
    return await _hide_reason(_respond(request, caller, agent, body, options))


@router.get("/agentbots/{agent_id}/inputs")
async def get_inputs(agent_id: str, request: Request, caller: Page) -> Response:
    """Return the agent details that a page shows: title, form and greeting.

    A request without `X-RAGFlow-Visitor` gets the secret of a new visitor in this header. Send it with the visitor's
    further requests.
    """
    agent = await _load_agent(request, caller, agent_id)
    turns = get_turns(request)
    version = await find_version(get_app_state(request).database, agent, "")
    plan = (await _hide_reason(turns.canvases.compile(version))).plan
    params = plan.nodes[plan.entry].params
    shown = {"title": agent.title, "avatar": agent.avatar, "inputs": params.inputs}
    greeting = {"prologue": getattr(params, "prologue", None) or "", "mode": getattr(params, "mode", "")}
    response = respond_plain({**shown, **greeting})
    if caller.is_page and not has_secret(caller.visitor):
        response.headers[VISITOR_HEADER] = await make_visitor_secret(get_app_state(request), caller.owner)
    return response


@router.get("/agentbots/{agent_id}/logs/{message_id}")
async def get_trace(agent_id: str, message_id: str, request: Request, caller: Page) -> dict[str, Any]:
    """Return no tool calls: their arguments and results are for the agent's owner."""
    await _load_agent(request, caller, agent_id)
    return {}


async def _respond(
    request: Request, caller: ApiCaller, agent: AgentRow, body: EmbeddedBody, options: StreamOptions
) -> Response:
    position, turns, ignored = options.position, get_turns(request), list(body.model_extra or ())
    asked = body.query or body.question or body.inputs
    if position.run_id:
        turn, _, question = await rejoin_run(request, caller, agent, position.run_id)
        asked = asked or question
        begun = follow_turn(turn)
    elif body.resume_from:
        control = RunControl(get_app_state(request), turns, agent, options.policy, caller.page_key)
        run = await control.run(body.resume_from)
        require_own(caller, await control.session(run.session_id))
        begun = control.continue_(run)
    else:
        session = await open_turn_session(
            request,
            agent,
            body.session_id,
            PUBLISHED if body.release else "",
            foreign=OTHER_AGENT,
            user_id=body.user_id or caller.tenant,
            name=body.name,
            source="agent",
            visitor=caller.visitor,
        )
        require_own(caller, session.row)
        turn_request = build_turn_request(caller, session.row, body.query or body.question, body)
        if body.pauses:
            turn_request = cast("TurnRequest", {**turn_request, "pauses": body.pauses})
        if inputs := turn_request.get("inputs"):
            ignored += unread_inputs(
                (await turns.runner(agent, session.row, session.version, is_page=caller.is_page)).plan, inputs
            )
        begun = turns.begin(agent, session, turn_request, options.policy, page_key=caller.page_key)
    responder = CompletionResponder("page", position, get_app_state(request).now_ms, asked, error_prefix="Error 102: ")
    return name_ignored(await responder.respond(request, caller, begun, is_streamed=body.stream), ignored)


async def _hide_reason(result: Awaitable[_T]) -> _T:
    """Await a result. Replace an error that describes the canvas or a service."""
    try:
        return await result
    except RequestError:
        raise
    except RagflowLgError as error:
        refusal = to_request_error(error)
        raise RequestError(describe_failure(error, "page"), refusal.number, status=refusal.status) from error


async def _load_agent(request: Request, caller: ApiCaller, agent_id: str) -> AgentRow:
    row = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if row is None or not caller.opens(row.id):
        audit("agent.refused", agent=agent_id)
        raise RequestError(f"Can't find agent by ID: {agent_id}", status=404)
    return row
