"""Requests for the operations of an API: arguments become parts of the address, headers, cookies and a body."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote, unquote

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.integrations.openapi.api_document import BODY, Operation, Parameter
from ragflow_lg.services.http import HttpRequest

_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def build_request(
    operation: Operation,
    arguments: Mapping[str, Any],
    base: str,
    *,
    key: str = "",
    headers: Mapping[str, str] = {},
    **limits: Any,
) -> HttpRequest:
    """Return the request for a call of an operation at the API's address ``base``.

    Raises:
        ComponentError: if an argument would change which operation is called.
    """
    path, query = operation.path, list[str]()
    sent, cookies = dict[str, str](), list[str]()
    for parameter in operation.parameters:
        value = arguments.get(parameter.argument)
        if parameter.place == "path":
            path = path.replace(f"{{{parameter.name}}}", _in_path(parameter, value))
        elif value is None:
            continue
        elif parameter.place == "query":
            query += _in_query(parameter, value)
        elif parameter.place == "cookie":
            cookies += _in_query(parameter, value)
        else:
            sent[parameter.name] = _simple(parameter, value, str)
    keys = dict[str, str]()
    if key and (scheme := operation.scheme):
        encoded = base64.b64encode(key.encode()).decode() if scheme.prefix == "Basic" else key
        if scheme.place == "header":
            keys[scheme.name] = f"{scheme.prefix} {encoded}".strip()
        else:  # a map that is sent as several pairs may have the key's name
            pairs, start = query if scheme.place == "query" else cookies, f"{_escape(scheme.name)}="
            pairs[:] = [*(pair for pair in pairs if not pair.startswith(start)), f"{start}{_escape(key)}"]
    if cookies:
        keys["Cookie"] = "; ".join(cookies)
    body: bytes | None = None
    if operation.body_type and arguments.get(BODY) is not None:
        keys["Content-Type"] = operation.body_type
        body = _body(operation.body_type, arguments[BODY])
    method = cast("Any", operation.method)
    url = base.rstrip("/") + path + (f"?{'&'.join(query)}" if query else "")
    named = {name.lower(): (name, text) for group in (sent, keys, headers) for name, text in group.items()}
    return HttpRequest(method, url, dict(named.values()), body=body, **limits)


def _body(kind: str, value: Any) -> bytes:
    if kind == "text/plain":
        return to_text(value).encode()
    if kind == "application/x-www-form-urlencoded":
        pairs = [pair for name, part in as_map(value).items() for pair in _form(_escape(name), part, explodes=True)]
        return "&".join(pairs).encode()
    return json.dumps(value, ensure_ascii=False).encode()


def _in_path(parameter: Parameter, value: Any) -> str:
    text = _simple(parameter, value, _escape)
    if parameter.style == "label":
        text = "." + (text.replace(",", ".") if parameter.explodes else text)
    elif parameter.style == "matrix":
        is_repeated = parameter.explodes and isinstance(value, list | dict)
        name = _escape(parameter.name)
        text = "".join(f";{pair}" for pair in _form(name, value, explodes=True)) if is_repeated else f";{name}={text}"
    if value is None or not text or {".", ".."} & {*unquote(text).replace("\\", "/").split("/")}:
        raise ComponentError(f"The value of {parameter.argument!r} cannot be part of an address.")
    return text


def _simple(parameter: Parameter, value: Any, escape: Any) -> str:
    if parameter.is_json:
        return escape(json.dumps(value))
    if isinstance(value, dict):
        joint = "=" if parameter.explodes else ","
        return ",".join(f"{escape(name)}{joint}{escape(_text(part))}" for name, part in as_map(value).items())
    parts = cast("list[Any]", value if isinstance(value, list) else [value])
    return ",".join(escape(_text(part)) for part in parts)


def _in_query(parameter: Parameter, value: Any) -> Iterator[str]:
    name = _escape(parameter.name)
    if parameter.is_json:
        yield f"{name}={_escape(json.dumps(value))}"
    elif parameter.style == "deepObject" and isinstance(value, dict):
        for key, part in as_map(value).items():
            yield f"{name}%5B{_escape(key)}%5D={_escape(_text(part))}"
    else:
        yield from _form(name, value, parameter.explodes, _DELIMITERS.get(parameter.style, ","))


def _form(name: str, value: Any, explodes: bool, delimiter: str = ",") -> Iterator[str]:
    """Yield the pairs of the style ``form``, or those with another delimiter."""
    if isinstance(value, dict) and explodes:
        yield from (f"{_escape(key)}={_escape(_text(part))}" for key, part in as_map(value).items())
        return
    if isinstance(value, dict):
        value = [each for pair in as_map(value).items() for each in pair]
    parts = cast("list[Any]", value if isinstance(value, list) else [value])
    escaped = [_escape(_text(part)) for part in parts]
    yield from (f"{name}={part}" for part in (escaped if explodes else [delimiter.join(escaped)]))


def _text(value: JsonValue) -> str:
    return to_text(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _escape(text: Any) -> str:
    return quote(str(text), safe="")
