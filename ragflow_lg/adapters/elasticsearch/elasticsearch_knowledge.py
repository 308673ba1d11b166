"""The datasets of a RAGFlow, read from its Elasticsearch: the same two requests, the same scores.

Source: RAGFlow's ``rag/nlp/search.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from ragflow_lg.adapters.elasticsearch.chunk_results import chunks_of, parent_ids, with_parents
from ragflow_lg.adapters.elasticsearch.connection import Connection
from ragflow_lg.adapters.elasticsearch.ranking import (
    Candidate,
    Scored,
    chunk_terms,
    document_text,
    rank,
    reranked_terms,
    term_similarities,
)
from ragflow_lg.adapters.elasticsearch.search_requests import (
    MAX_CANDIDATES,
    Scope,
    candidates_request,
    chunks_request,
    filtered_request,
    metadata_request,
    vectors_request,
)
from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.text_query import TextQuery, keywords_of_vocabulary, text_query
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer, Tokenizer
from ragflow_lg.adapters.knowledge.rerank_scores import normalised_scores, window_size
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetSearch,
    Embedders,
    Knowledge,
    Metadata,
    Rerankers,
    SearchResult,
)

__all__ = ["ElasticsearchKnowledge"]

SECOND_TRY_SIMILARITY = 0.17
SECOND_TRY_MATCH = 0.1
_EMPTY_QUESTION = "None"
"""What RAGFlow embeds for an empty question."""


class ElasticsearchKnowledge:
    """`ragflow_lg.services.knowledge.Knowledge` over RAGFlow's index.

    ``records`` are the datasets, which Elasticsearch does not know by name; others are looked up in ``directory``.
    ``tokenizer`` decides how exact the terms
    are; its name says so. ``names`` and ``synonyms`` are RAGFlow's dictionaries, if the operator has them.
    """

    def __init__(
        self,
        connection: Connection,
        records: Sequence[Dataset],
        embedders: Embedders,
        *,
        rerankers: Rerankers | None = None,
        directory: Knowledge | None = None,
        tokenizer: Tokenizer | None = None,
        names: Mapping[str, str] | None = None,
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._connection = connection
        self._records = tuple(records)
        self._embedders = embedders
        self._rerankers = rerankers
        self._directory = directory
        self._weights = TermWeights(tokenizer or PortableTokenizer(), names)
        self._synonyms = synonyms

    @property
    def tokenizer_name(self) -> str:
        """How exact the terms are, for people."""
        return self._weights.tokenizer.name

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Find datasets among the records, else in the directory; a name goes before an id."""
        by_id = {record.id: record for record in self._records}
        by_name = {record.name: record for record in reversed(self._records) if record.name}
        known = {**by_id, **by_name}
        found = {asked: known[asked] for asked in names_or_ids if asked in known}
        others = [asked for asked in names_or_ids if asked not in known]
        return {**found, **(await self._directory.datasets(others))} if self._directory and others else found

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search by vectors among the chunks that have the question's words, and score them by both."""
        self._check(search)
        if not search.datasets or search.document_ids == ():
            return SearchResult()
        # Half a character cannot be sent.
        search = replace(search, question=search.question.encode("utf-8", "replace").decode())
        indices = _indices(search.datasets)
        scope = Scope(tuple(dataset.id for dataset in search.datasets), search.document_ids or ())
        vector_weight = 1 - search.keywords_similarity_weight
        query = await asyncio.to_thread(
            text_query, search.question, self._weights, vector_weight=vector_weight, synonyms=self._synonyms
        )
        embedder = self._embedders.embedder(search.datasets[0].embedding_model)
        vector = await embedder.embed_question(search.question or _EMPTY_QUESTION)
        candidates = await self._candidates(indices, search, query, vector, scope)
        if not candidates:
            return SearchResult()
        ranked = await self._ranked(indices, search, query, vector, candidates, scope)
        found = chunks_of(ranked, search.top_n)
        parents = parent_ids(found.chunks)
        if not parents:
            return found
        held = await self._connection.search(indices[:1], chunks_request(parents, scope))
        chunks = with_parents(found.chunks, {hit.id: hit.fields for hit in held.hits})
        return SearchResult(chunks, found.documents, found.total)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Give the metadata of all documents, from ``ragflow_doc_meta_TENANT``."""
        found: dict[str, dict[str, list[str]]] = {}
        tenants = dict.fromkeys(_tenant(dataset) for dataset in datasets)
        for tenant in tenants:
            ids = [dataset.id for dataset in datasets if dataset.tenant == tenant]
            hits = await self._connection.search([f"ragflow_doc_meta_{tenant}"], metadata_request(ids), may_lack=True)
            if hits.total > MAX_CANDIDATES:
                raise ServiceError(
                    f"The datasets have metadata of {hits.total:,} documents; more than {MAX_CANDIDATES:,} cannot be "
                    "filtered by. Choose fewer datasets in the Retrieval."
                )
            for hit in hits.hits:
                _add_metadata(found, hit.id, hit.fields.get("meta_fields"))
        return found

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()

    def _check(self, search: DatasetSearch) -> None:
        if search.use_kg:
            raise SettingsError(_refusal("use_kg", "asks for RAGFlow's knowledge graph"))
        if search.toc_enhance:
            raise SettingsError(_refusal("toc_enhance", "asks a chat model about tables of contents"))
        models = list(dict.fromkeys(dataset.embedding_model for dataset in search.datasets))
        if len(models) > 1:
            raise SettingsError(f"The datasets were made with different embedding models: {', '.join(models)}.")
        nameless = next((dataset for dataset in search.datasets if not dataset.embedding_model), None)
        if nameless is not None:
            raise SettingsError(
                f"The embedding model of the dataset {nameless.name or nameless.id!r} is not set. Set embedding_model "
                f'of [datasets."{nameless.id}"] to the one that RAGFlow made its vectors with.'
            )
        if search.rerank_id and self._rerankers is None:
            raise SettingsError(
                f'The Retrieval names the rerank model {search.rerank_id!r}. Set [rerankers."{search.rerank_id}"].'
            )

    async def _candidates(
        self,
        indices: Sequence[str],
        search: DatasetSearch,
        query: TextQuery,
        vector: Sequence[float],
        scope: Scope,
    ) -> list[Candidate]:
        """Ask for candidates; where none fit, for all chunks of the chosen documents, or once more less strictly."""
        size = window_size(search.top_n, search.top_k, is_reranked=bool(search.rerank_id))
        body = candidates_request(
            query, vector, scope, top_k=search.top_k, size=size, similarity=search.similarity_threshold
        )
        found = await self._connection.search(indices, body)
        if not found.hits:
            if scope.documents:
                body = filtered_request(scope, size)
            else:
                looser = TextQuery(query.text, query.keywords, SECOND_TRY_MATCH if query.min_match else 0.0)
                body = candidates_request(
                    looser, vector, scope, top_k=search.top_k, size=size, similarity=SECOND_TRY_SIMILARITY
                )
            found = await self._connection.search(indices, body)
        return [Candidate(hit.id, hit.fields) for hit in found.hits]

    async def _ranked(
        self,
        indices: Sequence[str],
        search: DatasetSearch,
        query: TextQuery,
        vector: Sequence[float],
        candidates: Sequence[Candidate],
        scope: Scope,
    ) -> list[Scored]:
        if search.rerank_id and self._rerankers is not None:
            terms = [reranked_terms(candidate.fields) for candidate in candidates]
            texts = [document_text(words) for words in terms]
            scores = await self._rerankers.reranker(search.rerank_id).scores(search.question, texts)
            vectors = normalised_scores(scores)
        else:
            terms = [chunk_terms(candidate.fields) for candidate in candidates]
            ids = [candidate.id for candidate in candidates]
            near = await self._connection.search(indices, vectors_request(vector, ids, scope))
            nearness = {hit.id: hit.score for hit in near.hits}
            vectors = [nearness.get(id_, 0.0) for id_ in ids]
        likeness = await asyncio.to_thread(self._likeness, search.question, query, terms)
        return rank(
            candidates,
            likeness,
            vectors,
            vector_weight=1 - search.keywords_similarity_weight,
            threshold=search.similarity_threshold,
        )

    def _likeness(self, question: str, query: TextQuery, terms: Sequence[Sequence[str]]) -> list[float]:
        """Compare chunks with the keywords; where words are not known, with those that the chunks have."""
        keywords, weights = query.keywords, self._weights
        if weights.tokenizer.overlaps:
            keywords, weights = keywords_of_vocabulary(question, weights, terms, self._synonyms)
        return term_similarities(keywords, terms, weights)


def _indices(datasets: Sequence[Dataset]) -> list[str]:
    """Name the indices of datasets: one for each tenant."""
    return list(dict.fromkeys(f"ragflow_{_tenant(dataset)}" for dataset in datasets))


def _tenant(dataset: Dataset) -> str:
    if not dataset.tenant or not dataset.tenant.replace("-", "").replace("_", "").isalnum():
        raise SettingsError(
            f'The dataset {dataset.name or dataset.id!r} has no usable tenant; set tenant of [datasets."{dataset.id}"] '
            "to the id of its owner in RAGFlow: the index is called ragflow_TENANT."
        )
    return dataset.tenant


def _add_metadata(found: dict[str, dict[str, list[str]]], document: str, fields: JsonValue) -> None:
    if not isinstance(fields, dict):
        return
    for key, value in cast("dict[str, JsonValue]", fields).items():
        for entry in cast("list[JsonValue]", value) if isinstance(value, list) else [value]:
            found.setdefault(key, {}).setdefault(to_text(entry), []).append(document)


def _refusal(parameter: str, what: str) -> str:
    return (
        f"The Retrieval sets {parameter}, which {what}; not possible from Elasticsearch. Switch it off, or "
        'let RAGFlow itself search: [knowledge] url = "ragflow+https://HOST".'
    )
