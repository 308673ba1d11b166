"""Multipart bodies: fields and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from ragflow_lg.base.errors import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_FIELDS = 1000
MAX_FIELD_BYTES = 4 * 1024 * 1024


class Upload(Struct, frozen=True):
    """A file in a multipart body. The name and the type are as stated by the client."""

    name: str
    mime_type: str
    content: bytes


def is_multipart(request: Request) -> bool:
    """Return whether the content type is `multipart/form-data`."""
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    return kind == b"multipart/form-data"


async def read_parts(request: Request, max_files: int) -> list[tuple[str, str | Upload]]:
    """Read the parts, in order, each with its name.

    Raises:
        RequestError: if the body is malformed, or has too many parts.
    """
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
