"""Reading request bodies within their limits, and parsing what they contain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import msgspec

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.body_limits import BodyKind, limit_body

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_DEPTH = 100
"""Maximum nesting depth of lists and objects in a body. No canvas needs more, and values are processed recursively."""
MAX_ENTRIES = 250_000
"""Maximum number of list entries and fields in a body, at all levels: requests are read in the event loop."""
MAX_FIELDS = 1000
"""Maximum number of fields in a form."""


async def read_bytes(request: Request, kind: BodyKind) -> bytes:
    """Return the body. ``kind`` is what it contains, which determines its largest size.

    Raises:
        RequestError: if it is too large or takes too long. The rest is not read.
    """
    limit_body(request, kind)
    return await request.body()


def parse_json(text: bytes) -> Any:
    """Parse the JSON of a body.

    Raises:
        json.JSONDecodeError: if it is not JSON, is nested too deeply, has too many entries, or has a whole number
            that nobody could store.
    """
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
        level = [part for each in level for part in _list_parts(each)]
        if not level:
            return value
        count += len(level)
        if count > MAX_ENTRIES:
            raise json.JSONDecodeError(f"it has more than {MAX_ENTRIES:,} list entries and fields", "", 0)
    raise json.JSONDecodeError(f"it is nested more than {MAX_DEPTH} levels deep", "", 0)


def parse_form(raw: bytes) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        RequestError: if it has too many.
    """
    try:
        return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise RequestError(f"The form has more than {MAX_FIELDS:,} fields.", 101) from None


def _list_parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()
