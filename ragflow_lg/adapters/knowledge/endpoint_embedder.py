"""Embedding models: vectors from an OpenAI-compatible endpoint, and the choice of a dataset's model."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

from msgspec import Struct

from ragflow_lg.adapters.knowledge.words import split_words
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


HASHING_MODEL = "hashing-stand-in"
"""The embedding model id for datasets that were created without a model."""

DIMS = 384

MAX_QUESTION_CHARS = 6_000
"""Maximum length of an embedded question: models accept about 8,000 tokens, and a character may take more than one."""

_LONGEST_PAUSE_S = 60.0
_FIRST_PAUSE_S = 0.5
_MAX_DETAIL_CHARS = 300
_TOO_LARGE = 1e15
"""Larger numbers could overflow in float32 products."""


class EmbeddingSettings(Struct, frozen=True):
    """The settings for one embedding model."""

    base_url: str
    model: str
    api_key: str = ""
    key_variable: str = ""
    """The environment variable that should contain the key; ``""`` if the key is set directly. For error messages."""
    dims: int = 0
    """Required length of the vectors; 0 accepts any."""
    batch: int = 64
    """Maximum number of texts in one request."""
    max_retries: int = 3
    timeout_s: float = 60.0

    def __repr__(self) -> str:
        """Return the settings without the key."""
        return f"EmbeddingSettings({self.base_url!r}, {self.model!r})"


class EndpointEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` for ``[embeddings."ID"]``."""

    is_stand_in = False

    def __init__(self, id_: str, settings: EmbeddingSettings, http: HttpClient) -> None:
        self.name = id_
        self._settings = settings
        self._http = http

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""
        return (await self._embed([text[:MAX_QUESTION_CHARS]]))[0]

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order."""
        size = self._settings.batch
        vectors: list[Sequence[float]] = []
        for start in range(0, len(texts), size):
            vectors += await self._embed(texts[start : start + size])
        return vectors

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts, retrying temporary failures as often as the settings allow, and waiting as the endpoint asks."""
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
                f"The embedding model {settings.model!r} cannot be used: the environment variable "
                f'{settings.key_variable!r} of [embeddings."{self.name}"] api_key_env is not set.'
            )
        # Most endpoints reject an empty text; RAGFlow embeds the word None instead.
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
            raise self._failure(f"is not available: {error}", is_retryable=error.is_retryable) from error
        if response.status != 200:
            is_busy = response.status in (408, 409, 425, 429) or response.status >= 500
            pause_s = _seconds(response.headers.get("retry-after", ""))
            what = f"answered with status {response.status}: {self._excerpt(response.text)}"
            raise self._failure(what, is_retryable=is_busy, retry_after_s=pause_s)
        return response

    def _vectors(self, response: HttpResponse, count: int) -> list[list[float]]:
        try:
            answer: Any = json.loads(response.text)
            rows = sorted(answer["data"], key=lambda row: row.get("index", 0))
            vectors = [[float(number) for number in row["embedding"]] for row in rows]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise self._failure(f"answered without embeddings: {self._excerpt(response.text)}") from None
        if len(vectors) != count:
            raise self._failure(f"returned {len(vectors)} vectors for {count} texts")
        dims = self._settings.dims or len(vectors[0])
        if wrong := next((vector for vector in vectors if len(vector) != dims), None):
            raise self._failure(f"returned a vector of {len(wrong)} numbers instead of {dims}")
        if not dims or not all(abs(number) < _TOO_LARGE for vector in vectors for number in vector):
            raise self._failure("returned a vector that is empty or contains invalid numbers")
        return vectors

    def _excerpt(self, text: str) -> str:
        excerpt = " ".join(text[: 10 * _MAX_DETAIL_CHARS].split()) or "nothing"
        if self._settings.api_key:
            excerpt = excerpt.replace(self._settings.api_key, "***")
        return excerpt[:_MAX_DETAIL_CHARS]

    def _failure(self, what: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> ServiceError:
        text = f'The embedding model {self._settings.model!r} ([embeddings."{self.name}"]) {what}.'
        return ServiceError(text.replace("..", "."), is_retryable=is_retryable, retry_after_s=retry_after_s)


def _seconds(text: str) -> float:
    """Parse a Retry-After header; return 0 for a date."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0


class HashingEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` without a model; its vectors are the same on every machine."""

    name = f"{HASHING_MODEL} (no model: it compares words, not meanings)"
    is_stand_in = True

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""
        return self.vectors([text])[0].tolist()

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order."""
        return self.vectors(texts).tolist()

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text: each distinct word adds 1 or -1 at an index given by its CRC-32."""
        require("knowledge", "A dataset without an embedding model")
        import numpy as np

        rows = np.zeros((len(texts), DIMS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            codes = np.fromiter((crc32(word.encode()) for word in set(split_words(text))), dtype=np.int64)
            if len(codes):
                signs = np.where(codes & 0x80000000, 1.0, -1.0)
                row[:] = np.bincount((codes & 0x7FFFFFFF) % DIMS, weights=signs, minlength=DIMS)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class ConfiguredEmbedders:
    """The `Embedders` from the settings. ``default`` is the id for new datasets; ``""`` means the hashing model."""

    def __init__(self, settings: Mapping[str, EmbeddingSettings], http: HttpClient, *, default: str = "") -> None:
        self._settings = settings
        self._http = http
        self.default = default or HASHING_MODEL

    def embedder(self, embedding_model: str) -> Embedder:
        """Return the model for an id, with or without the provider that RAGFlow appends.

        Raises:
            SettingsError: if the settings do not contain the id.
        """
        id_ = embedding_model or self.default
        if id_ == HASHING_MODEL:
            return HashingEmbedder()
        for key in (id_, id_.partition("#")[0], id_.rpartition("@")[0]):
            if key in self._settings:
                return EndpointEmbedder(key, self._settings[key], self._http)
        known = f" Known models: {', '.join(map(repr, self._settings))}." if self._settings else ""
        raise SettingsError(
            f'There is no embedding model {id_!r} in the settings: add [embeddings."{id_}"] with base_url, model '
            f"and api_key_env.{known}"
        )
