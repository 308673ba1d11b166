"""Endpoints of embedding and rerank models: ids, requests, retries, and errors that name the setting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError, SettingsError, parse_retry_after
from ragflow_lg.base.foreign_text import foreign_line
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse

T = TypeVar("T")

_FIRST_PAUSE_S = 0.5
_MAX_DETAIL_CHARS = 300


class EndpointSettings(Struct, frozen=True):
    """The settings for one model at an endpoint; paths are appended to ``base_url``."""

    base_url: str
    model: str = ""
    api_key: str = ""
    key_variable: str = ""
    """The environment variable that should contain the key; ``""`` if the key is set directly. For error messages."""
    batch: int = 64
    """Maximum number of texts in one request."""
    max_retries: int = 3
    timeout_s: float = 60.0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of requests."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def __repr__(self) -> str:
        """Return the settings without the key."""
        return f"{type(self).__name__}({self.base_url!r}, {self.model!r})"


def find_model_id(id_: str, known: Collection[str]) -> str | None:
    """Return the id in the settings for the id in a canvas, to which RAGFlow appends the provider."""
    return next((key for key in (id_, id_.partition("#")[0], id_.rpartition("@")[0]) if key in known), None)


def list_models(known: Collection[str]) -> str:
    """Return a sentence that lists the known models, for error messages."""
    return f" Known models: {', '.join(map(repr, known))}." if known else ""


class ModelEndpoint:
    """The endpoint of one model. ``name`` is its kind and setting, such as ``rerank model [rerankers."m"]``."""

    def __init__(
        self,
        name: str,
        settings: EndpointSettings,
        http: HttpClient,
        *,
        longest_pause_s: float,
        sign: Callable[[str, bytes], Mapping[str, str]] | None = None,
    ) -> None:
        """Initialize it.

        Args:
            name: what error messages begin with.
            settings: its address and key.
            http: sends the requests.
            longest_pause_s: if it asks for a longer pause, a call fails without a retry.
            sign: returns the headers for a URL and a body, in place of a key. It is called in a thread.
        """
        self._name = name
        self._settings = settings
        self._http = http
        self._longest_pause_s = longest_pause_s
        self._sign = None if settings.api_key else sign
        self._secrets = [settings.api_key]

    async def fetch(self, path: str, body: Mapping[str, Any], parse: Callable[[str], Awaitable[T]]) -> T:
        """Send a request and return the parsed response. Temporary failures are retried.

        Raises:
            SettingsError: if the key is missing.
            ServiceError: if the endpoint fails. ``parse`` raises it for invalid responses.
        """
        self.require_key(is_optional=self._sign is not None)

        async def attempt() -> T:
            return await parse((await self._send(path, body)).text)

        return await self.retry(attempt)

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a call. Temporary failures are retried.

        Raises:
            ServiceError: if the last attempt fails.
        """
        pause_s = _FIRST_PAUSE_S
        for is_last in (*[False] * self._settings.max_retries, True):
            try:
                return await attempt()
            except ServiceError as error:
                if is_last or not error.is_retryable or error.retry_after_s > self._longest_pause_s:
                    raise
                await asyncio.sleep(max(error.retry_after_s, pause_s))
                pause_s *= 2
        raise AssertionError

    def require_key(self, *, is_optional: bool = False) -> None:
        """Check that a variable that should contain the key does, unless there are other credentials.

        Raises:
            SettingsError: if it does not.
        """
        settings = self._settings
        if settings.key_variable and not settings.api_key and not is_optional:
            raise SettingsError(
                f"The {self._name} cannot be used: the environment variable {settings.key_variable!r} "
                "of its api_key_env is not set."
            )

    async def _send(self, path: str, body: Mapping[str, Any]) -> HttpResponse:
        settings = self._settings
        url = settings.base_url.rstrip("/") + path
        request = HttpRequest("POST", url, headers=settings.headers, json=dict(body), timeout_s=settings.timeout_s)
        if self._sign is not None:
            content = json.dumps(body).encode()
            signed = await asyncio.to_thread(self._sign, url, content)
            self._secrets = [signed.get("Authorization", ""), signed.get("X-Amz-Security-Token", "")]
            request = HttpRequest("POST", url, headers=signed, body=content, timeout_s=settings.timeout_s)
        try:
            response = await self._http.send(request)
        except ServiceError as error:
            raise self.failure(f"is not available: {error}", is_retryable=error.is_retryable) from error
        if response.status != 200:
            is_busy = response.status in (408, 409, 425, 429) or response.status >= 500
            pause_s = parse_retry_after(response.headers.get("retry-after", ""))
            what = f"answered with status {response.status}: {self.excerpt(response.text)}"
            raise self.failure(what, is_retryable=is_busy, retry_after_s=pause_s)
        return response

    def excerpt(self, text: str) -> str:
        """Return the beginning of a response in one line, without the key."""
        return foreign_line(text, self._secrets, _MAX_DETAIL_CHARS) or "nothing"

    def failure(self, what: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> ServiceError:
        """Return an error that begins with the name of the model."""
        text = f"The {self._name} {what.rstrip('.')}."
        return ServiceError(text, is_retryable=is_retryable, retry_after_s=retry_after_s)
