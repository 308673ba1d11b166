"""Routes of RAGFlow's webhooks: calls without an API key, tests by the owner, and the test log."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import BusyError, CompileError, RagflowLgError, RequestError
from ragflow_lg.dsl.webhook_configuration import WebhookConfiguration, find_webhook_params, read_configuration
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.database.webhook_repository import WebhookRepository, WebhookTests, find_agent
from ragflow_lg.server.http.shared.auth import (
    KEY_HEADER,
    Authenticated,
    get_app_state,
    get_operations,
    get_turns,
    note_ragflow,
    note_request_key,
)
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.request_bodies import to_text
from ragflow_lg.server.http.shared.responses import encode_json, respond_json
from ragflow_lg.server.http.shared.turn_sessions import follow_canvas, load_agent
from ragflow_lg.server.http.webhooks.webhook_request import read_payload, read_signed_body
from ragflow_lg.server.http.webhooks.webhook_runs import (
    WebhookOutcome,
    WebhookTestRecorder,
    begin_turn,
    follow_in_background,
    follow_turn,
    trim_in_background,
)
from ragflow_lg.server.http.webhooks.webhook_security import Delivery, check_caller
from ragflow_lg.server.observability.logs import audit

if TYPE_CHECKING:
    from ragflow_lg.server.runs.turns import Turn

logger = logging.getLogger(__name__)

router = make_router("RAGFlow: webhooks")

METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD")
MAX_EVENTS = 500
"""Maximum number of events in one response from the log."""

_NO_BODY = frozenset({204, 205, 304})
_FAILED = "The run failed."


_ANSWERS: dict[int | str, dict[str, Any]] = {"default": {"description": "Status and text as configured in the canvas."}}


async def call_webhook(agent_id: str, request: Request) -> Response:
    """Run an agent with a call's payload, if the canvas's configuration allows the caller."""
    try:
        agent = await find_agent(get_app_state(request).database, agent_id)
        if agent is None:
            raise RequestError("Webhook not found.", 400)
        return await _call(request, agent, None)
    except RagflowLgError as error:
        return _respond_error(request, error, is_test=False)


async def try_webhook(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Run the webhook as its owner; the log shows the run's events."""
    agent = await load_agent(request, caller, agent_id, is_owned=True)
    app_state = get_app_state(request)
    recorder = WebhookTestRecorder(
        app_state, WebhookTests(app_state.database, agent.tenant, agent.id), app_state.new_id()
    )
    await recorder.begin()
    try:
        return await _call(request, agent, recorder)
    except RagflowLgError as error:
        await recorder.end((str(error), type(error).__name__))
        return _respond_error(request, error, is_test=True)


for method in METHODS:
    for path in ("/agents/{agent_id}/webhook", "/webhook/{agent_id}"):
        router.add_api_route(path, call_webhook, methods=[method], responses=_ANSWERS)
    for path in ("/agents/{agent_id}/webhook/test", "/webhook_test/{agent_id}"):
        router.add_api_route(path, try_webhook, methods=[method], responses=_ANSWERS)


@router.get("/agents/{agent_id}/webhook/logs")
@router.get("/webhook_trace/{agent_id}")
async def list_events(
    agent_id: str,
    request: Request,
    caller: Authenticated,
    since_ts: Annotated[str, Query(description="`next_since_ts` of the last response.")] = "",
    webhook_id: Annotated[str, Query(description="Id of the test, from an earlier response.")] = "",
) -> dict[str, Any]:
    """Return a test's events after a given time. Without a time, return only the current time, to start polling."""
    app_state, agent = get_app_state(request), await load_agent(request, caller, agent_id)
    tests = WebhookTests(app_state.database, agent.tenant, agent.id)
    if not since_ts:
        return _list_events(next_s=round(app_state.services.clock.now(), 6))
    since_us, test_id = _parse_time_us(since_ts), to_text(webhook_id)
    since_s = since_us / 1_000_000
    if not test_id:
        next_test = await tests.next(since_us)
        return (
            _list_events(next_test.id, next_s=next_test.start_us / 1_000_000)
            if next_test
            else _list_events(next_s=since_s)
        )
    test = await tests.get(test_id)
    if test is None:
        return _list_events(test_id, next_s=since_s, is_finished=True)
    events = await tests.events(test.id, since_us, MAX_EVENTS)
    logged = [json.loads(row.event) for row in events]  # unlike orjson, it reads lone surrogates
    is_finished = bool(logged) and logged[-1].get("event") == "finished"
    next_s = events[-1].at_us / 1_000_000 if events else since_s
    return _list_events(test_id, logged, next_s=next_s, is_finished=is_finished)


def _list_events(
    test_id: str | None = None, events: Sequence[Any] = (), *, next_s: float, is_finished: bool = False
) -> dict[str, Any]:
    return {"webhook_id": test_id, "events": events, "next_since_ts": next_s, "finished": is_finished}


async def _call(request: Request, agent: AgentRow, recorder: WebhookTestRecorder | None) -> Response:
    """Check a call and run its turn. The checks follow RAGFlow's order, except for the rate limit."""
    turns = get_turns(request)
    if agent.canvas_category == "dataflow_canvas":
        raise RequestError("A data flow has no webhook.", 400)
    version = await turns.canvases.version(agent)
    configuration = read_configuration(find_webhook_params(version.canvas))
    if configuration.methods and request.method not in configuration.methods:
        allowed = " or ".join(sorted(configuration.methods))
        raise RequestError(f"The method {request.method} is not allowed; use {allowed}.", 400)
    app_state, security, is_test = get_app_state(request), configuration.security, recorder is not None
    host = request.client.host if request.client is not None else ""
    headers = {name.lower(): value for name, value in request.headers.items()}
    now_ms = app_state.now_ms()
    delivery = await check_caller(
        security, headers, host, lambda: read_signed_body(request, security), now_ms, is_owner=is_test
    )
    calls = WebhookRepository(app_state.database, agent.tenant, agent.id)
    async with _accept_once(calls, delivery, now_ms, is_test=is_test):
        # Counted last: otherwise callers without the secret could exhaust the limit.
        if (rate := security.rate) is not None and (wait_s := await calls.take(rate.limit, rate.period_s, now_ms)) > 0:
            raise RequestError(f"Too many calls; try again in {wait_s:.0f} s.", 400)
        payload = await read_payload(request, configuration, app_state.services)
        note_request_key(headers.get(KEY_HEADER.lower(), ""), request.url.path, encode_json(payload))
        turn = await begin_turn(turns, agent, payload)
        note_ragflow(request)
        await follow_canvas(request, agent, version)
    trim_in_background(app_state, agent)
    if configuration.is_immediate:
        follow_in_background(turn, recorder)
        return _respond_template(configuration)
    return _respond_outcome(await follow_turn(turn, recorder), turn, is_test=is_test)


@asynccontextmanager
async def _accept_once(
    calls: WebhookRepository, delivery: Delivery | None, now_ms: int, *, is_test: bool
) -> AsyncGenerator[None]:
    """Remember a call. If the block refuses it, it is forgotten, so that its sender may try again."""
    if delivery is None:
        yield
        return
    if not await calls.remember(delivery.digest, delivery.expire_ms, now_ms):
        if not is_test:
            raise RequestError("The call has been received before: its signature or token is accepted only once.", 400)
        yield
        return
    try:
        yield
    except RagflowLgError:
        await calls.forget(delivery.digest)
        raise


def _respond_template(configuration: WebhookConfiguration) -> Response:
    """Respond with the canvas's response template: as JSON if it is JSON, else as plain text."""
    status, template = configuration.status, configuration.body_template
    if status in _NO_BODY:
        return Response(status_code=status)
    if not template.strip():
        return respond_json(None, status)
    try:
        return respond_json(msgspec.json.decode(template), status)
    except (ValueError, RecursionError):  # also lone surrogates
        return Response(template.encode("utf-8", "replace"), status, media_type="text/plain")


def _respond_outcome(outcome: WebhookOutcome, turn: Turn, *, is_test: bool) -> Response:
    if outcome.error:
        if not is_test:
            logger.warning("webhook run %s failed: %s", turn.envelope.message_id, outcome.error)
        message = outcome.error if is_test else f"{_FAILED} Its session is {turn.envelope.session_id}."
        return respond_json({"code": 400, "message": message, "success": False}, 400)
    if outcome.status in _NO_BODY:
        return Response(status_code=outcome.status)
    ids = {"task_id": turn.envelope.task_id, "session_id": turn.envelope.session_id} if speaks_1() else {}
    return respond_json({"message": outcome.text, "success": True, "code": outcome.status, **ids}, outcome.status)


def _respond_error(request: Request, error: RagflowLgError, *, is_test: bool) -> Response:
    """Respond with the reason. Only owners see details of the canvas and the server."""
    message = str(error)
    if isinstance(error, BusyError):
        get_operations(request).metrics.count_refusal("busy")
        audit("request.refused", reason="busy", path=request.url.path)
        headers = {"Retry-After": str(math.ceil(error.retry_s))}
        return respond_json({"code": 429, "message": str(error)}, 429, headers)  # callers rely on the status
    if not isinstance(error, RequestError) and not is_test:
        logger.warning("%s %s: %s", request.method, request.url.path, error)
        is_canvas = isinstance(error, CompileError)
        message = "The agent cannot run; its owner can see why by testing the webhook." if is_canvas else _FAILED
    elif isinstance(error, RequestError):
        logger.info("%s %s refused: %s", request.method, request.url.path, error)
        audit("webhook.refused", agent=str(request.path_params.get("agent_id", "")), reason=message)
    status = 413 if isinstance(error, RequestError) and error.status == 413 else 400
    return respond_json({"code": status, "message": message}, status)


def _parse_time_us(text: str) -> int:
    try:
        seconds = float(text[:40])
        if 0 <= seconds < 1e11:
            return round(seconds * 1_000_000)
    except ValueError:
        pass
    raise RequestError("`since_ts` must be a time in seconds, as returned in `next_since_ts`.", 101)
