"""The endpoint ``/a2a/AGENT``: the agents of a tenant over the Agent2Agent protocol, versions 0.3 and 1.0.

The SDK speaks the protocol, as JSON-RPC and as HTTP+JSON. It is imported by the first request.
"""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.base.errors import RagflowLgError, RequestError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.server.http.native.problem_details import respond_problem, to_problem
from ragflow_lg.server.http.shared.auth import authenticate, note_request_key
from ragflow_lg.server.http.shared.request_bodies import BODY_S, TURN_BYTES, LimitedBody, parse_json
from ragflow_lg.server.http.shared.responses import encode_json, respond_json
from ragflow_lg.server.http.shared.turn_sessions import load_agent

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "/a2a"
CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where the card is; programs of version 0.2 look for the second one."""

_PLAIN = (400, 404, 422)


class A2aEndpoint:
    """An ASGI application below the path of an agent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request and hand it to the SDK. Without a key, a card tells only how to get the whole one.

        Raises:
            RequestError: if the key is missing or invalid, or the body exceeds a limit.
        """
        request = Request(scope, receive)
        path = "/" + scope["path_params"].get("rest", "")
        try:
            await asyncio.to_thread(_import)
            if path in CARD_PATHS and not request.headers.get("authorization"):
                await _respond_card(_cards().public_card(_find_address(request)))(scope, receive, send)
                return
            caller = await authenticate(request)
            agent = await load_agent(request, caller, scope["path_params"]["agent_id"])
            receive = await _read_body(request)
            call = _tasks().AgentCall(Request(scope, receive), agent, caller, _find_address(request))
            if path in CARD_PATHS:
                await _respond_card(await call.card())(scope, receive, send)
                return
        except RagflowLgError as error:
            problem = to_problem(error)
            if problem.status not in _PLAIN:  # the others are counted, and say when to come again
                raise
            await respond_problem(problem)(scope, receive, send)
            return
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": "", "ragflow_lg.a2a": call}
        await _open_routes()(inner, receive, send)


def _tasks() -> Any:
    return import_module("ragflow_lg.integrations.a2a.agent_tasks")


def _cards() -> Any:
    return import_module("ragflow_lg.integrations.a2a.agent_cards")


def _import() -> None:
    try:
        require("a2a", "The A2A endpoint")
    except SettingsError as error:
        raise RequestError(str(error), status=404) from error
    _tasks()


def _find_address(request: Request) -> str:
    """Return the address of the agent, as the client has it."""
    return f"{str(request.base_url).rstrip('/')}{PREFIX}/{request.path_params['agent_id']}"


def _respond_card(card: Any) -> Response:
    return respond_json(_cards().encode_card(card))


async def _read_body(request: Request) -> Receive:
    """Read the body within the limits of turns, and return what repeats it and then receives what the client does."""
    if request.method not in ("POST", "PUT", "PATCH"):
        return request.receive
    limited = LimitedBody(request.receive, request.scope, TURN_BYTES, BODY_S, "for turns")
    body = await Request(request.scope, limited.receive).body()
    try:
        value = parse_json(body) if body else None
    except json.JSONDecodeError as error:
        raise RequestError(f"The body is not JSON: {error.msg}.", 101) from None
    sent: Any = as_map(value).get("params") or value  # a repeated request has another id
    note_request_key(request.headers.get("idempotency-key", "")[:255], request.url.path, encode_json(sent))
    is_sent = False

    async def receive() -> Message:
        nonlocal is_sent
        if is_sent:
            return await request.receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


@lru_cache(maxsize=1)
def _open_routes() -> ASGIApp:
    """Return the routes of the SDK, which serve the agents of all tenants."""
    from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
    from starlette.routing import Router

    from ragflow_lg.integrations.a2a.agent_tasks import AgentTasks, CallBuilder

    options: Any = {"request_handler": AgentTasks(), "context_builder": CallBuilder(), "enable_v0_3_compat": True}
    return Router(
        [*create_jsonrpc_routes(rpc_url="/", **options), *create_rest_routes(**options)], redirect_slashes=False
    )


_PATHS = (f"{PREFIX}/{{agent_id}}", f"{PREFIX}/{{agent_id}}/{{rest:path}}")
router = APIRouter(routes=[Route(path, A2aEndpoint(), include_in_schema=False) for path in _PATHS])
