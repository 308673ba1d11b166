"""Routes of RAGFlow's and OpenAI's APIs: they read bodies as leniently as RAGFlow, and answer in an envelope."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Annotated, Any, ClassVar, Self, cast

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ModelWrapValidatorHandler, model_validator
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl.compatibility import WIRES
from ragflow_lg.server.http.shared.auth import ApiCaller, authenticate, authenticate_any, authenticate_beta
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.request_bodies import limit_turn, parse_flag, read_body, to_text
from ragflow_lg.server.http.shared.responses import respond, respond_json, respond_plain

MAX_PAGE_SIZE = 100
MAX_LONG_PAGE_SIZE = 10_000
"""Length of the longest page for clients of a RAGFlow without a limit; they get at most that many rows."""
PAGE_SIZE = 30
MAX_PAGE = 1_000_000

Text = Annotated[str, BeforeValidator(to_text)]
Flag = Annotated[bool, BeforeValidator(parse_flag)]


def _read_number(value: Any) -> int:
    """Return a positive whole number, or 0 for any other value."""
    return int(value[:12]) if isinstance(value, str) and value.isascii() and value.isdigit() else 0


def with_examples(*examples: dict[str, Any]) -> ConfigDict:
    """Return the configuration of a model with examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Fields(BaseModel):
    """The fields of a body. Null stands for the default of a field; clients may send others."""

    model_config = ConfigDict(extra="allow")

    may_be_query: ClassVar[bool] = False
    """Whether the fields can also be sent as query parameters."""
    begins_turn: ClassVar[bool] = False
    """Whether the body begins a turn, and is therefore limited."""
    _sent: frozenset[str] = frozenset()
    """Names of the fields in the body, with those that are null: RAGFlow requires a field, but not a value."""

    @model_validator(mode="wrap")
    @classmethod
    def _drop_nulls(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, dict):
            return read(value)
        sent = cast("dict[str, Any]", value)
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        fields = read({name: each for name, each in sent.items() if each is not None or name in required})
        fields._sent = frozenset(sent)
        return fields

    def require(self, *names: str) -> None:
        """Check that the client has sent some fields."""
        if missing := [name for name in names if name not in self._sent]:
            raise RequestError(f"required argument are missing: {','.join(missing)}; ", 101, has_data=True)

    def is_empty(self) -> bool:
        """Return whether the client has sent no fields."""
        return not self._sent

    def given(self) -> dict[str, Any]:
        """Return the fields that the client has sent."""
        return self.model_dump(exclude_unset=True)


class Pages(BaseModel):
    """A page of a list. Invalid values are treated as missing."""

    page: Annotated[int, BeforeValidator(_read_number), Field(description="Number of the page, from 1.")] = 1
    page_size: Annotated[int, BeforeValidator(_read_number), Field(description="Rows per page, at most 100.")] = 0

    def read(self, caller: ApiCaller, default_size: int = PAGE_SIZE) -> tuple[int, int]:
        """Return the page number and the page size. 1.0 refuses what is not a positive number."""
        for name in self.model_fields_set & {"page", "page_size"} if speaks_1() else ():
            if not getattr(self, name):
                raise RequestError(f"{name} must be a positive number.", 101)
        size = self.page_size or default_size
        if caller.has_long_pages:
            size = min(size, MAX_LONG_PAGE_SIZE)
        elif size > MAX_PAGE_SIZE:
            raise RequestError(f"page_size is at most {MAX_PAGE_SIZE}.", 101)
        return min(self.page or 1, MAX_PAGE), size


class Refusal(BaseModel):
    """The reason for a refusal or failure."""

    code: Annotated[
        int,
        Field(
            description="101: invalid. 102: not found, or in use. 103: not authorized, or busy. 100, 500: failed. "
            "Others: as the HTTP status."
        ),
    ]
    message: Annotated[str, Field(description="Explanation for readers.")]
    data: Annotated[Any, Field(description="Usually omitted; otherwise RAGFlow's value, such as `false`.")] = None


_COMPAT = {
    "name": "X-RAGFlow-Compat",
    "in": "header",
    "description": "Release of RAGFlow whose responses the client expects, or `current` for what the canvas and the "
    "settings say. It takes precedence over the key's.",
    "schema": {"type": "string", "examples": [*WIRES]},
}
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
        signature = inspect.signature(endpoint, eval_str=True)
        if signature.return_annotation is not Response:
            endpoint = enclose(endpoint, type(self).respond, signature)
        if path.startswith("/api/"):
            options["openapi_extra"] = {**(options.get("openapi_extra") or {}), "parameters": [_COMPAT]}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the request handler."""
        handle, authenticate_caller = super().get_route_handler(), find_authentication(self.dependant)
        if self.body_field is None:
            return handle
        body_type = self.body_field.field_info.annotation
        has_query = getattr(body_type, "may_be_query", False)

        async def handle_leniently(request: Request) -> Response:
            if authenticate_caller is not None:
                await authenticate_caller(request)
            fields = await read_body(Request(request.scope, limit_turn(request, body_type)))
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
