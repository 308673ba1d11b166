"""What every route of the native API has: how bodies are read, whose the agent is, how a path begins."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.http.native.problem_details import PREFIX
from ragflow_lg.server.http.native.validation_messages import list_known_names
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.request_parsing import check_depth
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.runs.run_control import RunControl

__all__ = ["Agent", "Authenticated", "Control", "NativeRoute", "make_agent_router", "make_native_router"]

_BEARER = HTTPBearer(auto_error=False, description="An API key of `ragflow-lg keys`.", scheme_name="ApiKey")


class _StrictRequest(Request):
    """Reads JSON as the rest of the server does: no halves of surrogate pairs, no NaN, no depth without end."""

    async def json(self) -> Any:
        value: Any = orjson.loads(await self.body())
        try:
            check_depth(value)
        except RequestError as error:
            raise orjson.JSONDecodeError(str(error), "", 0) from None  # of which FastAPI tells as of any bad body
        return value


class NativeRoute(APIRoute):
    """A route whose body is strict JSON, and whose address has no parameters that nobody reads."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give what handles a request."""
        handle, known = super().get_route_handler(), frozenset(list_known_names(self, "query"))

        async def strictly(request: Request) -> Response:
            if unknown := [name for name in request.query_params if name not in known]:
                faults = [{"type": "extra_forbidden", "loc": ("query", name), "msg": ""} for name in unknown]
                raise RequestValidationError(faults)
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


async def load_agent_of_path(agent_id: str, request: Request, caller: Authenticated) -> AgentRow:
    """Give the agent of the path.

    Raises:
        RequestError: if the caller has none of this id.
    """
    found = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if found is None:
        audit("agent.refused", agent=agent_id)
        raise RequestError("There is no such agent.", status=404)
    return found


Agent = Annotated[AgentRow, Depends(load_agent_of_path)]


def build_control(request: Request, agent: Agent) -> RunControl:
    """Give the runs of the agent."""
    return RunControl(get_app_state(request), get_turns(request), agent)


Control = Annotated[RunControl, Depends(build_control)]


def make_native_router(tag: str, path: str = "") -> APIRouter:
    """Make a router of the native API."""
    return APIRouter(
        prefix=PREFIX + path,
        tags=[f"Native: {tag}"],
        dependencies=[Security(_BEARER)],
        route_class=NativeRoute,
        generate_unique_id_function=lambda route: f"native_{route.name}",
    )


def make_agent_router(tag: str) -> APIRouter:
    """Make a router of what belongs to one agent."""
    return make_native_router(tag, "/agents/{agent_id}")
