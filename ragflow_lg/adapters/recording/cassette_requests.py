"""Requests as a recording stores them: plain JSON without secrets, which can be compared."""

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

MAX_DIFFERENCES = 3
MAX_SHOWN_CHARS = 60
MAX_LEAVES = 5_000


def chat_request(llm_id: str, request: ChatRequest, redactor: Redactor) -> dict[str, Any]:
    """Return a model call as JSON. Images become hashes, and empty values are omitted."""
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
    """Return an HTTP request as JSON. The redactor learns its secrets."""
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
    """Return a call to an MCP server's tool as JSON. The redactor learns its secrets."""
    value = {"server": server, "tool": tool, "arguments": dict(arguments)}
    redactor.learn_from(value)
    return _clean(value, redactor)


def datasets_request(names_or_ids: Sequence[str], redactor: Redactor) -> dict[str, Any]:
    """Return a dataset lookup as JSON."""
    return _clean({"names": list(names_or_ids)}, redactor)


def search_request(search: DatasetSearch, redactor: Redactor) -> dict[str, Any]:
    """Return a dataset search as JSON.

    ``document_ids`` is an empty list for a search of no documents, and absent for a search of all documents.
    """
    value = {name: getattr(search, name) for name in search.__struct_fields__ if name != "document_ids"}
    request = _clean({**value, "datasets": _dataset_fields(search.datasets)}, redactor)
    if search.document_ids is not None:
        request["document_ids"] = [redactor.text(id_) for id_ in search.document_ids]
    return request


def metadata_request(datasets: Sequence[Dataset], redactor: Redactor) -> dict[str, Any]:
    """Return a request for dataset metadata as JSON."""
    return _clean({"datasets": _dataset_fields(datasets)}, redactor)


def _dataset_fields(datasets: Sequence[Dataset]) -> list[dict[str, str]]:
    return [dataset._asdict() for dataset in datasets]


def _clean(value: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    fields = {name: entry for name, entry in value.items() if entry not in (None, "", [], {})}
    return json.loads(json.dumps(redactor.value(fields), default=str))


def _image(image: str) -> str:
    head = image.partition(",")[0][:60] if image.startswith("data:") else "image"
    return f"{head}, {len(image)} characters, {digest(image)}"


def digest(value: Any) -> str:
    """Return the hash of a JSON value, as 32 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


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
    before, now = dict(_leaves(recorded, "")), dict(_leaves(actual, ""))
    paths = [path for path in {**before, **now} if before.get(path, _ABSENT) != now.get(path, _ABSENT)]
    descriptions = [
        _describe(path, before.get(path, _ABSENT), now.get(path, _ABSENT)) for path in paths[:MAX_DIFFERENCES]
    ]
    more = len(paths) - len(descriptions)
    return len(paths), "; ".join(descriptions) + (f"; and {more} more" if more > 0 else "")


_ABSENT = object()


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the individual values in a request with their paths."""
    return islice(_walk(value, path), MAX_LEAVES)


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
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
