"""Native API problems: an HTTP status, a stable code, a message, details, and what is wrong in an invalid request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, Field
from starlette.responses import Response

from ragflow_lg.base.errors import (
    AnswerError,
    CanvasChangedError,
    CheckpointError,
    CompileError,
    ConflictError,
    DatabaseError,
    QuotaError,
    RagflowLgError,
    RequestError,
    SessionBusyError,
    StreamAbandonedError,
    StreamError,
    StreamGapError,
    StreamInterruptedError,
    StreamPositionError,
    StreamUnknownError,
)
from ragflow_lg.server.http.shared.responses import respond_json

if TYPE_CHECKING:
    from fastapi.exceptions import RequestValidationError
    from fastapi.routing import APIRoute


MAX_FAULTS = 50
"""Maximum number of faults that a response lists."""
MAX_CHARS = 64
"""Longest name for which similar names are suggested."""

_WORDS = {
    "missing": "is missing",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
}
"""Messages by pydantic error type. The others have pydantic's own message, without its subject."""
_SUBJECT = re.compile(r"(Input|String|List|Dictionary|Value error,|Value) ")
_NO_BODY = {
    "missing": "is missing: send a JSON object",
    "model_type": "must be a JSON object, sent as application/json",
    "model_attributes_type": "must be a JSON object, sent as application/json",
}
PREFIX = "/native/v1"

CODES = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    410: "gone",
    413: "too-large",
    415: "unsupported-type",
    422: "invalid",
    429: "too-many-requests",
    500: "failed",
    503: "unavailable",
}
"""The default code for each status."""

STATUS_DESCRIPTIONS = {
    400: "The request is malformed.",
    401: "Missing or invalid API key.",
    403: "Not allowed; the message says why.",
    404: "Not found. Resources of other tenants look the same.",
    409: "Conflict with the current state: `session-busy`, `session-waiting`, `run-not-waiting`, `run-not-last`, "
    "`run-not-begun`, `canvas-changed`, `version-in-use`, `conflict`.",
    410: "The events are no longer stored: `events-gone`.",
    413: "The body is too large.",
    422: "A value is invalid or too large: `invalid`, `answer-invalid`, `canvas-invalid`, `place-unknown`, "
    "`work-limit`.",
    429: "Too many requests; retry after `Retry-After` seconds. `quota-exceeded`: `details` names the quota.",
    500: "Internal server error; see the server log.",
    503: "A part of the server does not respond, or the server is shutting down.",
}
COMMON_STATUSES = (401, 413, 422, 429, 500, 503)
"""Those of every route."""


def describe_fault(fault: Mapping[str, Any], names: Iterable[str] = ()) -> str:
    """Describe a fault. ``names`` are the names that are valid instead of an unknown name.

    >>> describe_fault({"type": "extra_forbidden", "loc": ("body", "query_text"), "msg": ""}, ["query", "inputs"])
    'is unknown; did you mean `query`?'
    """
    kind, location = str(fault["type"]), fault["loc"]
    if kind == "extra_forbidden":
        return f"is unknown{_suggest(str(location[-1]), list(names))}"
    if tuple(location) == ("body",) and kind in _NO_BODY:
        return _NO_BODY[kind]
    return _WORDS.get(kind) or _SUBJECT.sub("", str(fault["msg"]), count=1)


def format_location(steps: Sequence[Any]) -> str:
    """Format a fault's location. ``body``, ``query``, ``path`` and ``header`` are omitted before a field.

    >>> format_location(("body", "answers", "x", 0))
    'answers.x.0'
    """
    is_within = len(steps) > 1 and steps[0] in ("body", "query", "path", "header")
    parts = [step for step in (steps[1:] if is_within else steps) if step != "[key]"]
    return ".".join(str(step)[:80] for step in parts)


def list_known_names(route: APIRoute, part: str) -> list[str]:
    """List the names of fields that the ``body`` or the ``query`` of a route accepts."""
    if part == "query":
        return [parameter.alias for parameter in _list_query_parameters(route)]
    kind: Any = route.body_field.field_info.annotation if route.body_field is not None else None
    parts: Sequence[Any] = getattr(kind, "__args__", (kind,))
    return [name for model in parts for name in getattr(model, "model_fields", ())]


def _list_query_parameters(route: APIRoute) -> list[Any]:
    pending, parameters = [route.dependant], list[Any]()  # codespell:ignore
    while pending:
        dependant = pending.pop()
        parameters += dependant.query_params
        pending += dependant.dependencies
    return parameters


def _suggest(name: str, names: list[str]) -> str:
    if len(name) <= MAX_CHARS and (matches := get_close_matches(name, names, n=1)):
        return f"; did you mean `{matches[0]}`?"
    return f"; valid names: {', '.join(f'`{each}`' for each in names)}" if names else "; no names are valid here"


class Problem(BaseModel):
    """The reason for a refusal."""

    code: Annotated[
        str, Field(description="Stable code of the problem.", examples=["not-found", "session-busy", "answer-invalid"])
    ]
    message: Annotated[str, Field(description="What is wrong and what to do, for readers.")]
    status: Annotated[int, Field(description="HTTP status.", examples=[404])]
    details: Annotated[
        dict[str, Any],
        Field(
            description="`fields`: faults by field. `diagnostics`: of a canvas. `first`: the oldest stored event. "
            "`quota`, `limit`: the quota that is used up."
        ),
    ] = Field(default_factory=dict[str, Any])


class ProblemAnswer(BaseModel):
    """The body of every error response."""

    error: Problem


def is_native_path(path: str) -> bool:
    """Return whether a path belongs to the native API."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def describe_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return error responses for the OpenAPI document, by status."""
    return {status: {"description": STATUS_DESCRIPTIONS[status], "model": ProblemAnswer} for status in statuses}


def respond_problem(problem: Problem) -> Response:
    """Respond with a problem."""
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
    return respond_json({"error": problem}, problem.status, headers)


def to_problem(error: RagflowLgError) -> Problem:
    """Convert an error into a problem."""
    if isinstance(error, QuotaError):
        return _build_problem(error.status, str(error), error.reason, quota=error.quota, limit=error.limit)
    if isinstance(error, RequestError):
        status = error.status if error.status in CODES else 400
        text = "Missing or invalid API key: send `Authorization: Bearer KEY`." if status == 401 else str(error)
        return _build_problem(status, text, error.reason)
    if isinstance(error, CompileError):
        diagnostics = [diagnostic.as_dict() for diagnostic in error.diagnostics[:MAX_FAULTS]]
        return _build_problem(422, str(error), "canvas-invalid", diagnostics=diagnostics)
    if isinstance(error, AnswerError):
        return _build_problem(422, str(error), error.code, fields=error.problems, node=error.node)
    if isinstance(error, StreamGapError):
        return _build_problem(410, str(error), "events-gone", first=error.first)
    for kind, status, code in _PROBLEMS:
        if isinstance(error, kind):
            return _build_problem(status, str(error), code)
    return _build_problem(500, str(error), error.code)


_PROBLEMS: Sequence[tuple[type[RagflowLgError], int, str]] = (
    (CanvasChangedError, 409, CanvasChangedError.code),
    (SessionBusyError, 409, SessionBusyError.code),
    (ConflictError, 409, "conflict"),
    (StreamUnknownError, 410, "events-gone"),
    (StreamPositionError, 400, "event-unknown"),
    (StreamInterruptedError, 503, StreamInterruptedError.code),
    (StreamAbandonedError, 500, StreamAbandonedError.code),
    (StreamError, 503, "unavailable"),
    (CheckpointError, 503, "unavailable"),
    (DatabaseError, 503, "unavailable"),
)


def to_validation_problem(error: RequestValidationError, route: APIRoute | None = None) -> Problem:
    """Convert validation errors into a problem with a message per field. ``route`` provides the valid names."""
    faults = [cast("Mapping[str, Any]", fault) for fault in error.errors()[:MAX_FAULTS]]
    if any(fault["type"] == "json_invalid" for fault in faults):
        reason = faults[0].get("ctx", {}).get("error", "")
        return _build_problem(400, f"The body is not JSON: {reason}.", "")
    if any(tuple(fault["loc"]) == ("body",) and isinstance(fault.get("input"), bytes) for fault in faults):
        message = "The body was not read as JSON: send the header `Content-Type: application/json`."
        return _build_problem(422, message, "", fields={"body": message})
    fields: dict[str, str] = {}
    for fault in faults:
        names = list_known_names(route, str(fault["loc"][0])) if route is not None and len(fault["loc"]) == 2 else []
        fields[format_location(fault["loc"])] = describe_fault(fault, names)
    message = " ".join(f"`{place}` {text}{'' if text.endswith('?') else '.'}" for place, text in fields.items())
    return _build_problem(422, f"Invalid request. {message}", "", fields=fields)


def _build_problem(status: int, message: str, code: str, **details: Any) -> Problem:
    return Problem(code=code or CODES[status], message=message, status=status, details=details)
