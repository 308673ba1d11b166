"""Word search in the full-text index of a dataset."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import words_table
from ragflow_lg.adapters.knowledge.scoring import Numbers, word_scores

__all__ = ["WordHits", "WordSearch"]

WordHits: TypeAlias = tuple[NDArray[np.int64], Numbers]
"""Numbers of chunks, and their scores from 0 to 1."""

TITLE_WEIGHT = 0.5
"""Weight of a word in the name of a document, relative to a word of the text."""

MANY_CHUNKS = 20_000
"""From this number of chunks on, common words are ignored if the question has other words."""

_COMMON_WEIGHT = math.log(9)
"""Words in more than a tenth of the chunks have a lower weight."""

_MIN_WEIGHT = 1e-6
"""Weight in SQLite of words that occur in more than half of the chunks."""


class WordSearch:
    """A search for some words. SQLite gets them as quoted strings, so that they cannot contain operators."""

    def __init__(self, connection: sqlite3.Connection, dataset: int, words: Sequence[str]) -> None:
        self._connection = connection
        self._table = words_table(dataset)
        self._weights: list[float] = []
        words = self._select_words([word for word in (word.replace('"', "") for word in words) if word])
        self._match = " OR ".join(f'"{word}"' for word in words)

    def _select_words(self, words: Sequence[str]) -> Sequence[str]:
        """Compute the weights of the words; remove common words if there are many chunks.

        A word that no chunk contains gets the average weight of the others. By its rarity it would have the highest
        weight, and a question with such a word could not score well.
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
        """Return the scores of some chunks; chunks without any of the words are omitted."""
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
