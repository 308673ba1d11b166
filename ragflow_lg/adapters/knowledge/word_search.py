"""Word search in a dataset's full-text index."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import words_table

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
