"""The number of candidates in a search, and the scores from rerank models.

Source: RAGFlow's ``rag/nlp/search.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_MIN_SPREAD = 0.001
_WINDOW = 64
_SINGLE_WINDOW = 30


def compute_window_size(top_n: int, top_k: int, *, is_reranked: bool = False) -> int:
    """Return the number of candidates that the first request asks for.

    >>> [compute_window_size(8, 1024), compute_window_size(6, 1024), compute_window_size(1, 1024)]
    [64, 66, 30]
    >>> compute_window_size(8, 20, is_reranked=True)
    24
    """
    if top_n <= 1:
        return min(_SINGLE_WINDOW, top_k) if is_reranked else _SINGLE_WINDOW
    size = math.ceil(_WINDOW / top_n) * top_n
    return min(size, math.ceil(top_k / top_n) * top_n) if is_reranked else size


def normalize_scores(scores: Sequence[float]) -> list[float]:
    """Scale a rerank model's scores to 0..1, unless they are already in this range.

    >>> normalize_scores([-2.0, 0.0, 2.0]), normalize_scores([0.2, 0.9]), normalize_scores([3.0, 3.0])
    ([0.0, 0.5, 1.0], [0.2, 0.9], [1.0, 1.0])
    """
    if not scores or (min(scores) >= 0 and max(scores) <= 1):
        return list(scores)
    lowest, spread = min(scores), max(scores) - min(scores)
    if spread < _MIN_SPREAD:
        return [min(max(score, 0.0), 1.0) for score in scores]
    return [(score - lowest) / spread for score in scores]
