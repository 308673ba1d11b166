"""Reading requests: bodies, pages, flags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import orjson

from ragflow_lg.base.errors import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["check_depth", "parse_flag", "read_body", "read_page", "to_text"]

MAX_PAGE_SIZE = 100
PAGE_SIZE = 30
MAX_PAGE = 1_000_000
MAX_FIELDS = 1000
MAX_DEPTH = 100
"""How deep lists and objects of a body may lie in each other: no canvas needs more, and values are walked."""


async def read_body(request: Request) -> dict[str, Any]:
    """Read the body: a JSON object, whatever its type says, or a form. An empty one is ``{}``.

    Raises:
        RequestError: if it is neither.
    """
    raw = await request.body()
    if not raw.strip():
        return {}
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/x-www-form-urlencoded") and not raw.lstrip().startswith(b"{"):
        text = raw.decode("utf-8", "replace")
        try:
            return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except ValueError:
            raise RequestError(f"The form has more than {MAX_FIELDS:,} fields.", 101) from None
    try:
        value: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        is_json = kind.partition(";")[0].strip().lower().endswith("json")
        hint = "" if is_json else " Send a JSON object, with the header `Content-Type: application/json`."
        raise RequestError(f"The body is not JSON: {error}.{hint}", 101) from None
    if not isinstance(value, dict):
        raise RequestError("The body should be a JSON object.", 101)
    check_depth(value)
    return cast("dict[str, Any]", value)


def check_depth(value: Any) -> None:
    """Look at a value read from JSON.

    Raises:
        RequestError: if lists and objects in it lie more than `MAX_DEPTH` deep.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [part for held in level for part in _parts(held)]
        if not level:
            return
    raise RequestError(f"The body is more than {MAX_DEPTH} lists and objects deep.", 101, status=422)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def to_text(value: Any) -> str:
    """Give a text, ``""`` for anything else; what a database cannot hold is left out."""
    return value.replace("\x00", "") if isinstance(value, str) else ""


def parse_flag(value: Any, *, default: bool = False) -> bool:
    """Read a yes or no as RAGFlow's clients write it."""
    if value is None:
        return default
    return value.strip().lower() in ("true", "1", "yes", "on") if isinstance(value, str) else bool(value)


def read_page(request: Request) -> tuple[int, int]:
    """Give the page, counted from 1, and its size; nonsense counts as not given.

    Raises:
        RequestError: if the page is too large.
    """
    size = _number(request.query_params.get("page_size"), PAGE_SIZE)
    if size > MAX_PAGE_SIZE:
        raise RequestError(f"page_size is at most {MAX_PAGE_SIZE}.", 101)
    return min(_number(request.query_params.get("page"), 1), MAX_PAGE), size


def _number(value: str | None, default: int) -> int:
    if not value or not value.isascii() or not value.isdigit():
        return default
    return int(value[:12]) or default
