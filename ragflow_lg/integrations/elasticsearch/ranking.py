"""Chunk scores for a question, and the resulting order.

Source: RAGFlow's ``rag/nlp/search.py`` and ``rag/nlp/query.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from ragflow_lg.base.values import JsonValue
from ragflow_lg.integrations.elasticsearch.connection import SearchHit
from ragflow_lg.integrations.elasticsearch.term_weights import TermWeights

_TINY = 1e-9


class ScoredChunk(Struct, frozen=True):
    """A candidate with its scores, as RAGFlow computes them."""

    candidate: SearchHit
    similarity: float
    term_similarity: float
    vector_similarity: float


def score_terms(keywords: Sequence[str], chunks: Sequence[Sequence[str]], weights: TermWeights) -> list[float]:
    """Return the weighted share of keywords and neighbouring keyword pairs in each chunk, from 0 to 1."""
    wanted = _shares(keywords, weights)
    total = _TINY + sum(wanted.values())
    scores: list[float] = []
    for terms in chunks:
        shares = _shares(terms, weights)
        scores.append((_TINY + sum(share for key, share in wanted.items() if key in shares)) / total)
    return scores


def _shares(terms: Sequence[str], weights: TermWeights) -> dict[str, float]:
    shares: dict[str, float] = {}
    weighted_terms = weights.weigh_terms(terms)
    for index, (term, weight) in enumerate(weighted_terms):
        shares[term] = shares.get(term, 0.0) + 0.4 * weight
        if index + 1 < len(weighted_terms):
            neighbour, other = weighted_terms[index + 1]
            shares[term + neighbour] = shares.get(term + neighbour, 0.0) + 0.6 * max(weight, other)
    return shares


def list_terms(fields: Mapping[str, JsonValue]) -> list[str]:
    """Return the terms of a chunk for scores without a rerank model: content terms once, title and keywords repeated.

    >>> list_terms({"content_ltks": "a b a", "title_tks": "t", "important_kwd": ["k"], "question_tks": ""})
    ['a', 'b', 't', 't', 'k', 'k', 'k', 'k', 'k']
    """
    content = list(dict.fromkeys(_words(fields.get("content_ltks"))))
    title, keywords = _words(fields.get("title_tks")), _texts(fields.get("important_kwd"))
    return [*content, *title * 2, *keywords * 5, *_words(fields.get("question_tks")) * 6]


def list_rerank_terms(fields: Mapping[str, JsonValue]) -> list[str]:
    """Return the terms of a chunk for scores with a rerank model."""
    return [*_words(fields.get("content_ltks")), *_words(fields.get("title_tks")), *_texts(fields.get("important_kwd"))]


def join_terms(terms: Sequence[str]) -> str:
    """Join terms into text for a rerank model, with spaces only between two ASCII characters, not around Chinese.

    >>> join_terms(["rank", "of", "检索", "组件", "2024"])
    'rank of检索组件2024'
    """
    text = ""
    for term in (term for term in terms if term):
        needs_blank = bool(text) and _is_latin(text[-1]) and _is_latin(term[0])
        text += f" {term}" if needs_blank else term
    return text


def _is_latin(character: str) -> bool:
    return character.isascii()


def rank(
    candidates: Sequence[SearchHit],
    terms: Sequence[float],
    vectors: Sequence[float],
    *,
    vector_weight: float,
    threshold: float,
) -> list[ScoredChunk]:
    """Return the candidates that reach the threshold, best first. Candidates with equal scores keep their order.

    The score is ``(1 - vector_weight) * term + vector_weight * vector``, plus the page rank of the chunk's dataset. If
    ``vector_weight`` is 0, the threshold does not apply.
    """
    least = threshold if vector_weight > 0 else 0.0
    scored: list[ScoredChunk] = []
    for candidate, term, vector in zip(candidates, terms, vectors, strict=True):
        page_rank = _number(candidate.fields.get("pagerank_fea"))
        score = (1 - vector_weight) * term + vector_weight * vector + page_rank
        if score >= least:
            scored.append(ScoredChunk(candidate, score, term, vector))
    return sorted(scored, key=lambda chunk: -chunk.similarity)


def _number(value: JsonValue) -> float:
    """Return a number; 0 for other values and for numbers that are not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) else 0.0


def _words(value: JsonValue) -> list[str]:
    return value.split() if isinstance(value, str) else [word for text in _texts(value) for word in text.split()]


def _texts(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in cast("list[JsonValue]", value) if isinstance(text, str)] if isinstance(value, list) else []
