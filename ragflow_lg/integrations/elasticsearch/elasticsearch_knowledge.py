"""Search RAGFlow's datasets directly in its Elasticsearch, with the same two requests and the same scores.

Source: RAGFlow's ``rag/nlp/search.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ragflow_lg.adapters.knowledge.rerankers import compute_window_size, normalize_scores
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.integrations.elasticsearch.connection import Connection, SearchHit
from ragflow_lg.integrations.elasticsearch.ranking import (
    ScoredChunk,
    join_terms,
    list_rerank_terms,
    list_terms,
    rank,
    score_terms,
)
from ragflow_lg.integrations.elasticsearch.search_requests import (
    MAX_CANDIDATES,
    Scope,
    build_candidates_request,
    build_chunks_request,
    build_filter_request,
    build_metadata_request,
    build_search_result,
    build_vectors_request,
    list_parent_ids,
    replace_by_parents,
)
from ragflow_lg.integrations.elasticsearch.term_weights import TermWeights
from ragflow_lg.integrations.elasticsearch.text_query import TextQuery, build_text_query, extract_vocabulary_keywords
from ragflow_lg.integrations.elasticsearch.tokenizers import Tokenizer
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetDirectory,
    DatasetEntry,
    DatasetSearch,
    Embedders,
    Knowledge,
    Metadata,
    Rerankers,
    SearchResult,
    add_metadata,
)

SECOND_TRY_SIMILARITY = 0.17
SECOND_TRY_MATCH = 0.1
_EMPTY_QUESTION = "None"
"""RAGFlow embeds this text for an empty question."""


class ElasticsearchKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` over RAGFlow's index.

    ``records`` lists datasets, because Elasticsearch does not know their names; all others are looked up in
    ``directory``. The accuracy of the terms depends on ``tokenizer``. ``names`` and ``synonyms`` are RAGFlow's
    dictionaries, if the operator has them.
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
        self._weights = TermWeights(tokenizer or Tokenizer(), names)
        self._synonyms = synonyms

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets from the records or else from the directory; names take precedence over ids."""
        by_id = {record.id: record for record in self._records}
        by_name = {record.name: record for record in reversed(self._records) if record.name}
        known = {**by_id, **by_name}
        datasets = {key: known[key] for key in names_or_ids if key in known}
        others = [key for key in names_or_ids if key not in known]
        return {**datasets, **(await self._directory.datasets(others))} if self._directory and others else datasets

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return the datasets of the records, with the number of their chunks, and those of the directory."""
        entries: list[DatasetEntry] = []
        for record in self._records:
            request = build_filter_request(Scope((record.id,), ()), 1)
            hits = await self._connection.search(_indices([record]), request, allow_missing=True)
            entries.append(DatasetEntry(record, chunks=hits.total))
        ids = {record.id for record in self._records}
        others = await self._directory.list_datasets() if isinstance(self._directory, DatasetDirectory) else ()
        return [*entries, *(entry for entry in others if entry.dataset.id not in ids)]

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search by vector among the chunks that contain words from the question; score the chunks by both."""
        self._check(search)
        if not search.datasets or search.document_ids == ():
            return SearchResult()
        search = replace(search, question=join_surrogates(search.question))
        indices = _indices(search.datasets)
        scope = Scope(tuple(dataset.id for dataset in search.datasets), search.document_ids or ())
        vector_weight = 1 - search.keywords_similarity_weight
        query = build_text_query(search.question, self._weights, vector_weight=vector_weight, synonyms=self._synonyms)
        embedder = self._embedders.embedder(search.datasets[0].embedding_model)
        vector = await embedder.embed_question(search.question or _EMPTY_QUESTION)
        candidates = await self._candidates(indices, search, query, vector, scope)
        if not candidates:
            return SearchResult()
        ranked = await self._rank(indices, search, query, vector, candidates, scope)
        result = build_search_result(ranked, search.top_n)
        parent_ids = list_parent_ids(result.chunks)
        if not parent_ids:
            return result
        parents = await self._connection.search(indices[:1], build_chunks_request(parent_ids, scope))
        chunks = replace_by_parents(result.chunks, {hit.id: hit.fields for hit in parents.hits})
        return SearchResult(chunks, result.documents, result.total)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents, from the indices ``ragflow_doc_meta_TENANT``.

        Raises:
            ServiceError: if there are more documents than one search can return.
        """
        metadata: dict[str, dict[str, list[str]]] = {}
        tenants = dict.fromkeys(_tenant(dataset) for dataset in datasets)
        for tenant in tenants:
            ids = [dataset.id for dataset in datasets if dataset.tenant == tenant]
            index, body = f"ragflow_doc_meta_{tenant}", build_metadata_request(ids)
            hits = await self._connection.search([index], body, allow_missing=True)
            if hits.total > MAX_CANDIDATES:
                raise ServiceError(
                    f"The datasets have metadata for {hits.total:,} documents; filters support at most "
                    f"{MAX_CANDIDATES:,}. Choose fewer datasets in the Retrieval node."
                )
            for hit in hits.hits:
                add_metadata(metadata, hit.id, as_map(hit.fields.get("meta_fields")))
        return metadata

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()

    def _check(self, search: DatasetSearch) -> None:
        if search.use_kg:
            raise SettingsError(_unsupported("use_kg", "needs RAGFlow's knowledge graph"))
        if search.toc_enhance:
            raise SettingsError(_unsupported("toc_enhance", "needs RAGFlow's tables of contents"))
        models = list(dict.fromkeys(dataset.embedding_model for dataset in search.datasets))
        if len(models) > 1:
            raise SettingsError(f"The datasets have different embedding models: {', '.join(models)}.")
        incomplete = next((dataset for dataset in search.datasets if not dataset.embedding_model), None)
        if incomplete is not None:
            raise SettingsError(
                f"The embedding model of the dataset {incomplete.name or incomplete.id!r} is not set. Set "
                f'embedding_model in [datasets."{incomplete.id}"] to the model that created its vectors in RAGFlow.'
            )
        if search.rerank_id and self._rerankers is None:
            raise SettingsError(
                f'The Retrieval node uses the rerank model {search.rerank_id!r}. Set [rerankers."{search.rerank_id}"].'
            )

    async def _candidates(
        self, indices: Sequence[str], search: DatasetSearch, query: TextQuery, vector: Sequence[float], scope: Scope
    ) -> Sequence[SearchHit]:
        """Search for candidates; if none match, use all chunks of the chosen documents or search less strictly."""
        size = compute_window_size(search.top_n, search.top_k, is_reranked=bool(search.rerank_id))
        body = build_candidates_request(
            query, vector, scope, top_k=search.top_k, size=size, similarity=search.similarity_threshold
        )
        hits = await self._connection.search(indices, body)
        if not hits.hits:
            if scope.documents:
                body = build_filter_request(scope, size)
            else:
                looser = TextQuery(query.text, query.keywords, SECOND_TRY_MATCH if query.min_match else 0.0)
                body = build_candidates_request(
                    looser, vector, scope, top_k=search.top_k, size=size, similarity=SECOND_TRY_SIMILARITY
                )
            hits = await self._connection.search(indices, body)
        return hits.hits

    async def _rank(
        self,
        indices: Sequence[str],
        search: DatasetSearch,
        query: TextQuery,
        vector: Sequence[float],
        candidates: Sequence[SearchHit],
        scope: Scope,
    ) -> list[ScoredChunk]:
        if search.rerank_id and self._rerankers is not None:
            terms = [list_rerank_terms(candidate.fields) for candidate in candidates]
            texts = [join_terms(words) for words in terms]
            scores = await self._rerankers.reranker(search.rerank_id).scores(search.question, texts)
            vector_scores = normalize_scores(scores)
        else:
            terms = [list_terms(candidate.fields) for candidate in candidates]
            ids = [candidate.id for candidate in candidates]
            neighbours = await self._connection.search(indices, build_vectors_request(vector, ids, scope))
            score_by_id = {hit.id: hit.score for hit in neighbours.hits}
            vector_scores = [score_by_id.get(id_, 0.0) for id_ in ids]
        term_scores = self._score_terms(search.question, query, terms)
        return rank(
            candidates,
            term_scores,
            vector_scores,
            vector_weight=1 - search.keywords_similarity_weight,
            threshold=search.similarity_threshold,
        )

    def _score_terms(self, question: str, query: TextQuery, terms: Sequence[Sequence[str]]) -> list[float]:
        """Score chunks by the question's keywords, split into the chunks' words if there is no dictionary."""
        keywords, weights = query.keywords, self._weights
        if weights.tokenizer.overlaps:
            keywords, weights = extract_vocabulary_keywords(question, weights, terms, self._synonyms)
        return score_terms(keywords, terms, weights)


def _indices(datasets: Sequence[Dataset]) -> list[str]:
    """Return the indices of datasets, one for each tenant."""
    return list(dict.fromkeys(f"ragflow_{_tenant(dataset)}" for dataset in datasets))


def _tenant(dataset: Dataset) -> str:
    if not dataset.tenant or not dataset.tenant.replace("-", "").replace("_", "").isalnum():
        raise SettingsError(
            f"The dataset {dataset.name or dataset.id!r} has no valid tenant. Set tenant in "
            f'[datasets."{dataset.id}"] to the id of its owner in RAGFlow: the index is called ragflow_TENANT.'
        )
    return dataset.tenant


def _unsupported(parameter: str, what: str) -> str:
    return (
        f"The Retrieval node sets {parameter}, which {what} and is not supported with Elasticsearch. Switch it off, or "
        'let RAGFlow itself search: [knowledge] url = "ragflow+https://HOST".'
    )
