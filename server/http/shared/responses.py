"""RAGFlow's response envelopes, and the mapping of errors to its codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from ragflow_lg.base.errors import (
    AnswerError,
    CanvasChangedError,
    CompileError,
    ConflictError,
    InputRefusedError,
    RagflowLgError,
    RequestError,
    StreamGapError,
    StreamPositionError,
    StreamUnknownError,
)
from ragflow_lg.server.http.shared.ragflow_1 import adapt_refusal, speaks_1

JSON = "application/json"
_SHOWN_STATUSES = frozenset({401, 408, 413, 429, 431})
"""Refusals that also set the HTTP status, as server failures do. All others have status 200, as in RAGFlow."""
_FAILED = 100
PAGE_FAILURE = "The agent failed. Its owner can see the reason."
"""The only text about a failed node or service that visitors receive. The reason may name hosts and contain values."""


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8, lone surrogates as escapes. What is neither a model nor JSON becomes null."""
    try:
        return orjson.dumps(value, default=_to_plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # numbers beyond 64 bits, lone surrogates
        return _to_json_text(value).encode("utf-8", "backslashreplace")


def _to_json_text(value: Any) -> str:
    """Encode a value as JSON text that may contain lone surrogates."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, default=_to_plain, separators=(",", ":"))
    except ValueError:  # NaN and infinities: parse the text again with null in their place
        text = json.dumps(value, ensure_ascii=False, default=_to_plain, separators=(",", ":"))
        plain: Any = json.loads(text, parse_constant=_to_plain)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _to_plain(value: Any) -> dict[str, Any] | None:
    return vars(value) if isinstance(value, BaseModel) else None


def respond_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Respond with JSON as it is, without an envelope."""
    return Response(encode_json(body), status, headers, media_type=JSON)


def respond(data: Any = None, *, message: str = "success") -> Response:
    """Respond with ``code``, ``message`` and ``data``."""
    return respond_json({"code": 0, "message": message, "data": data})


def respond_plain(data: Any = None) -> Response:
    """Respond with ``code``, and with ``data`` unless it is None. In 1.0, every response has a ``message``."""
    message = {"message": "success"} if speaks_1() else {}
    return respond_json({"code": 0, **message} if data is None else {"code": 0, **message, "data": data})


def respond_page(rows: list[Any], total: int) -> Response:
    """Respond with one page of rows and the total number of rows across all pages."""
    return respond_json({"code": 0, "message": "success", "data": rows, "total": total})


def respond_error(error: RequestError) -> Response:
    """Respond with RAGFlow's error envelope."""
    body: dict[str, Any] = {"code": error.number, "message": str(error)}
    if error.has_data:
        body["data"] = error.data
    if speaks_1():
        body = adapt_refusal(body)
    return respond_json(body, error.status if error.status in _SHOWN_STATUSES or error.number == _FAILED else 200)


def to_request_error(error: RagflowLgError) -> RequestError:
    """Convert an error into a refusal with RAGFlow's code."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, CompileError):
        return RequestError(str(error), 101, data=False, has_data=True)
    if isinstance(error, AnswerError | InputRefusedError):
        return RequestError(str(error), 101)
    if isinstance(error, ConflictError | CanvasChangedError):
        return RequestError(str(error), 103, status=409)
    if isinstance(error, StreamUnknownError):
        return RequestError(str(error), status=404)
    if isinstance(error, StreamGapError | StreamPositionError):
        return RequestError(str(error), 101, status=410 if isinstance(error, StreamGapError) else 400)
    return RequestError(str(error), 500, status=500, data=False, has_data=True)


def format_times(create_ms: int, update_ms: int) -> dict[str, Any]:
    """Return a row's times under the names used in RAGFlow's lists."""
    return {
        "create_time": create_ms,
        "create_date": _format_date(create_ms),
        "update_time": update_ms,
        "update_date": _format_date(update_ms),
    }


def _format_date(time_ms: int) -> str:
    if speaks_1():
        return datetime.fromtimestamp(time_ms // 1000, UTC).isoformat()
    return formatdate(time_ms / 1000, usegmt=True)
