"""Request parsing: bodies, multipart fields, pages, flags, agents, and turns in RAGFlow's and OpenAI's format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import orjson
from msgspec import Struct
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import AgentRow, SessionRow
from ragflow_lg.server.http.shared.auth import ApiCaller, get_app_state
from ragflow_lg.server.http.shared.json_bodies import MAX_VALUES, check_values
from ragflow_lg.server.observability.audit import audit

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest


MAX_PAGE_SIZE = 100
MAX_LONG_PAGE_SIZE = 10_000
"""Length of the longest page for clients of a RAGFlow without a limit; they get at most that many rows."""
PAGE_SIZE = 30
MAX_PAGE = 1_000_000
MAX_FIELDS = 1000
MAX_VALUE_BYTES = 4 * 1024 * 1024
"""Maximum size of a JSON body that is neither a canvas nor an upload."""

MAX_ENTRIES = 50_000
"""Maximum number of list entries and object fields in such a body. Storing more takes the event loop too long."""

MAX_DEPTH = 100
"""Maximum nesting depth of lists and objects in a body. No canvas needs more, and values are processed recursively."""
NO_ACCESS = "Make sure you have permission to access the agent."
NO_OWNER = "Only the owner of the agent is authorized for this operation."
NO_ACCESS_BEFORE = "Only owner of canvas authorized for this operation."
"""RAGFlow's text up to 0.25.1. Clients of 0.25.1 to 0.25.6 have keys of one kind, so they get both texts."""
MAX_FIELD_BYTES = 4 * 1024 * 1024


async def read_turn_body(request: Request) -> dict[str, Any]:
    """Read the body of a request for a turn.

    Raises:
        RequestError: if it is neither a JSON object nor a form, or has too many entries.
    """
    return await read_body(request, MAX_ENTRIES)


async def read_body(request: Request, max_entries: int = MAX_VALUES // 2) -> dict[str, Any]:
    """Read the body: a JSON object with any content type, or a form. An empty body is ``{}``.

    Raises:
        RequestError: if it is neither, or has more than about ``max_entries`` entries.
    """
    raw = await request.body()
    if not raw.strip():
        return {}
    content_type = request.headers.get("content-type", "")
    if content_type.startswith("application/x-www-form-urlencoded") and not raw.lstrip().startswith(b"{"):
        text = raw.decode("utf-8", "replace")
        try:
            return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except ValueError:
            raise RequestError(f"The form has more than {MAX_FIELDS:,} fields.", 101) from None
    check_values(raw, max_entries)
    try:
        value: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        is_json = content_type.partition(";")[0].strip().lower().endswith("json")
        hint = "" if is_json else " Send a JSON object with the header `Content-Type: application/json`."
        raise RequestError(f"The body is not JSON: {error}.{hint}", 101) from None
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.", 101)
    check_depth(value)
    return cast("dict[str, Any]", value)


def check_shape(value: Any) -> None:
    """Check the nesting and the number of entries of a value read from JSON.

    Raises:
        RequestError: if it exceeds `MAX_DEPTH` levels or `MAX_ENTRIES` entries.
    """
    check_depth(value, MAX_ENTRIES)


def check_depth(value: Any, max_entries: float = math.inf) -> None:
    """Check the nesting of a value read from JSON.

    Raises:
        RequestError: if its lists and objects are nested more than `MAX_DEPTH` levels deep, or contain more than
            ``max_entries`` entries.
    """
    level, entries = [value], 0
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _list_children(parent)]
        entries += len(level)
        if entries > max_entries:
            raise RequestError(f"The body has more than {max_entries:,} entries.", 101, status=422)
        if not level:
            return
    raise RequestError(f"The body is nested more than {MAX_DEPTH} levels deep.", 101, status=422)


def _list_children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def require_fields(fields: Mapping[str, Any], *names: str) -> None:
    """Check that a body has some fields.

    Raises:
        RequestError: with RAGFlow's message, if it does not.
    """
    if missing := [name for name in names if name not in fields]:
        raise RequestError(f"required argument are missing: {','.join(missing)}; ", 101, has_data=True)


def to_text(value: Any) -> str:
    """Return a string without NUL characters, which databases refuse; ``""`` for any other value."""
    return value.replace("\x00", "") if isinstance(value, str) else ""


def parse_flag(value: Any, *, default: bool = False) -> bool:
    """Parse a boolean as RAGFlow clients write it."""
    if value is None:
        return default
    return value.strip().lower() in ("true", "1", "yes", "on") if isinstance(value, str) else bool(value)


def read_page(request: Request, caller: ApiCaller, default_size: int = PAGE_SIZE) -> tuple[int, int]:
    """Return the page number, starting at 1, and the page size. Invalid values are treated as missing.

    Raises:
        RequestError: if the page size exceeds `MAX_PAGE_SIZE`, and the client's RAGFlow has that limit.
    """
    size = _parse_number(request.query_params.get("page_size"), default_size)
    if caller.has_long_pages:
        size = min(size, MAX_LONG_PAGE_SIZE)
    elif size > MAX_PAGE_SIZE:
        raise RequestError(f"page_size is at most {MAX_PAGE_SIZE}.", 101)
    return min(_parse_number(request.query_params.get("page"), 1), MAX_PAGE), size


def read_ids(request: Request, name: str) -> list[str]:
    """Return the ids in a query parameter, which may be repeated or contain several ids separated by commas.

    Raises:
        RequestError: if there are more than `MAX_PAGE_SIZE`.
    """
    ids = [id_.strip() for part in request.query_params.getlist(name) for id_ in part.split(",") if id_.strip()]
    if len(ids) > MAX_PAGE_SIZE:
        raise RequestError(f"{name} must contain at most {MAX_PAGE_SIZE} IDs", 101)
    return ids


def _parse_number(value: str | None, default: int) -> int:
    if not value or not value.isascii() or not value.isdigit():
        return default
    return int(value[:12]) or default


def read_query(body: dict[str, Any]) -> Any:
    """Return a turn's query: a string, or an object that maps field names to values."""
    query: Any = body.get("query") or body.get("question") or ""
    return cast("Any", query) if isinstance(query, str | dict) else str(query)


def build_turn_request(caller: ApiCaller, session: SessionRow, body: dict[str, Any]) -> TurnRequest:
    """Build a turn request from a body.

    Raises:
        RequestError: if a field has the wrong type, or the body has too many entries.
    """
    check_shape(body)
    request: TurnRequest = {"query": read_query(body), "user_id": session.user_id or caller.tenant}
    inputs: Any = body.get("inputs")
    if inputs:
        if not isinstance(inputs, dict):
            raise RequestError("`inputs` must be an object of fields.", 101)
        request["inputs"] = cast("dict[str, Any]", inputs)
    files: Any = body.get("files")
    if files:
        if not isinstance(files, list):
            raise RequestError("`files` must be a list of uploads.", 101)
        uploads = cast("list[Any]", files)
        request["files"] = uploads[0] if isinstance(uploads[0], list) else uploads
    if body.get("chat_template_kwargs"):
        request["chat_template_kwargs"] = body["chat_template_kwargs"]
    return request


async def load_agent(request: Request, caller: ApiCaller, agent_id: str, *, is_owned: bool = False) -> AgentRow:
    """Load one of the caller's agents. ``is_owned`` selects RAGFlow's message for owner-only operations.

    Raises:
        RequestError: if the caller has no such agent; the response does not reveal other tenants' agents.
    """
    agent = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if agent is None or not caller.opens(agent.id):
        audit("agent.refused", agent=agent_id)
        message = _no_access(caller, NO_OWNER if is_owned else NO_ACCESS)
        raise RequestError(message, 103, status=404, data=False, has_data=True)
    return agent


def _no_access(caller: ApiCaller, message: str) -> str:
    if caller.is_old:
        return NO_ACCESS_BEFORE
    return f"{NO_ACCESS_BEFORE} {message}" if caller.has_long_pages else message


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


async def load_session(request: Request, agent: AgentRow, session_id: str, *, foreign: str = "") -> SessionRow:
    """Load one of an agent's sessions.

    ``foreign`` is the message for the session of another agent of the same tenant. Without it, such a session counts as
    missing.

    Raises:
        RequestError: if there is no such session.
    """
    session = await SessionRepository(get_app_state(request).database, agent.tenant).get(session_id)
    if session is not None and session.agent_id == agent.id:
        return session
    if session is not None and foreign:
        raise RequestError(foreign, 103, status=404, data=False, has_data=True)
    raise RequestError("Session not found!", status=404)
