"""RAGFlow's front end: the files of a build, at every path that no API uses, and reasons for what this server lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.staticfiles import StaticFiles

from ragflow_lg.base.errors import RequestError, SettingsError
from ragflow_lg.server.http.shared.auth import authenticate

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


_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_RAGFLOW = "This server runs agents only; use RAGFlow for {}."
_MODELS = (
    "Models come from the server's settings ([providers], [models], [embeddings], [rerankers]); change them there."
)
_DATASETS = "Datasets come from the server's settings ([knowledge]); change them with `ragflow-lg kb` or in RAGFlow."
_PEOPLE = "People come from the server's settings ([server.users]); change them there."

REASONS = {
    "models": _MODELS,
    "providers": _MODELS,
    "llm": _MODELS,
    "users": _PEOPLE,
    "tenants": _PEOPLE,
    "auth": "Sign in with an API key, or as a user of the server's settings.",
    "system": "API keys are created with `ragflow-lg keys create` and revoked with `ragflow-lg keys revoke`.",
    "mcp": "MCP servers come from the server's settings ([mcp]); change them there.",
    "datasets": _DATASETS,
    "documents": _DATASETS,
    "memories": _RAGFLOW.format("memories"),
    "messages": _RAGFLOW.format("memories"),
    "chats": _RAGFLOW.format("chat assistants"),
    "chatbots": _RAGFLOW.format("chat assistants"),
    "chat": "This server neither speaks nor listens; use RAGFlow for speech and chat assistants.",
    "searches": _RAGFLOW.format("search applications"),
    "searchbots": _RAGFLOW.format("search applications"),
    "files": _RAGFLOW.format("the file manager"),
    "file-commits": _RAGFLOW.format("the file manager"),
    "pipelines": _RAGFLOW.format("ingestion pipelines"),
    "compilation-templates": _RAGFLOW.format("compilation templates"),
    "compilation-template-groups": _RAGFLOW.format("compilation templates"),
    "connectors": _RAGFLOW.format("data sources"),
    "chat-channels": _RAGFLOW.format("chat channels"),
    "skills": _RAGFLOW.format("skills"),
    "langfuse": "Traces are configured in the server's settings ([otel]); Langfuse accepts them over OTLP.",
    "admin": "This server has no administration pages; change its settings and use the command `ragflow-lg keys`.",
}
"""Reasons by the first part of the path below `/api/v1`."""

OLDER_REASONS = {
    "llm": _MODELS,
    "user": _PEOPLE,
    "tenant": _PEOPLE,
    "mcp_server": REASONS["mcp"],
    "kb": _DATASETS,
    "document": _DATASETS,
    "chunk": _DATASETS,
    "connector": REASONS["connectors"],
    "dataflow": REASONS["pipelines"],
    "file2document": REASONS["files"],
    "langfuse": REASONS["langfuse"],
}
"""Reasons by the first part of the path below `/v1`, for front ends of 0.25."""


SHARED_AREAS = frozenset({"chatbots", "searchbots"})
"""Areas of shared pages, whose visitors have no API key: after status 401, the page would show them the sign-in.

The reason is also the title, because the page shows a message only for some seconds.
"""


async def refuse_missing(request: Request) -> None:
    """Refuse a request that no route handles, if it is for a part of RAGFlow that this server does not have."""
    version, _, rest = request.url.path.removeprefix("/api").strip("/").partition("/")
    area = rest.partition("/")[0]
    reasons = REASONS if request.url.path.startswith("/api/") else OLDER_REASONS
    if version != "v1" or area not in reasons or request.method not in _METHODS:
        return
    if area not in SHARED_AREAS:
        await authenticate(request)
    raise RequestError(reasons[area], data={"title": reasons[area]} if area in SHARED_AREAS else False, has_data=True)
