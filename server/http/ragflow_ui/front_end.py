"""RAGFlow's front end: the files of a build, at every path that no API uses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from ragflow_lg.base.errors import SettingsError

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send


INDEX = "index.html"
RESERVED = frozenset({"api", "v1", "native", "health", "ready", "metrics", "openapi.json"})
"""The first parts of the APIs' paths."""
_HASHED = ("assets/", "chunk/", "entry/")
"""Folders whose file names contain a hash of their content."""
_SHARED_PAGES = ("agent/share", "chats/widget")
"""Pages that other sites may embed. Browsers ignore ``X-Frame-Options`` beside ``frame-ancestors``."""
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' https: data: blob:; media-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; worker-src 'self' blob:; frame-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors "
)
"""The front end compiles JSON schemas and templates at run time, and its editor of code starts workers from blobs."""


def check_build(folder: Path) -> None:
    """Check that a folder contains a build.

    Raises:
        SettingsError: if it has no ``index.html``.
    """
    if not (folder / INDEX).is_file():
        problem = f"has no {INDEX}" if folder.is_dir() else "does not exist"
        raise SettingsError(
            f"[server] ragflow_ui is {str(folder)!r}, but {str(folder.absolute())!r} {problem}: build RAGFlow's folder "
            "web/ with `npm run build` and name its folder dist."
        )


class FrontEndFiles:
    """Middleware that answers GET requests outside the APIs with files; other requests are passed on."""

    def __init__(self, app: ASGIApp, folder: Path, embedding_origins: Sequence[str]) -> None:
        self._app = app
        self._files = GZipMiddleware(_BuildFiles(folder, embedding_origins), minimum_size=1024, compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        is_page = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        is_ours = is_page and scope["path"].split("/")[1] not in RESERVED
        if is_ours:
            try:
                await self._files(scope, receive, send)
                return
            except HTTPException:  # raised before anything is sent: the application explains what is wrong
                pass
        await self._app(scope, receive, send)


class _BuildFiles(StaticFiles):
    """Static files. A path that is not a file is a page of the front end, whose router runs in the browser."""

    def __init__(self, folder: Path, embedding_origins: Sequence[str]) -> None:
        super().__init__(directory=folder)
        self._embedding_origins = " ".join(("'self'", *embedding_origins))

    async def get_response(self, path: str, scope: Scope) -> Response:
        if any(part.startswith(".") for part in path.split("/") if part != "."):
            raise HTTPException(404)  # no build has hidden files, but a wrong folder may
        is_page = path in (".", INDEX)
        try:
            response = await super().get_response(INDEX if is_page else path, scope)
        except HTTPException as error:
            if error.status_code != 404 or "." in path.rpartition("/")[2]:
                raise
            is_page = True
            response = await super().get_response(INDEX, scope)
        is_hashed = path.startswith(_HASHED) and not is_page
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        may_embed = path.startswith(_SHARED_PAGES)
        response.headers["Content-Security-Policy"] = _POLICY + (self._embedding_origins if may_embed else "'self'")
        return response
