"""The chunks that a hybrid search finds, with their scores, as arrays."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord
from ragflow_lg.adapters.knowledge.scoring import Numbers, cosine_scores, reciprocal_ranks, weighted_sum
from ragflow_lg.adapters.knowledge.vector_matrices import Matrix, nearest
from ragflow_lg.adapters.knowledge.word_search import WordSearch

__all__ = ["NO_HITS", "Hits", "Wanted", "find_hits", "joined"]


class Wanted(Struct, frozen=True):
    """What is looked for: by vector and by words, so many of each; and what the words count."""

    vector: NDArray[np.float32]
    words: Sequence[str]
    count: int
    keywords_weight: float


class Hits(Struct, frozen=True):
    """Chunks with the numbers of their documents and datasets, and their scores of 0..1; all of one length."""

    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]
    datasets: NDArray[np.int64]
    words: Numbers
    vectors: Numbers
    similarities: Numbers

    def at(self, places: NDArray[np.int64]) -> Hits:
        """Give those at some places, in that order."""
        return Hits(*(getattr(self, name)[places] for name in self.__struct_fields__))

    def first(self, count: int) -> Hits:
        """Give the first ones."""
        return self.at(np.arange(min(count, len(self.chunks))))

    def ordered(self, threshold: float, *, by_ranks: bool) -> Hits:
        """Give those that reach the threshold, best first: by similarity, or by reciprocal ranks of both scores.

        The threshold is about the similarity, whatever orders.
        """
        kept = self.at(np.flatnonzero(self.similarities >= threshold))
        kept = kept.at(np.lexsort((kept.chunks, -kept.similarities)))
        if not by_ranks:
            return kept
        return kept.at(np.argsort(-reciprocal_ranks([kept.words, kept.vectors]), kind="stable"))


def joined(every: Sequence[Hits]) -> Hits:
    """Give the hits of several datasets as one."""
    if not every:
        return NO_HITS
    return Hits(*(np.concatenate([getattr(hits, name) for hits in every]) for name in NO_HITS.__struct_fields__))


_NONE, _NO_SCORES = np.empty(0, np.int64), np.empty(0)
NO_HITS = Hits(_NONE, _NONE, _NONE, _NO_SCORES, _NO_SCORES, _NO_SCORES)


def find_hits(
    connection: sqlite3.Connection,
    dataset: DatasetRecord,
    matrix: Matrix,
    wanted: Wanted,
    documents: Sequence[int] | None,
    floor: float,
) -> Hits:
    """Give the chunks of a dataset that hold words of the question, or whose vectors are near enough to it.

    ``documents`` limits it to the documents of these numbers; ``floor`` is the lowest cosine.
    """
    search = WordSearch(connection, dataset.number, wanted.words)
    with_words, word_scores = search.best(wanted.count, documents)
    cosines = np.nan_to_num(matrix.cosines(wanted.vector), nan=-1.0, posinf=-1.0, neginf=-1.0)
    allowed = cosines
    if documents is not None:
        allowed = np.where(np.isin(matrix.documents, np.asarray(documents, np.int64)), cosines, -np.inf)
    near = matrix.chunks[nearest(allowed, wanted.count, floor)]
    others = np.setdiff1d(near, with_words, assume_unique=True)
    if len(with_words) == wanted.count:  # there may be more with words than were asked for
        more, more_scores = search.of(others.tolist())
        with_words, word_scores = np.concatenate([with_words, more]), np.concatenate([word_scores, more_scores])
    chunks = np.union1d(with_words, others)
    places = np.searchsorted(matrix.chunks, chunks)
    is_known = np.zeros(len(chunks), bool)  # a vector of a strange length has no place in the matrix
    inside = places < len(matrix.chunks)
    is_known[inside] = matrix.chunks[places[inside]] == chunks[inside]
    chunks, places = chunks[is_known], places[is_known]
    words = np.zeros(len(chunks))
    at = np.searchsorted(chunks, with_words)
    fits = at < len(chunks)
    fits[fits] = chunks[at[fits]] == with_words[fits]
    words[at[fits]] = word_scores[fits]
    vectors = cosine_scores(cosines[places])
    similarities = weighted_sum(words, vectors, wanted.keywords_weight)
    return Hits(chunks, matrix.documents[places], np.full(len(chunks), dataset.number), words, vectors, similarities)
