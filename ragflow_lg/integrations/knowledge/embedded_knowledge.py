"""The embedded knowledge base: datasets in one SQLite file, searched in this process by word and by vector."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import CoroutineType
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.embedders import LOCAL_MODEL
from ragflow_lg.adapters.knowledge.rerankers import search_reranked
from ragflow_lg.adapters.knowledge.words import extract_question_words
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.knowledge.knowledge_file import (
    ChunkRecord,
    DatasetRecord,
    KnowledgeFile,
    find_dataset,
    list_datasets,
    list_documents,
    read_chunks,
    words_table,
)
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetEntry,
    DatasetSearch,
    DocumentCount,
    DocumentEntry,
    Embedders,
    ListedChunk,
    Metadata,
    Rerankers,
    SearchResult,
    add_metadata,
)
from ragflow_lg.services.references import Chunk

P = ParamSpec("P")
T = TypeVar("T")
Numbers: TypeAlias = NDArray[np.float64]

RETRY_SIMILARITY = 0.17
"""Minimum vector similarity for the second search if the first one finds nothing, as in RAGFlow."""

MIN_KEYWORDS_WEIGHT = 0.3
"""Minimum word weight for the local model, whose vectors alone find less than words alone (campaign ``retrieval``)."""

TITLE_WEIGHT = 0.5
"""Weight of a word in a document's name, relative to a word in its text."""

MAX_CACHED_BYTES = 2 * 1024**3
"""Maximum size of the vectors that stay in memory; those of the newest dataset always do."""

_MIN_WEIGHT = 1e-6
"""Weight that SQLite gives words that occur in more than half of the chunks."""


class _Vectors(NamedTuple):
    """The unit vectors of a dataset in one of its versions, with the numbers of their chunks (ascending)."""

    version: int
    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]
    vectors: NDArray[np.float32]


class _Query(NamedTuple):
    """What to search for in each dataset, and in which documents; None means all."""

    words: Sequence[str]
    vector: NDArray[np.float32]
    top_k: int
    keywords_weight: float
    documents: Sequence[int] | None


def _in_thread(method: Callable[P, T]) -> Callable[P, CoroutineType[Any, Any, T]]:
    """Return a coroutine function that calls a method in a thread, as reading the file blocks."""

    @wraps(method)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, *args, **kwargs)

    return run


class EmbeddedKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` over a SQLite file."""

    def __init__(self, path: Path, embedders: Embedders, rerankers: Rerankers | None = None) -> None:
        self.file = KnowledgeFile(path)
        self._embedders = embedders
        self._rerankers = rerankers
        self._vectors: OrderedDict[int, _Vectors] = OrderedDict()
        self._lock = threading.Lock()

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets.

        Raises:
            SettingsError: for options that only a RAGFlow server supports, and for different embedding models.
            ServiceError: if the file or a model cannot be used, or a dataset no longer exists.
        """
        return await search_reranked(search, self._find, self._rerankers)

    async def _find(self, search: DatasetSearch) -> SearchResult:
        for name in ("rerank_id", "toc_enhance", "use_kg"):
            if getattr(search, name):
                raise SettingsError(
                    f"The Retrieval node sets {name}, which the embedded knowledge base does not support. Remove it or "
                    "use a RAGFlow server ([knowledge] url)."
                )
        if not search.datasets:
            return SearchResult()
        (model,) = await self._models(search.datasets)
        embedder = self._embedders.embedder(model)
        vector = np.asarray(await embedder.embed_question(search.question), dtype=np.float32)
        weight = search.keywords_similarity_weight if len(vector) else 1.0
        if embedder.vector_model == LOCAL_MODEL:
            weight = max(weight, MIN_KEYWORDS_WEIGHT)
        return await self._search(search, embedder.vector_model, vector, weight)

    @_in_thread
    def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets by name or else by id; unknown ones are omitted."""
        if not self.file.exists:
            return {}
        with self.file.reading() as connection:
            records = {name: find_dataset(connection, name) for name in names_or_ids}
        return {name: Dataset(d.id, d.name, d.embedding_model) for name, d in records.items() if d is not None}

    @_in_thread
    def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return all datasets; none if the file does not exist yet."""
        if not self.file.exists:
            return []
        with self.file.reading() as connection:
            records = list_datasets(connection)
        return [DatasetEntry(Dataset(d.id, d.name, d.embedding_model), d.documents, d.chunks) for d in records]

    @_in_thread
    def list_documents(self, dataset: Dataset, start: int, count: int) -> tuple[Sequence[DocumentEntry], int]:
        """Return some of a dataset's documents, sorted by name, and the number of all."""
        with self.file.reading() as connection:
            (record,) = self._records(connection, [dataset])
            documents = list_documents(connection, record.number, start, count)
        return [DocumentEntry(d.id, d.name, d.chunks, d.metadata) for d in documents], record.documents

    @_in_thread
    def list_chunks(self, dataset: Dataset, document: str, start: int, count: int) -> tuple[Sequence[ListedChunk], int]:
        """Return some of a document's chunks with their vectors, in order, and the number of all."""
        with self.file.reading() as connection:
            (record,) = self._records(connection, [dataset])
            where = "dataset = ? AND documents.id = ? ORDER BY chunks.number"
            chunks = list(read_chunks(connection, where, record.number, document))
        page = chunks[start : start + count]
        return [ListedChunk(_fields(c), np.frombuffer(c.vector, "<f4").tolist()) for c in page], len(chunks)

    def _records(self, connection: sqlite3.Connection, datasets: Sequence[Dataset]) -> list[DatasetRecord]:
        records: dict[str, DatasetRecord] = {}
        for dataset in datasets:
            record = find_dataset(connection, dataset.id)
            if record is None:
                raise ServiceError(f"The dataset {dataset.name!r} is no longer in the knowledge base.")
            records[record.id] = record
        return list(records.values())

    @_in_thread
    def _models(self, datasets: Sequence[Dataset]) -> list[str]:
        with self.file.reading() as connection:
            models = {record.embedding_model: record.name for record in self._records(connection, datasets)}
        if len(models) > 1:
            details = ", ".join(f"{name!r} uses {model!r}" for model, name in sorted(models.items()))
            raise SettingsError(f"These datasets have different embedding models: {details}. Search them separately.")
        return list(models)

    @_in_thread
    def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents; each item in a list counts as a value."""
        metadata: dict[str, dict[str, list[str]]] = {}
        if not self.file.exists:
            return metadata
        with self.file.reading() as connection:
            for dataset in datasets:
                record = find_dataset(connection, dataset.id)
                for document in list_documents(connection, record.number) if record is not None else ():
                    add_metadata(metadata, document.id, document.metadata)
        return metadata

    @_in_thread
    def _search(self, search: DatasetSearch, model: str, vector: NDArray[np.float32], weight: float) -> SearchResult:
        with self.file.reading() as connection:
            records = self._records(connection, search.datasets)
            for record in records if len(vector) else ():
                record.check_vectors(model, len(vector))
            numbers = None if search.document_ids is None else _numbers(connection, search.document_ids)
            query = _Query(extract_question_words(search.question), vector, search.top_k, weight, numbers)
            hits = np.empty((0, 5))
            # As in RAGFlow, an empty search is repeated; if documents are specified, it accepts all of their chunks.
            retry_similarity = -1.0 if numbers is not None else min(search.similarity_threshold, RETRY_SIMILARITY)
            for min_cosine in dict.fromkeys((search.similarity_threshold, retry_similarity)):
                found = [self._find_in(connection, record, query, min_cosine) for record in records if record.chunks]
                hits = np.concatenate([hits, *found])
                if len(hits):
                    break
            hits = hits[hits[:, 4] >= (search.similarity_threshold if weight < 1.0 else 0.0)]
            hits = hits[np.lexsort((hits[:, 0], -hits[:, 4]))]
            best = hits[: search.top_n]
            listed = json.dumps(best[:, 0].astype(int).tolist())
            where = "chunks.number IN (SELECT value FROM json_each(?))"
            stored = {chunk.number: chunk for chunk in read_chunks(connection, where, listed)}
            counts = _count(connection, hits[:, 1].astype(int).tolist())
        chunks = tuple(_fields(stored[int(number)], *scores) for number, _, *scores in best.tolist())
        return SearchResult(chunks, counts, len(hits))

    def _find_in(
        self, connection: sqlite3.Connection, dataset: DatasetRecord, query: _Query, min_cosine: float
    ) -> Numbers:
        """Return the chunks of a dataset that contain words of the question or whose vectors are near enough to it.

        A row has the numbers of a chunk and its document, its word and vector scores, and their weighted sum, which is
        RAGFlow's.
        """
        known = self._load(connection, dataset)
        words = np.zeros(len(known.chunks))
        matches, scores = score_words(connection, dataset.number, query.words)
        words[np.searchsorted(known.chunks, matches)] = scores
        cosines = np.full(len(words), -1.0, np.float32)
        if len(query.vector):
            length = float(np.linalg.norm(query.vector)) or 1.0
            cosines = np.nan_to_num(known.vectors @ (query.vector / length), nan=-1.0, posinf=-1.0, neginf=-1.0)
        is_allowed = np.ones(len(words), bool)
        if query.documents is not None:
            is_allowed = np.isin(known.documents, query.documents)
        near = np.flatnonzero(is_allowed & (cosines >= min_cosine))
        near = near[np.argsort(-cosines[near], kind="stable")][: query.top_k]
        found = np.union1d(near, np.flatnonzero(is_allowed & (words > 0)))
        vectors = cosine_scores(cosines[found])
        similarities = query.keywords_weight * words[found] + (1.0 - query.keywords_weight) * vectors
        numbers = (known.chunks[found].astype(float), known.documents[found].astype(float))
        return np.column_stack([*numbers, words[found], vectors, similarities])

    def _load(self, connection: sqlite3.Connection, dataset: DatasetRecord) -> _Vectors:
        """Return a dataset's vectors in the state that the connection sees."""
        with self._lock:  # concurrent searches should not read the same vectors twice
            known = self._vectors.pop(dataset.number, None)
            if known is None or known.version != dataset.version:
                known = _read_vectors(connection, dataset)
            self._vectors[dataset.number] = known
            while len(self._vectors) > 1 and sum(v.vectors.nbytes for v in self._vectors.values()) > MAX_CACHED_BYTES:
                self._vectors.popitem(last=False)
            return known


def _read_vectors(connection: sqlite3.Connection, dataset: DatasetRecord) -> _Vectors:
    chunks, documents = np.empty(dataset.chunks, np.int64), np.empty(dataset.chunks, np.int64)
    vectors = np.empty((dataset.chunks, dataset.dims), np.float32)
    rows = connection.execute(
        "SELECT chunks.number, document, vector FROM chunks JOIN documents ON documents.number = document "
        "WHERE dataset = ? ORDER BY chunks.number",
        (dataset.number,),
    )
    for index, (chunk, document, vector) in enumerate(rows):
        chunks[index], documents[index], vectors[index] = chunk, document, np.frombuffer(vector, "<f4")
    return _Vectors(dataset.version, chunks, documents, vectors)


def cosine_scores(cosines: NDArray[np.float32] | Numbers) -> Numbers:
    """Scale cosines to 0..1 as Elasticsearch does, so that thresholds chosen for RAGFlow stay valid.

    >>> cosine_scores(np.array([1.0, 0.0], np.float32)).tolist()
    [1.0, 0.5]
    """
    return np.clip((1.0 + cosines.astype(np.float64)) / 2.0, 0.0, 1.0)


def score_words(
    connection: sqlite3.Connection, dataset: int, words: Sequence[str]
) -> tuple[NDArray[np.int64], Numbers]:
    """Return the numbers of the chunks that contain any of the words, and their BM25 scores, scaled to 0..1.

    A chunk of average length that contains each word once has the score 1: BM25 gives it the sum of the words' weights.
    A word that no chunk contains counts with the average weight of the others; its rarity would otherwise give it the
    highest one, and a question with such a word could not score well. Words are passed to SQLite as quoted strings, so
    they cannot contain operators.
    """
    table, words = words_table(dataset), [word for each in words if (word := each.replace('"', ""))]
    (count,) = connection.execute(f"SELECT count(*) FROM {table}_docsize").fetchone()
    counts = connection.execute(
        f"SELECT doc FROM {table}_terms WHERE term IN (SELECT value FROM json_each(?))", (json.dumps(words),)
    ).fetchall()
    if not counts:
        return np.empty(0, np.int64), np.empty(0)
    weights = [max(_MIN_WEIGHT, math.log((count - n + 0.5) / (n + 0.5))) for (n,) in counts]
    rows = connection.execute(
        f"SELECT rowid, rank FROM {table} WHERE {table} MATCH ? AND rank MATCH 'bm25({TITLE_WEIGHT}, 1.0)'",
        (" OR ".join(f'"{word}"' for word in words),),
    )
    found = np.array(rows.fetchall(), np.float64).reshape(-1, 2)
    total = sum(weights) / len(weights) * len(words)
    return found[:, 0].astype(np.int64), np.clip(-found[:, 1] / total, 0.0, 1.0)


def _numbers(connection: sqlite3.Connection, ids: Sequence[str]) -> list[int]:
    query = "SELECT number FROM documents WHERE id IN (SELECT value FROM json_each(?))"
    return [row[0] for row in connection.execute(query, (json.dumps(list(ids)),))]


def _count(connection: sqlite3.Connection, documents: Sequence[int]) -> tuple[DocumentCount, ...]:
    counts = Counter(documents)
    query = "SELECT number, name, id FROM documents WHERE number IN (SELECT value FROM json_each(?))"
    names = {number: (name, id_) for number, name, id_ in connection.execute(query, (json.dumps(list(counts)),))}
    return tuple(DocumentCount(*names[number], count) for number, count in counts.most_common())


def _fields(chunk: ChunkRecord, words: float = 0.0, vector: float = 0.0, similarity: float = 0.0) -> Chunk:
    return {
        "chunk_id": chunk.id,
        "content_with_weight": chunk.content,
        "doc_id": chunk.document_id,
        "docnm_kwd": chunk.document_name,
        "kb_id": chunk.dataset_id,
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
