"""RAGFlow's routes for lists that are always empty here, so that forms which offer their entries still open."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import Field, create_model
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import Authenticated, WithAnyKey
from ragflow_lg.server.http.shared.described_routes import DescribedRoute, describe, describe_query
from ragflow_lg.server.http.shared.request_parsing import read_ids
from ragflow_lg.server.http.shared.route_schemas import Answer

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: empty lists"], route_class=DescribedRoute)


def make_list(model: str, name: str, about: str, total: str = "total") -> Any:
    """Return an object with an empty list under ``name``, and the number of its entries, for a schema ``model``."""
    fields: dict[str, Any] = {name: (list[dict[str, Any]], Field(default=[])), total: (int, 0)}
    return create_model(model, __base__=Answer, __doc__=about, __module__=__name__, **fields)()


EMPTY_LISTS: dict[str, tuple[Any, str]] = {
    "/plugin/tools": ([], "List RAGFlow's plug-ins: none. Tools of this server are components."),
    "/memories": (
        make_list("MemoryList", "memory_list", "The memories: always none.", total="total_count"),
        "List the memories: none. RAGFlow has them.",
    ),
    "/pipelines": (
        make_list("PipelineList", "canvas", "The ingestion pipelines: always none."),
        "List the ingestion pipelines: none. This server runs agents.",
    ),
    "/compilation-templates": (
        make_list("CompilationTemplateList", "templates", "The compilation templates: always none."),
        "List the compilation templates: none.",
    ),
    "/compilation-templates/builtins": ([], "List the built-in compilation templates: none."),
    "/compilation-templates/wiki-presets": ([], "List the presets of compilation templates: none."),
    "/compilation-template-groups": (
        make_list("CompilationGroupList", "groups", "The groups of compilation templates: always none."),
        "List the groups of compilation templates: none.",
    ),
}
"""The data and the description of each list, by path."""


def add_list(router: APIRouter, path: str, data: Any, description: str, name: str = "list_nothing") -> None:
    """Add a route that returns an empty list."""

    async def list_nothing(caller: Authenticated) -> Any:
        return data

    list_nothing.__annotations__["return"] = type(data) if data else list[dict[str, Any]]
    router.add_api_route(path, list_nothing, methods=["GET"], name=name, description=description)


for _path, (_data, _description) in EMPTY_LISTS.items():
    add_list(router, _path, _data, _description)


@router.get("/thumbnails")
@describe(describe_query("doc_ids", "Ids of documents; repeatable."))
async def list_thumbnails(request: Request, caller: WithAnyKey) -> dict[str, str]:
    """Return the pictures of documents by id: none, because this server does not store any."""
    if not read_ids(request, "doc_ids"):
        raise RequestError('Lack of "Document ID"', 101, data=False, has_data=True)
    return {}
