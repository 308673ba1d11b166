"""Request bodies: their limits of size and time, and reading JSON, forms, multipart fields, ids, texts and flags."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.lenient_values import entries_of

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

MAX_DEPTH = 100
"""Maximum nesting depth of lists and objects in a body. No canvas needs more, and values are processed recursively."""
MAX_ENTRIES = 250_000
"""Maximum number of list entries and fields in a body, at all levels: requests are read in the event loop."""
CHECKED_BYTES = 1024 * 1024
"""A larger JSON body is refused by the number of its brackets, before anything is built from it. Texts contain brackets
as well, so that a smaller one is not."""
MAX_FIELDS = 1000
"""Maximum number of fields in a form."""
MAX_FIELD_BYTES = 4 * 1024 * 1024
TURN_BYTES = 4 * 1024 * 1024
"""Maximum size of a body that begins a turn: anyone who opens a page can send some. Files are uploaded first."""
SIGN_IN_BYTES = 16 * 1024
BODY_S = 60.0
"""How long a request body may take to arrive."""
MAX_IDS = 100


class LimitedBody:
    """The body of one request, which is refused if it is too large or takes too long to arrive.

    Nothing is read if its declared length exceeds the limit.
    """

    def __init__(
        self,
        receive: Receive,
        scope: Scope,
        max_bytes: int,
        timeout_s: float,
        setting: str = "max_body_bytes in [server]",
    ) -> None:
        """Initialize. ``setting`` is what a refusal names."""
        length = Headers(scope=scope).get("content-length", "")
        self._receive = receive
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._setting = setting
        self._deadline = asyncio.get_running_loop().time() + timeout_s
        self._declared_bytes = int(length[:20]) if length.isdecimal() else 0
        self._read_bytes = 0
        self._is_whole = False

    async def receive(self) -> Message:
        """Receive the next part of the body or, after it, what the client does."""
        if self._is_whole:
            return await self._receive()
        self._check(self._declared_bytes)
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise RequestError(f"The body did not arrive within {self._timeout_s:g} s.", 408, status=408) from None
        self._is_whole = not message.get("more_body", False)
        self._read_bytes += len(message.get("body", b""))
        self._check(self._read_bytes)
        return message

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            text = f"The body is larger than {self._max_bytes:,} bytes, the limit {self._setting}."
            raise RequestError(text, 413, status=413)


def parse_json(text: bytes) -> Any:
    """Parse the JSON of a body.

    Raises:
        json.JSONDecodeError: if it is not JSON, is nested too deeply, has too many entries, or has a whole number
            that nobody could store.
    """
    if len(text) > CHECKED_BYTES and text.count(b"[") + text.count(b"{") > MAX_ENTRIES:
        raise json.JSONDecodeError(f"it has more than {MAX_ENTRIES:,} opening brackets and braces", "", 0)
    try:
        value: Any = msgspec.json.decode(text)
    except RecursionError:
        raise json.JSONDecodeError(f"it is nested more than {MAX_DEPTH} levels deep", "", 0) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise json.JSONDecodeError(str(error), "", 0) from None
    level: list[Any] = [value]
    count = 0
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(each, int) and not -(2**63) <= each < 2**64 for each in level):
            raise json.JSONDecodeError("a whole number has more than 64 bits; send it as a string", "", 0)
        level = [part for each in level for part in entries_of(each)]
        if not level:
            return value
        count += len(level)
        if count > MAX_ENTRIES:
            raise json.JSONDecodeError(f"it has more than {MAX_ENTRIES:,} list entries and fields", "", 0)
    raise json.JSONDecodeError(f"it is nested more than {MAX_DEPTH} levels deep", "", 0)


def parse_form(raw: bytes) -> dict[str, str]:
    """Return the fields of a form."""
    try:
        return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise RequestError(f"The form has more than {MAX_FIELDS:,} fields.", 101) from None


def limit_turn(request: Request, body_type: Any) -> Receive:
    """Return what receives the body of a request, limited to `TURN_BYTES` if its type says that it begins a turn."""
    if not getattr(body_type, "begins_turn", False):
        return request.receive
    return LimitedBody(request.receive, request.scope, TURN_BYTES, BODY_S, "for turns").receive


async def read_body(request: Request) -> dict[str, Any]:
    """Read the body: a JSON object with any content type, or a form. An empty body is ``{}``."""
    raw, content_type = (await request.body()).strip(), request.headers.get("content-type", "")
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
    """Return the ids in a query parameter, which may be repeated or contain several ids separated by commas."""
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


async def read_parts(request: Request, max_files: int) -> list[tuple[str, str | Upload]]:
    """Read the parts, in order, each with its name."""
    limits: dict[str, Any] = {"max_files": max_files, "max_fields": MAX_FIELDS, "max_part_size": MAX_FIELD_BYTES}
    try:
        form = await MultiPartParser(request.headers, request.stream(), **limits).parse()
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
