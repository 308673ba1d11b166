"""Tokenizers that produce the tokens of RAGFlow's index.

RAGFlow uses the tokenizer of ``infinity-sdk``. `Tokenizer` needs none of its data. Its English tokens are the
same except for lemmas. For Chinese it returns every character sequence that may be a word of the dictionary. These
tokens are used for the search; once chunks are found, `VocabularyTokenizer` splits the question into words from the
chunks.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ragflow_lg.base.errors import SettingsError

ADVICE = (
    'Install it with: pip install "ragflow-lg[ragflow-ranking]" && pip install --no-deps infinity-sdk==0.7.4 && '
    'python -m nltk.downloader punkt_tab wordnet omw-1.4. Or set [knowledge] tokenizer = "es-portable".'
)

LONGEST_WORD = 4
"""Maximum number of characters of a Chinese word."""

MAX_STEMMED_CHARS = 64
"""Longer sequences of letters are not stemmed, because stemming takes quadratic time."""

_RUN = re.compile(r"[\u4e00-\u9fa5]+|[a-z0-9_]+|[^\W_\u4e00-\u9fa5a-z0-9]+")
_LETTERS = re.compile(r"[a-z_]+")
_lock = threading.Lock()


class Tokenizer:
    """Splits text as the index does, and knows word frequencies. This one has no dictionary."""

    overlaps = True
    """Whether Chinese tokens overlap, so that only about one in six can be a word."""

    def tokenize(self, text: str) -> list[str]:
        """Return a text's tokens, as in the field ``content_ltks``."""
        return [token for run in _RUN.findall(to_half_width(text).lower()) for token in self._tokenize_run(run)]

    def split_token(self, token: str) -> list[str]:
        """Return the parts of a token, as in the field ``content_sm_ltks``; the token itself if it has no parts."""
        return [token]

    def frequency(self, token: str) -> int:
        """Return the frequency of a word in ten million dictionary words; 0 for an unknown word."""
        return 0

    def word_class(self, token: str) -> str:
        """Return the dictionary's class of a word (``n``, ``v``, ``ns`` …); ``""`` for an unknown word."""
        return ""

    def to_simplified(self, text: str) -> str:
        """Convert traditional Chinese characters to simplified ones, if they are known."""
        return text

    def _tokenize_run(self, run: str) -> Iterator[str]:
        if is_chinese(run[0]):
            yield from self._tokenize_chinese(run)
        else:
            yield _normalize_word(run)

    def _tokenize_chinese(self, run: str) -> Iterator[str]:
        if len(run) == 1:
            yield run
        for start in range(len(run) - 1):
            yield from (run[start:end] for end in range(start + 2, min(start + LONGEST_WORD, len(run)) + 1))


class VocabularyTokenizer(Tokenizer):
    """Splits Chinese from the left into the longest words in a vocabulary; other characters become single tokens."""

    overlaps = False

    def __init__(self, tokens: Iterable[str]) -> None:
        self._words = {token for token in tokens if len(token) > 1 and is_chinese(token[0])}
        self._longest = max(map(len, self._words), default=1)

    def _tokenize_chinese(self, run: str) -> Iterator[str]:
        start = 0
        while start < len(run):
            ends = range(min(start + self._longest, len(run)), start + 1, -1)
            end = next((end for end in ends if run[start:end] in self._words), start + 1)
            yield run[start:end]
            start = end


def _normalize_word(run: str) -> str:
    if _LETTERS.fullmatch(run) and len(run) <= MAX_STEMMED_CHARS:
        return _stem(run)
    return run


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    with _lock:  # stemmers are not thread-safe
        return _stemmer()(word)


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer

    stemmer = cast("Any", snowballstemmer).stemmer("english")
    return cast("Callable[[str], str]", stemmer.stemWord)


def is_chinese(character: str) -> bool:
    """Return whether RAGFlow classifies a character as Chinese."""
    return "\u4e00" <= character <= "\u9fa5"


def to_half_width(text: str) -> str:
    """Convert full-width letters, digits and symbols to ASCII.

    >>> to_half_width("ＲＡＧ　２０２４！")
    'RAG 2024!'
    """
    return text.translate(_HALF_WIDTH)


_HALF_WIDTH = {0x3000: " ", **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}


class InfinityTokenizer(Tokenizer):
    """A `Tokenizer` over a ``RagTokenizer``. Calls are serialized, because its stemmer is not thread-safe."""

    overlaps = False

    def __init__(self, tokenizer: Any, to_simplified: Callable[[str], str]) -> None:
        self._tokenizer = tokenizer
        self._to_simplified = to_simplified
        self._lock = threading.Lock()

    def tokenize(self, text: str) -> list[str]:
        """Return words from RAGFlow's dictionary, and stemmed English words."""
        with self._lock:
            return str(self._tokenizer.tokenize(text)).split()

    def split_token(self, token: str) -> list[str]:
        """Return the smaller words within a word."""
        with self._lock:
            return str(self._tokenizer.fine_grained_tokenize(token)).split()

    def frequency(self, token: str) -> int:
        """Return the frequency of a word in the dictionary."""
        return int(self._tokenizer.freq(token))

    def word_class(self, token: str) -> str:
        """Return the dictionary's class of a word."""
        return str(self._tokenizer.tag(token))

    def to_simplified(self, text: str) -> str:
        """Convert traditional Chinese characters to simplified ones."""
        return self._to_simplified(to_half_width(text))


def load_infinity_tokenizer() -> InfinityTokenizer:
    """Load the tokenizer and its dictionary, about 55 MB.

    Raises:
        SettingsError: if the tokenizer or the NLTK data that it needs is not installed.
    """
    try:
        module = cast("Any", _load_module())
        tokenizer = InfinityTokenizer(module.RagTokenizer(), module.HanziConv.toSimplified)
        tokenizer.tokenize("a probe of its data")
    except ImportError as error:
        raise SettingsError(f"[knowledge] tokenizer: {error.name or error} is not installed. {ADVICE}") from error
    except LookupError as error:
        missing = next((line.split()[1] for line in str(error).splitlines() if "Resource" in line), "its data")
        raise SettingsError(f"[knowledge] tokenizer: NLTK has no {missing}. {ADVICE}") from error
    return tokenizer


def _load_module() -> ModuleType:
    package = importlib.util.find_spec("infinity")
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    file = next((path for folder in folders if (path := Path(folder) / "rag_tokenizer.py").is_file()), None)
    spec = importlib.util.spec_from_file_location("_infinity_rag_tokenizer", file) if file is not None else None
    if not isinstance(spec, ModuleSpec) or spec.loader is None:
        raise ModuleNotFoundError("infinity-sdk is not installed", name="infinity-sdk")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
