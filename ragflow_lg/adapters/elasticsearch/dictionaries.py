"""RAGFlow's dictionaries of names and synonyms, which an operator may copy from its ``rag/res``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError

MAX_BYTES = 256 * 1024 * 1024


class Dictionaries(Struct, frozen=True):
    """``names`` maps words to classes such as ``corp``; ``synonyms`` maps words to words."""

    names: Mapping[str, str] = {}
    synonyms: Mapping[str, Sequence[str]] = {}


NO_DICTIONARIES = Dictionaries()


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
