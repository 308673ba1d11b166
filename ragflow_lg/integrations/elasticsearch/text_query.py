"""Conversion of a question to an Elasticsearch ``query_string``.

Source: RAGFlow's ``rag/nlp/query.py``. A question cannot inject query syntax: special characters that remain in tokens
are escaped, and operators are upper-case words, which tokens never are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from ragflow_lg.integrations.elasticsearch.term_weights import TermWeights
from ragflow_lg.integrations.elasticsearch.tokenizers import VocabularyTokenizer, is_chinese, to_half_width

MAX_QUESTION_CHARS = 20_000
"""The rest of a longer question is ignored in the text query."""

MAX_TOKENS = 256
MAX_KEYWORDS = 32
"""Limit for Chinese or short questions; the synonyms and parts of the last term may exceed it."""

MIN_MATCH = 0.3
_OVERLAP_SHARE = 1 / 6
"""Share of the overlapping tokens in Chinese text that are words."""

_MAX_VECTOR_WEIGHT = 0.8
"""At or above this vector weight, chunks need not match any words."""

_PUNCTUATION = re.compile(r"[ :|\r\n\t,，。？?/`!！&^%()\[\]{}<>]+")
_SPECIAL = re.compile(r'([+\-=&|!(){}\[\]^"~*?:\\/])')
_UNESCAPABLE = re.compile(r"[<>'\x00-\x1f\x7f]+")
_LATIN_BEFORE_CHINESE = re.compile(r"([A-Za-z][0-9]*)([\u4e00-\u9fa5])")
_CHINESE_BEFORE_LATIN = re.compile(r"([\u4e00-\u9fa5])([A-Za-z])")
_SINGLE_CHARACTER = re.compile(r"[a-z0-9]")
_LATIN_TOKEN = re.compile(r"[0-9a-z.+#_*-]+")

_CHINESE_QUESTION_WORDS = """
怎么办 什么样的 哪家 一下 那家 请问 啥样 咋样了 什么时候 何时 何地 何人 是否 是不是 多少 哪里 怎么 哪儿 怎么样 如何
哪些 是啥 啥是 啊 吗 呢 吧 咋 什么 有没有 呀 谁 哪位 哪个
"""
_QUESTION_WORDS = "what who how which where why"
_FUNCTION_WORDS = """
's 're is are were was do does did don't doesn't didn't has have be there you me your my mine just please may i should
would wouldn't will won't done go for with so the a an by i'm it's he's she's they they're you're as on in at up out
down of to or and if
"""


def _alternatives(words: str) -> str:
    return "|".join(re.escape(word) for word in sorted(words.split(), key=len, reverse=True))


_QUESTION_PATTERNS = (
    (re.compile(f"是*(?:{_alternatives(_CHINESE_QUESTION_WORDS)})是*"), ""),
    (re.compile(f"(?:^| )(?:{_alternatives(_QUESTION_WORDS)})(?:'re|'s)? ", re.IGNORECASE), " "),
    # A match includes the spaces around the word, so the second of two adjacent words stays, as in RAGFlow.
    (re.compile(f"(?:^| )(?:{_alternatives(_FUNCTION_WORDS)}) ", re.IGNORECASE), " "),
)
_MIN_OTHER_SHARE = 0.7
_MAX_SHORT_WORDS = 3


class TextQuery(Struct, frozen=True):
    """The words in a question, as a query and as keywords for scoring chunks.

    ``min_match`` is the share of the query's clauses that a chunk must match.
    """

    text: str
    keywords: tuple[str, ...]
    min_match: float = 0.0


def build_text_query(
    question: str,
    weights: TermWeights,
    *,
    vector_weight: float = 0.5,
    synonyms: Mapping[str, Sequence[str]] | None = None,
) -> TextQuery:
    """Build the query for a question; its text is ``""`` if the question has no words."""
    known = synonyms or {}
    tokenizer = weights.tokenizer
    text = _CHINESE_BEFORE_LATIN.sub(r"\1 \2", _LATIN_BEFORE_CHINESE.sub(r"\1 \2", question[:MAX_QUESTION_CHARS]))
    text = tokenizer.to_simplified(to_half_width(text.lower()))
    text = remove_question_words(_PUNCTUATION.sub(" ", text).strip())
    if is_mostly_chinese(text):
        share = _OVERLAP_SHARE if tokenizer.overlaps and any(map(is_chinese, text)) else 1.0
        min_match = share * MIN_MATCH if vector_weight < _MAX_VECTOR_WEIGHT else 0.0
        return _build_short_query(text, weights, known, min_match)
    return _build_latin_query(remove_question_words(text), weights, known)


def extract_vocabulary_keywords(
    question: str,
    weights: TermWeights,
    chunks: Iterable[Iterable[str]],
    synonyms: Mapping[str, Sequence[str]] | None = None,
) -> tuple[tuple[str, ...], TermWeights]:
    """Return the keywords of a question, split into words that occur in some chunks, and their weights."""
    tokenizer = VocabularyTokenizer(token for tokens in chunks for token in tokens)
    vocabulary_weights = TermWeights(tokenizer, weights.names)
    return build_text_query(question, vocabulary_weights, synonyms=synonyms).keywords, vocabulary_weights


def remove_question_words(text: str) -> str:
    """Remove question words and function words; text without any other words is returned unchanged.

    >>> remove_question_words("how does hybrid search work")
    ' hybrid search work'
    """
    shortened = text
    for pattern, replacement in _QUESTION_PATTERNS:
        shortened = pattern.sub(replacement, shortened)
    return shortened if shortened.strip() else text


def is_mostly_chinese(text: str) -> bool:
    """Return whether text has at most three words, or at least 70% of its words are not purely Latin."""
    words = re.split(r"[ \t]+", text)
    if len(words) <= _MAX_SHORT_WORDS:
        return True
    others = sum(re.fullmatch(r"[a-zA-Z]+", word) is None for word in words)
    return others / len(words) >= _MIN_OTHER_SHARE


def escape_query(text: str) -> str:
    r"""Escape text so that ``query_string`` reads it as words.

    >>> print(escape_query('a:b* OR "c"'))
    a\:b\* OR \"c\"
    """
    return _SPECIAL.sub(r"\\\1", _UNESCAPABLE.sub("", text))


def _build_latin_query(text: str, weights: TermWeights, synonyms: Mapping[str, Sequence[str]]) -> TextQuery:
    tokens = weights.tokenizer.tokenize(text)
    keywords = list(tokens)
    weighted = [(escape_query(token), token, weight) for token, weight in weights.weigh_terms(tokens)]
    weighted = [term for term in weighted if term[0] and not _SINGLE_CHARACTER.fullmatch(term[1])][:MAX_TOKENS]
    clauses: list[str] = []
    for escaped, token, weight in weighted:
        similar = [other for synonym in synonyms.get(token, ()) for other in weights.tokenizer.tokenize(synonym)]
        keywords += similar
        quoted = " ".join(f'"{escape_query(other)}"^{weight / 4:.4f}' for other in similar)
        clauses.append(f"({escaped}^{weight:.4f} {quoted})")
    for (left, _, weight), (right, _, next_weight) in pairwise(weighted):
        clauses.append(f'"{left} {right}"^{2 * max(weight, next_weight):.4f}')
    return TextQuery(" ".join(clauses), tuple(keywords))


def _build_short_query(
    text: str, weights: TermWeights, synonyms: Mapping[str, Sequence[str]], min_match: float
) -> TextQuery:
    keywords: list[str] = []
    clauses: list[str] = []
    max_keywords = MAX_TOKENS if weights.tokenizer.overlaps else MAX_KEYWORDS
    for term in weights.split(text)[:MAX_TOKENS]:
        keywords.append(term)
        similar = synonyms.get(term, ())
        if len(keywords) < max_keywords:
            keywords += similar
        weighted = weights.weigh_text(term)
        term_clauses = _build_clauses(weighted, weights, synonyms, keywords, max_keywords)
        if len(weighted) > 1 and not (weights.tokenizer.overlaps and any(map(is_chinese, term))):
            term_clauses.append(f'("{_phrase(weights, term)}"~2)^1.5')
        clause = " ".join(term_clauses)
        if clause and similar:
            others = " OR ".join(f'"{_phrase(weights, other)}"' for other in similar)
            clause = f"({clause})^5 OR ({others})^0.7"
        if clause:
            clauses.append(f"({clause})")
        if len(keywords) >= max_keywords:
            break
    return TextQuery(" OR ".join(clauses), tuple(keywords), min_match)


def _build_clauses(
    weighted: Sequence[tuple[str, float]],
    weights: TermWeights,
    synonyms: Mapping[str, Sequence[str]],
    keywords: list[str],
    max_keywords: int,
) -> list[str]:
    """Return a clause for each token of a term, the heaviest first, and append tokens and parts to ``keywords``."""
    clauses: list[str] = []
    for token, weight in sorted(weighted, key=lambda term: -term[1]):
        parts = [part for part in _parts(token, weights) if len(part) > 1]
        similar = synonyms.get(token, ())
        if len(keywords) < max_keywords:
            keywords += [token, *parts, *similar]
        escaped = escape_query(token)
        clause = f'"{escaped}"' if " " in escaped else escaped
        if not clause:
            continue
        if similar:
            clause = f"({clause} OR ({' '.join(_quoted(weights, other) for other in similar)})^0.2)"
        if parts:
            fine = escape_query(" ".join(parts))
            clause = f'{clause} OR "{fine}" OR ("{fine}"~2)^0.5'
        clauses.append(f"({clause})^{_format_weight(weight)}")
        if len(keywords) >= max_keywords:
            break
    return clauses


def _parts(token: str, weights: TermWeights) -> list[str]:
    if len(token) < 3 or _LATIN_TOKEN.fullmatch(token) or weights.tokenizer.overlaps:
        return []
    return weights.tokenizer.split_token(token)


def _phrase(weights: TermWeights, text: str) -> str:
    return escape_query(" ".join(weights.tokenizer.tokenize(text)))


def _quoted(weights: TermWeights, text: str) -> str:
    phrase = _phrase(weights, text)
    return f'"{phrase}"' if " " in phrase else phrase


def _format_weight(weight: float) -> str:
    """Format a weight without an exponent, which Lucene would read as another word and an operator."""
    text = repr(weight)
    return f"{weight:.20f}" if "e" in text else text
