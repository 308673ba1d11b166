"""Endpoints of embedding, rerank and speech models: settings, ids, retries, and errors that name the setting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError, SettingsError, foreign_line

T = TypeVar("T")

_FIRST_PAUSE_S = 0.5
_MAX_DETAIL_CHARS = 300


class EndpointSettings(Struct, frozen=True):
    """The settings for one model at an endpoint; paths are appended to ``base_url``."""

    base_url: str
    model: str = ""
    api_key: str = ""
    key_problem: str = ""
    """Why there is no key although the settings say where it is: the end of a sentence."""
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


class EmbeddingSettings(EndpointSettings, frozen=True):
    """The settings for one embedding model."""

    dims: int = 0
    """Required length of the vectors; 0 accepts any."""
    family: str = ""
    """The name in `ragflow_lg.adapters.model_families`, unless the endpoint is compatible with OpenAI's API."""


def find_model_id(id_: str, known: Collection[str]) -> str | None:
    """Return the id in the settings for the id in a canvas, to which RAGFlow appends the provider."""
    return next((key for key in (id_, id_.partition("#")[0], id_.rpartition("@")[0]) if key in known), None)


def list_models(known: Collection[str]) -> str:
    """Return a sentence that lists the known models, for error messages."""
    return f" Known models: {', '.join(map(repr, known))}." if known else ""


def endpoint_host(base_url: str) -> str:
    """Return an endpoint in the form used by the guarded client's allow-list."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise SettingsError("The base_url of a model is not a web address.") from None
    if not host:
        raise SettingsError("The base_url of a model has no host.")
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{port or (443 if parts.scheme.lower() == 'https' else 80)}"


class ModelEndpoint:
    """The endpoint of one model. ``name`` is its kind and setting, such as ``rerank model [rerankers."m"]``.

    If the endpoint asks for a pause longer than ``longest_pause_s``, a call fails without a retry.
    """

    def __init__(self, name: str, settings: EndpointSettings, *, longest_pause_s: float) -> None:
        self._name = name
        self._settings = settings
        self._longest_pause_s = longest_pause_s

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
        """Check that the key is where the settings say, unless there are other credentials.

        Raises:
            SettingsError: if it does not.
        """
        settings = self._settings
        if settings.key_problem and not is_optional:
            raise SettingsError(f"The {self._name} cannot be used: {settings.key_problem}.")
        if not settings.api_key.isascii():  # a header would not take it
            raise SettingsError(f"The {self._name} cannot be used: its key has a character that no key has.")

    def excerpt(self, text: str, *secrets: str) -> str:
        """Return the beginning of a response in one line, without the key and other secrets."""
        return foreign_line(text, [self._settings.api_key, *secrets], _MAX_DETAIL_CHARS) or "nothing"

    def failure(self, what: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> ServiceError:
        """Return an error that begins with the name of the model."""
        text = f"The {self._name} {what.rstrip('.')}."
        return ServiceError(text, is_retryable=is_retryable, retry_after_s=retry_after_s)
