"""The chunks that a hybrid search finds, with their scores, and the matrices of vectors that it searches."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord, vectors_table, words_table

Numbers: TypeAlias = NDArray[np.float64]

RRF_K = 60
"""The usual constant for reciprocal rank fusion: the higher, the less the first ranks stand out."""

RRF_WINDOW = 32
"""Number of ranks that count in each ranking. In long rankings, a chunk in the middle of both would beat the first one
of a single ranking."""


def cosine_scores(cosines: ArrayLike) -> Numbers:
    """Scale cosines to 0..1 as Elasticsearch does, so that thresholds chosen for RAGFlow stay valid.

    >>> cosine_scores([1.0, 0.0]).tolist()
    [1.0, 0.5]
    """
    return np.clip((1.0 + np.asarray(cosines, np.float64)) / 2.0, 0.0, 1.0)


def word_scores(bm25: ArrayLike, word_weights: Sequence[float]) -> Numbers:
    """Scale BM25 scores to 0..1; 1 means that a chunk contains all words in the question and is not too long.

    The BM25 score of a word that occurs once in a chunk of average length is its weight. Such a chunk with all words
    therefore reaches the sum of the weights.
    >>> word_scores([3.0, 9.0], [2.0, 4.0]).tolist()
    [0.5, 1.0]
    """
    total = sum(word_weights)
    scores = np.asarray(bm25, np.float64)
    return np.clip(scores / total, 0.0, 1.0) if total > 0 else np.zeros_like(scores)


def weighted_sum(words: Numbers, vectors: Numbers, keywords_weight: float) -> Numbers:
    """Combine both scores as RAGFlow does: ``(1 - V)·words + V·vectors``, where V is 1 minus the keywords' weight.

    >>> weighted_sum(np.array([1.0]), np.array([0.5]), 0.7).tolist()
    [0.85]
    """
    return keywords_weight * words + (1.0 - keywords_weight) * vectors


def reciprocal_ranks(scores: Sequence[Numbers], window: int = RRF_WINDOW) -> Numbers:
    """Combine scores by rank: the sum of ``1 / (RRF_K + rank)``, with ranks from 1, only for scores above 0.

    >>> combined = reciprocal_ranks([np.array([0.9, 0.8]), np.array([0.0, 0.7])])
    >>> bool(combined[1] > combined[0])
    True
    """
    combined = np.zeros_like(scores[0])
    for ranking in scores:
        best = np.argsort(-ranking, kind="stable")[:window]
        best = best[ranking[best] > 0]
        combined[best] += 1.0 / (RRF_K + 1 + np.arange(len(best)))
    return combined


WordHits: TypeAlias = tuple[NDArray[np.int64], Numbers]
"""Chunk numbers, and the chunks' scores from 0 to 1."""

TITLE_WEIGHT = 0.5
"""Weight of a word in a document's name, relative to a word in its text."""

MANY_CHUNKS = 20_000
"""At or above this number of chunks, common words are ignored if the question has other words."""

_COMMON_WEIGHT = math.log(9)
"""Words in more than a tenth of the chunks have a lower weight."""

_MIN_WEIGHT = 1e-6
"""Weight that SQLite gives words that occur in more than half of the chunks."""


class WordSearch:
    """A search for some words. They are passed to SQLite as quoted strings, so they cannot contain operators."""

    def __init__(self, connection: sqlite3.Connection, dataset: int, words: Sequence[str]) -> None:
        self._connection = connection
        self._table = words_table(dataset)
        self._weights: list[float] = []
        words = self._select_words([word for word in (word.replace('"', "") for word in words) if word])
        self._match = " OR ".join(f'"{word}"' for word in words)

    def _select_words(self, words: Sequence[str]) -> Sequence[str]:
        """Compute the weights of the words; remove common words if there are many chunks.

        A word that no chunk contains gets the average weight of the others. Its rarity would otherwise give it the
        highest weight, and a question with such a word could not score well.
        """
        (count,) = self._connection.execute(f"SELECT count(*) FROM {self._table}_docsize").fetchone()
        rows = self._connection.execute(
            f"SELECT term, doc FROM {self._table}_terms WHERE term IN (SELECT value FROM json_each(?))",
            (json.dumps(list(words)),),
        )
        known = {word: max(_MIN_WEIGHT, math.log((count - n + 0.5) / (n + 0.5))) for word, n in rows}
        if count >= MANY_CHUNKS and (rare := {word: w for word, w in known.items() if w >= _COMMON_WEIGHT}):
            words = [word for word in words if word in rare or word not in known]
            known = rare
        if known:
            unknown = [sum(known.values()) / len(known)] * (len(words) - len(known))
            self._weights = [*known.values(), *unknown]
        return words

    def best(self, count: int, documents: Sequence[int] | None) -> WordHits:
        """Return the best chunks that contain any of the words, with their scores from 0 to 1.

        If ``documents`` is given, only chunks of the documents with these numbers are returned.
        """
        if documents is None:
            return self._scores("", "ORDER BY rank LIMIT ?", count)
        inside = "AND +rowid IN (SELECT number FROM chunks WHERE document IN (SELECT value FROM json_each(?)))"
        return self._scores(inside, "ORDER BY rank LIMIT ?", json.dumps(list(documents)), count)

    def score(self, chunks: Sequence[int]) -> WordHits:
        """Return the scores for some chunks; chunks without any of the words are omitted."""
        return self._scores("AND +rowid IN (SELECT value FROM json_each(?))", "", json.dumps(list(chunks)))

    # The plus prevents SQLite from running a separate search for each of these rows.
    def _scores(self, inside: str, order: str, *values: str | int) -> WordHits:
        if not self._match:
            return np.empty(0, np.int64), np.empty(0)
        rows = self._connection.execute(
            f"SELECT rowid, rank FROM {self._table} WHERE {self._table} MATCH ? "
            f"AND rank MATCH 'bm25({TITLE_WEIGHT}, 1.0)' {inside} {order}",
            (self._match, *values),
        )
        hits = np.array(rows.fetchall(), np.float64).reshape(-1, 2)
        return hits[:, 0].astype(np.int64), word_scores(-hits[:, 1], self._weights)


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
