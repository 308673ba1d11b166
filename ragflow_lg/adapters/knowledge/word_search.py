"""Looking for words in the full-text index of a dataset."""

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
"""Numbers of chunks, and their scores of 0..1."""

TITLE_WEIGHT = 0.5
"""How much a word of a document's name counts, against one of the text."""

LARGE = 20_000
"""From how many chunks on common words are not looked for where a question has others."""

_COMMON_WEIGHT = math.log(9)
"""Of words that stand in more than a tenth of the chunks."""

_LEAST_WEIGHT = 1e-6
"""What SQLite gives to words that stand in more than half of the chunks."""


class WordSearch:
    """The search for some words. They go to SQLite as quoted texts, so nothing in them is an operator."""

    def __init__(self, connection: sqlite3.Connection, dataset: int, words: Sequence[str]) -> None:
        self._connection = connection
        self._table = words_table(dataset)
        self._weights: list[float] = []
        telling = self._telling([word for word in (word.replace('"', "") for word in words) if word])
        self._match = " OR ".join(f'"{word}"' for word in telling)

    def _telling(self, words: Sequence[str]) -> Sequence[str]:
        """Weigh the words; leave out those that would cost much and tell little.

        A word that no chunk has counts as the others do on average: by its rarity it would count most of all, and a
        question with one such word could not score well.
        """
        (count,) = self._connection.execute(f"SELECT count(*) FROM {self._table}_docsize").fetchone()
        rows = self._connection.execute(
            f"SELECT term, doc FROM {self._table}_terms WHERE term IN (SELECT value FROM json_each(?))",
            (json.dumps(list(words)),),
        )
        known = {word: max(_LEAST_WEIGHT, math.log((count - n + 0.5) / (n + 0.5))) for word, n in rows}
        if count >= LARGE and (rare := {word: w for word, w in known.items() if w >= _COMMON_WEIGHT}):
            words = [word for word in words if word in rare or word not in known]
            known = rare
        if known:
            unknown = [sum(known.values()) / len(known)] * (len(words) - len(known))
            self._weights = [*known.values(), *unknown]
        return words

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
