"""RAGFlow's routes for lists that are always empty here, so that forms which offer their entries still open."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import Authenticated, WithAnyKey
from ragflow_lg.server.http.shared.described_routes import DescribedRoute, describe, describe_query
from ragflow_lg.server.http.shared.request_parsing import read_ids
from ragflow_lg.server.http.shared.route_schemas import Answer

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: empty lists"], route_class=DescribedRoute)


class MemoryList(Answer):
    """The memories: always none."""

    memory_list: list[dict[str, Any]] = Field(default=[])
    total_count: int = 0


class PipelineList(Answer):
    """The ingestion pipelines: always none."""

    canvas: list[dict[str, Any]] = Field(default=[])
    total: int = 0


class CompilationTemplateList(Answer):
    """The compilation templates: always none."""

    templates: list[dict[str, Any]] = Field(default=[])
    total: int = 0


class CompilationGroupList(Answer):
    """The groups of compilation templates: always none."""

    groups: list[dict[str, Any]] = Field(default=[])
    total: int = 0


EMPTY_LISTS: dict[str, tuple[Any, str]] = {
    "/plugin/tools": ([], "List RAGFlow's plug-ins: none. Tools of this server are components."),
    "/memories": (MemoryList(), "List the memories: none. RAGFlow has them."),
    "/pipelines": (PipelineList(), "List the ingestion pipelines: none. This server runs agents."),
    "/compilation-templates": (CompilationTemplateList(), "List the compilation templates: none."),
    "/compilation-templates/builtins": ([], "List the built-in compilation templates: none."),
    "/compilation-templates/wiki-presets": ([], "List the presets of compilation templates: none."),
    "/compilation-template-groups": (CompilationGroupList(), "List the groups of compilation templates: none."),
}
"""The data and the description of each list, by path."""


def _add_list(path: str, data: Any, description: str) -> None:
    async def list_nothing(caller: Authenticated) -> Any:
        return data

    list_nothing.__annotations__["return"] = type(data) if data else list[dict[str, Any]]
    router.add_api_route(path, list_nothing, methods=["GET"], description=description)


for _path, (_data, _description) in EMPTY_LISTS.items():
    _add_list(_path, _data, _description)


@router.get("/thumbnails")
@describe(describe_query("doc_ids", "Ids of documents; repeatable."))
async def list_thumbnails(request: Request, caller: WithAnyKey) -> dict[str, str]:
    """Return the pictures of documents by id: none, because this server does not store any."""
    if not read_ids(request, "doc_ids"):
        raise RequestError('Lack of "Document ID"', 101, data=False, has_data=True)
    return {}
