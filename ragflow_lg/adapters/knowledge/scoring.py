"""The arithmetic of hybrid search, on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["RRF_K", "RRF_WINDOW", "Numbers", "cosine_scores", "reciprocal_ranks", "weighted_sum", "word_scores"]

Numbers: TypeAlias = NDArray[np.float64]

RRF_K = 60
"""The usual constant of reciprocal rank fusion: the higher, the less the first ranks stand out."""

RRF_WINDOW = 32
"""Number of ranks of each ranking that count. In long rankings, a chunk in the middle of both would beat the first one
of a single ranking."""


def cosine_scores(cosines: ArrayLike) -> Numbers:
    """Scale cosines to 0..1 as Elasticsearch does, so that thresholds chosen for RAGFlow stay valid.

    >>> cosine_scores([1.0, 0.0]).tolist()
    [1.0, 0.5]
    """
    return np.clip((1.0 + np.asarray(cosines, np.float64)) / 2.0, 0.0, 1.0)


def word_scores(bm25: ArrayLike, word_weights: Sequence[float]) -> Numbers:
    """Scale BM25 scores to 0..1; 1 means that a chunk contains all words of the question and is not too long.

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


def reciprocal_ranks(scores: Sequence[Numbers], k: int = RRF_K, window: int = RRF_WINDOW) -> Numbers:
    """Combine scores by their ranks: the sum of ``1 / (k + rank)``, ranks from 1, for scores above 0 only.

    >>> combined = reciprocal_ranks([np.array([0.9, 0.8]), np.array([0.0, 0.7])])
    >>> bool(combined[1] > combined[0])
    True
    """
    combined = np.zeros_like(scores[0])
    for ranking in scores:
        best = np.argsort(-ranking, kind="stable")[:window]
        best = best[ranking[best] > 0]
        combined[best] += 1.0 / (k + 1 + np.arange(len(best)))
    return combined
