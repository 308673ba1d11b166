"""Requests as a recording stores them: plain JSON without secrets, which can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from msgspec import NODEFAULT, Struct, structs

from ragflow_lg.dsl.redaction import REDACTED, Redactor

MAX_DIFFERENCES = 3
MAX_SHOWN_CHARS = 60
MAX_LEAVES = 5_000

_OMITTED: Mapping[str, tuple[str, ...]] = {
    "a2a.ask": ("report",),
    "http.send": ("timeout_s", "max_response_bytes"),
    "servers.call": ("headers",),
}
"""Arguments that a replay does not compare, and that may differ from one to the next."""


def write_request(call: str, arguments: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return the arguments of a call. The redactor learns their secrets, except from what a model reads.

    An argument with fields, such as a `ChatRequest`, is replaced by those that do not have their defaults. Images and
    other bytes become hashes.
    """
    fields: dict[str, Any] = {}
    for name, value in arguments.items():
        fields |= _plain(value) if isinstance(value, Struct) and name != "target" else {name: _plain(value)}
    if not call.startswith("models."):
        redactor.learn_from(fields)
    cleaned: Any = redactor.value({name: value for name, value in fields.items() if name not in _OMITTED.get(call, ())})
    return cleaned


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        own = ((field.name, getattr(value, field.name), field) for field in structs.fields(value))
        value = {name: entry for name, entry, field in own if entry not in (field.default, _factory(field)())}
    elif isinstance(value, tuple) and hasattr(cast("object", value), "_asdict"):
        value = cast("Any", value)._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in cast("Sequence[Any]", value)]
    if isinstance(value, bytes) or (isinstance(value, str) and value.startswith("data:")):
        return _shorten(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _factory(field: structs.FieldInfo) -> Callable[[], Any]:
    return object if field.default_factory is NODEFAULT else field.default_factory


def _shorten(data: str | bytes) -> str:
    head = data.partition(",")[0][:60] if isinstance(data, str) else "bytes"
    return f"{head}, {len(data)} characters, {digest(data if isinstance(data, str) else data.hex())}"


def digest(value: Any) -> str:
    """Return the hash of a JSON value, as 32 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def describe_request(call: str, request: Mapping[str, Any]) -> str:
    """Return a call with its first texts, for error messages.

    >>> describe_request("http.send", {"method": "GET", "url": "http://x", "headers": {}})
    "http.send 'GET' 'http://x'"
    """
    texts = [value for value in request.values() if isinstance(value, str) and value][:2]
    return " ".join([call, *(_excerpt(text, 0) for text in texts)])


def is_same(recorded: Any, actual: Any) -> bool:
    """Return whether two requests are equal except for secrets. A removed secret matches any text."""
    if isinstance(recorded, str) and isinstance(actual, str):
        return recorded == actual or _matches(recorded, actual) or _matches(actual, recorded)
    if isinstance(recorded, dict) and isinstance(actual, dict):
        fields, others = cast("dict[str, Any]", recorded), cast("dict[str, Any]", actual)
        return fields.keys() == others.keys() and all(is_same(fields[key], others[key]) for key in fields)
    if isinstance(recorded, list) and isinstance(actual, list):
        entries, other_entries = cast("list[Any]", recorded), cast("list[Any]", actual)
        return len(entries) == len(other_entries) and all(map(is_same, entries, other_entries))
    return repr(cast("object", recorded)) == repr(cast("object", actual)) or REDACTED in (recorded, actual)


def _matches(pattern: str, text: str) -> bool:
    """Return whether text matches a pattern in which each redaction mark stands for any text."""
    first, *rest = pattern.split(REDACTED)
    if not rest or not text.startswith(first):
        return False
    end = len(first)
    for part in rest[:-1]:
        start = text.find(part, end)
        if start < 0:
            return False
        end = start + len(part)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) >= end


def differences(recorded: Mapping[str, Any], actual: Mapping[str, Any]) -> tuple[int, str]:
    """Return the number of values that differ between two requests, and a description of the first ones."""
    before, now = (dict(islice(_walk(request, ""), MAX_LEAVES)) for request in (recorded, actual))
    paths = [path for path in {**before, **now} if repr(before.get(path, _ABSENT)) != repr(now.get(path, _ABSENT))]
    descriptions = [
        _describe(path, before.get(path, _ABSENT), now.get(path, _ABSENT)) for path in paths[:MAX_DIFFERENCES]
    ]
    more = len(paths) - len(descriptions)
    return len(paths), "; ".join(descriptions) + (f"; and {more} more" if more > 0 else "")


_ABSENT = object()


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the individual values in a request with their paths."""
    if isinstance(value, Mapping) and value:
        for key, entry in cast("Mapping[str, Any]", value).items():
            yield from _walk(entry, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, entry in enumerate(cast("Sequence[Any]", value)):
            yield from _walk(entry, f"{path}[{index}]")
    else:
        yield path, value


def _describe(path: str, before: Any, now: Any) -> str:
    if before is _ABSENT:
        return f"{path} is {_excerpt(now, 0)} and was not recorded"
    if now is _ABSENT:
        return f"{path} was {_excerpt(before, 0)} and is missing"
    start = 0
    if isinstance(before, str) and isinstance(now, str):
        while start < min(len(before), len(now)) and before[start] == now[start]:
            start += 1
    return f"{path} was {_excerpt(before, start)} and is {_excerpt(now, start)}"


def _excerpt(value: Any, around: int) -> str:
    """Return a value in quotes; if it is long, only the part around an offset."""
    text = value if isinstance(value, str) else json.dumps(value)
    begin = max(0, around - MAX_SHOWN_CHARS // 3) if len(text) > MAX_SHOWN_CHARS else 0
    end = begin + MAX_SHOWN_CHARS
    return repr(("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else ""))
