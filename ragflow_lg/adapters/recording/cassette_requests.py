"""Requests as a recording has them: plain JSON without secrets, to be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from ragflow_lg.dsl.redaction import REDACTED, Redactor
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.services.http import HttpRequest
from ragflow_lg.services.knowledge import Dataset, DatasetSearch

__all__ = [
    "call_request",
    "chat_request",
    "datasets_request",
    "differences",
    "digest",
    "http_request",
    "is_same",
    "metadata_request",
    "search_request",
]

MAX_DIFFERENCES = 3
MAX_SHOWN_CHARS = 60
MAX_PLACES = 5_000


def chat_request(llm_id: str, request: ChatRequest, redactor: Redactor) -> dict[str, Any]:
    """Write a call of a model down. Images are told by their hash; what is empty is left out."""
    value = {
        "model": llm_id,
        "system": request.system,
        "messages": [dict(message) for message in request.messages],
        "sampling": dict(request.sampling),
        "thinking": request.thinking,
        "images": [_image(image) for image in request.images],
        "template_kwargs": dict(request.template_kwargs),
        "tools": [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in request.tools],
        "schema": request.schema,
        "stop": list(request.stop),
    }
    return _clean(value, redactor)


def http_request(request: HttpRequest, redactor: Redactor) -> dict[str, Any]:
    """Write an HTTP request down; its secrets are known to the redactor from then on."""
    value = {
        "method": request.method,
        "url": request.url,
        "headers": {name.lower(): text for name, text in request.headers.items()},
        "query": dict(request.query),
        "json": request.json,
        "form": dict(request.form) if request.form is not None else None,
        "proxy": request.proxy,
    }
    redactor.learn_from(value)
    return _clean(value, redactor)


def call_request(server: str, tool: str, arguments: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Write a call of a tool of a server down; its secrets are known to the redactor from then on."""
    value = {"server": server, "tool": tool, "arguments": dict(arguments)}
    redactor.learn_from(value)
    return _clean(value, redactor)


def datasets_request(names_or_ids: Sequence[str], redactor: Redactor) -> dict[str, Any]:
    """Write down which datasets were looked for."""
    return _clean({"names": list(names_or_ids)}, redactor)


def search_request(search: DatasetSearch, redactor: Redactor) -> dict[str, Any]:
    """Write a search of datasets down. No documents at all are an empty list; without the field all are searched."""
    value = {name: getattr(search, name) for name in search.__struct_fields__ if name != "document_ids"}
    written = _clean({**value, "datasets": _written(search.datasets)}, redactor)
    if search.document_ids is not None:
        written["document_ids"] = [redactor.text(id_) for id_ in search.document_ids]
    return written


def metadata_request(datasets: Sequence[Dataset], redactor: Redactor) -> dict[str, Any]:
    """Write down whose metadata was asked for."""
    return _clean({"datasets": _written(datasets)}, redactor)


def _written(datasets: Sequence[Dataset]) -> list[dict[str, str]]:
    return [dataset._asdict() for dataset in datasets]


def _clean(value: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    given = {name: entry for name, entry in value.items() if entry not in (None, "", [], {})}
    return json.loads(json.dumps(redactor.value(given), default=str))


def _image(image: str) -> str:
    head = image.partition(",")[0][:60] if image.startswith("data:") else "image"
    return f"{head}, {len(image)} characters, {digest(image)}"


def digest(value: Any) -> str:
    """Give 32 hexadecimal digits for a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def is_same(recorded: Any, asked: Any) -> bool:
    """Tell whether two requests are the same but for secrets: where one has taken a text out, it fits any text."""
    if isinstance(recorded, str) and isinstance(asked, str):
        return recorded == asked or _fits(recorded, asked) or _fits(asked, recorded)
    if isinstance(recorded, dict) and isinstance(asked, dict):
        held, other = cast("dict[str, Any]", recorded), cast("dict[str, Any]", asked)
        return held.keys() == other.keys() and all(is_same(held[key], other[key]) for key in held)
    if isinstance(recorded, list) and isinstance(asked, list):
        entries, others = cast("list[Any]", recorded), cast("list[Any]", asked)
        return len(entries) == len(others) and all(map(is_same, entries, others))
    return repr(recorded) == repr(asked) or REDACTED in (recorded, asked)  # pyright: ignore[reportUnknownArgumentType]


def _fits(pattern: str, text: str) -> bool:
    """Tell whether a text is a pattern in which each mark stands for some text."""
    first, *rest = pattern.split(REDACTED)
    if not rest or not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) >= at


def differences(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> tuple[int, str]:
    """Say in how many places two requests differ, and what the first of them are."""
    before, now = dict(_places(recorded, "")), dict(_places(asked, ""))
    different = [place for place in {**before, **now} if before.get(place, _ABSENT) != now.get(place, _ABSENT)]
    told = [_told(place, before.get(place, _ABSENT), now.get(place, _ABSENT)) for place in different[:MAX_DIFFERENCES]]
    more = len(different) - len(told)
    return len(different), "; ".join(told) + (f"; and {more} more" if more > 0 else "")


_ABSENT = object()


def _places(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Go through the single values of a request, with their places."""
    return islice(_walk(value, place), MAX_PLACES)


def _walk(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, entry in cast("Mapping[str, Any]", value).items():
            yield from _walk(entry, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value:
        for index, entry in enumerate(cast("Sequence[Any]", value)):
            yield from _walk(entry, f"{place}[{index}]")
    else:
        yield place, value


def _told(place: str, before: Any, now: Any) -> str:
    if before is _ABSENT:
        return f"{place} is asked as {_shown(now, 0)} and was not there"
    if now is _ABSENT:
        return f"{place} was {_shown(before, 0)} and is not there"
    start = 0
    if isinstance(before, str) and isinstance(now, str):
        while start < min(len(before), len(now)) and before[start] == now[start]:
            start += 1
    return f"{place} was {_shown(before, start)} and is {_shown(now, start)}"


def _shown(value: Any, around: int) -> str:
    """Show a value, of a long text what is around a place."""
    text = value if isinstance(value, str) else json.dumps(value)
    begin = max(0, around - MAX_SHOWN_CHARS // 3) if len(text) > MAX_SHOWN_CHARS else 0
    end = begin + MAX_SHOWN_CHARS
    return repr(("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else ""))
