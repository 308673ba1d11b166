"""Vectors by an OpenAI-compatible endpoint, over the guarded client."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse

__all__ = ["EmbeddingSettings", "EndpointEmbedder"]

MAX_QUESTION_CHARS = 6_000
"""How much of a question is embedded; models take about 8,000 tokens, a Chinese character may be more than one."""

_LONGEST_PAUSE_S = 60.0
_FIRST_PAUSE_S = 0.5
_MAX_SAID_CHARS = 300
_TOO_LARGE = 1e15
"""Numbers from here on could not be multiplied as float32."""


class EmbeddingSettings(Struct, frozen=True):
    """One embedding model and where it is reached."""

    base_url: str
    model: str
    api_key: str = ""
    key_variable: str = ""
    """The environment variable that the key is taken from, if it is from one."""
    dims: int = 0
    """How long its vectors have to be, 0 if that is not set."""
    batch: int = 64
    """How many texts go into one request."""
    max_retries: int = 3
    timeout_s: float = 60.0

    def __repr__(self) -> str:
        """Leave the key out."""
        return f"EmbeddingSettings({self.base_url!r}, {self.model!r})"


class EndpointEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` of ``[embeddings."ID"]``."""

    is_stand_in = False

    def __init__(self, id_: str, settings: EmbeddingSettings, http: HttpClient) -> None:
        self.name = id_
        self._settings = settings
        self._http = http

    async def embed_question(self, text: str) -> Sequence[float]:
        """Give the vector of a question."""
        return (await self._embed([text[:MAX_QUESTION_CHARS]]))[0]

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Give the vectors of chunks, in order."""
        size = self._settings.batch
        found: list[Sequence[float]] = []
        for at in range(0, len(texts), size):
            found += await self._embed(texts[at : at + size])
        return found

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Ask until there is an answer, as often as the settings allow and as late as the endpoint says."""
        pause_s = _FIRST_PAUSE_S
        for is_last in (*[False] * self._settings.max_retries, True):
            try:
                response = await self._send(texts)
                return await asyncio.to_thread(self._vectors, response, len(texts))
            except ServiceError as error:
                if is_last or not error.is_retryable or error.retry_after_s > _LONGEST_PAUSE_S:
                    raise
                await asyncio.sleep(max(error.retry_after_s, pause_s))
                pause_s *= 2
        raise AssertionError

    async def _send(self, texts: Sequence[str]) -> HttpResponse:
        settings = self._settings
        if settings.key_variable and not settings.api_key:
            raise SettingsError(
                f"The embedding model {settings.model!r} cannot be used: the environment has no "
                f'{settings.key_variable!r}, which [embeddings."{self.name}"] api_key_env names.'
            )
        # An empty text is refused by most endpoints; RAGFlow embeds the word None for it.
        body = {"model": settings.model, "input": [text if text.strip() else "None" for text in texts]}
        request = HttpRequest(
            "POST",
            settings.base_url.rstrip("/") + "/embeddings",
            headers={"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {},
            json=cast("Any", body),
            timeout_s=settings.timeout_s,
        )
        try:
            response = await self._http.send(request)
        except ServiceError as error:
            raise self._failure(f"cannot be asked: {error}", is_retryable=error.is_retryable) from error
        if response.status != 200:
            is_busy = response.status in (408, 409, 425, 429) or response.status >= 500
            pause_s = _seconds(response.headers.get("retry-after", ""))
            what = f"refused with status {response.status}: {self._said(response.text)}"
            raise self._failure(what, is_retryable=is_busy, retry_after_s=pause_s)
        return response

    def _vectors(self, response: HttpResponse, count: int) -> list[list[float]]:
        try:
            answer: Any = json.loads(response.text)
            rows = sorted(answer["data"], key=lambda row: row.get("index", 0))
            vectors = [[float(number) for number in row["embedding"]] for row in rows]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise self._failure(f"answered, but with no embeddings: {self._said(response.text)}") from None
        if len(vectors) != count:
            raise self._failure(f"gave {len(vectors)} vectors for {count} texts")
        dims = self._settings.dims or len(vectors[0])
        if wrong := next((vector for vector in vectors if len(vector) != dims), None):
            raise self._failure(f"gave a vector of {len(wrong)} numbers where dims says {dims}")
        if not dims or not all(abs(number) < _TOO_LARGE for vector in vectors for number in vector):
            raise self._failure("gave a vector that is empty, or holds something else than numbers of a usual size")
        return vectors

    def _said(self, text: str) -> str:
        said = " ".join(text[: 10 * _MAX_SAID_CHARS].split()) or "nothing"
        if self._settings.api_key:
            said = said.replace(self._settings.api_key, "***")
        return said[:_MAX_SAID_CHARS]

    def _failure(self, what: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> ServiceError:
        text = f'The embedding model {self._settings.model!r} ([embeddings."{self.name}"]) {what}.'
        return ServiceError(text.replace("..", "."), is_retryable=is_retryable, retry_after_s=retry_after_s)


def _seconds(text: str) -> float:
    """Read a Retry-After that is a number."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0
