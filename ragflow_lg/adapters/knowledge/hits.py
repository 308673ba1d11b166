"""The chunks that a hybrid search finds, with their scores, and the matrices of vectors that it searches."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord, vectors_table
from ragflow_lg.adapters.knowledge.word_search import Numbers, WordSearch, cosine_scores, reciprocal_ranks, weighted_sum

MAX_CACHED_BYTES = 2 * 1024**3
"""Maximum size of all cached matrices; the newest is always cached."""

_ROWS_AT_ONCE = 4096


class Matrix(NamedTuple):
    """The unit vectors of a dataset, with the numbers of their chunks (ascending) and documents."""

    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def cosines(self, question: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of the angle between each vector and the question's vector."""
        length = float(np.linalg.norm(question))
        return self.vectors @ (question / length if length else question)


class MatrixCache:
    """A cache of matrices, usable from any thread."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._matrices: OrderedDict[int, tuple[int, Matrix]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, connection: sqlite3.Connection, dataset: DatasetRecord) -> Matrix:
        """Return a dataset's vectors in the state that the connection sees."""
        with self._lock:  # concurrent searches should not read the same vectors twice
            cached = self._matrices.get(dataset.number)
            if cached is not None and cached[0] == dataset.version:
                self._matrices.move_to_end(dataset.number)
                return cached[1]
            self._matrices.pop(dataset.number, None)
            matrix = _read(connection, dataset)
            self._matrices[dataset.number] = dataset.version, matrix
            while len(self._matrices) > 1 and self._size() > self._max_bytes:
                self._matrices.popitem(last=False)
            return matrix

    def _size(self) -> int:
        return sum(matrix.vectors.nbytes for _, matrix in self._matrices.values())


def _read(connection: sqlite3.Connection, dataset: DatasetRecord) -> Matrix:
    table, width = vectors_table(dataset.number), 4 * dataset.dims
    (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE length(vector) = ?", (width,)).fetchone()
    chunks, documents = np.empty(count, np.int64), np.empty(count, np.int64)
    vectors = np.empty((count, dataset.dims), np.float32)
    rows = connection.execute(
        f"SELECT chunk, document, vector FROM {table} WHERE length(vector) = ? ORDER BY chunk", (width,)
    )
    start = 0
    while batch := rows.fetchmany(_ROWS_AT_ONCE):
        end = start + len(batch)
        chunks[start:end] = [row[0] for row in batch]
        documents[start:end] = [row[1] for row in batch]
        data = b"".join(row[2] for row in batch)
        vectors[start:end] = np.frombuffer(data, "<f4").reshape(len(batch), dataset.dims)
        start = end
    return Matrix(chunks, documents, vectors)


def find_nearest(cosines: NDArray[np.float32], count: int, min_cosine: float) -> NDArray[np.int64]:
    """Return the indices of the highest cosines, the highest first; equal cosines keep their order."""
    indices = np.arange(len(cosines))
    if count < len(cosines):
        limit = np.partition(cosines, len(cosines) - count)[len(cosines) - count]
        indices = np.flatnonzero(cosines >= limit)
    indices = indices[np.isfinite(cosines[indices]) & (cosines[indices] >= min_cosine)]
    return indices[np.argsort(-cosines[indices], kind="stable")][:count]


class HybridQuery(Struct, frozen=True):
    """A search by vector and by word, for at most ``count`` chunks each, with the word weight."""

    vector: NDArray[np.float32]
    words: Sequence[str]
    count: int
    keywords_weight: float


class Hits(Struct, frozen=True):
    """Chunks with the numbers of their documents and datasets, and scores from 0 to 1. All arrays are equally long."""

    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]
    datasets: NDArray[np.int64]
    words: Numbers
    vectors: Numbers
    similarities: Numbers

    def select(self, indices: NDArray[np.int64]) -> Hits:
        """Return the hits at the given indices, in that order."""
        return Hits(*(getattr(self, name)[indices] for name in self.__struct_fields__))

    def first(self, count: int) -> Hits:
        """Return the first hits."""
        return self.select(np.arange(min(count, len(self.chunks))))

    def rank(self, threshold: float, *, by_ranks: bool) -> Hits:
        """Return the hits that reach the threshold, best first: by similarity or by reciprocal ranks of both scores.

        The threshold always applies to the similarity.
        """
        hits = self.select(np.flatnonzero(self.similarities >= threshold))
        hits = hits.select(np.lexsort((hits.chunks, -hits.similarities)))
        if not by_ranks:
            return hits
        return hits.select(np.argsort(-reciprocal_ranks([hits.words, hits.vectors]), kind="stable"))


def merge_hits(results: Sequence[Hits]) -> Hits:
    """Concatenate the hits of several datasets."""
    if not results:
        return NO_HITS
    return Hits(*(np.concatenate([getattr(hits, name) for hits in results]) for name in NO_HITS.__struct_fields__))


_NO_NUMBERS, _NO_SCORES = np.empty(0, np.int64), np.empty(0)
NO_HITS = Hits(_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_SCORES, _NO_SCORES, _NO_SCORES)


def find_hits(
    connection: sqlite3.Connection,
    dataset: DatasetRecord,
    matrix: Matrix,
    query: HybridQuery,
    documents: Sequence[int] | None,
    min_cosine: float,
) -> Hits:
    """Return the chunks of a dataset that contain words of the question or whose vectors are near enough to it.

    If ``documents`` is given, only chunks of the documents with these numbers are returned.
    """
    search = WordSearch(connection, dataset.number, query.words)
    with_words, word_scores = search.best(query.count, documents)
    cosines = np.nan_to_num(matrix.cosines(query.vector), nan=-1.0, posinf=-1.0, neginf=-1.0)
    allowed = cosines
    if documents is not None:
        allowed = np.where(np.isin(matrix.documents, np.asarray(documents, np.int64)), cosines, -np.inf)
    near = matrix.chunks[find_nearest(allowed, query.count, min_cosine)]
    others = np.setdiff1d(near, with_words, assume_unique=True)
    if len(with_words) == query.count:  # the limit may have cut off other chunks with words
        more, more_scores = search.score(others.tolist())
        with_words, word_scores = np.concatenate([with_words, more]), np.concatenate([word_scores, more_scores])
    chunks = np.union1d(with_words, others)
    rows = np.searchsorted(matrix.chunks, chunks)
    is_known = np.zeros(len(chunks), bool)  # vectors of another length are not in the matrix
    is_inside = rows < len(matrix.chunks)
    is_known[is_inside] = matrix.chunks[rows[is_inside]] == chunks[is_inside]
    chunks, rows = chunks[is_known], rows[is_known]
    words = np.zeros(len(chunks))
    indices = np.searchsorted(chunks, with_words)
    is_hit = indices < len(chunks)
    is_hit[is_hit] = chunks[indices[is_hit]] == with_words[is_hit]
    words[indices[is_hit]] = word_scores[is_hit]
    vectors = cosine_scores(cosines[rows])
    similarities = weighted_sum(words, vectors, query.keywords_weight)
    return Hits(chunks, matrix.documents[rows], np.full(len(chunks), dataset.number), words, vectors, similarities)
