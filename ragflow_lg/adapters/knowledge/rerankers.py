"""Rerank models: their endpoints, scores, and use.

The endpoints are those of Amazon Bedrock, Cohere, DashScope, Jina, NVIDIA, Text Embeddings Inference, and Voyage.

Source of the shapes: the API references of these services.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from msgspec.structs import replace

from ragflow_lg.adapters.known_providers import RerankStyle
from ragflow_lg.adapters.model_endpoint import EndpointSettings, ModelEndpoint, find_model_id, list_models
from ragflow_lg.adapters.model_families.bedrock import BedrockSigner
from ragflow_lg.base.errors import ForeignJsonError, ServiceError, SettingsError, parse_retry_after
from ragflow_lg.base.foreign_json import read_foreign_json
from ragflow_lg.base.json_scanner import JsonLimits
from ragflow_lg.base.values import to_text
from ragflow_lg.services.http import HttpClient, HttpRequest
from ragflow_lg.services.knowledge import DatasetSearch, Rerankers, SearchResult, count_documents
from ragflow_lg.services.workers import NoWorkers, Workers

_LONGEST_PAUSE_S = 30.0
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Maximum size of an answer. Some servers repeat the texts in it."""

_MIN_SPREAD = 0.001
_WINDOW = 64
_RESULTS: Mapping[str, str] = {"nvidia": "rankings", "voyage": "data"}
"""What an answer calls its list, by style; others call it ``results``."""
_SCORES = ("relevance_score", "score", "logit")
_CATALOGUE = "/retrieval"
"""How NVIDIA's own address ends, where each model has an address below it."""
_SHARED_MODELS = ("rerank-qa-mistral-4b", "nv-rerank-qa-mistral-4b")
"""Models that have none."""
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


class RerankerSettings(EndpointSettings, frozen=True):
    """The settings for one rerank model."""

    style: RerankStyle = "jina"
    max_chars: int = 8_000
    """Each text is truncated to this length."""
    max_retries: int = 2
    timeout_s: float = 30.0


class ConfiguredRerankers:
    """The `ragflow_lg.services.knowledge.Rerankers` from the settings."""

    def __init__(
        self,
        settings: Mapping[str, RerankerSettings],
        http: HttpClient,
        workers: Workers | None = None,
        *,
        find_known: Callable[[str], RerankerSettings | None] = lambda _: None,
    ) -> None:
        """Initialize. ``find_known`` returns the settings for models that need no section; ``workers`` read answers."""
        self._workers = workers
        self._settings = settings
        self._find_known = find_known
        self._http = http

    def reranker(self, rerank_id: str) -> EndpointReranker:
        """Return the model for an id, with or without the provider that RAGFlow appends.

        Raises:
            SettingsError: if the settings do not contain the id.
        """
        known = None if find_model_id(rerank_id, self._settings) else self._find_known(rerank_id)
        id_ = rerank_id if known else find_reranker(rerank_id, self._settings)
        return EndpointReranker(id_, known or self._settings[id_], self._http, self._workers)


def find_reranker(rerank_id: str, known: Collection[str]) -> str:
    """Return the id in the settings for the id in a canvas, to which RAGFlow appends the provider.

    Raises:
        SettingsError: if the settings do not contain it.
    """
    if id_ := find_model_id(rerank_id, known):
        return id_
    raise SettingsError(
        f'There is no rerank model {rerank_id!r} in the settings: add [rerankers."{rerank_id}"] with base_url, '
        f"model and api_key, or remove rerank_id from the Retrieval node.{list_models(known)}"
    )


class EndpointReranker:
    """A `ragflow_lg.services.knowledge.Reranker` for ``[rerankers."ID"]``."""

    def __init__(self, id_: str, settings: RerankerSettings, http: HttpClient, workers: Workers | None = None) -> None:
        self._id = id_
        self._http = http
        self._workers = workers or NoWorkers()
        self._settings = settings
        name = f'rerank model [rerankers."{id_}"]'
        self._endpoint = ModelEndpoint(name, settings, longest_pause_s=_LONGEST_PAUSE_S)
        self._sign = BedrockSigner(f"The {name}").sign if settings.style == "bedrock" and not settings.api_key else None

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the model's score for each text, in order.

        Raises:
            SettingsError: if the key is missing.
            ServiceError: if the endpoint fails, or does not score each text exactly once.
        """
        settings = self._settings
        truncated = [text[: settings.max_chars] or " " for text in texts]
        scores: list[float] = []
        for start in range(0, len(truncated), settings.batch):
            scores += await self._score(question[: settings.max_chars], truncated[start : start + settings.batch])
        return scores

    async def _score(self, question: str, texts: Sequence[str]) -> list[float]:
        settings = self._settings
        model, count = settings.model or self._id, len(texts)
        documents: dict[str, Any] = {"query": question, "documents": list(texts)}
        path, body = "/rerank", {"model": model, **documents}
        match settings.style:
            case "bedrock":
                path, body = f"/model/{quote(model, safe='')}/invoke", {**documents, "top_n": count}
                if "cohere." in model:
                    body["api_version"] = 2
            case "cohere":
                body["top_n"] = count
            case "dashscope":
                path = "/text-rerank"
                body = {"model": model, "input": documents, "parameters": {"top_n": count}}
            case "jina":
                body |= {"top_n": count, "return_documents": False}
            case "nvidia":
                path = _nvidia_path(settings.base_url, model)
                passages = [{"text": text} for text in texts]
                body = {"model": model, "query": {"text": question}, "passages": passages, "truncate": "END"}
            case "tei":
                body = {"query": question, "texts": list(texts), "raw_scores": False, "truncate": True}
            case "voyage":
                body["top_k"] = count
        self._endpoint.require_key(is_optional=self._sign is not None)

        async def attempt() -> list[float]:
            return await self._parse(await self._send(settings.base_url.rstrip("/") + path, body), count)

        return await self._endpoint.retry(attempt)

    async def _send(self, url: str, body: Mapping[str, Any]) -> str:
        headers, content = self._settings.headers, json.dumps(body).encode()
        if self._sign is not None:
            headers = await asyncio.to_thread(self._sign, url, content)
        headers = {**headers, "Content-Type": "application/json"}
        request = HttpRequest("POST", url, headers=headers, body=content, timeout_s=self._settings.timeout_s)
        endpoint = self._endpoint
        try:
            response = await self._http.send(request)
        except ServiceError as error:
            raise endpoint.failure(f"is not available: {error}", is_retryable=error.is_retryable) from error
        if response.status != 200:
            excerpt = endpoint.excerpt(response.text, *headers.values())
            is_busy = response.status in (408, 409, 425, 429) or response.status >= 500
            pause_s = parse_retry_after(response.headers.get("retry-after", ""))
            what = f"answered with status {response.status}: {excerpt}"
            raise endpoint.failure(what, is_retryable=is_busy, retry_after_s=pause_s)
        return response.text

    async def _parse(self, text: str, count: int) -> list[float]:
        """Parse ``{"results": [{"index", "relevance_score"}]}``, or a plain list with ``score``.

        DashScope puts the results into ``output``, Voyage calls them ``data``, and NVIDIA ``rankings`` with ``logit``.
        """
        try:
            answer: Any = await self._workers.run(read_foreign_json, text, JsonLimits(MAX_ANSWER_BYTES))
            if isinstance(answer, dict):
                holder = cast("dict[str, Any]", answer)
                holder = holder["output"] if self._settings.style == "dashscope" else holder
                answer = holder[_RESULTS.get(self._settings.style, "results")]
            rows = cast("list[dict[str, Any]]", answer)
            pairs = [(row["index"], float(next(row[name] for name in _SCORES if name in row))) for row in rows]
        except ForeignJsonError as error:
            what = f"answered without scores: {self._endpoint.excerpt(text)} (its JSON {error})"
            raise self._endpoint.failure(what) from None
        except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
            raise self._endpoint.failure(f"answered without scores: {self._endpoint.excerpt(text)}") from None
        scores = {index: score for index, score in pairs if isinstance(index, int) and math.isfinite(score)}
        if len(pairs) != count or sorted(scores) != list(range(count)):
            raise self._endpoint.failure(f"returned {len(scores)} valid scores for {count} texts")
        return [scores[index] for index in range(count)]


def _nvidia_path(base_url: str, model: str) -> str:
    """Return the path of a model: below the address of NVIDIA's catalogue, or of a NIM, which serves one model.

    >>> _nvidia_path("https://ai.api.nvidia.com/v1/retrieval", "nvidia/llama-3.2-nv-rerankqa-1b-v2")
    '/nvidia/llama-3_2-nv-rerankqa-1b-v2/reranking'
    """
    if not base_url.rstrip("/").endswith(_CATALOGUE):
        return "/ranking"
    if model.rpartition("/")[2].startswith(_SHARED_MODELS):
        return "/nvidia/reranking"
    name = model if "/" in model else f"nvidia/{model}"
    return f"/{quote(name.replace('.', '_'))}/reranking"


async def search_reranked(
    search: DatasetSearch, find: Callable[[DatasetSearch], Awaitable[SearchResult]], rerankers: Rerankers | None
) -> SearchResult:
    """Return what ``find`` finds, reranked if the search names a model and there are models.

    As in RAGFlow, the model's score replaces the vector score, and only a window of candidates is reranked.
    """
    if not search.rerank_id or rerankers is None:
        return await find(search)
    reranker = rerankers.reranker(search.rerank_id)
    size = compute_window_size(search.top_n, search.top_k, is_reranked=True)
    result = await find(replace(search, rerank_id="", top_n=size, similarity_threshold=0.0))
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
    return SearchResult(tuple(chunks[: search.top_n]), count_documents(chunks), len(chunks))
