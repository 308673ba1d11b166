"""Redaction of secrets in everything that is written or shown: recordings, logs and records.

Secrets are known values (keys from the settings, secrets from a canvas), values of fields, headers and query parameters
whose names indicate a secret, passwords in URLs, and text in the format of a key. Because a text may have been cut off,
a truncated secret at its end is also redacted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, cast
from urllib.parse import quote, quote_plus, unquote_plus

from pydantic import BaseModel

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.variable_references import Template

REDACTED = "***"

MAX_NAME_CHARS = 80
MIN_SECRET_CHARS = 6
"""Shorter values are redacted only in fields with secret names; elsewhere this would garble texts."""

MIN_WORD_CHARS = 8
"""The same limit for values that contain only letters: ``{"token": "string"}`` is often a type."""

MAX_DEPTH = 100
"""Maximum depth of the search for secrets."""

MAX_FORMS = 4000
"""Maximum number of spellings of known secrets."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = (
    "accesscode accesskey accesstoken apikey apitoken authcode authorization authtoken bearer connectionstring connstr "
    "connstring cookie cookies credential credentials dsn kennwort otpcode passcode passphrase passwd password "
    "passwords passwort pincode privatekey pwd secret secretkey secrets"
)
_ALWAYS = frozenset(_SECRET_WORDS.split())
"""Words that make a name secret wherever they appear in it."""
_AT_END = frozenset(
    ["auth", "jwt", "key", "otp", "pass", "pat", "pin", "sas", "sessionid", "sig", "signature", "token", "totp"]
)
"""Words that make a name secret if it ends with them: ``api_key``, but not ``key_count``; ``access_token``, but not
``max_tokens``."""
_VALUE_WORDS = frozenset(["text", "value"])
"""Words that say nothing about a name: ``token_value`` is a token."""
_LABELS = ("key", "name", "header", "field")
"""Fields that name the value beside them, as in ``{"key": "password", "value": "…"}``."""
VALUE_FIELDS = frozenset(["default", "text", "val", "value"])
"""Fields with the value that another field names."""
_HARMLESS_ENDS = frozenset(
    ["count", "env", "expires", "expiry", "field", "header", "hint", "length", "name", "required", "type"]
)

_JSON_PAIR = re.compile(
    r'"(?P<name>[^"\\]{1,80})"\s{0,20}:\s{0,20}(?:"(?P<text>(?:[^"\\]|\\.)*+)(?:"|\\?\Z)|(?P<number>-?\d[\d.eE+-]*))',
    re.DOTALL,
)
_NESTED_PAIR = re.compile(r'\\"(?P<name>[^"\\]{1,80})\\"\s{0,20}:\s{0,20}\\"(?P<text>[^"\\]*)(?:\\"|\\?\Z)')
_LABEL = r'"(?:key|name|header|field)"\s{0,20}:\s{0,20}"(?P<name>[^"\\]{1,80})"'
_LABELLED = r'"value"\s{0,20}:\s{0,20}"(?P<text>(?:[^"\\]|\\.)*+)(?:"|\\?\Z)'
_NESTED_LABEL = r'\\"(?:key|name|header|field)\\"\s{0,20}:\s{0,20}\\"(?P<name>[^"\\]{1,80})\\"'
_NESTED_LABELLED = r'\\"value\\"\s{0,20}:\s{0,20}\\"(?P<text>[^"\\]*)(?:\\"|\\?\Z)'
_LABELLED_VALUES = tuple(
    re.compile(f"{first}[^{{}}]{{0,200}}?{second}", re.DOTALL)
    for label, value in ((_LABEL, _LABELLED), (_NESTED_LABEL, _NESTED_LABELLED))
    for first, second in ((label, value), (value, label))
)
"""Objects in a text that name a value, in both orders."""
_NAME = re.compile(r"[\w.%-]{1,80}")
_VALUE_AFTER = re.compile(r"[^&#;\s\"'<>\\]+")
_URL_PASSWORD = re.compile(r"://[^/\s:@\"'<>]{0,200}:(?P<text>[^/\s@\"'<>]{1,500})@")
_AFTER_SCHEME = r"\s{1,5}(?P<text>(?=[A-Za-z.-]*(?:[0-9_~+/=]|\.\w|[a-z][A-Z]))[A-Za-z0-9._~+/=-]{8,})"
"""The credentials after a scheme name, excluding ordinary words as in ``Basic knowledge``."""
_KEY_FORMS = tuple(
    (mark, re.compile(pattern))
    for mark, pattern in (
        ("earer", r"\b[Bb]earer\s(?P<text>[A-Za-z0-9._~+/=-]{16,})"),
        ("earer", r"\b[Bb]earer" + _AFTER_SCHEME),
        ("EARER", r"\bBEARER" + _AFTER_SCHEME),
        ("asic", r"\b[Bb]asic" + _AFTER_SCHEME),
        ("BASIC", r"\bBASIC" + _AFTER_SCHEME),
        ("k-", r"\b[sprt]k-[A-Za-z0-9_-]{16,}"),
        ("k_", r"\b[sprt]k_(?=[A-Za-z_-]*\d)[\w-]{16,}"),
        ("gh", r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
        ("github_pat_", r"\bgithub_pat_\w{20,}"),
        ("glpat-", r"\bglpat-[\w-]{16,}"),
        ("xox", r"\bxox[a-z]-[A-Za-z0-9-]{10,}"),
        ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
        ("AIza", r"\bAIza[\w-]{30,}"),
        ("tvly", r"\btvly[-_][\w-]{10,}"),
        ("hf_", r"\bhf_[A-Za-z0-9]{20,}"),
        ("eyJ", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
        ("PRIVATE KEY-----", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{1,20000}(?:-----END|-{0,4}\Z)"),
    )
)
"""Key formats, each with a text that every match contains."""

Span: TypeAlias = tuple[int, int, str]
"""Start, end, and replacement."""


@lru_cache(maxsize=4096)
def _is_always_secret(name: str) -> bool:
    words = _find_words(name)
    if not words or words[-1] in _HARMLESS_ENDS:
        return False
    pairs = {first + second for first, second in pairwise(words)}
    return not _ALWAYS.isdisjoint(words) or not _ALWAYS.isdisjoint(pairs)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a field, header or parameter with this name is secret.

    >>> [is_secret_name(n) for n in ("api_key", "apiKey", "X-Auth-Token", "password", "key", "Set-Cookie")]
    [True, True, True, True, True, True]
    >>> [is_secret_name(n) for n in ("max_tokens", "keyword", "key_count", "monkey", "secret_name")]
    [False, False, False, False, False]
    >>> [is_secret_name(n) for n in ("token_value", "dsn", "connectionString", "pin", "spin", "key_value")]
    [True, True, True, True, False, False]
    >>> [is_secret_name(n) for n in ("token2", "API_KEY_1", "pat", "auth_code", "passwort", "pattern")]
    [True, True, True, True, True, False]
    """
    words = _find_words(name)
    return bool(words) and (words[-1] in _AT_END or _is_always_secret(name))


def _find_words(name: str) -> list[str]:
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and words[-1].isdigit():
        words.pop()  # ``token2`` is a token
    if len(words) > 1 and words[-1] in _VALUE_WORDS and words[:-1] != ["key"]:
        words.pop()
    return words


def find_field_name(entries: Mapping[Any, Any], name: str) -> str:
    """Return the name that says whether a field is secret: that of a value is the one beside it, if it is secret.

    >>> find_field_name({"key": "password", "value": "x"}, "value"), find_field_name({"value": "x"}, "value")
    ('password', 'value')
    """
    if name in _LABELS and "value" in entries:
        return ""  # a label is shown
    if name not in VALUE_FIELDS:
        return name
    labels = (_literal_text(entries.get(label)) for label in _LABELS)
    return next((label for label in labels if is_secret_name(label)), name)


class SecretMark:
    """Marks a parameter as secret, whatever its name: ``Annotated[str, SECRET]``."""


SECRET = SecretMark()


def hides_all(name: str) -> bool:
    """Return whether everything in an object with this name is secret, as in ``credentials`` but not ``key``."""
    return _is_always_secret(name)


def _is_learnable(name: str) -> bool:
    """Return whether a value with this name is secret everywhere. A plain ``key`` is often a table key."""
    return _is_always_secret(name) or (is_secret_name(name) and name.lower() not in ("key", "auth", "pass", "sig"))


class Redactor:
    """Removes secrets from texts and values: known secrets, and those learned from request fields."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: dict[str, None] = {}
        self._longest = 0
        for secret in secrets:
            self.learn(secret)

    @property
    def longest(self) -> int:
        """The length of the longest spelling of a known secret, in characters."""
        return self._longest

    def learn(self, secret: str) -> None:
        """Redact a value in every text from now on, including its spellings in JSON and in URLs.

        Values that are too short and canvas templates are ignored.
        """
        secret = secret.strip()
        scheme, _, rest = secret.partition(" ")
        rest = rest.strip()
        if rest and (scheme.lower() in ("bearer", "basic", "token") or (scheme.isalpha() and " " not in rest)):
            self.learn(rest)
        if (
            len(self._forms) >= MAX_FORMS
            or len(secret) < MIN_SECRET_CHARS
            or ("{" in secret and "}" in secret)
            or REDACTED in secret
        ):
            return
        forms = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        with suppress(UnicodeEncodeError):  # half of a surrogate pair
            forms += (quote(secret, safe=""), quote(secret), quote_plus(secret))
        self._forms.update(dict.fromkeys(forms))
        self._longest = max(self._longest, *map(len, forms))

    def learn_all(self, other: Redactor) -> None:
        """Redact everything that another redactor knows."""
        for form in other._forms if len(self._forms) < MAX_FORMS else ():
            self._forms[form] = None
        self._longest = max(self._longest, other._longest)

    def learn_from(self, value: object, depth: int = 0) -> None:
        """Learn the values of all fields and query parameters with secret names, and passwords in URLs.

        ``value`` is JSON or component params.
        """
        if depth > MAX_DEPTH:
            return
        if isinstance(value, BaseModel):
            for name, field in type(value).model_fields.items():
                if SECRET in field.metadata and (text := _literal_text(getattr(value, name))):
                    self._learn_long_value(text)
            value = {**value.__dict__, **(value.__pydantic_extra__ or {})}
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value)
            for name, entry in entries.items():
                text = _literal_text(entry)
                if text and _is_learnable(find_field_name(entries, str(name))):
                    self._learn_long_value(text)
                self.learn_from(entry, depth + 1)
        elif isinstance(value, list | tuple):
            for entry in cast("Sequence[Any]", value):
                self.learn_from(entry, depth + 1)
        else:
            self._learn_from_text(_literal_text(value))

    def _learn_long_value(self, text: str) -> None:
        if len(text) >= MIN_WORD_CHARS or not text.isalpha():
            self.learn(text)

    def _learn_from_text(self, text: str) -> None:
        if "://" in text:
            for match in _URL_PASSWORD.finditer(text):
                self._learn_long_value(match["text"])
        for start, end, _ in _find_assigned_secrets(text):
            self._learn_long_value(unquote_plus(text[start:end]))
        if '"' in text:
            for match in _JSON_PAIR.finditer(text):
                if match["text"] and _is_learnable(match["name"]):
                    self._learn_long_value(match["text"])
            for match in _find_labelled(text):
                if _is_learnable(match["name"]):
                    self._learn_long_value(match["text"])

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        spans = self._spans(text)
        return text if not spans else "".join(_remove_spans(text, 0, spans))

    def known(self, text: str) -> str:
        """Return data without the known secrets. Other tokens in it, such as that of a next page, may be needed."""
        for form in sorted(self._forms, key=len, reverse=True):
            text = text.replace(form, REDACTED)
        return text

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces of a text without secrets, including secrets that span several pieces."""
        whole = "".join(pieces)
        spans = self._spans(whole)
        if not spans:
            return list(pieces)
        cleaned: list[str] = []
        start = 0
        for piece in pieces:
            cleaned.append("".join(_remove_spans(piece, start, spans)))
            start += len(piece)
        return cleaned

    def value(self, value: JsonValue, name: str = "", *, is_inside: bool = False) -> JsonValue:
        """Return a JSON value without secrets; ``name`` is the field that contains it."""
        if isinstance(value, Mapping):
            inside = is_inside or hides_all(name)
            entries = cast("Mapping[str, Any]", value)
            return {
                self.text(str(key)): self.value(v, find_field_name(entries, str(key)), is_inside=inside)
                for key, v in entries.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(entry, name, is_inside=is_inside) for entry in cast("Sequence[Any]", value)]
        if value in (None, "") or isinstance(value, bool):
            return value
        if is_inside or is_secret_name(name):
            return REDACTED
        return self.text(value) if isinstance(value, str) else value

    def _spans(self, text: str) -> list[Span]:
        """Return the spans of all secrets, in order, disjoint and not adjacent."""
        spans = [(at, at + len(form), REDACTED) for form in self._forms for at in _find_all(text, form)]
        if '"' in text:
            spans += _find_json_secrets(text, _JSON_PAIR)
            spans += _find_json_secrets(text, _NESTED_PAIR) if '\\"' in text else ()
            spans += [
                (*match.span("text"), REDACTED) for match in _find_labelled(text) if is_secret_name(match["name"])
            ]
        spans += _find_assigned_secrets(text)
        if "://" in text:
            spans += [(*match.span("text"), REDACTED) for match in _URL_PASSWORD.finditer(text)]
        for mark, pattern in _KEY_FORMS:
            if mark in text:
                group = "text" if "text" in pattern.groupindex else 0
                spans += [(*match.span(group), REDACTED) for match in pattern.finditer(text)]
        spans.sort()
        merged: list[Span] = []
        for start, end, mark in spans:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            elif end > start:
                merged.append((start, end, mark))
        return merged


def _literal_text(value: object) -> str:
    """Return a template's literal text without references, a text unchanged, and ``""`` for other values."""
    if isinstance(value, Template):
        return "".join(part for part in value.segments if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _find_all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def _find_json_secrets(text: str, pair: re.Pattern[str]) -> Iterator[Span]:
    """Yield the values of JSON fields with secret names."""
    for match in pair.finditer(text):
        if is_secret_name(match["name"]):
            is_text = match["text"] is not None
            yield (*match.span("text" if is_text else "number"), REDACTED if is_text else f'"{REDACTED}"')


def _find_labelled(text: str) -> Iterator[re.Match[str]]:
    """Yield the objects in a text that name a value."""
    if '"value' in text:
        for pattern in _LABELLED_VALUES:
            yield from pattern.finditer(text)


def _find_assigned_secrets(text: str) -> Iterator[Span]:
    """Yield the values after ``name=``. In a query string every secret name counts, elsewhere only unambiguous ones."""
    at = text.find("=")
    while at >= 0:
        before = text[max(0, at - MAX_NAME_CHARS - 1) : at][::-1]
        end = at + 1
        if (name := _NAME.match(before)) is not None:
            mark = before[name.end() : name.end() + 1]
            is_secret = is_secret_name if mark and mark in "?&;" else _is_always_secret
            value = _VALUE_AFTER.match(text, end) if is_secret(name[0][::-1]) else None
            if value is not None:
                yield (*value.span(), REDACTED)
                end = value.end()
        at = text.find("=", end)


def _remove_spans(piece: str, start: int, spans: Sequence[Span]) -> Iterator[str]:
    """Yield a piece of the whole text without the spans, with the mark at the start of each span.

    The piece begins at position ``start`` in the whole text.
    """
    at = 0
    for first, last, mark in spans:
        begin, end = first - start, last - start
        if end <= 0 or begin >= len(piece):
            continue
        yield piece[at : max(begin, 0)]
        if begin >= 0:
            yield mark
        at = min(end, len(piece))
    yield piece[at:]
