"""Routes of OpenAI's Responses API. A response is a run, so nothing is stored for it beside the session."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Query
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import ConflictError, RagflowLgError, RequestError, StreamError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import OPEN
from ragflow_lg.server.database.turn_writer import read_reference
from ragflow_lg.server.http.openai.openai_input import Question, read_question, referenced_ids
from ragflow_lg.server.http.openai.openai_parameters import check_parameters
from ragflow_lg.server.http.openai.openai_routes import STREAM
from ragflow_lg.server.http.openai.openai_turns import (
    OpenaiBody,
    TurnEnd,
    begin_turn,
    collect,
    load_agent_of_model,
    open_session,
    play,
    stream_turn,
)
from ragflow_lg.server.http.openai.response_writer import PREFIX, ResponseWriter, run_id_of
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import EventStream, Options
from ragflow_lg.server.http.shared.ragflow_routes import Flag, OpenaiRoute, Text, make_router, with_examples
from ragflow_lg.server.http.shared.responses import respond_json
from ragflow_lg.server.http.shared.turn_sessions import build_turn_request, load_agent, name_ignored
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.runs.turn_session import TurnSession
from ragflow_lg.server.runs.turns import Turn
from ragflow_lg.server.streaming.run_task import CONTINUE
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow, RunRow

MAX_REFERENCES = 100
"""Maximum number of answers that a request refers to instead of repeating them."""
_ECHOED = ("instructions", "metadata", "previous_response_id", "user")
_STATUSES = {"running": "in_progress", "cancelled": "cancelled", "failed": "failed", "refused": "failed"}


def _read_input(value: Any) -> Any:
    items: Any = [{"role": "user", "content": value}] if isinstance(value, str) else value or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in cast("list[Any]", items)):
        raise RequestError("`input` must be a text or a list of items.", 101)
    if any(not isinstance(item.get("content"), str | list | None) for item in cast("list[dict[str, Any]]", items)):
        raise RequestError("The `content` of an item must be a text or a list of parts.", 101)
    return cast("Any", items)


class ResponseBody(OpenaiBody):
    """A question. With `inputs`, which answer a form, no `input` is needed."""

    model_config = with_examples(
        {"model": "0c7f4a1e2b5d11f0", "input": "Where is my parcel?"},
        {"model": "0c7f4a1e2b5d11f0", "input": "It is red.", "previous_response_id": "resp_9b1f0d9e3c5a4f6e"},
    )

    input: Annotated[
        list[dict[str, Any]],
        BeforeValidator(_read_input, json_schema_input_type=str | list[dict[str, Any]]),
        Field(description="A text, or items with a role and a content. The last one of the user is the query."),
    ] = Field(default=[])
    instructions: Annotated[Any, Field(description="Ignored: the canvas has the prompts.")] = None
    previous_response_id: Annotated[Text, Field(description="Response after which the conversation continues.")] = ""
    background: Annotated[Flag, Field(description="Whether to respond before the turn has ended.")] = False


router = make_router("OpenAI-compatible", "", OpenaiRoute)


@router.post("/v1/responses", responses=STREAM)
async def respond_to(body: ResponseBody, request: Request, caller: Authenticated, options: Options) -> Response:
    """Run a turn with the agent whose id or title is given as the model."""
    agent = await load_agent_of_model(request, caller, body.model)
    return await _respond(request, caller, agent, body, options.policy)


@router.post("/api/v1/agents_openai/{agent_id}/responses", responses=STREAM)
async def respond_of_agent(
    agent_id: str, body: ResponseBody, request: Request, caller: Authenticated, options: Options
) -> Response:
    """Run a turn with the agent in the path; the model in the body is ignored."""
    return await _respond(request, caller, await load_agent(request, caller, agent_id), body, options.policy)


@router.get("/v1/responses/{response_id}", responses=STREAM)
async def get_response(
    response_id: str,
    request: Request,
    caller: Authenticated,
    stream: Annotated[bool, Query(description="Whether to stream the events, also of a turn in progress.")] = False,
    starting_after: Annotated[int, Query(description="Number of the last event that was received.")] = -1,
) -> Response:
    """Return a response. When the events of its run have been deleted, only its text is left."""
    control, run = await _load_run(request, caller, response_id)
    writer = ResponseWriter(run.agent_id, run.start_ms // 1000, run.session_id)
    turns, state = get_turns(request), await control.state(run)
    try:
        turn = turns.rejoin(caller.tenant, await turns.playing.head(caller.tenant, run.id))
        if stream:
            writer.first_event = starting_after + 1
            return EventStream(await stream_turn(turn, writer))
        if state != "running" and run.status not in OPEN:
            return respond_json(writer.build(await collect(turn, writer)))
    except StreamError:
        if stream:
            raise
    except RagflowLgError as error:
        return respond_json(writer.build(TurnEnd("failed", str(error))))
    return respond_json(await _describe_stored(control, run, state))


@router.delete("/v1/responses/{response_id}")
async def delete_response(response_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Delete the conversation that ends with a response."""
    control, run = await _load_run(request, caller, response_id)
    newest = await RunRepository(get_app_state(request).database, caller.tenant).newest(run.session_id)
    if newest is not None and newest.id != run.id:
        message = f"The conversation goes on: it is deleted with its last response, {PREFIX}{newest.id}."
        raise RequestError(message, 103, status=409, reason="response_not_last")
    await control.delete_session(await control.session(run.session_id))
    return {"id": response_id, "object": "response", "deleted": True}


@router.post("/v1/responses/{response_id}/cancel")
async def cancel_response(response_id: str, request: Request, caller: Authenticated) -> Response:
    """Cancel the turn of a response."""
    control, run = await _load_run(request, caller, response_id)
    await control.cancel(run)
    return respond_json(await _describe_stored(control, run, await control.state(run)))


async def _respond(
    request: Request, caller: ApiCaller, agent: AgentRow, body: ResponseBody, policy: str | None
) -> Response:
    ignored = check_parameters(body.model_extra or {})
    items, referenced = await _resolve(request, caller, body.input)
    question = read_question(items, "input")
    if not question.is_asked and not body.inputs:
        raise RequestError("`input` must contain a message of the user.", 101)
    if body.instructions:
        question.ignored.append("instructions")
    place = await _find_place(request, caller, agent, body, question, referenced)
    policy = CONTINUE if body.background else policy
    if isinstance(place, Turn):
        begun, session_id, after = _follow(place), place.envelope.session_id, ""
    else:
        begun = begin_turn(request, caller, agent, place, body, question, policy)
        session_id, after = place.row.id, place.after
    echoed = {name: value for name in _ECHOED if (value := getattr(body, name))}
    created = get_app_state(request).now_ms() // 1000
    writer = ResponseWriter(agent.id, created, session_id, **echoed, background=body.background)
    writer.first_event = 0 if body.stream else math.inf
    try:
        if body.background and not body.stream:
            writer.begin((await begun).envelope)
            response = respond_json(writer.describe("in_progress"))
        else:
            response = await play(request, begun, writer, is_streamed=body.stream)
    except RagflowLgError as error:
        if after and after != run_id_of(body.previous_response_id):
            await RunControl(get_app_state(request), get_turns(request), agent).discard_copy(session_id, after)
        elif after and type(error) is ConflictError:  # another turn has followed meanwhile
            return await _respond(request, caller, agent, body, policy)
        raise
    return name_ignored(response, [*ignored, *question.ignored])


async def _follow(turn: Turn) -> Turn:
    return turn


async def _find_place(
    request: Request, caller: ApiCaller, agent: AgentRow, body: ResponseBody, question: Question, referenced: str
) -> TurnSession | Turn:
    """Return the session after the previous response, or as for chat completions.

    That is the turn itself if the request has begun it before: it must not begin another one in a copy of the session.
    """
    turns, database = get_turns(request), get_app_state(request).database
    runs = RunRepository(database, caller.tenant)
    if (repeated := await turns.find_repeated(caller.tenant)) is not None:
        return repeated
    if body.previous_response_id:
        control, run = await _load_run(request, caller, body.previous_response_id)
        if run.agent_id != agent.id:
            raise RequestError("The previous response is one of another agent.", 101)
        later = [row async for row in runs.later(run) if row.status != "refused"]
        if len(later) == 1 and not question.files:
            session = await control.session(run.session_id)
            turn_request = build_turn_request(caller, session, question.query, body)
            if (unread := await turns.find_unread(caller.tenant, later[0], turn_request)) is not None:
                return unread
        run = await control.after(run)
        return TurnSession(await control.session(run.session_id), after=run.id)
    run = await runs.get(referenced) if referenced else None
    session = await SessionRepository(database, caller.tenant).get(run.session_id) if run else None
    return await open_session(request, caller, agent, body, question, referenced=session)


async def _load_run(request: Request, caller: ApiCaller, response_id: str) -> tuple[RunControl, RunRow]:
    """Load the run of a response. Those of other tenants look like missing ones."""
    app_state, run_id = get_app_state(request), run_id_of(response_id)
    run = await RunRepository(app_state.database, caller.tenant).get(run_id) if "\0" not in run_id else None
    if run is None or not caller.opens(run.agent_id):
        text = f"Response with id {response_id[:64]!r} not found."
        raise RequestError(text, 404, status=404, reason="response_not_found")
    agent = await load_agent(request, caller, run.agent_id)
    return RunControl(app_state, get_turns(request), agent), run


async def _describe_stored(control: RunControl, run: RunRow, state: str) -> dict[str, Any]:
    """Describe a run by what is stored of it."""
    writer = ResponseWriter(run.agent_id, run.start_ms // 1000, run.session_id)
    writer.run_id = run.id
    messages, pauses = await control.outcome(run)
    answers = [row for row in messages if row.run_id == run.id and row.role == "assistant"]
    reference = read_reference(answers[-1].reference if answers else "")
    form: dict[str, Any] = {
        "inputs": {name: field for pause in pauses for name, field in pause.inputs.items()},
        "tips": "\n\n".join(pause.tips for pause in pauses if pause.tips),
    }
    is_open = state == "running" or run.status in OPEN
    return writer.describe(
        "in_progress" if is_open else _STATUSES.get(state, "completed"),
        usage=None if is_open else Usage(run.prompt_tokens, run.completion_tokens),
        output=writer.build_text("".join(row.content for row in answers), reference),
        error=run.error or ("The run failed." if state == "failed" else ""),
        form=form if pauses else None,
    )


async def _resolve(
    request: Request, caller: ApiCaller, items: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str]:
    """Replace references to earlier answers by these. Return the items, and the run of the last reference.

    A run can have several items. Its first one stands for its whole answer.
    """
    ids = {run_id_of(id_): id_ for id_ in referenced_ids(items)}
    if not ids:
        return items, ""
    if len(ids) > MAX_REFERENCES:
        raise RequestError(f"`input` refers to more than {MAX_REFERENCES} items.", 101)
    texts = await SessionRepository(get_app_state(request).database, caller.tenant).answers(list(ids))
    if missing := next((id_ for run_id, id_ in ids.items() if run_id not in texts), ""):
        raise RequestError(f"Item with id {missing[:64]!r} not found.", 404, status=404, reason="item_not_found")
    resolved: list[dict[str, Any]] = []
    for item in items:
        if item.get("type") == "item_reference":
            text = texts.pop(run_id_of(str(as_map(item).get("id"))), "")
            item = {"role": "assistant", "content": text}
        resolved.append(item)
    return resolved, list(ids)[-1]
