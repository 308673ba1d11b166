"""Parsing webhook requests into a canvas payload."""

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

MAX_FILES = 10
MAX_FIELDS = 1000
_JSON, _FORM, _PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"


async def read_payload(request: Request, configuration: WebhookConfiguration) -> dict[str, Any]:
    """Return the declared fields of ``query``, ``headers`` and ``body``, and the complete request as ``input``.

    Raises:
        RequestError: if the body is malformed, has an unexpected content type, or violates the schema.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    expected = configuration.content_type
    if content_type and expected and content_type != expected:
        raise RequestError(f"The content type must be {expected}, not {content_type:.80}.", 400)
    body = await _read_body(request, configuration, content_type)
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
    return {**payload, "input": {**sections, "content_type": content_type}}


async def _read_body(request: Request, configuration: WebhookConfiguration, content_type: str) -> dict[str, Any]:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        check_body_size(configuration.security, len(raw))
    request._body = bytes(raw)  # pyright: ignore[reportPrivateUsage]  # lets the multipart parser read it again
    if not raw.strip():
        return {}
    if content_type == _PARTS:
        return await _read_multipart(request)
    if content_type == _FORM:
        try:
            return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except ValueError:
            raise RequestError(f"The form has more than {MAX_FIELDS} fields.", 400) from None
    try:
        value: Any = orjson.loads(bytes(raw))
    except orjson.JSONDecodeError as error:
        if content_type == _JSON:
            raise RequestError(f"The body is not JSON: {error}.", 400) from None
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


async def _read_multipart(request: Request) -> dict[str, Any]:
    """Read fields and files: images as ``data:`` URIs, other files as text. Files that share a name become a list."""
    fields: dict[str, Any] = {}
    files: dict[str, list[str]] = {}
    for name, value in await read_parts(request, MAX_FILES):
        if isinstance(value, Upload):
            files.setdefault(name, []).append(await _read_file(value))
        else:
            fields[name] = value
    return {**fields, **{name: texts[0] if len(texts) == 1 else texts for name, texts in files.items()}}


async def _read_file(file: Upload) -> str:
    if len(file.content) > MAX_READ_BYTES:
        raise RequestError(f"The file {file.name!r:.80} is larger than {MAX_READ_BYTES // 1024**2} MiB.", 400)
    try:
        return await asyncio.to_thread(file_text, file.name, file.mime_type, file.content)
    except ServiceError as error:
        raise RequestError(str(error), 400) from None
