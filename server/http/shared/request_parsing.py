"""Request parsing: bodies, multipart fields, ids, texts and flags."""

from __future__ import annotations

import json
from typing import Any, cast

from msgspec import Struct
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.body_limits import BodyKind, limit_body
from ragflow_lg.server.http.shared.body_reading import MAX_FIELDS, parse_form, parse_json, read_bytes

MAX_IDS = 100
MAX_FIELD_BYTES = 4 * 1024 * 1024


async def read_body(request: Request, kind: BodyKind = "fields") -> dict[str, Any]:
    """Read the body: a JSON object with any content type, or a form. An empty body is ``{}``.

    Raises:
        RequestError: if it is neither, or is too large.
    """
    raw, content_type = (await read_bytes(request, kind)).strip(), request.headers.get("content-type", "")
    if not raw:
        return {}
    if content_type.startswith("application/x-www-form-urlencoded") and not raw.startswith(b"{"):
        return cast("dict[str, Any]", parse_form(raw))
    try:
        value: Any = parse_json(raw)
    except json.JSONDecodeError as error:
        is_json = content_type.partition(";")[0].strip().lower().endswith("json")
        hint = "" if is_json else " Send a JSON object with the header `Content-Type: application/json`."
        raise RequestError(f"The body is not JSON: {error.msg}.{hint}", 101) from None
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.", 101)
    return cast("dict[str, Any]", value)


def to_text(value: Any) -> str:
    """Return a string without NUL characters, which databases refuse; ``""`` for any other value."""
    return value.replace("\x00", "") if isinstance(value, str) else ""


def parse_flag(value: Any) -> bool:
    """Parse a boolean as RAGFlow clients write it."""
    return value.strip().lower() in ("true", "1", "yes", "on") if isinstance(value, str) else bool(value)


def read_ids(request: Request, name: str) -> list[str]:
    """Return the ids in a query parameter, which may be repeated or contain several ids separated by commas.

    Raises:
        RequestError: if there are more than `MAX_IDS`.
    """
    ids = [id_.strip() for part in request.query_params.getlist(name) for id_ in part.split(",") if id_.strip()]
    if len(ids) > MAX_IDS:
        raise RequestError(f"{name} must contain at most {MAX_IDS} IDs", 101)
    return ids


class Upload(Struct, frozen=True):
    """A file in a multipart body. The name and the type are as stated by the client."""

    name: str
    mime_type: str
    content: bytes


def is_multipart(request: Request) -> bool:
    """Return whether the content type is `multipart/form-data`."""
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    return kind == b"multipart/form-data"


async def read_parts(request: Request, max_files: int, kind: BodyKind = "upload") -> list[tuple[str, str | Upload]]:
    """Read the parts, in order, each with its name.

    Raises:
        RequestError: if the body is malformed, is too large, or has too many parts.
    """
    limit_body(request, kind)
    parser = MultiPartParser(
        request.headers,
        request.stream(),
        max_files=max_files,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise RequestError(f"The multipart body cannot be read: {error.message}", 101) from None
    except (UnicodeError, LookupError):
        raise RequestError("The multipart body does not match its declared charset; use UTF-8.", 101) from None
    try:
        parts: list[tuple[str, str | Upload]] = []
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                parts.append((name, Upload(value.filename or "", value.content_type or "", await value.read())))
            else:
                parts.append((name, value))
        return parts
    finally:
        await form.close()
