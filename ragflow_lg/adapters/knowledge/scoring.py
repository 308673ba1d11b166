"""The arithmetic of a hybrid search, on arrays of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["RRF_K", "RRF_WINDOW", "Numbers", "cosine_scores", "reciprocal_ranks", "weighted_sum", "word_scores"]

Numbers: TypeAlias = NDArray[np.float64]

RRF_K = 60
"""How little the very first ranks count more than the next, as is usual."""

RRF_WINDOW = 32
"""How many of each ranking count. In long ones everything stands somewhere, and middling in both would beat first in
one."""


def cosine_scores(cosines: ArrayLike) -> Numbers:
    """Bring cosines to 0..1 as Elasticsearch does, so that thresholds made for RAGFlow keep their meaning.

    >>> cosine_scores([1.0, 0.0]).tolist()
    [1.0, 0.5]
    """
    return np.clip((1.0 + np.asarray(cosines, np.float64)) / 2.0, 0.0, 1.0)


def word_scores(bm25: ArrayLike, word_weights: Sequence[float]) -> Numbers:
    """Bring BM25 scores to 0..1: 1 for a chunk that holds all words of the question and is not overlong.

    BM25 of a word that stands once in a chunk of usual length is just its weight, so the sum of the weights is what
    such a chunk reaches.

    >>> word_scores([3.0, 9.0], [2.0, 4.0]).tolist()
    [0.5, 1.0]
    """
    whole = sum(word_weights)
    given = np.asarray(bm25, np.float64)
    return np.clip(given / whole, 0.0, 1.0) if whole > 0 else np.zeros_like(given)


def weighted_sum(words: Numbers, vectors: Numbers, keywords_weight: float) -> Numbers:
    """Join both scores as RAGFlow does: ``(1 - V)·words + V·vectors``, where V is what the keywords leave.

    >>> weighted_sum(np.array([1.0]), np.array([0.5]), 0.7).tolist()
    [0.85]
    """
    return keywords_weight * words + (1.0 - keywords_weight) * vectors


def reciprocal_ranks(scores: Sequence[Numbers], k: int = RRF_K, window: int = RRF_WINDOW) -> Numbers:
    """Join scores by their ranking alone: the sum of ``1 / (k + rank)``, ranks from 1, scores above 0 only.

    >>> joined = reciprocal_ranks([np.array([0.9, 0.8]), np.array([0.0, 0.7])])
    >>> bool(joined[1] > joined[0])
    True
    """
    joined = np.zeros_like(scores[0])
    for one in scores:
        best = np.argsort(-one, kind="stable")[:window]
        best = best[one[best] > 0]
        joined[best] += 1.0 / (k + 1 + np.arange(len(best)))
    return joined
