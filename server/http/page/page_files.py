"""Middleware that serves the page, the API reference, the embedded chat and shared sessions.

They are at `/page`, at `/` if a browser asks for it, at `/docs`, at `/chat/AGENT`, and at `/shared/TOKEN`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from gzip import compress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server import page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

FOLDER = Path(page.__file__).parent
PREFIX = "/page"
REFERENCE = "/docs"
_EMBEDDED = re.compile(r"/chat/[0-9a-f]{32}")
_CHAT = "chat.html"
_SHARED = re.compile(r"/shared/([^/]+)")
_SHARED_FILE = "shared.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
)
"""Scripts are files of this server. Texts of models and canvases cannot load or send anything."""


class PageFiles:
    """Middleware that answers GET requests for the page; other requests are passed on.

    If ``has_root`` is true, `/` is the page for clients that accept HTML, which programs do not ask for. Pages of
    ``frame_origins`` may show the embedded chat in a frame. ``find_shared`` returns what a token opens, or None: then
    the page that says so is sent with 404.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        has_root: bool,
        frame_origins: Sequence[str],
        find_shared: Callable[[str], Awaitable[object | None]],
    ) -> None:
        self._app = app
        self._has_root = has_root
        self._find_shared = find_shared
        self._files = _Files(frame_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and (name := self._file_of(scope)):
            if name.endswith(".html") and (place := _place_without_slash(scope)):
                await RedirectResponse(place, 308)(scope, receive, send)
                return
            shared = _SHARED.fullmatch(scope["path"])
            if response := self._files.answer(name, Headers() if shared else Headers(scope=scope)):
                if shared:
                    response.headers.update({"Cache-Control": "no-store", "X-Robots-Tag": "noindex"})
                    response.status_code = await self._status_of(shared[1])
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _status_of(self, token: str) -> int:
        """Return the status of the page of a link. The page itself asks again, and shows what has failed."""
        try:
            return 404 if await self._find_shared(token) is None else 200
        except DatabaseError:
            return 503

    def _file_of(self, scope: Scope) -> str:
        """Return the path of the file that a request names, or ``""``."""
        path: str = scope["path"]
        if path == PREFIX or (path == "/" and self._has_root and "text/html" in Headers(scope=scope).get("accept", "")):
            return "index.html"
        if path == REFERENCE:
            return "reference.html"
        if _EMBEDDED.fullmatch(path):
            return _CHAT
        if _SHARED.fullmatch(path):
            return _SHARED_FILE
        name = path.removeprefix(f"{PREFIX}/")
        return name if name != path and name.endswith(tuple(_TYPES)) else ""


def _place_without_slash(scope: Scope) -> str:
    """Return the address of a page, relative to the requested one, if that ends with a slash; otherwise ``""``.

    `RequestLog` has removed the slash from the path. A browser would still begin the addresses of the page's
    files at the wrong place.
    """
    requested: str = scope.get("raw_path", b"").decode("latin-1")
    name = requested.rstrip("/")
    if name == requested or not name:
        return ""
    query: str = scope["query_string"].decode("latin-1")
    return "../" * (len(requested) - len(name)) + name.rpartition("/")[2] + (f"?{query}" if query else "")


class _File(Struct, frozen=True):
    """A file as it is sent, plain and compressed, and when it was changed."""

    stamp: tuple[int, int]
    headers: dict[str, str]
    body: bytes
    compressed: bytes


class _Files:
    """The files with the page's policy, in memory: a first view needs many. Browsers ask each time for changes."""

    def __init__(self, frame_origins: Sequence[str]) -> None:
        self._frame_origins = " ".join(("'self'", *frame_origins))
        self._paths = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*.*")}
        self._files: dict[str, _File] = {}

    def answer(self, name: str, headers: Headers) -> Response | None:
        """Return the response to a request for a file, or None if there is none."""
        if name not in self._paths:
            return None
        file = self._find(name)
        if headers.get("if-none-match", "").removeprefix("W/") == file.headers["ETag"]:
            return Response(status_code=304, headers={**file.headers})
        if "gzip" in headers.get("accept-encoding", ""):
            return Response(file.compressed, headers={**file.headers, "Content-Encoding": "gzip"})
        return Response(file.body, headers={**file.headers})

    def _find(self, name: str) -> _File:
        path = self._paths[name]
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if (known := self._files.get(name)) and known.stamp == stamp:
            return known
        body = path.read_bytes()
        headers = {
            "Content-Type": _TYPES[path.suffix],
            "ETag": f'"{sha256(body).hexdigest()[:32]}"',
            "Cache-Control": "no-cache",
            "Content-Security-Policy": _POLICY + (self._frame_origins if name == _CHAT else "'none'"),
            "Vary": "Accept, Accept-Encoding",
        }
        file = self._files[name] = _File(stamp, headers, body, compress(body, 6, mtime=0))
        return file
