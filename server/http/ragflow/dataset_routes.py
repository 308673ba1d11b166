"""RAGFlow's routes that read datasets: metadata, documents, chunks, and searches in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

import orjson
from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import (
    Fields,
    Flag,
    Pages,
    PlainRoute,
    Text,
    make_router,
    with_examples,
)
from ragflow_lg.server.http.shared.request_bodies import read_ids, to_text
from ragflow_lg.server.http.shared.responses import respond_json, respond_plain
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetDirectory,
    DatasetEntry,
    DatasetSearch,
    DocumentDirectory,
    Knowledge,
    ListedChunk,
    Metadata,
    SearchResult,
)

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
    """Return the metadata of the documents in some datasets."""
    datasets = await _pick_datasets(request, caller, ids, "No authorization for dataset {!r}")
    try:
        knowledge = get_app_state(request).services_of(caller.tenant).find(Knowledge)
        if knowledge is None or not ids:
            return {}
        return await knowledge.metadata(list({dataset.id: dataset for dataset in datasets}.values()))
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The metadata cannot be read: {error}") from error


async def read_datasets(request: Request, caller: ApiCaller, ids: Sequence[str]) -> list[Dataset]:
    """Return the datasets with some ids."""
    return await _pick_datasets(request, caller, ids, "You don't own the dataset {}.")


async def _pick_datasets(request: Request, caller: ApiCaller, ids: Sequence[str], refusal: str) -> list[Dataset]:
    known = {entry.dataset.id: entry.dataset for entry in await _find_datasets(request, caller)}
    if missing := [id_ for id_ in ids if id_ not in known]:
        raise RequestError(refusal.format(missing[0][:MAX_SHOWN_CHARS]))
    return [known[id_] for id_ in ids]


def _choose(
    filters: DatasetFilters, ids: Sequence[str], entries: Sequence[DatasetEntry], caller: ApiCaller
) -> list[DatasetEntry]:
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
    try:
        value: Any = orjson.loads(ext or "{}")
    except orjson.JSONDecodeError:
        raise RequestError("`ext` must be a JSON object.", 101) from None
    return to_text(cast("dict[str, Any]", value).get("keywords")) if isinstance(value, dict) else ""


async def _find_datasets(request: Request, caller: ApiCaller) -> Sequence[DatasetEntry]:
    try:
        knowledge = get_app_state(request).services_of(caller.tenant).find(Knowledge)
        if not isinstance(knowledge, DatasetDirectory):
            return ()
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


document_router = make_router("RAGFlow: datasets")

MAX_QUESTION_CHARS = 10_000
MAX_TOP_K = 2_048
MAX_FOUND = 100
"""Maximum number of chunks that a search returns."""

_UNUSABLE = ("meta_data_filter", "search_id", "use_kg", "keyword", "cross_languages")
"""What would change which chunks are found."""
_EMBEDDED_ONLY = "Only datasets of the embedded knowledge base can be read."


class ChunkFilters(Pages):
    """Which chunks to list."""

    vectors: Annotated[Flag, Field(description="Whether to include the vectors.")] = False


class _Search(Fields):
    question: Text = ""
    dataset_ids: Any = None
    similarity_threshold: Any = 0.2
    vector_similarity_weight: Any = 0.3
    top_k: Annotated[Any, Field(description=f"At most {MAX_TOP_K}.")] = 1024
    rerank_id: Text = ""


class Question(_Search):
    """A search."""

    model_config = with_examples({"question": "Where is my parcel?", "dataset_ids": ["a" * 32]})

    document_ids: Annotated[Any, Field(description="Only these documents.")] = None
    page_size: Annotated[Any, Field(description=f"Number of chunks, at most {MAX_FOUND}.")] = 30


class NewerQuestion(_Search):
    """A search on the paths that RAGFlow 1.0 has."""

    doc_ids: Annotated[Any, Field(description="Only these documents.")] = None
    page: Annotated[Any, Field(description="Number of the page, from 1.")] = 1
    size: Annotated[Any, Field(description=f"Number of chunks; at most {MAX_FOUND} on all pages.")] = 30
    similarity_threshold: Any = 0.0


@document_router.get("/datasets/{dataset_id}/documents")
async def list_documents(
    dataset_id: str, request: Request, caller: Authenticated, pages: Annotated[Pages, Query()]
) -> dict[str, Any]:
    """List the documents of a dataset of the embedded knowledge base, sorted by name."""
    (dataset,), (page, size) = await read_datasets(request, caller, [dataset_id]), pages.read(caller)
    try:
        rows, total = await _directory(request, caller).list_documents(dataset, (page - 1) * size, size)
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The documents cannot be listed: {error}") from error
    docs = [
        {
            "id": row.id,
            "name": row.name,
            "dataset_id": dataset_id,
            "chunk_count": row.chunks,
            "meta_fields": dict(row.metadata),
            "run": "DONE",
        }
        for row in rows
    ]
    return {"docs": docs, "total": total}


@document_router.get("/datasets/{dataset_id}/documents/{document_id}/chunks")
async def list_chunks(
    dataset_id: str,
    document_id: str,
    request: Request,
    caller: Authenticated,
    filters: Annotated[ChunkFilters, Query()],
) -> Any:
    """List the chunks of a document, in order. With `vectors`, `q_N_vec` contains a chunk's vector of N numbers."""
    (dataset,), (page, size) = await read_datasets(request, caller, [dataset_id]), filters.read(caller)
    try:
        rows, total = await _directory(request, caller).list_chunks(dataset, document_id, (page - 1) * size, size)
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The chunks cannot be listed: {error}") from error
    if not total:
        raise RequestError(f"You don't own the document {document_id[:100]}.")
    chunks = [_show_chunk(row, has_vectors=filters.vectors) for row in rows]
    return {"chunks": chunks, "doc": None, "total": total}


@document_router.post("/retrieval")
async def retrieve(body: Question, request: Request, caller: Authenticated) -> Any:
    """Search datasets that share an embedding model."""
    size = int(_check_number("page_size", body.page_size, 1, MAX_FOUND))
    found = await _search(request, caller, body, body.document_ids, size)
    return _describe_found(found, [{name: chunk.get(own) for name, own in _FOUND} for chunk in found.chunks])


@document_router.post("/datasets/search")
async def search_datasets(body: NewerQuestion, request: Request, caller: Authenticated) -> Any:
    """Search datasets that share an embedding model. Chunks have RAGFlow's own names."""
    if unusable := [name for name in _UNUSABLE if (body.model_extra or {}).get(name)]:
        raise RequestError(f"Searches of this server have no `{unusable[0]}`.", 101)
    page, size = (int(_check_number(name, getattr(body, name), 1, MAX_FOUND)) for name in ("page", "size"))
    if page * size > MAX_FOUND:
        raise RequestError(f"A search finds at most {MAX_FOUND} chunks on all its pages.", 101)
    found = await _search(request, caller, body, body.doc_ids, page * size)
    chunks = [{own: chunk.get(own) for _, own in _FOUND} for chunk in found.chunks[(page - 1) * size :]]
    return {**_describe_found(found, chunks), "labels": None}


@document_router.post("/datasets/{dataset_id}/search")
async def search_dataset(dataset_id: str, body: NewerQuestion, request: Request, caller: Authenticated) -> Any:
    """Search one dataset."""
    body.dataset_ids = [dataset_id]
    return await search_datasets(body, request, caller)


async def _search(request: Request, caller: ApiCaller, body: _Search, document_ids: Any, top_n: int) -> SearchResult:
    ids = _read_ids(body.dataset_ids)
    if not ids:
        raise RequestError("`dataset_ids` is required.", 101)
    datasets = await read_datasets(request, caller, ids)
    documents = _read_ids(document_ids)
    search = DatasetSearch(
        body.question[:MAX_QUESTION_CHARS],
        tuple(datasets),
        tuple(documents) if documents else None,
        top_n=top_n,
        top_k=int(_check_number("top_k", body.top_k, 1, MAX_TOP_K)),
        similarity_threshold=_check_number("similarity_threshold", body.similarity_threshold, 0, 1),
        keywords_similarity_weight=1 - _check_number("vector_similarity_weight", body.vector_similarity_weight, 0, 1),
        rerank_id=body.rerank_id[:200],
    )
    knowledge = tenant_services(get_app_state(request), caller.tenant).find(Knowledge)
    if knowledge is None or not body.question.strip():
        return SearchResult()
    try:
        return await knowledge.search(search)
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The datasets cannot be searched: {error}") from error


def _describe_found(found: SearchResult, chunks: list[dict[str, Any]]) -> dict[str, Any]:
    counts = [{"doc_name": entry.name, "doc_id": entry.id, "count": entry.chunks} for entry in found.documents]
    return {"chunks": chunks, "doc_aggs": counts, "total": found.total}


def _directory(request: Request, caller: ApiCaller) -> DocumentDirectory:
    knowledge = get_app_state(request).services_of(caller.tenant).find(Knowledge)
    if not isinstance(knowledge, DocumentDirectory):
        raise RequestError(_EMBEDDED_ONLY)
    return knowledge


def _read_ids(value: Any) -> list[str]:
    ids = [to_text(id_) for id_ in cast("list[Any]", value)] if isinstance(value, list) else []
    if len(ids) > 1_000:
        raise RequestError("A search names at most 1,000 datasets or documents.", 101)
    return [id_ for id_ in dict.fromkeys(ids) if id_]


def _check_number(name: str, value: Any, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise RequestError(f"`{name}` must be a number from {least} to {most}.", 101)
    return value


def _show_chunk(listed: ListedChunk, *, has_vectors: bool) -> dict[str, Any]:
    chunk, vector = listed
    shown = {
        "id": chunk["chunk_id"],
        "content": chunk["content_with_weight"],
        "document_id": chunk["doc_id"],
        "docnm_kwd": chunk["docnm_kwd"],
        "dataset_id": chunk["kb_id"],
        "important_keywords": list[str](),
        "questions": list[str](),
        "image_id": "",
        "doc_type_kwd": "text",
        "available": True,
        "positions": chunk["positions"],
    }
    return {**shown, f"q_{len(vector)}_vec": vector} if has_vectors and vector else shown


_FOUND: Sequence[tuple[str, str]] = (
    ("id", "chunk_id"),
    ("content", "content_with_weight"),
    ("document_id", "doc_id"),
    ("document_keyword", "docnm_kwd"),
    ("dataset_id", "kb_id"),
    ("similarity", "similarity"),
    ("vector_similarity", "vector_similarity"),
    ("term_similarity", "term_similarity"),
    ("positions", "positions"),
)
