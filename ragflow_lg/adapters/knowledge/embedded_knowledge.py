"""The embedded knowledge base: datasets in one SQLite file, searched by words and by vectors in this process."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.hits import NO_HITS, Wanted, find_hits, joined
from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
from ragflow_lg.adapters.knowledge.knowledge_records import (
    ChunkRecord,
    DatasetRecord,
    chunks_by_number,
    documents_of,
    find_dataset,
)
from ragflow_lg.adapters.knowledge.vector_matrices import Matrices
from ragflow_lg.adapters.knowledge.words import question_words
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, DocumentCount, Embedders, Metadata, SearchResult
from ragflow_lg.services.references import Chunk

__all__ = ["EmbeddedKnowledge", "Fusion"]

Fusion: TypeAlias = Literal["weighted", "rrf"]
"""What orders the chunks: RAGFlow's weighted sum of both scores, or reciprocal ranks."""

SECOND_FLOOR = 0.17
"""How near a vector has to be when the first search has found nothing, as in RAGFlow."""

LEAST_KEYWORDS_WEIGHT = 0.5
"""What words count at least where the vectors are a stand-in."""


class EmbeddedKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` in a file."""

    def __init__(self, path: Path, embedders: Embedders, *, fusion: Fusion = "weighted") -> None:
        self.database = KnowledgeDatabase(path)
        self._embedders = embedders
        self._fusion: Fusion = fusion
        self._matrices = Matrices()

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Find datasets by name, else by id; unknown ones are left out."""
        return await asyncio.to_thread(self._datasets, names_or_ids)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Give the metadata of all documents; a list counts as each of its items."""
        return await asyncio.to_thread(self._metadata, datasets)

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets.

        Raises:
            SettingsError: for what only a RAGFlow server can do, and for datasets of different embedding models.
            ServiceError: if the file or the embedding model cannot be used, or a dataset is gone.
        """
        _refuse_foreign(search)
        records = await asyncio.to_thread(self._records, search.datasets)
        if not records:
            return SearchResult()
        embedder = self._embedders.embedder(records[0].embedding_model)
        vector = np.asarray(await embedder.embed_question(search.question), dtype=np.float32)
        for record in records:
            if record.dims not in (0, len(vector)):
                raise ServiceError(
                    f"The dataset {record.name!r} holds vectors of {record.dims} numbers, but its embedding model "
                    f"{record.embedding_model!r} now gives {len(vector)}: it is another model. Set the one that the "
                    'dataset was made with ([embeddings."ID"] model), or make the dataset anew.'
                )
        weight = search.keywords_similarity_weight
        if embedder.is_stand_in:
            weight = max(weight, LEAST_KEYWORDS_WEIGHT)
        return await asyncio.to_thread(self._search, search, records, vector, weight)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def _datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        if not self.database.exists:
            return {}
        with self.database.reading() as connection:
            found = {name: find_dataset(connection, name) for name in names_or_ids}
        return {name: Dataset(d.id, d.name, d.embedding_model) for name, d in found.items() if d is not None}

    def _records(self, datasets: Sequence[Dataset]) -> list[DatasetRecord]:
        if not datasets:
            return []
        if not self.database.exists:
            raise ServiceError(f"There is no knowledge base {str(self.database.path)!r} any more ([knowledge] url).")
        records: dict[str, DatasetRecord] = {}
        with self.database.reading() as connection:
            for dataset in datasets:
                record = find_dataset(connection, dataset.id)
                if record is None:
                    raise ServiceError(f"The dataset {dataset.name!r} is not in the knowledge base any more.")
                records[record.id] = record
        models = {record.embedding_model: record.name for record in records.values()}
        if len(models) > 1:
            told = ", ".join(f"{name!r} uses {model!r}" for model, name in sorted(models.items()))
            raise SettingsError(f"These datasets cannot be searched together, their embedding models differ: {told}.")
        return list(records.values())

    def _metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        found: dict[str, dict[str, list[str]]] = {}
        if not self.database.exists:
            return found
        with self.database.reading() as connection:
            for dataset in datasets:
                record = find_dataset(connection, dataset.id)
                for document in documents_of(connection, record.number) if record is not None else ():
                    for key, value in document.metadata.items():
                        for item in cast("list[JsonValue]", value) if isinstance(value, list) else [value]:
                            ids = found.setdefault(key, {}).setdefault(to_text(item), [])
                            ids.append(document.id)
        return found

    def _search(
        self, search: DatasetSearch, records: Sequence[DatasetRecord], vector: NDArray[np.float32], weight: float
    ) -> SearchResult:
        wanted = Wanted(vector, question_words(search.question), search.top_k, weight)
        with self.database.reading() as connection:
            # Again, in this state of the file: the one before is over.
            found = [find_dataset(connection, record.id) for record in records]
            current = {r.number: r for r in found if r is not None and r.dims == len(vector)}
            numbers = _document_numbers(connection, search.document_ids)
            hits = NO_HITS
            # What RAGFlow does where nothing is found: with documents named it takes them as they are.
            second = -1.0 if numbers is not None else min(search.similarity_threshold, SECOND_FLOOR)
            for floor in dict.fromkeys((search.similarity_threshold, second)):
                every = [
                    find_hits(connection, record, self._matrices.get(connection, record), wanted, numbers, floor)
                    for record in current.values()
                ]
                hits = joined(every)
                if len(hits.chunks):
                    break
            threshold = search.similarity_threshold if weight < 1.0 else 0.0
            kept = hits.ordered(threshold, by_ranks=self._fusion == "rrf")
            best = kept.first(search.top_n)
            stored = chunks_by_number(connection, best.chunks.tolist())
            counts = _counts(connection, kept.documents)
        chunks = tuple(
            _shown(stored[chunk], current[dataset].id, *scores)
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
        return SearchResult(chunks, counts, len(kept.chunks))


def _refuse_foreign(search: DatasetSearch) -> None:
    asked = (("rerank_id", search.rerank_id), ("toc_enhance", search.toc_enhance), ("use_kg", search.use_kg))
    for name, value in asked:
        if value:
            raise SettingsError(
                f"{name} is set, which the embedded knowledge base cannot do. Take it out of the Retrieval, or let "
                "[knowledge] url name a RAGFlow server."
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
    counted = Counter(numbers)
    rows = connection.execute(
        "SELECT number, name, id FROM documents WHERE number IN (SELECT value FROM json_each(?))",
        (json.dumps(list(counted)),),
    )
    named = {number: (name, id_) for number, name, id_ in rows}
    return tuple(DocumentCount(*named[number], chunks) for number, chunks in counted.most_common() if number in named)


def _shown(chunk: ChunkRecord, dataset_id: str, similarity: float, words: float, vector: float) -> Chunk:
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
