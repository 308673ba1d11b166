"""Values that people and machines beside the run may see: without secrets, and no longer than needed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel

from ragflow_lg.refs import Template
from ragflow_lg.values import JsonValue

__all__ = ["REDACTED", "Presenter", "is_secret_name", "secrets_in"]

REDACTED = "***"
MAX_CHARS = 20_000
"""Most characters that a presented value has in all its texts and keys together."""

MAX_ENTRIES = 2_000
MAX_DEPTH = 12
MIN_SECRET_CHARS = 6
"""Shorter texts are words of their own in too many places."""

MAX_SECRET_CHARS = 4_096
_CUT = "…"
_NAMES = re.compile(
    r"(?:^|[_\-. ])(?:api[_-]?key|apikey|secret|client[_-]?secret|passw(?:or)?d|passphrase|token|authorization|"
    r"(?:access|private|secret)[_-]?key|credentials?|cookie|set-cookie)$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHAPES = (
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"), REDACTED),
    (re.compile(r"\b(?:sk|pk|rk|tvly|ghp|gho|github_pat|xox[bp])[-_][\w-]{16,}"), REDACTED),
)
_END_OF_INTS = 2**63


def is_secret_name(name: str) -> bool:
    """Tell whether a setting or a key of a map names a secret.

    >>> [is_secret_name(n) for n in ("api_key", "accessToken", "Authorization", "max_tokens", "keywords", "monkey")]
    [True, True, True, False, False, False]
    """
    return _NAMES.search(_CAMEL.sub("_", name[-64:])) is not None


def secrets_in(value: object, depth: int = 0) -> Iterator[str]:
    """Give the texts that stand under names of secrets, in params, settings and headers."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, BaseModel):
        value = {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if isinstance(value, Mapping):
        for name, held in cast("Mapping[Any, Any]", value).items():
            text = _plain_text(held)
            if text and is_secret_name(str(name)):
                yield text
            else:
                yield from secrets_in(held, depth + 1)
    elif isinstance(value, list | tuple):
        for held in cast("list[Any]", value):
            yield from secrets_in(held, depth + 1)


def _plain_text(value: object) -> str:
    if isinstance(value, Template):
        return "".join(part for part in value.segments if isinstance(part, str))
    return value if isinstance(value, str) else ""


class Presenter:
    """Takes known secrets, and what looks like one, out of values. What it gives is JSON and small."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {part for secret in secrets for part in (secret, *_payload(secret))}
        wanted = sorted((s for s in known if MIN_SECRET_CHARS <= len(s) <= MAX_SECRET_CHARS), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, wanted))) if wanted else None
        self._longest = max(map(len, wanted), default=0)

    def text(self, text: str, limit: int = MAX_CHARS) -> str:
        """Give a text without secrets, its end cut off where it is long."""
        # A secret at the border is seen whole before the text is cut.
        shown = text[: limit + self._longest + 256]
        if not shown.isascii():
            shown = shown.encode("utf-8", "replace").decode()  # lone surrogates
        if self._known is not None:
            shown = self._known.sub(REDACTED, shown)
        for pattern, instead in _SHAPES:
            shown = pattern.sub(instead, shown)
        if len(text) <= limit:
            return shown
        return f"{shown[:limit]}{_CUT} ({len(text):,} characters)"

    def value(self, value: object, limit: int = MAX_CHARS) -> JsonValue:
        """Give any value as JSON, without secrets, shortened where it is long, deep or wide."""
        return _Walk(self, limit).walk(value, 0)


class _Walk:
    """One walk over one value, with a budget."""

    def __init__(self, presenter: Presenter, chars: int) -> None:
        self._presenter = presenter
        self._chars = chars
        self._entries = MAX_ENTRIES

    def walk(self, value: object, depth: int) -> JsonValue:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -_END_OF_INTS <= value < _END_OF_INTS else f"a number of {value.bit_length()} bits"
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping | list | tuple):
            held = cast("Mapping[Any, Any] | list[Any]", value)
            if depth >= MAX_DEPTH or self._chars <= 0 or self._entries <= 0:
                return f"{_CUT} ({len(held):,} entries)"
            return self._map(held, depth) if isinstance(held, Mapping) else self._list(held, depth)
        return self._text(str(value))

    def _text(self, text: str) -> str:
        shown = self._presenter.text(text, max(self._chars, 0))
        self._chars -= len(shown)
        return shown

    def _map(self, held: Mapping[Any, Any], depth: int) -> dict[str, JsonValue]:
        shown: dict[str, JsonValue] = {}
        for key, value in held.items():
            if self._is_used_up():
                shown[_CUT] = f"{len(held):,} entries"
                break
            name = self._text(str(key)[:1000])
            is_secret = isinstance(value, str) and value and is_secret_name(name)
            shown[name] = REDACTED if is_secret else self.walk(value, depth + 1)
        return shown

    def _list(self, held: list[Any], depth: int) -> list[JsonValue]:
        shown: list[JsonValue] = []
        for value in held:
            if self._is_used_up():
                shown.append(f"{_CUT} ({len(held):,} entries)")
                break
            shown.append(self.walk(value, depth + 1))
        return shown

    def _is_used_up(self) -> bool:
        self._entries -= 1
        return self._entries < 0 or self._chars <= 0


def _payload(secret: str) -> Iterator[str]:
    """Give what follows the scheme in a header, as ``Bearer …``."""
    scheme, _, rest = secret.partition(" ")
    if rest and scheme.isalpha():
        yield rest.strip()
