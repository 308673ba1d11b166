"""The arithmetic of a hybrid search, on plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["RRF_K", "cosine_score", "reciprocal_ranks", "weighted_sum", "word_score"]

RRF_K = 60
"""How little the very first ranks count more than the next, as is usual."""


def cosine_score(cosine: float) -> float:
    """Bring a cosine to 0..1 as Elasticsearch does, so that thresholds made for RAGFlow keep their meaning.

    >>> cosine_score(1.0), cosine_score(0.0)
    (1.0, 0.5)
    """
    return min(1.0, max(0.0, (1.0 + cosine) / 2.0))


def word_score(bm25: float, word_weights: Sequence[float]) -> float:
    """Bring a BM25 score to 0..1: 1 for a chunk that holds all words of the question and is not overlong.

    BM25 of a word that stands once in a chunk of usual length is just its weight, so the sum of the weights is what
    such a chunk reaches.

    >>> word_score(3.0, [2.0, 4.0])
    0.5
    """
    whole = sum(word_weights)
    return min(1.0, max(0.0, bm25) / whole) if whole > 0 else 0.0


def weighted_sum(words: float, vector: float, keywords_weight: float) -> float:
    """Join both scores as RAGFlow does: ``(1 - V)·words + V·vector``, where V is what the keywords leave.

    >>> weighted_sum(1.0, 0.5, 0.7)
    0.85
    """
    return keywords_weight * words + (1.0 - keywords_weight) * vector


def reciprocal_ranks(rankings: Iterable[Sequence[int]], k: int = RRF_K) -> Mapping[int, float]:
    """Join rankings by place alone: the sum of ``1 / (k + rank)`` over those that have an item, ranks from 1.

    >>> ranks = reciprocal_ranks([[7, 8], [8]])
    >>> sorted(ranks, key=lambda item: -ranks[item])
    [8, 7]
    """
    sums: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            sums[item] = sums.get(item, 0.0) + 1.0 / (k + rank)
    return sums
