"""From a question to the text that Elasticsearch's ``query_string`` reads.

Source: RAGFlow's ``rag/nlp/query.py``. No text of a question reaches the query's grammar: what a tokenizer leaves
over is escaped, and operators are upper-case words, which no token is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from ragflow_lg.adapters.elasticsearch.question_words import is_mostly_chinese, without_question_words
from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.tokenizers import VocabularyTokenizer, is_chinese, to_half_width

__all__ = ["MAX_QUESTION_CHARS", "TextQuery", "escape_query", "keywords_of_vocabulary", "text_query"]

MAX_QUESTION_CHARS = 20_000
"""What stands behind is not searched for by its words."""

MAX_TOKENS = 256
MAX_KEYWORDS = 32
"""Of a Chinese or short question; the synonyms and parts of the last term may go over it."""

MIN_MATCH = 0.3
_OVERLAPPING = 1 / 6
"""How many of the overlapping tokens of a Chinese text are words."""

_MOST_VECTOR_WEIGHT = 0.8
"""From this weight of the vectors on, no share of the words has to be there."""

_PUNCTUATION = re.compile(r"[ :|\r\n\t,，。？?/`!！&^%()\[\]{}<>]+")
_SPECIAL = re.compile(r'([+\-=&|!(){}\[\]^"~*?:\\/])')
_UNESCAPABLE = re.compile(r"[<>'\x00-\x1f\x7f]+")
_LATIN_BEFORE = re.compile(r"([A-Za-z][0-9]*)([\u4e00-\u9fa5])")
_LATIN_BEHIND = re.compile(r"([\u4e00-\u9fa5])([A-Za-z])")
_ONE_SIGN = re.compile(r"[a-z0-9]")
_WHOLE = re.compile(r"[0-9a-z.+#_*-]+")


class TextQuery(Struct, frozen=True):
    """The words of a question: as a query, and as keywords to compare chunks with.

    ``min_match`` is the share of its clauses that a chunk has to match.
    """

    text: str
    keywords: tuple[str, ...]
    min_match: float = 0.0


def text_query(
    question: str,
    weights: TermWeights,
    *,
    vector_weight: float = 0.5,
    synonyms: Mapping[str, Sequence[str]] | None = None,
) -> TextQuery:
    """Make the query of a question; its text is ``""`` if the question has no words."""
    known = synonyms or {}
    tokenizer = weights.tokenizer
    text = _LATIN_BEHIND.sub(r"\1 \2", _LATIN_BEFORE.sub(r"\1 \2", question[:MAX_QUESTION_CHARS]))
    text = tokenizer.simplified(to_half_width(text.lower()))
    text = without_question_words(_PUNCTUATION.sub(" ", text).strip())
    if is_mostly_chinese(text):
        share = _OVERLAPPING if tokenizer.overlaps and any(map(is_chinese, text)) else 1.0
        return _of_short(text, weights, known, share * MIN_MATCH if vector_weight < _MOST_VECTOR_WEIGHT else 0.0)
    return _of_latin(without_question_words(text), weights, known)


def keywords_of_vocabulary(
    question: str,
    weights: TermWeights,
    chunks: Iterable[Iterable[str]],
    synonyms: Mapping[str, Sequence[str]] | None = None,
) -> tuple[tuple[str, ...], TermWeights]:
    """Give the keywords of a question as the words of some chunks, and weights to go with them."""
    tokenizer = VocabularyTokenizer(token for tokens in chunks for token in tokens)
    found = TermWeights(tokenizer, weights.names)
    return text_query(question, found, synonyms=synonyms).keywords, found


def escape_query(text: str) -> str:
    r"""Write a text so that ``query_string`` takes it for words.

    >>> print(escape_query('a:b* OR "c"'))
    a\:b\* OR \"c\"
    """
    return _SPECIAL.sub(r"\\\1", _UNESCAPABLE.sub("", text))


def _of_latin(text: str, weights: TermWeights, synonyms: Mapping[str, Sequence[str]]) -> TextQuery:
    tokens = weights.tokenizer.tokens(text)
    keywords = list(tokens)
    weighed = [(escape_query(token), token, weight) for token, weight in weights.of_terms(tokens)]
    weighed = [term for term in weighed if term[0] and not _ONE_SIGN.fullmatch(term[1])][:MAX_TOKENS]
    clauses: list[str] = []
    for shown, token, weight in weighed:
        alike = [other for synonym in synonyms.get(token, ()) for other in weights.tokenizer.tokens(synonym)]
        keywords += alike
        quoted = " ".join(f'"{escape_query(other)}"^{weight / 4:.4f}' for other in alike)
        clauses.append(f"({shown}^{weight:.4f} {quoted})")
    for (left, _, weight), (right, _, next_weight) in pairwise(weighed):
        clauses.append(f'"{left} {right}"^{2 * max(weight, next_weight):.4f}')
    return TextQuery(" ".join(clauses), tuple(keywords))


def _of_short(text: str, weights: TermWeights, synonyms: Mapping[str, Sequence[str]], min_match: float) -> TextQuery:
    keywords: list[str] = []
    clauses: list[str] = []
    most = MAX_TOKENS if weights.tokenizer.overlaps else MAX_KEYWORDS
    for term in weights.split(text)[:MAX_TOKENS]:
        keywords.append(term)
        alike = synonyms.get(term, ())
        if len(keywords) < most:
            keywords += alike
        weighed = weights.of_text(term)
        found = _weighed_clauses(weighed, weights, synonyms, keywords, most)
        if len(weighed) > 1 and not (weights.tokenizer.overlaps and any(map(is_chinese, term))):
            found.append(f'("{_phrase(weights, term)}"~2)^1.5')
        clause = " ".join(found)
        if clause and alike:
            others = " OR ".join(f'"{_phrase(weights, other)}"' for other in alike)
            clause = f"({clause})^5 OR ({others})^0.7"
        if clause:
            clauses.append(f"({clause})")
        if len(keywords) >= most:
            break
    return TextQuery(" OR ".join(clauses), tuple(keywords), min_match)


def _weighed_clauses(
    weighed: Sequence[tuple[str, float]],
    weights: TermWeights,
    synonyms: Mapping[str, Sequence[str]],
    keywords: list[str],
    most: int,
) -> list[str]:
    """Give a clause for each part of a term, the heaviest first, and put the parts among the keywords."""
    clauses: list[str] = []
    for token, weight in sorted(weighed, key=lambda term: -term[1]):
        parts = [part for part in _parts(token, weights) if len(part) > 1]
        alike = synonyms.get(token, ())
        if len(keywords) < most:
            keywords += [token, *parts, *alike]
        shown = escape_query(token)
        clause = f'"{shown}"' if " " in shown else shown
        if not clause:
            continue
        if alike:
            clause = f"({clause} OR ({' '.join(_quoted(weights, other) for other in alike)})^0.2)"
        if parts:
            fine = escape_query(" ".join(parts))
            clause = f'{clause} OR "{fine}" OR ("{fine}"~2)^0.5'
        clauses.append(f"({clause})^{_written(weight)}")
        if len(keywords) >= most:
            break
    return clauses


def _parts(token: str, weights: TermWeights) -> list[str]:
    if len(token) < 3 or _WHOLE.fullmatch(token) or weights.tokenizer.overlaps:
        return []
    return weights.tokenizer.parts(token)


def _phrase(weights: TermWeights, text: str) -> str:
    return escape_query(" ".join(weights.tokenizer.tokens(text)))


def _quoted(weights: TermWeights, text: str) -> str:
    phrase = _phrase(weights, text)
    return f'"{phrase}"' if " " in phrase else phrase


def _written(weight: float) -> str:
    """Write a weight as Lucene reads it: an exponent would be another word, and its minus an operator."""
    text = repr(weight)
    return f"{weight:.20f}" if "e" in text else text
