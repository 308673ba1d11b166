"""Weights of the terms in a question, and the dictionaries of names and synonyms that change them.

Source: RAGFlow's ``rag/nlp/term_weight.py``. An operator may copy the dictionaries from its ``rag/res``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.elasticsearch.tokenizers import Tokenizer

_WORDS_OF_DICTIONARY = 10**7
_DOCUMENTS = 10**9
_MAX_CACHED = 200_000
_NUMBER_LIKE = re.compile(r"[0-9. -]{2,}")
_DIGITS = re.compile(r"[0-9,.]{2,}")
_SHORT_WORD = re.compile(r"[a-z]{1,2}")
_ALPHABETIC = re.compile(r"[a-z\u0370-\u03ff\u0400-\u04ff. -]+")
_SHORT_TERM = re.compile(r"[0-9a-z]{1,2}")
_ENDS_IN_LETTER = re.compile(r".*[a-zA-Z]")
_CLASS_FACTORS: Mapping[str, float] = {"r": 0.3, "c": 0.3, "d": 0.3, "ns": 3.0, "nt": 3.0, "n": 2.0}
_NAME_FACTORS: Mapping[str, float] = {"toxic": 2.0, "corp": 3.0, "loca": 3.0, "sch": 3.0, "stock": 3.0}
_STOP_WORDS = """
请问 您 你 我 他 是 的 就 有 于 及 即 在 为 最 从 以 了 将 与 吗 吧 中 什么 怎么 哪个 哪些 啥 相关
"""
_MAX_JOINED = 4
"""Maximum number of consecutive short terms that are joined into one."""

MAX_BYTES = 256 * 1024 * 1024


class Dictionaries(Struct, frozen=True):
    """``names`` maps words to classes such as ``corp``; ``synonyms`` maps words to words."""

    names: Mapping[str, str] = {}
    synonyms: Mapping[str, Sequence[str]] = {}


def read_dictionaries(folder: Path) -> Dictionaries:
    """Read ``ner.json`` and ``synonym.json`` from a folder; one of them may be missing.

    Raises:
        SettingsError: if both files are missing, or one is not valid.
    """
    names, synonyms = _read(folder / "ner.json"), _read(folder / "synonym.json")
    if names is None and synonyms is None:
        raise SettingsError(f"[knowledge] dictionaries: {folder} contains neither ner.json nor synonym.json.")
    lists = {word: [entry] if isinstance(entry, str) else entry for word, entry in (synonyms or {}).items()}
    return Dictionaries(
        {word: kind for word, kind in (names or {}).items() if isinstance(kind, str)},
        {
            word.lower(): [text for text in cast("list[Any]", entry) if isinstance(text, str)]
            for word, entry in lists.items()
            if isinstance(entry, list)
        },
    )


def _read(file: Path) -> dict[str, Any] | None:
    try:
        if not file.is_file():
            return None
        if file.stat().st_size > MAX_BYTES:
            raise SettingsError(f"[knowledge] dictionaries: {file} is larger than {MAX_BYTES:,} bytes.")
        content: Any = json.loads(file.read_bytes())
    except OSError as error:
        raise SettingsError(f"[knowledge] dictionaries: {file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise SettingsError(f"[knowledge] dictionaries: {file} is not JSON.") from None
    if not isinstance(content, dict):
        raise SettingsError(f"[knowledge] dictionaries: {file} is not a JSON object of words.")
    return cast("dict[str, Any]", content)


class TermWeights:
    """Term weights. ``names`` is an optional dictionary that maps names to classes (``corp``, ``loca`` …)."""

    def __init__(self, tokenizer: Tokenizer, names: Mapping[str, str] | None = None) -> None:
        self.tokenizer = tokenizer
        self.names = names or {}
        self._stop_words = frozenset(_STOP_WORDS.split())
        self._cache: dict[str, float] = {}

    def weigh_terms(self, terms: Sequence[str]) -> list[tuple[str, float]]:
        """Return terms with their weights, which add up to 1."""
        return _normalize((term, self._weight(term)) for term in terms)

    def weigh_text(self, text: str) -> list[tuple[str, float]]:
        """Split a text into terms and return them with weights that add up to 1.

        Stop words are removed and consecutive short terms are joined.
        """
        tokens = [token for token in self.tokenizer.tokenize(text) if token not in self._stop_words]
        return self.weigh_terms(_join_short_terms(tokens))

    def split(self, text: str) -> list[str]:
        """Split a text at spaces, except between two words that end in a Latin letter."""
        phrases: list[str] = []
        for word in text.split():
            ends = (phrases[-1], word) if phrases else ()
            is_phrase = ends and all(_ENDS_IN_LETTER.fullmatch(end) and self.names.get(end) != "func" for end in ends)
            if is_phrase:
                phrases[-1] += f" {word}"
            else:
                phrases.append(word)
        return phrases

    def _weight(self, term: str) -> float:
        weight = self._cache.get(term)
        if weight is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            class_factor = _CLASS_FACTORS.get(self.tokenizer.word_class(term), 1)
            weight = self._cache[term] = self._rarity(term) * self._name_factor(term) * class_factor
        return weight

    def _rarity(self, term: str) -> float:
        frequency, documents = self._counts(term)
        return 0.3 * _idf(frequency, _WORDS_OF_DICTIONARY) + 0.7 * _idf(documents, _DOCUMENTS)

    def _counts(self, term: str) -> tuple[float, float]:
        """Return a term's frequency in the dictionary's texts, and the number of documents in which it occurs."""
        if _NUMBER_LIKE.fullmatch(term):
            return 3, 5
        known = self.tokenizer.frequency(term)
        if not _ALPHABETIC.fullmatch(term):
            return max(known, 10), 3
        letters = sum(character.isalpha() for character in term)
        guess = max(10, round(300 / 2 ** min((letters - 3) / 2, 64)))
        return max(known or guess, 10), guess

    def _name_factor(self, term: str) -> float:
        if _DIGITS.fullmatch(term):
            return 2
        if _SHORT_WORD.fullmatch(term):
            return 0.01
        return _NAME_FACTORS.get(self.names.get(term, ""), 1)


def _idf(count: float, total: int) -> float:
    return math.log10(10 + (total - count + 0.5) / (count + 0.5))


def _normalize(weights: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    pairs = list(weights)
    total = sum(weight for _, weight in pairs)
    return [(term, weight / total) for term, weight in pairs]


def _join_short_terms(tokens: Sequence[str]) -> list[str]:
    """Join consecutive short terms: up to four into one term, longer sequences in pairs."""
    terms: list[str] = []
    start = 0
    if len(tokens) > 1 and _is_short(tokens[0]) and len(tokens[1]) > 1 and not re.match(r"[0-9a-zA-Z]", tokens[1]):
        terms, start = [f"{tokens[0]} {tokens[1]}"], 2
    while start < len(tokens):
        end = start
        while end < len(tokens) and _is_short(tokens[end]):
            end += 1
        count = end - start if 1 < end - start <= _MAX_JOINED else min(max(end - start, 1), 2)
        terms.append(" ".join(tokens[start : start + count]))
        start += count
    return terms


def _is_short(token: str) -> bool:
    return len(token) == 1 or _SHORT_TERM.fullmatch(token) is not None
