"""Parsing webhook requests into a canvas payload with the declared fields, converted to their types."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.adapters.knowledge.attachments import file_text
from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.base.worker_tasks import measure
from ragflow_lg.dsl.webhook_configuration import Security, WebhookConfiguration, as_mapping
from ragflow_lg.server.agents.file_store import MAX_READ_BYTES
from ragflow_lg.server.http.shared.request_bodies import Upload, parse_form, parse_json, read_parts
from ragflow_lg.server.http.webhooks.webhook_security import check_body_size, is_secret_header
from ragflow_lg.services.services import FileContent, Services

if TYPE_CHECKING:
    from starlette.requests import Request


_EMPTY: Mapping[str, JsonValue] = {"string": "", "number": 0, "boolean": False, "object": {}, "file": [], "null": None}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_ARRAY = "array"
MAX_NUMBER_CHARS = 400
MAX_FILES = 10
MAX_UNDECLARED = 256 * 1024
"""Maximum number of characters and entries in the undeclared fields of each section; others are dropped."""
_JSON, _FORM, _PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"


def select_declared_fields(section: str, fields: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the fields of ``query``, ``headers`` or ``body`` declared in the schema. Missing fields get empty values.

    Strings are converted to the declared type: ``"3"`` for a number is 3. Header names are case-insensitive.
    """
    part = as_mapping(schema.get(section))
    properties = as_mapping(part.get("properties"))
    required: Any = part.get("required")
    required_names = {str(name) for name in cast("list[Any]", required)} if isinstance(required, list) else set[str]()
    values = {name.lower(): value for name, value in fields.items()} if section == "headers" else fields
    selected: dict[str, JsonValue] = {}
    for name, declared in properties.items():
        kind = _parse_kind(as_mapping(declared))
        key = name.lower() if section == "headers" else name
        if key in values:
            selected[name] = _convert(f"{section}.{name}", values[key], kind)
        elif name in required_names:
            raise RequestError(f"{section} missing required field: {name}", 400)
        else:
            selected[name] = [] if kind.startswith(_ARRAY) else _EMPTY.get(kind)
    undeclared = sorted(name for name in required_names if name not in properties)
    if absent := [name for name in undeclared if (name.lower() if section == "headers" else name) not in values]:
        raise RequestError(f"{section} missing required field: {absent[0]}", 400)
    return selected


def _parse_kind(declared: Mapping[str, Any]) -> str:
    """Return a field's type; for arrays, it includes the item type, as in ``array<number>``."""
    kind = str(declared.get("type") or "string").lower().replace(" ", "")
    if kind == _ARRAY:
        items = str(as_mapping(declared.get("items")).get("type") or "").lower()
        kind = f"{_ARRAY}<{items}>" if items else kind
    return kind


def _convert(path: str, value: Any, kind: str) -> JsonValue:
    if kind == _ARRAY or kind.startswith(f"{_ARRAY}<"):
        items = _parse_json(value)
        if not isinstance(items, list):
            raise _build_mismatch(path, kind, value)
        inner = kind[len(_ARRAY) + 1 : -1] if kind != _ARRAY else ""
        item_list = cast("list[Any]", items)
        return [_convert(f"{path}[{at}]", item, inner) for at, item in enumerate(item_list)] if inner else item_list
    is_valid, converted = _convert_scalar(value, kind)
    if not is_valid:
        raise _build_mismatch(path, kind, value)
    return converted


def _convert_scalar(value: Any, kind: str) -> tuple[bool, JsonValue]:
    """Return whether a value is of a type, and the converted value."""
    if kind == "string":
        return isinstance(value, str), value
    if kind == "number":
        number = _parse_number(value) if isinstance(value, str) else value
        return _is_finite(number), number
    if kind == "boolean":
        flag = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else value
        return isinstance(flag, bool), flag
    if kind == "object":
        parsed = _parse_json(value)
        return isinstance(parsed, dict), parsed
    if kind == "file":
        return isinstance(value, list), value
    if kind == "null":
        return value is None or value in ("", "null"), None
    return True, value  # RAGFlow passes values of unknown types on


def _is_finite(number: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the range of floats
        return False


def _parse_number(text: str) -> Any:
    text = text.strip()
    if len(text) > MAX_NUMBER_CHARS or not text.isascii() or "_" in text:
        return None
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def _parse_json(value: Any) -> Any:
    """Parse a string as JSON; return other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode("utf-8", "surrogatepass"))
    except json.JSONDecodeError:
        return None


def _build_mismatch(path: str, kind: str, value: Any) -> RequestError:
    return RequestError(f"{path} type mismatch: expected {kind}, got {_name_type(value)}", 400)


def _name_type(value: object) -> str:
    names: dict[type, str] = {
        str: "string",
        bool: "boolean",
        int: "number",
        float: "number",
        dict: "object",
        list: "array",
    }
    return names.get(type(value), "null")


async def read_signed_body(request: Request, security: Security) -> bytes:
    """Return the body as received. The request keeps it, so that it can be read again."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        check_body_size(security, len(raw))
    request._body = bytes(raw)  # pyright: ignore[reportPrivateUsage]  # Starlette's own cache of the body
    return request._body  # pyright: ignore[reportPrivateUsage]


async def read_payload(request: Request, configuration: WebhookConfiguration, services: Services) -> dict[str, Any]:
    """Return the declared fields of ``query``, ``headers`` and ``body``, and the complete request as ``input``.

    ``services`` read the files.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    expected = configuration.content_type
    if content_type and expected and content_type != expected:
        raise RequestError(f"The content type must be {expected}, not {content_type:.80}.", 400)
    body = await _read_body(request, configuration, content_type, services)
    query: dict[str, Any] = dict(request.query_params)
    headers = {
        name: value for name, value in request.headers.items() if not is_secret_header(name, configuration.security)
    }
    sections = {"query": query, "headers": headers, "body": body}
    try:
        payload: dict[str, Any] = {
            name: select_declared_fields(name, section, configuration.schema) for name, section in sections.items()
        }
    except RequestError as error:
        if not str(error).startswith("body") or not _was_skipped(request, content_type, body):
            raise
        sent = f"with content type {content_type:.80}" if content_type else "without a content type"
        raise RequestError(
            f"{error} The body was ignored: it was sent {sent} and is not a JSON object. "
            f"Send it as {expected or _JSON}.",
            400,
        ) from None
    received = {name: _drop_excess(section, payload[name]) for name, section in sections.items()}
    return {**payload, "input": {**received, "content_type": content_type}}


def _drop_excess(fields: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields without undeclared ones that exceed the limit, which anybody can send."""
    kept: dict[str, Any] = {}
    room = MAX_UNDECLARED
    for name, value in fields.items():
        if name not in declared:
            size = measure((name, value), room) if len(name) < room else room + 1
            if size > room:
                continue
            room -= size
        kept[name] = value
    return kept


async def _read_body(
    request: Request, configuration: WebhookConfiguration, content_type: str, services: Services
) -> dict[str, Any]:
    raw = (await read_signed_body(request, configuration.security)).strip()
    if not raw or (content_type not in (_JSON, _FORM, _PARTS) and not raw.startswith(b"{")):
        return {}
    if content_type == _PARTS:
        return await _read_multipart(request, services, configuration.layout_recognize)
    if content_type == _FORM:
        return cast("dict[str, Any]", parse_form(raw))
    try:
        value: Any = parse_json(raw)
    except json.JSONDecodeError as error:
        if content_type == _JSON:
            raise RequestError(f"The body is not JSON: {error.msg}.", 400) from None
        return {}
    if not isinstance(value, dict):
        if content_type == _JSON:
            raise RequestError("The body must be a JSON object.", 400)
        return {}
    return cast("dict[str, Any]", value)


def _was_skipped(request: Request, content_type: str, body: Any) -> bool:
    """Return whether a body was skipped because of its content type."""
    raw = request._body  # pyright: ignore[reportPrivateUsage]  # Starlette has no public access without await
    return not body and content_type not in (_JSON, _FORM, _PARTS) and raw.strip() not in (b"", b"{}")


async def _read_multipart(request: Request, services: Services, layout_recognize: str) -> dict[str, Any]:
    """Read fields and files: images as ``data:`` URIs, other files as text. Files that share a name become a list."""
    fields: dict[str, Any] = {}
    files: dict[str, list[str]] = {}
    for name, value in await read_parts(request, MAX_FILES):
        if isinstance(value, Upload):
            files.setdefault(name, []).append(await _read_file(value, services, layout_recognize))
        else:
            fields[name] = value
    return {**fields, **{name: texts[0] if len(texts) == 1 else texts for name, texts in files.items()}}


async def _read_file(file: Upload, services: Services, layout_recognize: str) -> str:
    if len(file.content) > MAX_READ_BYTES:
        raise RequestError(f"The file {file.name!r:.80} is larger than {MAX_READ_BYTES // 1024**2} MiB.", 400)
    try:
        text = await services.parse_file(FileContent(file.name, file.content), layout_recognize)
        return await file_text(services.workers, file.name, file.mime_type, file.content) if text is None else text
    except ServiceError as error:
        raise RequestError(str(error), 400) from None
