"""Requests to RAGFlow's HTTP API: few at a time, repeated when the server asks for it, page by page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal, cast

from msgspec import Struct

from ragflow_lg.base.errors import ForeignJsonError, RefusalError, ServiceError, foreign_line
from ragflow_lg.base.json_scanner import JsonLimits, check_json, parse_foreign_json
from ragflow_lg.base.lenient_values import as_list
from ragflow_lg.base.values import JsonValue, join_surrogates, to_text
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse

Method = Literal["GET", "POST", "PUT", "DELETE"]

MAX_SIDE_BY_SIDE = 4
"""Maximum number of requests at the same time."""

MAX_WAIT_S = 60.0
"""Longest pause before a request is repeated, even if the server asks for a longer one."""

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Maximum size of one answer."""

MAX_ENTRIES = 500_000
"""Maximum number of its entries."""

PAGE_SIZE = 30
MAX_DIGITS = 18
"""Maximum number of digits of a whole number, so that it fits into 64 bits."""

_MAX_DETAIL_CHARS = 300
_BUSY = frozenset([429, 502, 503, 504])


ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of ids that are used in addresses and names of files."""

MAX_TEXT_CHARS = 4_000_000


class ApiAddress(Struct, frozen=True):
    """The address of a RAGFlow without ``/api/v1``, an API key, and how requests are sent there."""

    url: str
    key: str
    timeout_s: float = 60.0
    tries: int = 5
    """How often a request is sent to a server that is busy."""
    name: str = "RAGFlow"
    """What errors call the server."""
    key_name: str = "the API key"

    def __repr__(self) -> str:
        """Return the address without the key."""
        return f"ApiAddress({self.url!r})"


class RagflowApi:
    """A running RAGFlow server. ``sleep`` waits for a number of seconds before a request is repeated."""

    def __init__(
        self,
        address: ApiAddress,
        http: HttpClient,
        *,
        side_by_side: int = MAX_SIDE_BY_SIDE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._address = address
        self._http = http
        self._sleep = sleep
        self._permits = asyncio.Semaphore(side_by_side)
        self.is_go = False
        """Whether the server is that of RAGFlow 1.0, which is written in Go; known once it has answered."""

    @property
    def name(self) -> str:
        """What errors call the server."""
        return self._address.name

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the ``data`` of an answer.

        Raises:
            RefusalError: if the server refuses the request, or has no such route.
            ServiceError: if it cannot be reached, or does not answer as RAGFlow does.
        """
        return await self.send("GET", path, query=query)

    async def send(
        self, method: Method, path: str, *, query: Mapping[str, str] | None = None, body: JsonValue = None
    ) -> Any:
        """Send a request and return the ``data`` of the answer; see `get` for the errors.

        Requests that change something are repeated only if the server has said that it did not process them.
        """
        return self._read(path, await self._exchange(method, path, query, body))

    async def stream(self, path: str, body: JsonValue) -> list[dict[str, Any]]:
        """Send a request that is answered with a stream, and return its frames once it has ended; see `get`."""
        response = await self._exchange("POST", path, None, body)
        lines = [line.removeprefix("data:").strip() for line in response.text.split("\n") if line.startswith("data:")]
        if response.status >= 400 or not lines:
            self._read(path, response)
            raise ServiceError(f"{self._address.name} answered {path} without a stream.")
        return [frame for line in lines if (frame := read_object(line))]

    async def _exchange(
        self, method: Method, path: str, query: Mapping[str, str] | None, body: JsonValue
    ) -> HttpResponse:
        request = HttpRequest(
            method,
            self._address.url.rstrip("/") + path,
            headers={"Authorization": f"Bearer {self._address.key}"},
            query=query or {},
            json=body,
            max_response_bytes=MAX_BODY_BYTES,
            timeout_s=self._address.timeout_s,
        )
        for attempt in range(1, self._address.tries + 1):
            wait_s = min(0.5 * 2**attempt, MAX_WAIT_S)
            try:
                async with self._permits:
                    response = await self._http.send(request)
            except ServiceError as error:
                if attempt == self._address.tries or not error.is_retryable or method != "GET":
                    message = f"{self._address.name} cannot be reached: {error}"
                    raise ServiceError(message, is_retryable=error.is_retryable) from error
            else:
                is_busy = response.status == 429 or (response.status in _BUSY and method == "GET")
                if attempt == self._address.tries or not is_busy:
                    return response
                wait_s = _asked_wait(response.headers, wait_s)
            await self._sleep(wait_s)
        raise AssertionError  # the last attempt returns or raises

    async def rows(
        self,
        path: str,
        key: str = "",
        query: Mapping[str, str] | None = None,
        *,
        limit: int,
        page_size: int = PAGE_SIZE,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the rows with different ids on all pages of a list. The list is the data itself or its ``key`` entry.

        Raises:
            ServiceError: if the list has more than ``limit`` rows, or is no list.
        """
        seen: set[str] = set()
        for page in range(1, limit // page_size + 2):
            data = await self.get(path, {**(query or {}), "page": str(page), "page_size": str(page_size)})
            listed: Any = cast("Any", data) if isinstance(data, list) else as_map(data).get(key)
            if not isinstance(listed, list):
                raise ServiceError(f"{self._address.name} answered {path} without a list. Is it a RAGFlow server?")
            fresh = [row for row in as_rows(listed) if (id_ := read_text(row, "id", max_chars=200)) and id_ not in seen]
            for row in fresh:
                seen.add(read_text(row, "id", max_chars=200))
                if len(seen) > limit:
                    break
                yield row
            # A server that ignores the page sends the same rows again.
            if not fresh or len(as_list(listed)) < page_size:
                return
            if len(seen) > limit:
                break
        raise ServiceError(
            f"{self._address.name} has more than {limit:,} entries in {path}; that many are not supported."
        )

    def _read(self, path: str, response: HttpResponse) -> Any:
        self.is_go = self.is_go or response.headers.get("x-api-source") == "go"
        try:
            check_json(response.text, JsonLimits(MAX_BODY_BYTES, MAX_ENTRIES))
        except ForeignJsonError as error:
            raise ServiceError(f"{self._address.name} answered {path} with JSON that {error}.") from None
        answer = _parse(response.text)
        message = str(answer.get("message"))
        # The server in Go answers with the code 404 and the status 200 for a record that does not exist.
        is_missing = response.status == 404 or (answer.get("code") == 404 and message.startswith("Not Found"))
        if is_missing or response.status == 405 or "MethodNotAllowed" in message:
            raise RefusalError(f"{self._address.name} has no {path}.", 404, is_unknown_route=True)
        if "code" not in answer:
            raise RefusalError(
                f"{self._address.name} answered {path} with status {response.status} and not as RAGFlow's API does. "
                "Check the address: it has no path, as in https://ragflow.example.com.",
                response.status,
                is_retryable=response.status in _BUSY,
            )
        if answer["code"] != 0 or response.status >= 400:
            raise self._refusal(path, response.status, answer)
        return answer.get("data")

    def _refusal(self, path: str, status: int, answer: Mapping[str, Any]) -> RefusalError:
        reason = foreign_line(str(answer.get("message", "")), [self._address.key], _MAX_DETAIL_CHARS)
        code = answer["code"] if isinstance(answer["code"], int) else status
        is_key = status in (401, 403) or code in (401, 109) or "api key" in reason.lower()
        advice = f" Check {self._address.key_name}." if is_key else ""
        if "super user" in reason.lower():
            advice = " It is that of RAGFlow's superuser; use the one of a user."
        what = f"{self._address.name} refused {path} ({code}): {reason.rstrip('.') or 'no reason given'}.{advice}"
        return RefusalError(what, code, is_retryable=status == 429 or status >= 500)


def _parse(text: str) -> dict[str, Any]:
    """Return an answer, or ``{}`` if it is no JSON object.

    Long numbers become floats and unpaired surrogates ``?``, because neither could be stored.
    """
    try:
        answer = as_map(json.loads(text, parse_int=lambda text: int(text) if len(text) <= MAX_DIGITS else float(text)))
        if "\\ud" in text or "\\uD" in text:
            answer = as_map(json.loads(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return {}
    return answer


def _asked_wait(headers: Mapping[str, str], default_s: float) -> float:
    """Return how long a server asks to wait, in seconds, at most `MAX_WAIT_S`."""
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return min(float(text), MAX_WAIT_S)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError):
        return default_s
    date = next((value for name, value in headers.items() if name.lower() == "date"), "")
    try:
        now = parsedate_to_datetime(date)
    except (ValueError, IndexError, TypeError):
        return default_s
    aware_until, aware_now = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in (until, now))
    return min(max((aware_until - aware_now).total_seconds(), 0.0), MAX_WAIT_S)


def as_map(value: Any) -> dict[str, Any]:
    """Return an object with its text keys, or an empty one for anything else."""
    if not isinstance(value, Mapping):
        return {}
    return {key: entry for key, entry in cast("Mapping[Any, Any]", value).items() if isinstance(key, str)}


def as_rows(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; other entries are left out."""
    return [as_map(entry) for entry in as_list(value) if isinstance(entry, Mapping)]


def read_text(row: Mapping[str, Any], *names: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return the first of some fields that is not empty, as text without unpaired surrogates and NUL."""
    value = next((row[name] for name in names if row.get(name) not in (None, "")), "")
    return join_surrogates(to_text(value)[:max_chars].replace("\x00", ""))


def read_number(row: Mapping[str, Any], name: str) -> int:
    """Return a field as a whole number; 0 for anything else, or if it does not fit into 64 bits."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if abs(value) < 2**63 else 0


def read_object(value: Any) -> dict[str, Any]:
    """Return an object that may be written as JSON text, or an empty one."""
    if isinstance(value, str) and len(value) <= MAX_TEXT_CHARS:
        try:
            value = parse_foreign_json(value)
        except ForeignJsonError:
            return {}
    return as_map(value)


def is_id(value: str) -> bool:
    """Return whether a text can be used as an id in addresses and names of files."""
    return ID.fullmatch(value) is not None
