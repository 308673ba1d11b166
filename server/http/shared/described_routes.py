"""Routes that describe themselves: the type that a handler returns and its `describe` make up the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from fastapi.routing import APIRoute
from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from ragflow_lg.server.http.shared.responses import respond, respond_json, respond_plain

Surface: TypeAlias = Literal["envelope", "plain", "listing", "openai", "webhook", "none"]
"""Response format. ``envelope``: RAGFlow's ``code``, ``message`` and ``data``; ``plain``: without ``message``;
``listing``: with ``total``."""

Key: TypeAlias = Literal["ApiKey", "BetaKey", "AnyKey", "MetricsKey", ""]
Parameter: TypeAlias = dict[str, Any]
"""OpenAPI's object for a query parameter or header. The handler reads it from the request."""
_Handler = TypeVar("_Handler", bound=Callable[..., Awaitable[Any]])
_ATTRIBUTE = "openapi_description"
_RESPOND = {"envelope": respond, "plain": respond_plain, "openai": respond_json}


class Description(Struct, frozen=True):
    """What the document says about a route, beside its path, its key and its docstring."""

    parameters: tuple[Parameter, ...] = ()
    surface: Surface | None = None
    """Default: that of the class of the route."""
    answer: Any = None
    """Type of the response or, in an envelope, of ``data``. Default: what the handler returns."""
    body: Any = None
    """Type of the request body; None if the route has no body."""
    body_kind: str = "application/json"
    is_body_required: bool = True
    stream: str = ""
    """A short example stream, or ``""``."""
    frame: Any = None
    """Type of ``data`` in stream events."""
    raw: Mapping[str, str] = {}
    """Media types of non-JSON responses, each with a description."""
    more: Mapping[int, Any] = {}
    """Types of other responses, by status."""
    key: Key = ""
    """Kind of key that the route requires; known from its dependencies."""


def describe_query(name: str, description: str, kind: str = "string", **schema: Any) -> Parameter:
    """Describe a query parameter."""
    return _describe_parameter("query", name, description, {"type": kind, **schema})


def describe_header(name: str, description: str, **schema: Any) -> Parameter:
    """Describe a request header."""
    return _describe_parameter("header", name, description, {"type": "string", **schema})


def _describe_parameter(place: str, name: str, description: str, schema: dict[str, Any]) -> Parameter:
    return {"name": name, "in": place, "required": False, "description": description, "schema": schema}


PAGES = (
    describe_query("page", "Number of the page, from 1.", "integer", minimum=1, default=1),
    describe_query("page_size", "Rows per page.", "integer", minimum=1, maximum=100, default=30),
)
"""The parameters of paginated lists. Invalid values are treated as missing."""
DESC = describe_query("desc", "Whether to sort in descending order.", "boolean", default=True)
COMPAT = describe_header(
    "X-RAGFlow-Compat",
    "RAGFlow version that the client is written for: `current`, `0.25.1` for 0.25.1 to 0.25.6 (long pages), or `0.24` "
    "for 0.25.0 and older (other response shapes, long pages). Default: the setting of the key.",
    enum=["current", "0.25.1", "0.24"],
)


def describe(*parameters: Parameter, **details: Any) -> Callable[[_Handler], _Handler]:
    """Describe a route by its parameters and the other fields of `Description`."""

    def attach(handler: _Handler) -> _Handler:
        setattr(handler, _ATTRIBUTE, Description(parameters, **details))
        return handler

    return attach


class DescribedRoute(APIRoute):
    """A route with a description. What its handler returns is put into an envelope, unless it is a response."""

    surface: ClassVar[Surface] = "envelope"

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Initialize."""
        signature = inspect.signature(endpoint, eval_str=True)
        details: Description = getattr(endpoint, _ATTRIBUTE, None) or Description()
        self.details = replace(details, surface=details.surface or self.surface)
        if signature.return_annotation is not Response:
            if details.answer is None:
                self.details = replace(self.details, answer=signature.return_annotation)
            endpoint = enclose(endpoint, _RESPOND[self.details.surface or self.surface], signature)
            setattr(endpoint, _ATTRIBUTE, self.details)
        super().__init__(path, endpoint, **options)


class PlainRoute(DescribedRoute):
    """A route whose envelope has no ``message``."""

    surface = "plain"


class OpenaiRoute(DescribedRoute):
    """A route with OpenAI's format."""

    surface = "openai"


def enclose(
    handler: Callable[..., Awaitable[Any]], respond_with: Callable[[Any], Response], signature: inspect.Signature
) -> Callable[..., Awaitable[Response]]:
    """Return a handler that responds with what another one returns."""

    @wraps(handler)
    async def handle(*args: Any, **kwargs: Any) -> Response:
        return respond_with(await handler(*args, **kwargs))

    setattr(handle, "__signature__", signature.replace(return_annotation=Response))  # noqa: B010
    return handle
