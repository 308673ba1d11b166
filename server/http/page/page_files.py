"""Middleware that serves the page, the API reference, the embedded chat and shared sessions.

They are at `/page`, at `/` if a browser asks for it, at `/docs`, at `/chat/AGENT`, and at `/shared/TOKEN`.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server import page
from ragflow_lg.server.page.joined_scripts import join_scripts

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

FOLDER = Path(page.__file__).parent
PREFIX = "/page"
REFERENCE = "/docs"
_EMBEDDED = re.compile(r"/chat/[0-9a-f]{32}")
_CHAT = "chat.html"
_SHARED = re.compile(r"/shared/([^/]+)")
_SHARED_FILE = "shared.html"
_SUFFIXES = (".html", ".css", ".js", ".svg")
_SCRIPTS = frozenset({"main.js", "embedded.js", "shared.js", "reference.js"})
"""The scripts of the pages: modules of the folder ``js``, each with all that it imports."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors "
)
"""Scripts are files of this server. Texts of models and canvases cannot load or send anything."""
_DIAGRAM = "diagram.html"
_DIAGRAM_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors "
)
"""Diagrams of models are drawn in a frame: it has styles of its own, but no origin, and can load and send nothing."""


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
        self._compressed = GZipMiddleware(self._files, minimum_size=1024, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and (name := self._file_of(scope)):
            if name.endswith(".html") and (place := _place_without_slash(scope)):
                await RedirectResponse(place, 308)(scope, receive, send)
                return
            if shared := _SHARED.fullmatch(scope["path"]):
                await self._send_shared(shared[1], scope, receive, send)
                return
            try:
                await self._compressed({**scope, "path": f"/{name}", "root_path": ""}, receive, send)
                return
            except HTTPException:  # raised before anything is sent: the application explains what is wrong
                pass
        await self._app(scope, receive, send)

    async def _send_shared(self, token: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page of a link whatever the client knows of it: it asks again itself, and shows what has failed."""
        response = await self._files.get_response(_SHARED_FILE, {**scope, "headers": []})
        response.headers.update({"Cache-Control": "no-store", "X-Robots-Tag": "noindex"})
        try:
            response.status_code = 404 if await self._find_shared(token) is None else 200
        except DatabaseError:
            response.status_code = 503
        await response(scope, receive, send)

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
        return name if name != path and name.endswith(_SUFFIXES) else ""


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


class _Files(StaticFiles):
    """Static files with the page's policy. A browser asks each time whether they have changed."""

    def __init__(self, frame_origins: Sequence[str]) -> None:
        super().__init__(directory=FOLDER)
        self._frame_origins = " ".join(("'self'", *frame_origins))

    async def get_response(self, path: str, scope: Scope) -> Response:
        if path in _SCRIPTS:
            response = self._script(path, Headers(scope=scope))
        else:
            response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        policy = _DIAGRAM_POLICY if path == _DIAGRAM else _POLICY
        framed_by = self._frame_origins if path in (_CHAT, _DIAGRAM) else "'none'"
        response.headers["Content-Security-Policy"] = policy + framed_by
        response.headers.add_vary_header("Accept")
        return response

    def _script(self, name: str, request: Headers) -> Response:
        compressed, etag = _join(name, max(file.stat().st_mtime_ns for file in FOLDER.rglob("*.js")))
        headers = {"ETag": etag, "Vary": "Accept-Encoding", "Content-Encoding": "gzip"}
        if "gzip" not in request.get("Accept-Encoding", ""):
            compressed = gzip.decompress(compressed)
            del headers["Content-Encoding"]
        response = Response(compressed, media_type="text/javascript", headers=headers)
        return NotModifiedResponse(response.headers) if self.is_not_modified(response.headers, request) else response


@lru_cache(maxsize=len(_SCRIPTS))
def _join(name: str, _changed_ns: int) -> tuple[bytes, str]:
    """Return a script, compressed, and its tag. It is made again when a module has changed."""
    script = join_scripts(FOLDER / "js" / name).encode()
    return gzip.compress(script, mtime=0), f'"{sha256(script).hexdigest()}"'
