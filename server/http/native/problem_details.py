"""How the native API tells that a request is refused: HTTP's status, a stable code, a text, and details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    RagflowLgError,
    RequestError,
    RunInterruptedError,
    RunUnknownError,
    SessionBusyError,
    StreamError,
    StreamGapError,
    StreamPositionError,
)
from ragflow_lg.server.http.native.validation_messages import (
    MAX_FAULTS,
    describe_fault,
    format_location,
    list_known_names,
)
from ragflow_lg.server.http.shared.responses import encode_json

if TYPE_CHECKING:
    from fastapi.exceptions import RequestValidationError
    from fastapi.routing import APIRoute

__all__ = [
    "PREFIX",
    "STATUS_DESCRIPTIONS",
    "Problem",
    "ProblemAnswer",
    "describe_problems",
    "is_native_path",
    "respond_problem",
    "to_problem",
    "to_validation_problem",
]

PREFIX = "/native/v1"

_WORDS = {
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
"""The code of a status, where nothing better is known."""

STATUS_DESCRIPTIONS = {
    400: "The request cannot be read.",
    401: "There is no API key that holds.",
    404: "There is none of this id; what belongs to other tenants looks the same.",
    409: "It does not fit the present state: `session-busy`, `session-waiting`, `run-not-waiting`, `run-not-last`, "
    "`canvas-changed`, `version-in-use`, `conflict`.",
    410: "The events are not kept any more: `events-gone`.",
    413: "The body is too large.",
    422: "A value does not fit: `invalid`, `answer-invalid`, `canvas-invalid`, `place-unknown`.",
    429: "Too many requests; try again after `Retry-After` seconds.",
    500: "The server failed; its log says why.",
    503: "A part of the server does not answer, or it is shutting down.",
}
_USUAL = (401, 413, 422, 429, 500, 503)


class Problem(BaseModel):
    """Why a request is refused."""

    code: Annotated[str, Field(description="A stable word.", examples=["not-found", "session-busy", "answer-invalid"])]
    message: Annotated[str, Field(description="For people: what is wrong, and what to do.")]
    status: Annotated[int, Field(description="HTTP's status.", examples=[404])]
    details: Annotated[
        dict[str, Any],
        Field(
            description="`fields`: faults by field. `diagnostics`: of a canvas. `first`: the oldest event that is kept."
        ),
    ] = Field(default_factory=dict[str, Any])


class ProblemAnswer(BaseModel):
    """The body of every refusal."""

    error: Problem


def is_native_path(path: str) -> bool:
    """Tell whether a path belongs to the native API."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def describe_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe refusals for the document of the API: those named, and those of every route."""
    return {
        status: {"model": ProblemAnswer, "description": STATUS_DESCRIPTIONS[status]}
        for status in sorted({*statuses, *_USUAL})
    }


def respond_problem(problem: Problem) -> Response:
    """Answer with a problem."""
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
    body = encode_json({"error": problem.model_dump()})
    return Response(body, problem.status, headers, media_type="application/json")


def to_problem(error: RagflowLgError) -> Problem:
    """Say why something of ours was refused or failed."""
    if isinstance(error, RequestError):
        status = error.status if error.status in _WORDS else 400
        text = "There is no API key that holds: send `Authorization: Bearer KEY`." if status == 401 else str(error)
        return _problem(status, text, error.reason)
    if isinstance(error, CompileError):
        found = [diagnostic.as_dict() for diagnostic in error.diagnostics[:MAX_FAULTS]]
        return _problem(422, str(error), "canvas-invalid", diagnostics=found)
    if isinstance(error, AnswerError):
        return _problem(422, str(error), error.code, fields=error.problems, node=error.node)
    if isinstance(error, StreamGapError):
        return _problem(410, str(error), "events-gone", first=error.first)
    for kind, status, word in _STATUSES:
        if isinstance(error, kind):
            return _problem(status, str(error), word)
    return _problem(500, str(error), error.code)


_STATUSES: Sequence[tuple[type[RagflowLgError], int, str]] = (
    (CanvasChangedError, 409, CanvasChangedError.code),
    (SessionBusyError, 409, SessionBusyError.code),
    (ConflictError, 409, "conflict"),
    (RunUnknownError, 410, "events-gone"),
    (StreamPositionError, 400, "event-unknown"),
    (RunInterruptedError, 503, RunInterruptedError.code),
    (StreamError, 503, "unavailable"),
    (CheckpointError, 503, "unavailable"),
    (DatabaseError, 503, "unavailable"),
)


def to_validation_problem(error: RequestValidationError, route: APIRoute | None = None) -> Problem:
    """Say what does not fit of a request, field by field; ``route`` knows the names that there are."""
    faults = [cast("Mapping[str, Any]", fault) for fault in error.errors()[:MAX_FAULTS]]
    if any(fault["type"] == "json_invalid" for fault in faults):
        reason = faults[0].get("ctx", {}).get("error", "")
        return _problem(400, f"The body is not JSON: {reason}.", "")
    if any(tuple(fault["loc"]) == ("body",) and isinstance(fault.get("input"), bytes) for fault in faults):
        told = "The body was not read as JSON: send the header `Content-Type: application/json` with it."
        return _problem(422, told, "", fields={"body": told})
    fields: dict[str, str] = {}
    for fault in faults:
        known = list_known_names(route, str(fault["loc"][0])) if route is not None and len(fault["loc"]) == 2 else []
        fields[format_location(fault["loc"])] = describe_fault(fault, known)
    told = " ".join(f"`{place}` {text}{'' if text.endswith('?') else '.'}" for place, text in fields.items())
    return _problem(422, f"The request does not fit. {told}", "", fields=fields)


def _problem(status: int, message: str, word: str, **details: Any) -> Problem:
    return Problem(code=word or _WORDS[status], message=message, status=status, details=details)
