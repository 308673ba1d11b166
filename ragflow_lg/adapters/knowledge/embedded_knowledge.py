"""The embedded knowledge base: datasets in one SQLite file, searched in this process by word and by vector."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.hits import NO_HITS, HybridQuery, MatrixCache, find_hits, merge_hits
from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
from ragflow_lg.adapters.knowledge.knowledge_records import (
    ChunkRecord,
    DatasetRecord,
    differ,
    find_dataset,
    list_datasets,
    list_documents,
    other_model_error,
    page_of_chunks,
    page_of_documents,
    read_chunks,
)
from ragflow_lg.adapters.knowledge.words import extract_question_words
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetEntry,
    DatasetSearch,
    DocumentCount,
    DocumentEntry,
    Embedders,
    ListedChunk,
    Metadata,
    SearchResult,
    add_metadata,
)
from ragflow_lg.services.references import Chunk

Fusion: TypeAlias = Literal["weighted", "rrf"]
"""The order of the chunks: by RAGFlow's weighted sum of both scores, or by reciprocal rank."""

RETRY_SIMILARITY = 0.17
"""Minimum vector similarity for the second search if the first one finds nothing, as in RAGFlow."""

MIN_KEYWORDS_WEIGHT = 0.5
"""Minimum word weight if the vectors are hashed words."""


class EmbeddedKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` over a SQLite file."""

    def __init__(self, path: Path, embedders: Embedders, *, fusion: Fusion = "weighted") -> None:
        self.database = KnowledgeDatabase(path)
        self._embedders = embedders
        self._fusion: Fusion = fusion
        self._matrices = MatrixCache()

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets by name or else by id; unknown ones are omitted."""
        return await asyncio.to_thread(self._datasets, names_or_ids)

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return all datasets; none if the file does not exist yet."""
        return await asyncio.to_thread(self._list_datasets)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents; each item in a list counts as a value."""
        return await asyncio.to_thread(self._metadata, datasets)

    async def list_documents(self, dataset: Dataset, start: int, count: int) -> tuple[Sequence[DocumentEntry], int]:
        """Return some of a dataset's documents, sorted by name, and the number of all."""
        return await asyncio.to_thread(self._list_documents, dataset, start, count)

    async def list_chunks(
        self, dataset: Dataset, document: str, start: int, count: int
    ) -> tuple[Sequence[ListedChunk], int]:
        """Return some of a document's chunks with their vectors, in order, and the number of all."""
        return await asyncio.to_thread(self._list_chunks, dataset, document, start, count)

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets.

        Raises:
            SettingsError: for options that only a RAGFlow server supports, and for different embedding models.
            ServiceError: if the file or the embedding model cannot be used, or a dataset no longer exists.
        """
        _check_options(search)
        records = await asyncio.to_thread(self._records, search.datasets)
        if not records:
            return SearchResult()
        embedder = self._embedders.embedder(records[0].embedding_model)
        vector = np.asarray(await embedder.embed_question(search.question), dtype=np.float32)
        for record in records:
            if record.dims and differ(record.vector_model, embedder.vector_model):
                raise other_model_error(record.name, record.vector_model, embedder.vector_model)
            if record.dims not in (0, len(vector)):
                raise ServiceError(
                    f"The dataset {record.name!r} has vectors of {record.dims} numbers, but its embedding model "
                    f"{record.embedding_model!r} now returns {len(vector)}. Set the model that created the dataset "
                    '([embeddings."ID"] model), or create the dataset again.'
                )
        weight = search.keywords_similarity_weight
        if embedder.is_stand_in:
            weight = max(weight, MIN_KEYWORDS_WEIGHT)
        return await asyncio.to_thread(self._search, search, records, vector, weight)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def _datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        if not self.database.exists:
            return {}
        with self.database.reading() as connection:
            records = {name: find_dataset(connection, name) for name in names_or_ids}
        return {name: Dataset(d.id, d.name, d.embedding_model) for name, d in records.items() if d is not None}

    def _list_datasets(self) -> list[DatasetEntry]:
        if not self.database.exists:
            return []
        with self.database.reading() as connection:
            records = list_datasets(connection)
        return [
            DatasetEntry(Dataset(record.id, record.name, record.embedding_model), record.documents, record.chunks)
            for record in records
        ]

    def _list_documents(self, dataset: Dataset, start: int, count: int) -> tuple[Sequence[DocumentEntry], int]:
        (record,) = self._records([dataset])
        with self.database.reading() as connection:
            rows, total = page_of_documents(connection, record.number, start, count)
        return [DocumentEntry(*row) for row in rows], total

    def _list_chunks(
        self, dataset: Dataset, document: str, start: int, count: int
    ) -> tuple[Sequence[ListedChunk], int]:
        (record,) = self._records([dataset])
        with self.database.reading() as connection:
            rows, total = page_of_chunks(connection, record.number, document, start, count)
        listed = [
            ListedChunk(_chunk_fields(chunk, record.id, 0.0, 0.0, 0.0), np.frombuffer(vector, "<f4").tolist())
            for chunk, vector in rows
        ]
        return listed, total

    def _records(self, datasets: Sequence[Dataset]) -> list[DatasetRecord]:
        if not datasets:
            return []
        if not self.database.exists:
            raise ServiceError(f"The knowledge base {str(self.database.path)!r} does not exist ([knowledge] url).")
        records: dict[str, DatasetRecord] = {}
        with self.database.reading() as connection:
            for dataset in datasets:
                record = find_dataset(connection, dataset.id)
                if record is None:
                    raise ServiceError(f"The dataset {dataset.name!r} is no longer in the knowledge base.")
                records[record.id] = record
        models = {record.embedding_model: record.name for record in records.values()}
        if len(models) > 1:
            details = ", ".join(f"{name!r} uses {model!r}" for model, name in sorted(models.items()))
            raise SettingsError(f"These datasets have different embedding models: {details}. Search them separately.")
        return list(records.values())

    def _metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        metadata: dict[str, dict[str, list[str]]] = {}
        if not self.database.exists:
            return metadata
        with self.database.reading() as connection:
            for dataset in datasets:
                record = find_dataset(connection, dataset.id)
                for document in list_documents(connection, record.number) if record is not None else ():
                    add_metadata(metadata, document.id, document.metadata)
        return metadata

    def _search(
        self, search: DatasetSearch, records: Sequence[DatasetRecord], vector: NDArray[np.float32], weight: float
    ) -> SearchResult:
        query = HybridQuery(vector, extract_question_words(search.question), search.top_k, weight)
        with self.database.reading() as connection:
            # Read the datasets again: this transaction may see a newer state of the file.
            current_records = [find_dataset(connection, record.id) for record in records]
            current = {r.number: r for r in current_records if r is not None and r.dims == len(vector)}
            numbers = _document_numbers(connection, search.document_ids)
            hits = NO_HITS
            # As in RAGFlow, an empty search is repeated; if documents are specified, it accepts all of their chunks.
            retry_similarity = -1.0 if numbers is not None else min(search.similarity_threshold, RETRY_SIMILARITY)
            for min_similarity in dict.fromkeys((search.similarity_threshold, retry_similarity)):
                matrices = [(record, self._matrices.get(connection, record)) for record in current.values()]
                hits = merge_hits(
                    [
                        find_hits(connection, record, matrix, query, numbers, min_similarity)
                        for record, matrix in matrices
                    ]
                )
                if len(hits.chunks):
                    break
            threshold = search.similarity_threshold if weight < 1.0 else 0.0
            ranked = hits.rank(threshold, by_ranks=self._fusion == "rrf")
            best = ranked.first(search.top_n)
            stored = read_chunks(connection, best.chunks.tolist())
            counts = _counts(connection, ranked.documents)
        chunks = tuple(
            _chunk_fields(stored[chunk], current[dataset].id, *scores)
            for chunk, dataset, *scores in zip(
                best.chunks.tolist(),
                best.datasets.tolist(),
                best.similarities.tolist(),
                best.words.tolist(),
                best.vectors.tolist(),
                strict=True,
            )
            if chunk in stored
        )
        return SearchResult(chunks, counts, len(ranked.chunks))


def _check_options(search: DatasetSearch) -> None:
    options = (("rerank_id", search.rerank_id), ("toc_enhance", search.toc_enhance), ("use_kg", search.use_kg))
    for name, value in options:
        if value:
            raise SettingsError(
                f"The Retrieval node sets {name}, which the embedded knowledge base does not support. Remove it or use "
                "a RAGFlow server ([knowledge] url)."
            )


def _document_numbers(connection: sqlite3.Connection, ids: Sequence[str] | None) -> list[int] | None:
    if ids is None:
        return None
    rows = connection.execute(
        "SELECT number FROM documents WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )
    return [row[0] for row in rows]


def _counts(connection: sqlite3.Connection, documents: NDArray[np.int64]) -> tuple[DocumentCount, ...]:
    numbers: list[int] = documents.tolist()
    chunk_counts = Counter(numbers)
    rows = connection.execute(
        "SELECT number, name, id FROM documents WHERE number IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chunk_counts)),),
    )
    names = {number: (name, id_) for number, name, id_ in rows}
    return tuple(
        DocumentCount(*names[number], count) for number, count in chunk_counts.most_common() if number in names
    )


def _chunk_fields(chunk: ChunkRecord, dataset_id: str, similarity: float, words: float, vector: float) -> Chunk:
    return {
        "chunk_id": chunk.id,
        "content_with_weight": chunk.content,
        "doc_id": chunk.document_id,
        "docnm_kwd": chunk.document_name,
        "kb_id": dataset_id,
        "important_kwd": [],
        "tag_kwd": [],
        "image_id": "",
        "similarity": similarity,
        "vector_similarity": vector,
        "term_similarity": words,
        "positions": [list(position) for position in chunk.positions],
        "doc_type_kwd": "",
        "mom_id": "",
    }
