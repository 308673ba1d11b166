"""Request authentication with API keys, with the beta keys of embedded pages, and with tokens that replace them.

Visitors of embedded pages have secrets of their own, because all of them have the key of the page. The server makes the
secret at the first contact and signs it, so that nobody makes up visitors. It stores a digest of it with the sessions,
uploads and artifacts of the visitor. Clients that send none, such as RAGFlow's own pages, are one visitor together:
they reach what they know the id of, and nothing is listed for them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Depends, Header, Security
from fastapi.security import HTTPBearer
from msgspec import Struct
from starlette.requests import Request

from ragflow_lg.base.errors import RateError, RequestError
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.dsl.compatibility import LONG_PAGES, OLD_SHAPES, RAGFLOW, WIRES, find_wire
from ragflow_lg.server.agents.file_store import name_visitor
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.server.http.shared.signed_tokens import KeyOwner, Purpose, describe_key, is_visitor_secret, read_token
from ragflow_lg.server.observability.logs import audit

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import FileRow, SessionRow
    from ragflow_lg.server.observability.operations import Operations
    from ragflow_lg.server.runs.turns import Turns


VISITOR_HEADER = "X-RAGFlow-Visitor"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


async def read_visitor(app_state: AppState, request: Request, owner: KeyOwner) -> str:
    """Return the visitor of the page with a key that sends a request: a digest of its secret, else the key's id."""
    secret = request.headers.get(VISITOR_HEADER, "")
    if not secret:
        return owner.id
    if not _SECRET.fullmatch(secret) or not await is_visitor_secret(app_state, owner, secret):
        raise RequestError(
            f"{VISITOR_HEADER} must be the secret that `GET /api/v1/agentbots/ID/inputs` returned in this header.", 101
        )
    return name_visitor(owner.id, secret)


COMPAT_HEADER = "x-ragflow-compat"

_AUDIT_PREFIX_CHARS = 12
"""Number of a refused key's characters in the audit log: enough to identify its owner."""
CURRENT = "current"
"""The version that the canvas or the settings choose, whatever the key is for."""
_NOT_OF_1 = re.compile(
    r"(?!/api/)|/api/v1/(?:agents/(?:chat/completion|(?!chat/)[^/]+/completions)|tasks/[^/]+"
    r"|(?:agents_openai|document/download|webhook|webhook_test|webhook_trace)/.+|file/upload_info|retrieval)$"
)
"""The beginning of a path that RAGFlow 1.0 does not have. ``docs/ragflow_1.md`` lists them."""
_UNAUTHORIZED = "<Unauthorized '401: Unauthorized'>"
_BETA_HEADER_MISSING = "Authorization is not valid!"
_BETA_KEY_INVALID = "Authentication error: API key is invalid! "
"""With the trailing space of RAGFlow's text."""

_ApiKey = Annotated[
    object,
    Security(
        HTTPBearer(
            auto_error=False, description="An API key, created by `ragflow-lg keys create`.", scheme_name="ApiKey"
        )
    ),
]
_PageKey = Annotated[
    object,
    Security(
        HTTPBearer(
            auto_error=False,
            description="A key for embedded pages, created by `POST /native/v1/keys` or `ragflow-lg keys create NAME "
            "--beta`.",
            scheme_name="BetaKey",
        )
    ),
]

logger = logging.getLogger(__name__)


class ApiCaller(Struct, frozen=True):
    """The tenant that sends a request."""

    tenant: str
    owner: KeyOwner = KeyOwner("", "")
    """The owner of the key or token of the request."""
    visitor: str = ""
    """The visitor of an embedded page that sends the request, as in `read_visitor`; ``""`` for keys of the tenant."""

    def opens(self, agent_id: str) -> bool:
        """Return whether the key of the request gives access to one of its tenant's agents."""
        return not self.owner.agents or agent_id in self.owner.agents

    @property
    def is_page(self) -> bool:
        """Whether the request comes from an embedded page, so that anybody may have sent it."""
        return bool(self.visitor)

    @property
    def page_key(self) -> str:
        """The id of the embedded page's key, or ``""``."""
        return self.owner.id if self.is_page else ""

    def reaches(self, row: SessionRow | FileRow) -> bool:
        """Return whether a session or file of the tenant is open to the request: visitors reach only their own."""
        return self.opens(row.agent_id) and self.visitor in ("", row.visitor)

    @property
    def is_old(self) -> bool:
        """Whether the client expects the response shapes of RAGFlow 0.25.0 and older."""
        return current_notes().ragflow == OLD_SHAPES

    @property
    def has_long_pages(self) -> bool:
        """Whether the client may ask for long pages, which RAGFlow refuses since 0.26."""
        return current_notes().ragflow in (OLD_SHAPES, LONG_PAGES)


def get_app_state(request: Request) -> AppState:
    """Return the opened parts of the server."""
    return cast("AppState", request.app.state.app_state)


def get_turns(request: Request) -> Turns:
    """Return the turns of this process."""
    return cast("Turns", request.app.state.turns)


def get_operations(request: Request) -> Operations:
    """Return the limits, metrics and traces of this process."""
    return cast("Operations", request.app.state.operations)


def _once(find: Callable[..., Awaitable[ApiCaller]]) -> Callable[..., Awaitable[ApiCaller]]:
    """Return a dependency of routes that finds the caller of a request once."""

    @wraps(find)
    async def authenticate_once(request: Request, *_: object, **__: object) -> ApiCaller:
        callers: dict[Any, ApiCaller] = request.scope.setdefault("ragflow_lg.callers", {})
        if find not in callers:
            callers[find] = await find(request)
        return callers[find]

    return authenticate_once


@_once
async def authenticate(request: Request, _: _ApiKey = None) -> ApiCaller:
    """Authenticate a request by its API key."""
    app_state = get_app_state(request)
    key = _read_key(request)
    note_ragflow(request)
    owner = await _find_owner(app_state, key, "session")
    if owner is None:
        _audit_refusal(request, key, ("ragflow-",))
        logger.warning("missing or invalid API key: %s %s", request.method, request.url.path)
        text = ("Invalid access token" if key else "Missing Authorization header") if speaks_1() else _UNAUTHORIZED
        raise RequestError(text, 401, status=401, has_data=True)
    _admit(request, owner)
    requested = request.headers.get(COMPAT_HEADER, "")
    if requested not in ("", CURRENT) and not find_wire(requested):
        expected = f"a release of RAGFlow, such as {' or '.join(WIRES)}, or {CURRENT}"
        raise RequestError(f"X-RAGFlow-Compat must be {expected}, not {requested[:20]!r}.", 101)
    note_ragflow(request, owner.compat)
    return ApiCaller(owner.tenant, owner)


@_once
async def authenticate_beta(request: Request, _: _PageKey = None) -> ApiCaller:
    """Authenticate a request from an embedded page by its beta key. Anyone who opens the page can read such a key.

    Clients for RAGFlow 1.0 may send their API key instead. An address with such a key opens no page.
    """
    key = _read_key(request)
    note_ragflow(request, versions=WIRES)
    if not key:
        raise RequestError(_BETA_HEADER_MISSING, 102, has_data=True)
    owner = await _find_owner(get_app_state(request), key, "page")
    if owner is None and (program := await _find_owner(get_app_state(request), key, "session")) is not None:
        note_ragflow(request, program.compat, WIRES)
        if speaks_1():
            return await authenticate(request)
    if owner is None:
        _audit_refusal(request, key, ("beta-", "ragflow-"))
        raise RequestError(_BETA_KEY_INVALID, 102, has_data=True)
    return await _admit_visitor(request, owner)


@_once
async def authenticate_any(request: Request, _: _ApiKey = None, __: _PageKey = None) -> ApiCaller:
    """Authenticate a request by a beta key or an API key."""
    owner = await _find_owner(get_app_state(request), _read_key(request), "page")
    return await authenticate(request) if owner is None else await _admit_visitor(request, owner)


async def _admit_visitor(request: Request, owner: KeyOwner) -> ApiCaller:
    """Admit a request from an embedded page; see `_admit`."""
    _admit(request, owner)
    note_ragflow(request, owner.compat, WIRES)
    visitor = current_notes().visitor = await read_visitor(get_app_state(request), request, owner)
    return ApiCaller(owner.tenant, owner=owner, visitor=visitor)


Authenticated = Annotated[ApiCaller, Depends(authenticate)]
"""The caller of a route that requires an API key."""
WithAnyKey = Annotated[ApiCaller, Depends(authenticate_any)]
"""The caller of a route that also accepts the key of an embedded page."""


def note_ragflow(
    request: Request, of_key: str = "", versions: Sequence[str] = (*WIRES, LONG_PAGES, OLD_SHAPES)
) -> None:
    """Note the RAGFlow whose responses the client gets. The header takes precedence over the key.

    Pages have no key for older programs: those get reasons that visitors must not read. On paths that 1.0 does not
    have, nothing chooses it.
    """
    chosen = find_wire(request.headers.get(COMPAT_HEADER, "") or of_key)
    notes = current_notes()
    notes.has_ragflow = chosen in versions
    notes.ragflow = chosen if notes.has_ragflow else get_app_state(request).settings.compat.get(RAGFLOW, WIRES[0])
    if _NOT_OF_1.match(request.url.path) and (speaks_1() or not notes.has_ragflow):
        choose_ragflow(WIRES[0])


async def note_ragflow_of_key(request: Request) -> None:
    """Note the RAGFlow whose responses the client of a route gets that needs no key, but reads one."""
    owner = await _find_owner(get_app_state(request), _read_key(request), "session")
    note_ragflow(request, owner.compat if owner else "")


def choose_ragflow(version: str) -> None:
    """Answer the current request as a version of RAGFlow does, whatever the client has chosen."""
    current_notes().ragflow, current_notes().has_ragflow = version, True


def _read_key(request: Request) -> str:
    header = request.headers.get("authorization", "").strip()
    scheme, _, rest = header.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else header


async def _find_owner(app_state: AppState, key: str, purpose: Purpose) -> KeyOwner | None:
    kind = "beta" if purpose == "page" else "api"
    row = await KeyRepository(app_state.database).find(key, app_state.now_ms(), kind) if key else None
    return describe_key(row) if row is not None else await read_token(app_state, key, purpose)


def _admit(request: Request, owner: KeyOwner) -> None:
    """Count the request, and attach its tenant and its key to its log lines.

    Only valid keys are counted, each under its id: neither another spelling of a key nor many invented keys change the
    count of a key.
    """
    notes = current_notes()
    notes.tenant, notes.key = owner.tenant, owner.id
    operations = get_operations(request)
    if wait_s := operations.keys.wait_s(owner.id):
        audit("request.too_often", whose="key")
        raise RateError("Too many requests from this key.", wait_s)


def _audit_refusal(request: Request, key: str, prefixes: tuple[str, ...]) -> None:
    """Record a refused key. Its first characters are recorded only if it looks like one of our keys."""
    get_operations(request).metrics.count_refusal("key")
    beginning = key[:_AUDIT_PREFIX_CHARS] if key.startswith(prefixes) else ""
    audit("key.refused", path=request.url.path, beginning=beginning)


KEY_HEADER = "Idempotency-Key"
"""A request that is sent again with its key is answered by the run of the first one."""
_KEY = Header(
    alias=KEY_HEADER,
    max_length=255,
    description="An id of the request. If it is sent again with the same id, no second run begins.",
)


def note_request_key(key: str, path: str, body: bytes) -> None:
    """Note the key of a request, if it has one, and what was sent with it; see `Turns.find_repeated`.

    The key is its sender's own, who must have been authenticated: visitors of a page get no run of each other.
    """
    if key:
        notes = current_notes()
        own_key = "\n".join((notes.key, notes.visitor, key))
        notes.request_key = sha256(own_key.encode("utf-8", "surrogatepass")).hexdigest()
        notes.request_hash = sha256(path.encode() + b"\n" + body).hexdigest()


async def _read_request_key(request: Request, key: Annotated[str, _KEY] = "") -> None:
    if key:
        body = encode_json(await request.json()) if await request.body() else b""
        note_request_key(key, request.url.path, body)


RequestKey = Annotated[None, Depends(_read_request_key)]
"""A parameter of what reads a request that may begin a turn."""
