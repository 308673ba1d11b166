"""Rerank models: their endpoints (Cohere, Jina, Text Embeddings Inference), scores, and use with a knowledge base."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.values import to_text
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetSearch,
    DocumentCount,
    Knowledge,
    Metadata,
    Rerankers,
    SearchResult,
)

RerankStyle: TypeAlias = Literal["cohere", "jina", "tei"]

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_MAX_DETAIL_CHARS = 300

_MIN_SPREAD = 0.001
_WINDOW = 64
_SINGLE_WINDOW = 30


def compute_window_size(top_n: int, top_k: int, *, is_reranked: bool = False) -> int:
    """Return the number of candidates that the first request asks for.

    >>> [compute_window_size(8, 1024), compute_window_size(6, 1024), compute_window_size(1, 1024)]
    [64, 66, 30]
    >>> compute_window_size(8, 20, is_reranked=True)
    24
    """
    if top_n <= 1:
        return min(_SINGLE_WINDOW, top_k) if is_reranked else _SINGLE_WINDOW
    size = math.ceil(_WINDOW / top_n) * top_n
    return min(size, math.ceil(top_k / top_n) * top_n) if is_reranked else size


def normalize_scores(scores: Sequence[float]) -> list[float]:
    """Scale a rerank model's scores to 0..1, unless they are already in this range.

    >>> normalize_scores([-2.0, 0.0, 2.0]), normalize_scores([0.2, 0.9]), normalize_scores([3.0, 3.0])
    ([0.0, 0.5, 1.0], [0.2, 0.9], [1.0, 1.0])
    """
    if not scores or (min(scores) >= 0 and max(scores) <= 1):
        return list(scores)
    lowest, spread = min(scores), max(scores) - min(scores)
    if spread < _MIN_SPREAD:
        return [min(max(score, 0.0), 1.0) for score in scores]
    return [(score - lowest) / spread for score in scores]


class RerankerSettings(Struct, frozen=True):
    """The settings for one rerank model; ``/rerank`` is appended to ``base_url``."""

    base_url: str
    model: str = ""
    api_key: str = ""
    key_variable: str = ""
    """The environment variable that should contain the key; ``""`` if the key is set directly. For error messages."""
    style: RerankStyle = "jina"
    batch: int = 64
    """Maximum number of texts in one request; the default of Text Embeddings Inference is 32."""
    max_chars: int = 8_000
    """Each text is truncated to this length."""
    max_retries: int = 2
    timeout_s: float = 30.0

    def __repr__(self) -> str:
        """Return the settings without the key."""
        return f"RerankerSettings({self.base_url!r}, {self.model!r})"


class ConfiguredRerankers:
    """The `ragflow_lg.services.knowledge.Rerankers` from the settings."""

    def __init__(self, settings: Mapping[str, RerankerSettings], http: HttpClient) -> None:
        self._settings = settings
        self._http = http

    def reranker(self, rerank_id: str) -> EndpointReranker:
        """Return the model for an id, with or without the provider that RAGFlow appends.

        Raises:
            SettingsError: if the settings do not contain the id.
        """
        id_ = find_reranker(rerank_id, self._settings)
        return EndpointReranker(id_, self._settings[id_], self._http)


def find_reranker(rerank_id: str, known: Collection[str]) -> str:
    """Return the id in the settings for the id in a canvas, to which RAGFlow appends the provider.

    Raises:
        SettingsError: if the settings do not contain it.
    """
    for id_ in (rerank_id, rerank_id.partition("#")[0], rerank_id.rpartition("@")[0]):
        if id_ in known:
            return id_
    names = f" Known models: {', '.join(map(repr, known))}." if known else ""
    raise SettingsError(
        f'There is no rerank model {rerank_id!r} in the settings: add [rerankers."{rerank_id}"] with base_url, '
        f"model and api_key_env, or remove rerank_id from the Retrieval node.{names}"
    )


class EndpointReranker:
    """A `ragflow_lg.services.knowledge.Reranker` for ``[rerankers."ID"]``."""

    def __init__(self, id_: str, settings: RerankerSettings, http: HttpClient) -> None:
        self.name = id_
        self._settings = settings
        self._http = http

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the model's score for each text, in order.

        Raises:
            SettingsError: if the key is missing.
            ServiceError: if the endpoint fails, or does not score each text exactly once.
        """
        settings = self._settings
        if settings.key_variable and not settings.api_key:
            raise SettingsError(
                f"The rerank model {self.name!r} cannot be used: the environment variable {settings.key_variable!r} "
                f'of [rerankers."{self.name}"] api_key_env is not set.'
            )
        truncated = [text[: settings.max_chars] or " " for text in texts]
        scores: list[float] = []
        for start in range(0, len(truncated), settings.batch):
            scores += await self._score(question[: settings.max_chars], truncated[start : start + settings.batch])
        return scores

    async def _score(self, question: str, texts: Sequence[str]) -> list[float]:
        pause_s = _FIRST_PAUSE_S
        for is_last in (*[False] * self._settings.max_retries, True):
            try:
                return self._parse(await self._send(question, texts), len(texts))
            except ServiceError as error:
                if is_last or not error.is_retryable or error.retry_after_s > _LONGEST_PAUSE_S:
                    raise
                await asyncio.sleep(max(error.retry_after_s, pause_s))
                pause_s *= 2
        raise AssertionError

    async def _send(self, question: str, texts: Sequence[str]) -> HttpResponse:
        settings = self._settings
        body: dict[str, Any] = {"query": question}
        if settings.style == "tei":
            body |= {"texts": list(texts), "raw_scores": False, "truncate": True}
        else:
            body |= {"model": settings.model or self.name, "documents": list(texts), "top_n": len(texts)}
        if settings.style == "jina":
            body["return_documents"] = False
        request = HttpRequest(
            "POST",
            settings.base_url.rstrip("/") + "/rerank",
            headers={"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {},
            json=body,
            timeout_s=settings.timeout_s,
        )
        try:
            response = await self._http.send(request)
        except ServiceError as error:
            raise self._failure(f"is not available: {error}", is_retryable=error.is_retryable) from error
        if response.status != 200:
            is_busy = response.status in (408, 409, 425, 429) or response.status >= 500
            what = f"answered with status {response.status}: {self._excerpt(response.text)}"
            pause_s = _seconds(response.headers.get("retry-after", ""))
            raise self._failure(what, is_retryable=is_busy, retry_after_s=pause_s)
        return response

    def _parse(self, response: HttpResponse, count: int) -> list[float]:
        """Parse ``{"results": [{"index", "relevance_score"}]}``, or a plain list with ``score``."""
        try:
            answer: Any = json.loads(response.text)
            rows = cast("list[dict[str, Any]]", answer["results"] if isinstance(answer, dict) else answer)
            pairs = [
                (row["index"], float(row["relevance_score" if "relevance_score" in row else "score"])) for row in rows
            ]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._failure(f"answered without scores: {self._excerpt(response.text)}") from None
        scores = {index: score for index, score in pairs if isinstance(index, int) and math.isfinite(score)}
        if len(pairs) != count or sorted(scores) != list(range(count)):
            raise self._failure(f"returned {len(scores)} valid scores for {count} texts")
        return [scores[index] for index in range(count)]

    def _excerpt(self, text: str) -> str:
        excerpt = " ".join(text[: 10 * _MAX_DETAIL_CHARS].split()) or "nothing"
        if self._settings.api_key:
            excerpt = excerpt.replace(self._settings.api_key, "***")
        return excerpt[:_MAX_DETAIL_CHARS]

    def _failure(self, what: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> ServiceError:
        text = f'The rerank model [rerankers."{self.name}"] {what.rstrip(".")}.'
        return ServiceError(text, is_retryable=is_retryable, retry_after_s=retry_after_s)


def _seconds(text: str) -> float:
    """Parse a Retry-After header; return 0 for a date."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0


class RerankedKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` that reranks the results of another one.

    As in RAGFlow, the model's score replaces the vector score, and only a window of candidates is reranked.
    """

    def __init__(self, inner: Knowledge, rerankers: Rerankers) -> None:
        self._inner = inner
        self._rerankers = rerankers

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return the datasets of the inner knowledge base."""
        return await self._inner.datasets(names_or_ids)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents."""
        return await self._inner.metadata(datasets)

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets, and rerank the result if there is a ``rerank_id``.

        Raises:
            SettingsError: if the settings do not contain the model, or the inner knowledge base does not support an
            option. ServiceError: if the model or the inner knowledge base fails.
        """
        if not search.rerank_id:
            return await self._inner.search(search)
        reranker = self._rerankers.reranker(search.rerank_id)
        size = compute_window_size(search.top_n, search.top_k, is_reranked=True)
        result = await self._inner.search(replace(search, rerank_id="", top_n=size, similarity_threshold=0.0))
        if not result.chunks:
            return result
        texts = [to_text(chunk.get("content_with_weight")) for chunk in result.chunks]
        scores = normalize_scores(await reranker.scores(search.question, texts))
        weight = search.keywords_similarity_weight
        threshold = search.similarity_threshold if weight < 1.0 else 0.0
        chunks: list[dict[str, Any]] = []
        for chunk, score in zip(result.chunks, scores, strict=True):
            words: Any = chunk.get("term_similarity")
            similarity = weight * float(words or 0.0) + (1.0 - weight) * score
            if similarity >= threshold:
                chunks.append({**chunk, "similarity": similarity, "vector_similarity": score})
        chunks.sort(key=lambda chunk: -chunk["similarity"])
        counts = Counter((chunk["docnm_kwd"], chunk["doc_id"]) for chunk in chunks)
        documents = tuple(DocumentCount(name, id_, count) for (name, id_), count in counts.most_common())
        return SearchResult(tuple(chunks[: search.top_n]), documents, len(chunks))
