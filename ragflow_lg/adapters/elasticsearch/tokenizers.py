"""How a question becomes the tokens that RAGFlow's index holds.

RAGFlow cuts texts with the tokenizer of ``infinity-sdk``. `PortableTokenizer` needs none of its data: English comes
out alike but for lemmas; of Chinese it gives everything that may be a word of the dictionary, to search by, and when
chunks were found, `VocabularyTokenizer` cuts the question into words that they have.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol, cast

__all__ = ["PORTABLE", "PortableTokenizer", "Tokenizer", "VocabularyTokenizer", "is_chinese", "to_half_width"]

PORTABLE = "es-portable"
"""The name of the approximation, as people are told it."""

LONGEST_WORD = 4
"""Characters of a Chinese word that is looked for."""

MAX_STEMMED_CHARS = 64
"""Longer runs of letters are no words; stemming them takes a time that grows with their square."""

_RUN = re.compile(r"[\u4e00-\u9fa5]+|[a-z0-9_]+|[^\W_\u4e00-\u9fa5a-z0-9]+")
_LETTERS = re.compile(r"[a-z_]+")
_lock = threading.Lock()


class Tokenizer(Protocol):
    """Cuts text as an index does, and knows how common words are."""

    @property
    def name(self) -> str:
        """What people are told."""
        ...

    @property
    def overlaps(self) -> bool:
        """Whether tokens of Chinese overlap, so that only some of them can be words: about one of six."""
        ...

    def tokens(self, text: str) -> list[str]:
        """Give the tokens of a text, as ``content_ltks`` has them."""
        ...

    def parts(self, token: str) -> list[str]:
        """Give the parts of a token, as ``content_sm_ltks`` has them; itself if it has none."""
        ...

    def frequency(self, token: str) -> int:
        """Give how often a word stands in ten million of the dictionary's, 0 for an unknown one."""
        ...

    def word_class(self, token: str) -> str:
        """Give the dictionary's class of a word (``n``, ``v``, ``ns`` …), ``""`` for an unknown one."""
        ...

    def simplified(self, text: str) -> str:
        """Write traditional Chinese characters as simplified ones."""
        ...


class PortableTokenizer:
    """`Tokenizer` without a dictionary."""

    name = PORTABLE
    overlaps = True

    def tokens(self, text: str) -> list[str]:
        """Give stemmed words, and of Chinese every two to four characters in a row."""
        return [token for run in _RUN.findall(to_half_width(text).lower()) for token in self._of_run(run)]

    def parts(self, token: str) -> list[str]:
        """Give the token itself."""
        return [token]

    def frequency(self, token: str) -> int:
        """Give 0: no word is known."""
        return 0

    def word_class(self, token: str) -> str:
        """Give ``""``."""
        return ""

    def simplified(self, text: str) -> str:
        """Give the text as it is."""
        return text

    def _of_run(self, run: str) -> Iterator[str]:
        if is_chinese(run[0]):
            yield from self._of_chinese(run)
        else:
            yield _of_word(run)

    def _of_chinese(self, run: str) -> Iterator[str]:
        if len(run) == 1:
            yield run
        for at in range(len(run) - 1):
            yield from (run[at:end] for end in range(at + 2, min(at + LONGEST_WORD, len(run)) + 1))


class VocabularyTokenizer(PortableTokenizer):
    """Cuts Chinese into the longest words of a vocabulary, from the left; what is none stays character by character."""

    overlaps = False

    def __init__(self, tokens: Iterable[str]) -> None:
        self._words = {token for token in tokens if len(token) > 1 and is_chinese(token[0])}
        self._longest = max(map(len, self._words), default=1)

    def _of_chinese(self, run: str) -> Iterator[str]:
        at = 0
        while at < len(run):
            ends = range(min(at + self._longest, len(run)), at + 1, -1)
            end = next((end for end in ends if run[at:end] in self._words), at + 1)
            yield run[at:end]
            at = end


def _of_word(run: str) -> str:
    if _LETTERS.fullmatch(run) and len(run) <= MAX_STEMMED_CHARS:
        return _stem(run)
    return run


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    with _lock:  # a stemmer holds the word it works on
        return _stemmer()(word)


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]

    stemmer = cast("Any", snowballstemmer).stemmer("english")
    return cast("Callable[[str], str]", stemmer.stemWord)


def is_chinese(character: str) -> bool:
    """Say whether a character is one of those that RAGFlow takes for Chinese."""
    return "\u4e00" <= character <= "\u9fa5"


def to_half_width(text: str) -> str:
    """Write full-width letters, digits and signs as ASCII.

    >>> to_half_width("ＲＡＧ　２０２４！")
    'RAG 2024!'
    """
    return text.translate(_HALF_WIDTH)


_HALF_WIDTH = {0x3000: " ", **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}
