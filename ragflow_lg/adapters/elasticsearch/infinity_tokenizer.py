"""RAGFlow's own tokenizer, out of an installed ``infinity-sdk``.

Only its one module is loaded, from its file: what the package imports beside it (numpy < 2, pandas, pyarrow, thrift …)
is not needed, and need not be installed.
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

__all__ = ["InfinityTokenizer", "load_infinity_tokenizer"]

ADVICE = (
    'Install it with: pip install "ragflow-lg[ragflow-ranking]" && pip install --no-deps infinity-sdk==0.7.4 && '
    'python -m nltk.downloader punkt_tab wordnet omw-1.4. Or set [knowledge] tokenizer = "es-portable".'
)


class InfinityTokenizer:
    """A `Tokenizer` over a ``RagTokenizer``. Its calls go one after the other, since a stemmer holds its word."""

    name = "ragflow-ranking"
    overlaps = False

    def __init__(self, tokenizer: Any, simplified: Callable[[str], str]) -> None:
        self._tokenizer = tokenizer
        self._simplified = simplified
        self._lock = threading.Lock()

    def tokens(self, text: str) -> list[str]:
        """Give the words of RAGFlow's dictionary, and stemmed English."""
        with self._lock:
            return str(self._tokenizer.tokenize(text)).split()

    def parts(self, token: str) -> list[str]:
        """Give the finer words of a word."""
        with self._lock:
            return str(self._tokenizer.fine_grained_tokenize(token)).split()

    def frequency(self, token: str) -> int:
        """Give how often the dictionary counts a word."""
        return int(self._tokenizer.freq(token))

    def word_class(self, token: str) -> str:
        """Give the dictionary's class of a word."""
        return str(self._tokenizer.tag(token))

    def simplified(self, text: str) -> str:
        """Write traditional Chinese characters as simplified ones."""
        return self._simplified(to_half_width(text))


def load_infinity_tokenizer() -> InfinityTokenizer:
    """Load the tokenizer and its dictionary, about 55 MB.

    Raises:
        SettingsError: if it, or the data of NLTK that it needs, is not installed.
    """
    try:
        module = cast("Any", _module())
        made = InfinityTokenizer(module.RagTokenizer(), module.HanziConv.toSimplified)
        made.tokens("a probe of its data")
    except ImportError as error:
        raise SettingsError(f"[knowledge] tokenizer: {error.name or error} is not installed. {ADVICE}") from error
    except LookupError as error:
        missing = next((line.split()[1] for line in str(error).splitlines() if "Resource" in line), "its data")
        raise SettingsError(f"[knowledge] tokenizer: NLTK has no {missing}. {ADVICE}") from error
    return made


def _module() -> ModuleType:
    package = importlib.util.find_spec("infinity")
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    file = next((path for folder in folders if (path := Path(folder) / "rag_tokenizer.py").is_file()), None)
    spec = importlib.util.spec_from_file_location("_infinity_rag_tokenizer", file) if file is not None else None
    if not isinstance(spec, ModuleSpec) or spec.loader is None:
        raise ModuleNotFoundError("infinity-sdk is not installed", name="infinity-sdk")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
