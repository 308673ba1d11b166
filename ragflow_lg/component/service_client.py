"""A client for the services that tools use, which treats responses as untrusted text.

A response may have any shape. An unexpected one raises a `ragflow_lg.base.errors.ServiceError` that names the service.
If a service repeats its key in a response, the key is redacted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote, quote_plus, urljoin

from msgspec.structs import replace

from ragflow_lg.base.errors import ComponentError, ForeignJsonError, ServiceError, SettingsError, parse_retry_after
from ragflow_lg.base.foreign_json import SMALL_BYTES, read_foreign_json
from ragflow_lg.base.json_scanner import JsonLimits, parse_foreign_json
from ragflow_lg.base.values import JsonValue, read_path, to_json, to_text
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.spec import ToolService, key_in_canvas
from ragflow_lg.services.http import HttpRequest, HttpResponse

MAX_ROWS = 1000
"""Maximum number of results read from one response."""

MAX_ANSWER_BYTES = 2 * 1024 * 1024
"""Maximum size of an answer in JSON, unless a request permits more."""

MAX_PAGES_BYTES = 8 * 1024 * 1024
"""Maximum size of an answer that contains whole pages."""

MAX_LABEL_CHARS = 2000
"""Maximum length of a result's title or address."""

MAX_PAUSE_S = 86_400.0
"""Maximum number of seconds that is read from ``Retry-After``."""

_MAX_EXCERPT_CHARS = 200
_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REDACTED = "***"


@dataclass(frozen=True, slots=True)
class Service:
    """A service that a tool calls. ``name`` appears in errors, ``secret`` is its key.

    ``error_field`` is the response field that contains an error message, ``address`` the endpoint.
    """

    name: str
    secret: str = field(default="", repr=False)
    error_field: str = ""
    address: str = ""

    async def ask(self, ctx: RunContext, request: HttpRequest) -> HttpResponse:
        """Send a request. Redirects are followed only if there is no key; each hop is checked like the first.

        Raises:
            ServiceError: if the service is unreachable or rejects the request.
        """
        response = await ctx.services.http.send(request)
        for _ in range(_MAX_REDIRECTS):
            target = response.headers.get("location", "") if response.status in _REDIRECTS else ""
            if not target or self.secret or request.method != "GET":
                break
            request = replace(request, url=_join_url(response.url or request.url, target), query={})
            response = await ctx.services.http.send(request)
        if not 200 <= response.status < 300:
            raise self.error(response)
        return response

    async def ask_json(self, ctx: RunContext, request: HttpRequest) -> dict[str, Any]:
        """Send a request and return the JSON object in the response.

        Raises:
            ServiceError: if the service is unreachable, rejects the request, or does not return a JSON object.
        """
        max_bytes = request.max_response_bytes or MAX_ANSWER_BYTES
        response = await self.ask(ctx, replace(request, max_response_bytes=max_bytes))
        return await self.read_json(ctx, response, max_bytes)

    async def read_json(
        self, ctx: RunContext, response: HttpResponse, max_bytes: int = MAX_ANSWER_BYTES
    ) -> dict[str, Any]:
        """Return the JSON object in a response.

        Raises:
            ServiceError: if the response is an error or not a JSON object.
        """
        if not 200 <= response.status < 300:
            raise self.error(response)
        try:
            value = await ctx.services.workers.run(read_foreign_json, response.text, JsonLimits(max_bytes))
        except ForeignJsonError as error:
            reason = f"JSON that {error}"
        else:
            if isinstance(value, dict):
                return value
            reason = "no JSON object"
        raise ServiceError(f"{self.name} answered {response.status} with {reason}: {self._excerpt(response)}")

    def rows(self, answer: Mapping[str, Any], name: str, limit: int = MAX_ROWS) -> list[dict[str, Any]]:
        """Return the first objects in a response's list, as plain JSON; empty if there is no list.

        Raises:
            ServiceError: if the field is not a list of objects, or is too deep or too large. Also if it is missing and
            the service has an ``error_field``; the message then contains the text of that field.
        """
        value = answer.get(name)
        if value is None:
            if self.error_field:
                raise ServiceError(self.error_of(answer) or f"{self.name} answered without {name!r}.")
            return []
        if not isinstance(value, list):
            raise ServiceError(f"{self.name} answered with {_describe_type(value)} instead of a list in {name!r}.")
        rows = cast("list[Any]", value)[: min(limit, MAX_ROWS)]
        wrong_type = next((_describe_type(row) for row in rows if not isinstance(row, dict)), "")
        if wrong_type:
            raise ServiceError(
                f"{self.name} answered with {wrong_type} in {name!r}, which should contain only objects."
            )
        try:
            return cast("list[dict[str, Any]]", to_json(rows))
        except ComponentError as error:
            raise ServiceError(f"{self.name} answered with an unusable {name!r}: {error}") from None

    def error_of(self, answer: Mapping[str, Any]) -> str:
        """Return the text in a response's ``error_field``, or ``""`` if there is none."""
        value: Any = answer.get(self.error_field) if self.error_field else None
        return self.redact(value)[:MAX_LABEL_CHARS] if isinstance(value, str) else ""

    def redact(self, text: str) -> str:
        """Remove the key from a text, including its URL-encoded forms."""
        for form in {self.secret, quote(self.secret, safe=""), quote_plus(self.secret)} - {""}:
            text = text.replace(form, _REDACTED)
        return text

    def _excerpt(self, response: HttpResponse) -> str:
        beginning = self.redact(response.text)[: 10 * _MAX_EXCERPT_CHARS]
        return " ".join(beginning.split())[:_MAX_EXCERPT_CHARS] or "nothing"

    def error(self, response: HttpResponse) -> ServiceError:
        """Return the error for a response with an error status."""
        value: object = None
        if self.error_field:
            with suppress(ForeignJsonError):
                value = parse_foreign_json(response.text, JsonLimits(SMALL_BYTES))
        reason = self.error_of(cast("dict[str, Any]", value)) if isinstance(value, dict) else ""
        text = reason or f"{self.name} answered {response.status}: {self._excerpt(response)}"
        pause_s = min(parse_retry_after(response.headers.get("retry-after", "")), MAX_PAUSE_S)
        if pause_s:
            text = f"{text} It asks clients to wait {pause_s:g} s."
        is_retryable = response.status >= 500 or response.status == 429
        return ServiceError(text, is_retryable=is_retryable, retry_after_s=pause_s)


def open_service(ctx: RunContext, about: ToolService, canvas_key: str | None = "", error_field: str = "") -> Service:
    """Return the client for a service, with its key from the canvas or, if it is not set there, from the settings.

    Raises:
        SettingsError: if a required key is missing.
    """
    key = key_in_canvas(canvas_key) or ctx.services.tools.key(about.section)
    if not key and about.key == "required":
        raise SettingsError(
            f"{ctx.node.spec.name} has no API key: set [tools.{about.section}] api_key in the settings, or "
            f"{about.key_param} in the canvas."
        )
    return Service(about.name, key, error_field, ctx.services.tools.endpoint(about.section, about.address))


def read_text(row: Mapping[str, Any], *path: str) -> str:
    """Return the text at a path in a result, or ``""`` if there is none. Other values are returned as JSON."""
    return to_text(read_path(row, path))


def read_label(row: Mapping[str, Any], *path: str) -> str:
    """Return the title or address at a path in a result, truncated to `MAX_LABEL_CHARS`."""
    return read_text(row, *path)[:MAX_LABEL_CHARS]


def read_fields(title: str, url: str, content: str) -> Callable[[Mapping[str, Any]], tuple[str, str, str, float]]:
    """Return a function that reads the title, the URL, the content and a score of a result with these fields."""
    return lambda row: (read_label(row, title), read_label(row, url), read_text(row, content), 1.0)


def read_number(value: JsonValue, default: float) -> float:
    """Return a finite number, which may be given as text; otherwise ``default``."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return default
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return default
    return number if math.isfinite(number) else default


def read_time(value: JsonValue) -> datetime | None:
    """Return the time that epoch seconds stand for; None for other values."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if (seconds := read_number(value, -1.0)) >= 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _join_url(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return target  # the HTTP client rejects it


def _describe_type(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "a number")
