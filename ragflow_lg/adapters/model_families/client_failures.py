"""What went wrong in a client library: status, pause and text, whatever its exceptions look like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from ragflow_lg.base.errors import parse_retry_after
from ragflow_lg.base.lenient_values import as_list, as_map, as_text

_UNREADABLE = (TypeError, LookupError, AttributeError, RecursionError, ValidationError)
"""Their messages describe the inside of a client and may be very long."""
_LOST = ("APIConnectionError", "TransportError", "HTTPClientError", "IncompleteReadError")
"""Names of classes of exceptions for connections that fail, in httpx, httpx2, botocore and the clients' own."""
_BUSY_STATUS = (408, 409, 429)
_BUSY = {
    "api_error",
    "internalserverexception",
    "modelnotreadyexception",
    "modelstreamerrorexception",
    "modeltimeoutexception",
    "overloaded_error",
    "rate_limit_error",
    "serviceunavailableexception",
    "throttlingexception",
    "timeout_error",
}
"""Codes of errors that a server reports in a stream, after status 200; botocore calls that 400."""
_MAX_CAUSES = 10


class ClientFailure(NamedTuple):
    """A failure. ``text`` completes a sentence about the model."""

    text: str
    is_retryable: bool = False
    retry_after_s: float = 0.0
    status: int = 0
    """The HTTP status of the answer."""
    is_unreadable: bool = False
    """Whether the client could not read an answer, and only a log can tell why."""


def describe_failure(error: Exception, address: str) -> ClientFailure:
    """Return what an exception of a client means. The text may contain what a server has sent, including keys."""
    from ragflow_lg.adapters.http.answer_limits import AnswerTooLargeError  # loads an HTTP client

    causes = list(_causes(error))
    if large := next((cause for cause in causes if isinstance(cause, AnswerTooLargeError)), None):
        return ClientFailure(str(large))
    for cause in causes:
        code, status = _code(cause), _status(cause)
        if code in _BUSY and status <= 400:
            return ClientFailure(f"failed: {_detail(cause)}", True, _retry_after_s(cause))
        if status >= 300:
            is_retryable = status in _BUSY_STATUS or status >= 500
            return ClientFailure(f"answered {status}: {_detail(cause)}", is_retryable, _retry_after_s(cause), status)
    if lost := next((cause for cause in reversed(causes) if _is_lost(cause)), None):
        text = f"cannot be reached at {address}, or closed the connection early: {lost or type(lost).__name__}"
        return ClientFailure(text, is_retryable=True)
    if any(base.__name__ == "OpenAIError" for base in type(error).__mro__):  # in a stream
        return ClientFailure(f"failed: {_detail(error)}", is_retryable=True)
    if isinstance(error, _UNREADABLE):
        text = f"returned an answer that its client could not parse ({type(error).__name__})"
        return ClientFailure(text, is_unreadable=True)
    return ClientFailure(f"failed: {type(error).__name__}: {error}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    for _ in range(_MAX_CAUSES):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, OSError) or any(base.__name__ in _LOST for base in type(error).__mro__)


def _response(error: BaseException) -> Any:
    return getattr(error, "response", None)


def _status(error: BaseException) -> int:
    """Return the HTTP status of an error, or 0."""
    metadata = as_map(as_map(_response(error)).get("ResponseMetadata"))  # botocore
    named = (getattr(error, "status_code", None), getattr(error, "code", None), metadata.get("HTTPStatusCode"))
    return next((value for value in named if isinstance(value, int) and 100 <= value <= 599), 0)


def _code(error: BaseException) -> str:
    """Return the server's own code of an error in lower case, or ``""``."""
    body = as_map(as_map(getattr(error, "body", None)).get("error"))  # Anthropic
    details = as_map(as_map(_response(error)).get("Error"))  # botocore
    return str(body.get("type") or details.get("Code") or "").lower()


def _detail(error: BaseException) -> str:
    """Return the server's own description of an error."""
    whole = getattr(error, "body", None)
    body = as_map(whole)
    details = as_map(as_map(_response(error)).get("Error"))
    texts = (
        as_map(body.get("error")).get("message"),
        body.get("message"),
        details.get("Message"),
        as_text(whole) or str(as_list(whole) or ""),
        getattr(error, "message", None),
        getattr(error, "error", None),  # Ollama
    )
    return next((text for text in texts if isinstance(text, str) and text), "") or f"{type(error).__name__}: {error}"


def _retry_after_s(error: BaseException) -> float:
    """Return how many seconds a server asks to wait; 0 if it does not ask or gives a date."""
    response = _response(error)
    headers: Any = getattr(response, "headers", None)
    if not hasattr(headers, "get"):
        headers = as_map(as_map(as_map(response).get("ResponseMetadata")).get("HTTPHeaders"))
    return parse_retry_after(str(headers.get("retry-after")))
