"""RAGFlow's envelopes, and what is refused in them."""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

import orjson
from starlette.responses import Response

from ragflow_lg.base.errors import (
    AnswerError,
    CanvasChangedError,
    CompileError,
    ConflictError,
    InputRefusedError,
    RagflowLgError,
    RequestError,
    RunUnknownError,
    StreamGapError,
    StreamPositionError,
)

__all__ = [
    "encode_json",
    "format_times",
    "respond",
    "respond_error",
    "respond_page",
    "respond_plain",
    "to_request_error",
]

JSON = "application/json"
_SHOWN_STATUSES = frozenset({401, 408, 413, 429, 431})
"""What HTTP says, too, beside failures of the server itself; for all other refusals it says 200, as RAGFlow does."""
_FAILED = 100


def encode_json(value: Any) -> bytes:
    """Write JSON as UTF-8; what JSON cannot hold becomes null, a lone surrogate ``?``."""
    try:
        return orjson.dumps(value, default=_null, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # numbers beyond 64 bit, lone surrogates
        return _dumps(value).encode("utf-8", "replace")


def _dumps(value: Any) -> str:
    """Write JSON as a text that may hold lone surrogates."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, default=_null, separators=(",", ":"))
    except ValueError:  # NaN and the infinities: they are read again as what they shall be
        text = json.dumps(value, ensure_ascii=False, default=_null, separators=(",", ":"))
        plain: Any = json.loads(text, parse_constant=_null)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _null(_: Any) -> None:
    return None


def respond(data: Any = None, *, message: str = "") -> Response:
    """Answer with ``code``, ``message`` and ``data``."""
    return _json({"code": 0, "message": message, "data": data})


def respond_plain(data: Any = None) -> Response:
    """Answer with ``code``, and ``data`` if there is any."""
    return _json({"code": 0} if data is None else {"code": 0, "data": data})


def respond_page(rows: list[Any], total: int) -> Response:
    """Answer with a page of rows and how many there are on all pages."""
    return _json({"code": 0, "message": "", "data": rows, "total": total})


def respond_error(error: RequestError) -> Response:
    """Answer that a request is refused."""
    body: dict[str, Any] = {"code": error.number, "message": str(error)}
    if error.has_data:
        body["data"] = error.data
    return _json(body, error.status if error.status in _SHOWN_STATUSES or error.number == _FAILED else 200)


def to_request_error(error: RagflowLgError) -> RequestError:
    """Say in RAGFlow's numbers why something of ours was refused or failed."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, CompileError):
        return RequestError(str(error), 101, data=False, has_data=True)
    if isinstance(error, AnswerError | InputRefusedError):
        return RequestError(str(error), 101)
    if isinstance(error, ConflictError | CanvasChangedError):
        return RequestError(str(error), 103, status=409)
    if isinstance(error, RunUnknownError):
        return RequestError(str(error), status=404)
    if isinstance(error, StreamGapError | StreamPositionError):
        return RequestError(str(error), 101, status=410 if isinstance(error, StreamGapError) else 400)
    return RequestError(str(error), 500, status=500, data=False, has_data=True)


def format_times(create_ms: int, update_ms: int) -> dict[str, Any]:
    """Give the times of a row as RAGFlow's lists have them."""
    return {
        "create_time": create_ms,
        "create_date": formatdate(create_ms / 1000, usegmt=True),
        "update_time": update_ms,
        "update_date": formatdate(update_ms / 1000, usegmt=True),
    }


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(encode_json(body), status, media_type=JSON)
