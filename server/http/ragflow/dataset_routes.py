"""RAGFlow's routes for the datasets that Retrieval can search, and for their metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

import orjson
from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import PlainRoute, make_router
from ragflow_lg.server.http.shared.request_bodies import read_ids, to_text
from ragflow_lg.server.http.shared.responses import respond_json, respond_plain
from ragflow_lg.server.http.shared.route_schemas import Pages
from ragflow_lg.services.knowledge import Dataset, DatasetDirectory, DatasetEntry, Metadata

router = make_router("RAGFlow: datasets", route_class=PlainRoute)

MAX_SHOWN_CHARS = 100
"""Maximum number of characters of a wrong id or name in a refusal."""


class DatasetFilters(Pages):
    """Which datasets to list."""

    id: Annotated[str, Field(description="The dataset with this id; refused if there is none.")] = ""
    name: Annotated[str, Field(description="The dataset with this name; refused if there is none.")] = ""
    ext: Annotated[str, Field(description="JSON object: only datasets whose name contains its `keywords`.")] = ""
    type: Annotated[str, Field(description="`filter`: return the filter values instead of a list.")] = ""


@router.get("/datasets")
async def list_datasets(
    request: Request, caller: Authenticated, filters: Annotated[DatasetFilters, Query()]
) -> Response:
    """List the datasets that Retrieval can search, page by page, sorted by name."""
    entries, tenant = await _find_datasets(request, caller), caller.tenant
    if filters.type == "filter":
        owners = [{"id": tenant, "label": tenant, "count": len(entries)}] if entries else []
        return respond_plain({"filter": {"owner": owners}, "total": len(entries)})
    page, size = filters.read(caller)
    chosen = _choose(filters, read_ids(request, "ids"), entries, caller)
    rows = [_describe_dataset(entry, caller) for entry in chosen[(page - 1) * size : page * size]]
    return respond_json({"code": 0, "data": rows, "total_datasets": len(chosen)})


@router.get("/datasets/metadata/flattened")
async def get_metadata(request: Request, caller: Authenticated) -> Metadata:
    """Return the metadata of the documents in ``dataset_ids``: values by key, and ids of documents by value."""
    ids = read_ids(request, "dataset_ids")
    if not ids:
        raise RequestError("Lack of dataset_ids in query parameters")
    return await read_metadata(request, caller, ids)


async def read_metadata(request: Request, caller: ApiCaller, ids: Sequence[str]) -> Metadata:
    """Return the metadata of the documents in some datasets.

    Raises:
        RequestError: if there is no such dataset, or its metadata cannot be read.
    """
    datasets = await _pick_datasets(request, caller, ids, "No authorization for dataset {!r}")
    knowledge = get_app_state(request).services_of(caller.tenant).knowledge
    if knowledge is None or not ids:
        return {}
    try:
        return await knowledge.metadata(list({dataset.id: dataset for dataset in datasets}.values()))
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The metadata cannot be read: {error}") from error


async def read_datasets(request: Request, caller: ApiCaller, ids: Sequence[str]) -> list[Dataset]:
    """Return the datasets with some ids.

    Raises:
        RequestError: if the caller has no such dataset.
    """
    return await _pick_datasets(request, caller, ids, "You don't own the dataset {}.")


async def _pick_datasets(request: Request, caller: ApiCaller, ids: Sequence[str], refusal: str) -> list[Dataset]:
    known = {entry.dataset.id: entry.dataset for entry in await _find_datasets(request, caller)}
    if missing := [id_ for id_ in ids if id_ not in known]:
        raise RequestError(refusal.format(missing[0][:MAX_SHOWN_CHARS]))
    return [known[id_] for id_ in ids]


def _choose(
    filters: DatasetFilters, ids: Sequence[str], entries: Sequence[DatasetEntry], caller: ApiCaller
) -> list[DatasetEntry]:
    """Return the datasets that a request asks for.

    Raises:
        RequestError: if there is none with the wanted id or name.
    """
    chosen = sorted(entries, key=lambda entry: entry.dataset.name.casefold())
    keywords = _read_keywords(filters.ext).casefold()
    if filters.id and ids:
        raise RequestError("Send either `id` or `ids`, not both.")
    for value, field in ((filters.id, "id"), (filters.name, "name")):
        if value:
            chosen = [entry for entry in chosen if getattr(entry.dataset, field) == value]
            if not chosen:
                raise RequestError(f"User '{caller.tenant}' lacks permission for dataset '{value[:MAX_SHOWN_CHARS]}'")
    return [
        entry for entry in chosen if keywords in entry.dataset.name.casefold() and (not ids or entry.dataset.id in ids)
    ]


def _read_keywords(ext: str) -> str:
    """Return the keywords in the parameter ``ext``, a JSON object."""
    try:
        value: Any = orjson.loads(ext or "{}")
    except orjson.JSONDecodeError:
        raise RequestError("`ext` must be a JSON object.", 101) from None
    return to_text(cast("dict[str, Any]", value).get("keywords")) if isinstance(value, dict) else ""


async def _find_datasets(request: Request, caller: ApiCaller) -> Sequence[DatasetEntry]:
    knowledge = get_app_state(request).services_of(caller.tenant).knowledge
    if not isinstance(knowledge, DatasetDirectory):
        return ()
    try:
        return await knowledge.list_datasets()
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The datasets cannot be listed: {error}") from error


def _describe_dataset(entry: DatasetEntry, caller: ApiCaller) -> dict[str, Any]:
    dataset = entry.dataset
    return {
        "id": dataset.id,
        "name": dataset.name,
        "avatar": "",
        "description": "",
        "chunk_count": entry.chunks,
        "document_count": entry.documents,
        "chunk_method": "naive",
        "embedding_model": dataset.embedding_model,
        "embedding_model_name": dataset.embedding_model,
        "permission": "me",
        "tenant_id": caller.tenant,
        "nickname": caller.tenant,
        "status": "1",
    }
