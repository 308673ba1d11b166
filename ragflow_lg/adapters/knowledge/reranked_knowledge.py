"""Rerank models for a knowledge base that does not support them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ragflow_lg.adapters.knowledge.rerank_scores import compute_window_size, normalize_scores
from ragflow_lg.base.values import to_text
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetSearch,
    DocumentCount,
    Knowledge,
    Metadata,
    Rerankers,
    SearchResult,
)


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
