"""The chunks that a hybrid search finds, with their scores, as arrays."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord
from ragflow_lg.adapters.knowledge.vector_matrices import Matrix, find_nearest
from ragflow_lg.adapters.knowledge.word_search import Numbers, WordSearch, cosine_scores, reciprocal_ranks, weighted_sum


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
