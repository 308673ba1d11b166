"""What services answer to tools: sent for, and read as what it is, text from strangers.

An answer may have any shape. What does not fit is a `ragflow_lg.base.errors.ServiceError` that names the service; a key
that a service repeats in its answer is left out of every text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, quote_plus, urljoin

from msgspec.structs import replace

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue, read_path, to_json, to_text
from ragflow_lg.services.http import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["MAX_ROWS", "Service", "read_label", "read_number", "read_text"]

MAX_ROWS = 1000
"""Most results that are read of one answer."""

MAX_LABEL_CHARS = 2000
"""Longest title or address of a result."""

_MAX_SAID_CHARS = 200
_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REDACTED = "***"


@dataclass(frozen=True, slots=True)
class Service:
    """A service that a tool asks. ``name`` is what errors call it, ``secret`` its key.

    ``error_field`` is where its answers say in words what went wrong.
    """

    name: str
    secret: str = field(default="", repr=False)
    error_field: str = ""

    async def ask(self, ctx: RunContext, request: HttpRequest) -> HttpResponse:
        """Send a request. Redirects are followed where no key goes along; each hop is guarded like the first.

        Raises:
            ServiceError: if the service cannot be reached, or refuses.
        """
        response = await ctx.services.http.send(request)
        for _ in range(_MAX_REDIRECTS):
            target = response.headers.get("location", "") if response.status in _REDIRECTS else ""
            if not target or self.secret or request.method != "GET":
                break
            request = replace(request, url=_joined(response.url or request.url, target), query={})
            response = await ctx.services.http.send(request)
        if not 200 <= response.status < 300:
            raise self._refusal(response)
        return response

    async def ask_json(self, ctx: RunContext, request: HttpRequest) -> dict[str, Any]:
        """Send a request and read the JSON object that is answered.

        Raises:
            ServiceError: if the service cannot be reached, refuses, or answers something else.
        """
        return self.read_json(await self.ask(ctx, request))

    def read_json(self, response: HttpResponse) -> dict[str, Any]:
        """Read the JSON object of an answer.

        Raises:
            ServiceError: if it is a refusal, or something else.
        """
        if not 200 <= response.status < 300:
            raise self._refusal(response)
        value = _parsed(response.text)
        if not isinstance(value, dict):
            raise ServiceError(f"{self.name} answered {response.status}, but no JSON object: {self._said(response)}")
        return cast("dict[str, Any]", value)

    def rows(self, answer: Mapping[str, Any], name: str, limit: int = MAX_ROWS) -> list[dict[str, Any]]:
        """Give the first objects of a list in an answer, as plain JSON; none where there is no list.

        Raises:
            ServiceError: if it is no list of objects, or one that is too deep or too large; and where there is none
                from a service with an ``error_field``, with what is said there.
        """
        held = answer.get(name)
        if held is None:
            if self.error_field:
                raise ServiceError(self.error_of(answer) or f"{self.name} answered without {name!r}.")
            return []
        if not isinstance(held, list):
            raise ServiceError(f"{self.name} answered with {name!r} that is no list, but {_kind(held)}.")
        rows = cast("list[Any]", held)[: min(limit, MAX_ROWS)]
        strange = next((_kind(row) for row in rows if not isinstance(row, dict)), "")
        if strange:
            raise ServiceError(f"{self.name} answered with {name!r} that is no list of objects: it has {strange}.")
        try:
            return cast("list[dict[str, Any]]", to_json(rows))
        except ComponentError as error:
            raise ServiceError(f"{self.name} answered with {name!r} that cannot be taken in: {error}") from None

    def error_of(self, answer: Mapping[str, Any]) -> str:
        """Give what an answer says in its ``error_field``, ``""`` if nothing."""
        value: Any = answer.get(self.error_field) if self.error_field else None
        return self.redact(value)[:MAX_LABEL_CHARS] if isinstance(value, str) else ""

    def redact(self, text: str) -> str:
        """Leave the key out of a text, also where it is written as part of an address."""
        for form in {self.secret, quote(self.secret, safe=""), quote_plus(self.secret)} - {""}:
            text = text.replace(form, _REDACTED)
        return text

    def _said(self, response: HttpResponse) -> str:
        beginning = self.redact(response.text)[: 10 * _MAX_SAID_CHARS]
        return " ".join(beginning.split())[:_MAX_SAID_CHARS] or "nothing"

    def _refusal(self, response: HttpResponse) -> ServiceError:
        value = _parsed(response.text) if self.error_field else None
        said = self.error_of(cast("dict[str, Any]", value)) if isinstance(value, dict) else ""
        text = said or f"{self.name} answered {response.status}: {self._said(response)}"
        return ServiceError(text, is_retryable=response.status >= 500 or response.status == 429)


def read_text(row: Mapping[str, Any], *path: str) -> str:
    """Give the text at a path of a result, ``""`` where there is none; what is no text is written as JSON."""
    return to_text(read_path(row, path))


def read_label(row: Mapping[str, Any], *path: str) -> str:
    """Give the title or the address at a path of a result, cut to `MAX_LABEL_CHARS`."""
    return read_text(row, *path)[:MAX_LABEL_CHARS]


def read_number(value: JsonValue, default: float) -> float:
    """Give a finite number, also one that is written as text; else ``default``."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return default
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return default
    return number if math.isfinite(number) else default


def _parsed(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return target  # refused by the client, in its words


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "a number")
