"""Views of values for logs, traces and clients, without secrets and with a bounded size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.values import JsonValue, join_surrogates
from ragflow_lg.dsl.redaction import REDACTED, Redactor, find_field_name, hides_all, is_secret_name

MAX_CHARS = 20_000
"""Maximum total number of characters in a view's texts and keys."""

MAX_ENTRIES = 2_000
MAX_DEPTH = 12
MAX_NAME_CHARS = 1_000
MIN_MARGIN = 2_048
"""Characters read beyond the cut, so that a secret that spans it is recognised; more if secrets are longer."""

MAX_MARGIN = 16_384
_CUT = "…"
_END_OF_INTS = 2**63


class RedactedView(Struct):
    """Converts values to short JSON without secrets."""

    redactor: Redactor
    """Knows the secrets."""

    def text(self, text: str, limit: int = MAX_CHARS) -> str:
        """Return a text without secrets, truncated to ``limit`` characters."""
        if not text:
            return ""
        if len(text) <= limit:
            return self.redactor.text(join_surrogates(text))
        view = ""
        if limit > 0:
            margin = min(max(self.redactor.longest, MIN_MARGIN), MAX_MARGIN)
            # Two pieces, because replacing a secret must not reveal text beyond the cut.
            pieces = join_surrogates(text[:limit]), join_surrogates(text[limit : limit + margin])
            view = self.redactor.pieces(pieces)[0]
        return f"{view}{_CUT} ({len(text):,} characters)"

    def value(self, value: object, limit: int = MAX_CHARS) -> JsonValue:
        """Return any value as JSON, without secrets. Long, deep or wide parts are shortened."""
        return _Walk(self, limit).walk(value, 0, "", is_hidden=False)


class _Walk(Struct):
    """One traversal of a value, with a budget."""

    view: RedactedView
    chars: int
    entries: int = MAX_ENTRIES

    def walk(self, value: object, depth: int, name: str, *, is_hidden: bool) -> JsonValue:
        """Return the view of a value. ``name`` is the enclosing field's name; ``is_hidden`` redacts everything."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Mapping | list | tuple):
            container = cast("Mapping[Any, Any] | list[Any]", value)
            if depth >= MAX_DEPTH or self.chars <= 0 or self.entries <= 0:
                return f"{_CUT} ({len(container):,} entries)"
            if isinstance(container, Mapping):
                return self._map(container, depth, is_hidden=is_hidden or hides_all(name))
            return self._list(container, depth, name, is_hidden=is_hidden)
        if value != "" and (is_hidden or is_secret_name(name)):
            return REDACTED
        if isinstance(value, int):
            return value if -_END_OF_INTS <= value < _END_OF_INTS else f"a number of {value.bit_length()} bits"
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return self._text(value if isinstance(value, str) else str(value))

    def _text(self, text: str) -> str:
        view = self.view.text(text, max(self.chars, 0))
        self.chars -= len(view)
        return view

    def _map(self, entries: Mapping[Any, Any], depth: int, *, is_hidden: bool) -> dict[str, JsonValue]:
        view: dict[str, JsonValue] = {}
        for key, value in entries.items():
            if self._is_exhausted():
                view[_CUT] = f"{len(entries):,} entries"
                break
            name = str(key)[:MAX_NAME_CHARS]
            view[self._text(name)] = self.walk(value, depth + 1, find_field_name(entries, name), is_hidden=is_hidden)
        return view

    def _list(self, entries: list[Any], depth: int, name: str, *, is_hidden: bool) -> list[JsonValue]:
        view: list[JsonValue] = []
        for value in entries:
            if self._is_exhausted():
                view.append(f"{_CUT} ({len(entries):,} entries)")
                break
            view.append(self.walk(value, depth + 1, name, is_hidden=is_hidden))
        return view

    def _is_exhausted(self) -> bool:
        self.entries -= 1
        return self.entries < 0 or self.chars <= 0
