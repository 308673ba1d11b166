"""The payload of a webhook's request, as its canvas gets it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import orjson

from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.server.agents.tenant_files import MAX_READ_BYTES, file_text
from ragflow_lg.server.http.shared.multipart import Upload, read_parts
from ragflow_lg.server.http.webhooks.payload_schema import select_declared_fields
from ragflow_lg.server.http.webhooks.webhook_security import check_body_size, is_secret_header

if TYPE_CHECKING:
    from starlette.requests import Request

    from ragflow_lg.server.http.webhooks.webhook_configuration import WebhookConfiguration

__all__ = ["MAX_FILES", "read_payload"]

MAX_FILES = 10
MAX_FIELDS = 1000
_JSON, _FORM, _PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"


async def read_payload(request: Request, configuration: WebhookConfiguration) -> dict[str, Any]:
    """Give ``query``, ``headers`` and ``body``, declared fields only, and all of the request as ``input``.

    Raises:
        RequestError: if the body cannot be read, has another type than is wanted, or does not fit the schema.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = configuration.content_type
    if kind and wanted and kind != wanted:
        raise RequestError(f"The content type should be {wanted}, not {kind:.80}.", 400)
    body = await _body(request, configuration, kind)
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
        if not str(error).startswith("body") or not _is_unread(request, kind, body):
            raise
        told = f"It was sent {f'as {kind:.80}' if kind else 'without a content type'} and is no JSON object"
        raise RequestError(f"{error} The body was not read. {told}: send it as {wanted or _JSON}.", 400) from None
    return {**payload, "input": {**sections, "content_type": kind}}


async def _body(request: Request, configuration: WebhookConfiguration, kind: str) -> dict[str, Any]:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        check_body_size(configuration.security, len(raw))
    request._body = bytes(raw)  # pyright: ignore[reportPrivateUsage]  # so that the parts can be read of it
    if not raw.strip():
        return {}
    if kind == _PARTS:
        return await _parts(request)
    if kind == _FORM:
        try:
            return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except ValueError:
            raise RequestError(f"The form has more than {MAX_FIELDS} fields.", 400) from None
    try:
        value: Any = orjson.loads(bytes(raw))
    except orjson.JSONDecodeError as error:
        if kind == _JSON:
            raise RequestError(f"The body is not JSON: {error}.", 400) from None
        return {}
    if not isinstance(value, dict):
        if kind == _JSON:
            raise RequestError("The body should be a JSON object.", 400)
        return {}
    return cast("dict[str, Any]", value)


def _is_unread(request: Request, kind: str, body: Any) -> bool:
    """Tell whether a body was passed over, as its type is none that is read."""
    raw = request._body  # pyright: ignore[reportPrivateUsage]
    return not body and kind not in (_JSON, _FORM, _PARTS) and raw.strip() not in (b"", b"{}")


async def _parts(request: Request) -> dict[str, Any]:
    """Read fields and files; a file becomes its text, or a picture's ``data:`` URI. Files of one name become a list."""
    found: dict[str, Any] = {}
    files: dict[str, list[str]] = {}
    for name, value in await read_parts(request, MAX_FILES):
        if isinstance(value, Upload):
            files.setdefault(name, []).append(await _text(value))
        else:
            found[name] = value
    return {**found, **{name: texts[0] if len(texts) == 1 else texts for name, texts in files.items()}}


async def _text(file: Upload) -> str:
    if len(file.content) > MAX_READ_BYTES:
        raise RequestError(f"The file {file.name!r:.80} has more than {MAX_READ_BYTES // 1024**2} MiB.", 400)
    try:
        return await asyncio.to_thread(file_text, file.name, file.mime_type, file.content)
    except ServiceError as error:
        raise RequestError(str(error), 400) from None
