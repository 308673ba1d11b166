"""Routes of RAGFlow's and OpenAI's APIs: they read bodies as leniently as RAGFlow, and answer in an envelope."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ClassVar

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.server.http.shared.auth import ApiCaller, authenticate, authenticate_any, authenticate_beta
from ragflow_lg.server.http.shared.request_bodies import read_body
from ragflow_lg.server.http.shared.responses import respond, respond_json, respond_plain
from ragflow_lg.server.http.shared.route_schemas import Refusal

_AUTHENTICATE = (authenticate, authenticate_any, authenticate_beta)


class _FieldsRequest(Request):
    """A request whose body has been read, whatever its type was."""

    def __init__(self, request: Request, fields: dict[str, Any]) -> None:
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
        super().__init__(scope, request.receive)
        self._fields = fields

    async def body(self) -> bytes:
        return b"{}"

    async def json(self) -> dict[str, Any]:
        return self._fields


class RagflowRoute(APIRoute):
    """A route whose body is JSON or a form, with any content type. It reads none without a valid key.

    What its handler returns is put into an envelope, unless it is a response.
    """

    respond: ClassVar[Callable[[Any], Response]] = respond

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Initialize."""
        signature = inspect.signature(endpoint, eval_str=True)
        if signature.return_annotation is not Response:
            endpoint = enclose(endpoint, type(self).respond, signature)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the request handler."""
        handle, authenticate_caller = super().get_route_handler(), find_authentication(self.dependant)
        if self.body_field is None:
            return handle
        has_query = getattr(self.body_field.field_info.annotation, "may_be_query", False)

        async def handle_leniently(request: Request) -> Response:
            if authenticate_caller is not None:
                await authenticate_caller(request)
            fields = await read_body(request)
            return await handle(_FieldsRequest(request, {**request.query_params, **fields} if has_query else fields))

        return handle_leniently


class PlainRoute(RagflowRoute):
    """A route whose envelope has no ``message``."""

    respond = respond_plain


class OpenaiRoute(RagflowRoute):
    """A route with OpenAI's format."""

    respond = respond_json


def make_router(tag: str, prefix: str = "/api/v1", route_class: type[RagflowRoute] = RagflowRoute) -> APIRouter:
    """Create a router. Its refusals have RAGFlow's form, most of them with status 200."""
    refused: dict[int | str, dict[str, Any]] = {
        status: {"description": "Refused.", **({} if route_class is OpenaiRoute else {"model": Refusal})}
        for status in ("4XX", "5XX")
    }
    return APIRouter(prefix=prefix, tags=[tag], route_class=route_class, responses=refused)


def enclose(
    handler: Callable[..., Awaitable[Any]], respond_with: Callable[[Any], Response], signature: inspect.Signature
) -> Callable[..., Awaitable[Response]]:
    """Return a handler that responds with what another one returns."""

    @wraps(handler)
    async def handle(*args: Any, **kwargs: Any) -> Response:
        return respond_with(await handler(*args, **kwargs))

    setattr(handle, "__signature__", signature.replace(return_annotation=Response))  # noqa: B010
    return handle


def find_authentication(dependant: Dependant) -> Callable[[Request], Awaitable[ApiCaller]] | None:
    """Return what checks the key of a route's requests."""
    for each in dependant.dependencies:
        own = next((check for check in _AUTHENTICATE if check is each.call), None)
        if found := own or find_authentication(each):
            return found
    return None
