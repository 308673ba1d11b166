"""RAGFlow's lists that are always empty here, so that forms which offer their entries still open."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import Authenticated, WithAnyKey
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.request_bodies import read_ids

router = make_router("RAGFlow: empty lists")
ui_router = make_router("RAGFlow's front end: lists")
"""Lists that only the front end asks for."""

EMPTY_LISTS: dict[str, Any] = {
    "/plugin/tools": [],
    "/memories": {"memory_list": [], "total_count": 0},
    "/pipelines": {"canvas": [], "total": 0},
    "/compilation-templates": {"templates": [], "total": 0},
    "/compilation-templates/builtins": [],
    "/compilation-templates/wiki-presets": [],
    "/compilation-template-groups": {"groups": [], "total": 0},
}
_UI_LISTS: dict[str, Any] = {"/chats": {"chats": [], "total": 0}, "/searches": {"search_apps": [], "total": 0}}


async def list_nothing(request: Request, caller: Authenticated) -> Any:
    """Return an empty list: RAGFlow has these entries, but this server runs agents only."""
    path = request.url.path.removeprefix("/api/v1")
    return EMPTY_LISTS[path] if path in EMPTY_LISTS else _UI_LISTS[path]


for _router, _lists in ((router, EMPTY_LISTS), (ui_router, _UI_LISTS)):
    for _path in _lists:
        _router.add_api_route(_path, list_nothing)


@router.get("/thumbnails")
async def list_thumbnails(request: Request, caller: WithAnyKey) -> dict[str, str]:
    """Return the pictures of the documents ``doc_ids``: none, because this server does not store any."""
    if not read_ids(request, "doc_ids"):
        raise RequestError('Lack of "Document ID"', 101, data=False, has_data=True)
    return {}
