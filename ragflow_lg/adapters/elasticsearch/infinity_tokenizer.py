"""RAGFlow's own tokenizer, from an installed ``infinity-sdk``.

Only the tokenizer module is loaded, directly from its file. The package's other dependencies (numpy < 2, pandas,
pyarrow, thrift …) do not need to be installed.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ragflow_lg.adapters.elasticsearch.tokenizers import to_half_width
from ragflow_lg.base.errors import SettingsError

ADVICE = (
    'Install it with: pip install "ragflow-lg[ragflow-ranking]" && pip install --no-deps infinity-sdk==0.7.4 && '
    'python -m nltk.downloader punkt_tab wordnet omw-1.4. Or set [knowledge] tokenizer = "es-portable".'
)


class InfinityTokenizer:
    """A `Tokenizer` over a ``RagTokenizer``. Calls are serialized, because its stemmer is not thread-safe."""

    name = "ragflow-ranking"
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
