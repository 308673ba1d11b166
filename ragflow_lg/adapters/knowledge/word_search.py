"""Looking for words in the full-text index of a dataset."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.records import words_table
from ragflow_lg.adapters.knowledge.scoring import Numbers, word_scores

__all__ = ["WordHits", "WordSearch"]

WordHits: TypeAlias = tuple[NDArray[np.int64], Numbers]
"""Numbers of chunks, and their scores of 0..1."""

TITLE_WEIGHT = 0.5
"""How much a word of a document's name counts, against one of the text."""

_LEAST_WEIGHT = 1e-6
"""What SQLite gives to words that stand in more than half of the chunks."""


class WordSearch:
    """The search for some words. They go to SQLite as quoted texts, so nothing in them is an operator."""

    def __init__(self, connection: sqlite3.Connection, dataset: int, words: Sequence[str]) -> None:
        self._connection = connection
        self._table = words_table(dataset)
        self._match = " OR ".join(f'"{word}"' for word in (w.replace('"', "") for w in words) if word)
        self._weights = _weights(connection, self._table, words) if self._match else []

    def best(self, count: int, documents: Sequence[int] | None) -> WordHits:
        """Give the chunks that hold any of the words with their scores of 0..1, best first.

        ``documents`` limits it to the documents of these numbers.
        """
        if documents is None:
            return self._scores("", "ORDER BY rank LIMIT ?", count)
        inside = "AND +rowid IN (SELECT number FROM chunks WHERE document IN (SELECT value FROM json_each(?)))"
        return self._scores(inside, "ORDER BY rank LIMIT ?", json.dumps(list(documents)), count)

    def of(self, chunks: Sequence[int]) -> WordHits:
        """Give the scores of some chunks; those without any of the words are left out."""
        return self._scores("AND +rowid IN (SELECT value FROM json_each(?))", "", json.dumps(list(chunks)))

    # The plus keeps SQLite from looking for every one of those rows by a search of its own.
    def _scores(self, inside: str, order: str, *values: str | int) -> WordHits:
        if not self._match:
            return np.empty(0, np.int64), np.empty(0)
        rows = self._connection.execute(
            f"SELECT rowid, rank FROM {self._table} WHERE {self._table} MATCH ? "
            f"AND rank MATCH 'bm25({TITLE_WEIGHT}, 1.0)' {inside} {order}",
            (self._match, *values),
        )
        found = np.array(rows.fetchall(), np.float64).reshape(-1, 2)
        return found[:, 0].astype(np.int64), word_scores(-found[:, 1], self._weights)


def _weights(connection: sqlite3.Connection, table: str, words: Sequence[str]) -> list[float]:
    """Give what BM25 counts each word for. A word that no chunk has counts as the others do on average.

    By its rarity it would count most of all, and a question with one such word could not score well.
    """
    (count,) = connection.execute(f"SELECT count(*) FROM {table}_docsize").fetchone()
    rows = connection.execute(
        f"SELECT doc FROM {table}_terms WHERE term IN (SELECT value FROM json_each(?))", (json.dumps(list(words)),)
    )
    weights = [max(_LEAST_WEIGHT, math.log((count - found + 0.5) / (found + 0.5))) for (found,) in rows]
    if not weights:
        return []
    return weights + [sum(weights) / len(weights)] * max(0, len(words) - len(weights))
