"""Routers for the native API: strict requests, the agent in the path, the path prefix."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.http.native.problem_details import COMMON_STATUSES, PREFIX, describe_problems, list_known_names
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.ragflow_routes import enclose, find_authentication
from ragflow_lg.server.http.shared.request_bodies import limit_turn, parse_json
from ragflow_lg.server.http.shared.responses import respond_json
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.run_control import RunControl


class _StrictRequest(Request):
    """A request whose JSON is parsed as in the other APIs: no lone surrogates, no NaN, limited nesting."""

    async def json(self) -> Any:
        return parse_json(await self.body())


class NativeRoute(APIRoute):
    """A route with strict JSON bodies that refuses unknown query parameters. It reads no body without a valid key.

    The model that a handler returns is the response; None is a response without a body. Of the problems in the OpenAPI
    document, a route declares only those that its path and its body do not imply.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        signature = inspect.signature(endpoint, eval_str=True)
        answer: Any = signature.return_annotation
        if answer is None:
            options |= {"status_code": 204, "response_class": Response}
            endpoint = enclose(endpoint, lambda _: Response(status_code=204), signature)
        elif answer is not Response:
            options["response_model"] = answer
            endpoint = enclose(endpoint, partial(respond_json, status=options["status_code"] or 200), signature)
        elif isinstance(options["response_model"], DefaultPlaceholder):
            options["response_class"] = Response
        implied = (
            *COMMON_STATUSES,
            *([404] if "{" in path else ()),
            *([400] if "body" in signature.parameters else ()),
        )
        options["responses"] = describe_problems(*implied) | (options.get("responses") or {})
        super().__init__(path, endpoint, **options)
        if find_authentication(self.dependant) is None:
            self.responses.pop(401)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the request handler."""
        handle, names = super().get_route_handler(), frozenset(list_known_names(self, "query"))
        authenticate = find_authentication(self.dependant)

        async def handle_strictly(request: Request) -> Response:
            if authenticate is not None:
                await authenticate(request)
            if unknown := [name for name in request.query_params if name not in names]:
                faults = [{"type": "extra_forbidden", "loc": ("query", name), "msg": ""} for name in unknown]
                raise RequestValidationError(faults)
            body = self.body_field
            strict = _StrictRequest(
                request.scope, limit_turn(request, body.field_info.annotation) if body is not None else request.receive
            )
            if body is not None:
                await strict.body()  # FastAPI would report any error as invalid JSON
            return await handle(strict)

        return handle_strictly


async def load_agent_of_path(agent_id: str, request: Request, caller: Authenticated) -> AgentRow:
    """Load the agent in the path."""
    row = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if row is None:
        audit("agent.refused", agent=agent_id)
        raise RequestError("Agent not found.", status=404)
    return row


Agent = Annotated[AgentRow, Depends(load_agent_of_path)]

Page = Annotated[int, Query(ge=1, le=1_000_000, description="Number of the page, from 1.")]
PageSize = Annotated[int, Query(ge=1, le=100, description="Rows per page.")]


def build_control(request: Request, agent: Agent) -> RunControl:
    """Create the run control for the agent."""
    return RunControl(get_app_state(request), get_turns(request), agent)


Control = Annotated[RunControl, Depends(build_control)]


def make_native_router(tag: str, path: str = "") -> APIRouter:
    """Create a router for the native API."""
    return APIRouter(
        prefix=PREFIX + path,
        tags=[f"Native: {tag}"],
        route_class=NativeRoute,
        generate_unique_id_function=lambda route: f"native_{route.name}",
    )


def make_agent_router(tag: str) -> APIRouter:
    """Create a router for routes below an agent."""
    return make_native_router(tag, "/agents/{agent_id}")
