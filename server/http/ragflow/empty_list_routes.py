"""RAGFlow's routes for lists that are always empty here, so that forms which offer their entries still open."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, authenticate_any
from ragflow_lg.server.http.shared.request_parsing import read_ids
from ragflow_lg.server.http.shared.responses import respond

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: empty lists"])

EMPTY_LISTS: dict[str, tuple[Any, str]] = {
    "/plugin/tools": ([], "List RAGFlow's plug-ins: none. Tools of this server are components."),
    "/memories": ({"memory_list": [], "total_count": 0}, "List the memories: none. RAGFlow has them."),
    "/pipelines": ({"canvas": [], "total": 0}, "List the ingestion pipelines: none. This server runs agents."),
    "/compilation-templates": ({"templates": [], "total": 0}, "List the compilation templates: none."),
    "/compilation-templates/builtins": ([], "List the built-in compilation templates: none."),
    "/compilation-templates/wiki-presets": ([], "List the presets of compilation templates: none."),
    "/compilation-template-groups": ({"groups": [], "total": 0}, "List the groups of compilation templates: none."),
}
"""The data and the description of each list, by path."""


def _add_list(path: str, data: Any, description: str) -> None:
    async def list_nothing(caller: Authenticated) -> Response:
        return respond(data)

    router.add_api_route(path, list_nothing, methods=["GET"], description=description)


for _path, (_data, _description) in EMPTY_LISTS.items():
    _add_list(_path, _data, _description)


@router.get("/thumbnails")
async def list_thumbnails(request: Request, caller: Annotated[ApiCaller, Depends(authenticate_any)]) -> Response:
    """Return the pictures of documents by id: none, because this server does not store any."""
    if not read_ids(request, "doc_ids"):
        raise RequestError('Lack of "Document ID"', 101, data=False, has_data=True)
    return respond({})
