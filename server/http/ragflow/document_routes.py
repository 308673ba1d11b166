"""RAGFlow's routes that read datasets: their documents and chunks, and searches in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.http.ragflow.dataset_routes import read_datasets
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.described_routes import PAGES, DescribedRoute, describe, describe_query
from ragflow_lg.server.http.shared.request_parsing import parse_flag, read_body, read_page, to_text
from ragflow_lg.server.http.shared.route_schemas import Answer, LazyModel, with_examples
from ragflow_lg.services.knowledge import DatasetSearch, DocumentDirectory, ListedChunk

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: datasets"], route_class=DescribedRoute)

MAX_QUESTION_CHARS = 10_000
MAX_TOP_K = 2_048
MAX_FOUND = 100
"""Maximum number of chunks that a search returns."""

_EMBEDDED_ONLY = "Only datasets of the embedded knowledge base can be read."


class DocumentShown(Answer):
    """A document of a dataset."""

    id: str
    name: str
    dataset_id: str
    chunk_count: int
    meta_fields: dict[str, Any]
    run: str = "DONE"


class DocumentPage(Answer):
    """A page of documents."""

    docs: list[DocumentShown]
    total: int


class ChunkShown(LazyModel):
    """A chunk. With `vectors`, `q_N_vec` contains its vector of N numbers."""

    id: str
    content: str
    document_id: str
    docnm_kwd: str
    dataset_id: str
    important_keywords: list[str] = Field(default=[])
    questions: list[str] = Field(default=[])
    image_id: str = ""
    doc_type_kwd: str = "text"
    available: bool = True
    positions: list[list[int]]


class ChunkPage(LazyModel):
    """A page of chunks."""

    chunks: list[ChunkShown]
    doc: DocumentShown | None
    total: int


class Question(LazyModel):
    """A search."""

    model_config = with_examples({"question": "Where is my parcel?", "dataset_ids": ["a" * 32]})

    question: Annotated[str, Field(max_length=MAX_QUESTION_CHARS)]
    dataset_ids: Annotated[list[str], Field(min_length=1, max_length=100)]
    document_ids: Annotated[list[str], Field(max_length=1_000, description="Only these documents.")] = Field(default=[])
    page_size: Annotated[int, Field(ge=1, le=MAX_FOUND, description="Number of chunks.")] = 30
    similarity_threshold: Annotated[float, Field(ge=0, le=1)] = 0.2
    vector_similarity_weight: Annotated[float, Field(ge=0, le=1)] = 0.3
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K)] = 1024
    rerank_id: Annotated[str | None, Field(max_length=200)] = None


class DocumentFound(Answer):
    """A document with matching chunks."""

    doc_name: str
    doc_id: str
    count: int


class FoundChunk(LazyModel):
    """A chunk that a search found."""

    id: str
    content: str
    document_id: str
    document_keyword: str
    dataset_id: str
    similarity: float
    vector_similarity: float
    term_similarity: float
    positions: list[Any]


class Found(LazyModel):
    """The best chunks for a question."""

    chunks: list[FoundChunk]
    doc_aggs: list[DocumentFound]
    total: int


@router.get("/datasets/{dataset_id}/documents")
@describe(*PAGES)
async def list_documents(dataset_id: str, request: Request, caller: Authenticated) -> DocumentPage:
    """List the documents of a dataset of the embedded knowledge base, sorted by name."""
    (dataset,), (page, size) = await read_datasets(request, caller, [dataset_id]), read_page(request, caller)
    try:
        rows, total = await _directory(request, caller).list_documents(dataset, (page - 1) * size, size)
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The documents cannot be listed: {error}") from error
    docs = [
        DocumentShown(
            id=row.id, name=row.name, dataset_id=dataset_id, chunk_count=row.chunks, meta_fields=dict(row.metadata)
        )
        for row in rows
    ]
    return DocumentPage(docs=docs, total=total)


@router.get("/datasets/{dataset_id}/documents/{document_id}/chunks")
@describe(describe_query("vectors", "Whether to include the vectors.", "boolean"), *PAGES, answer=ChunkPage)
async def list_chunks(dataset_id: str, document_id: str, request: Request, caller: Authenticated) -> Any:
    """List the chunks of a document, in order."""
    (dataset,), (page, size) = await read_datasets(request, caller, [dataset_id]), read_page(request, caller)
    try:
        rows, total = await _directory(request, caller).list_chunks(dataset, document_id, (page - 1) * size, size)
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The chunks cannot be listed: {error}") from error
    if not total:
        raise RequestError(f"You don't own the document {document_id[:100]}.")
    has_vectors = parse_flag(request.query_params.get("vectors"))
    return {"chunks": [_show_chunk(row, has_vectors=has_vectors) for row in rows], "doc": None, "total": total}


@router.post("/retrieval")
@describe(body=Question, answer=Found)
async def retrieve(request: Request, caller: Authenticated) -> Any:
    """Search datasets that share an embedding model."""
    body = await read_body(request)
    question, ids = to_text(body.get("question")), _read_ids(body.get("dataset_ids"))
    if not ids:
        raise RequestError("`dataset_ids` is required.", 101)
    datasets = await read_datasets(request, caller, ids)
    documents = _read_ids(body.get("document_ids"))
    search = DatasetSearch(
        question[:MAX_QUESTION_CHARS],
        tuple(datasets),
        tuple(documents) if documents else None,
        top_n=int(_read_number(body, "page_size", 30, 1, MAX_FOUND)),
        top_k=int(_read_number(body, "top_k", 1024, 1, MAX_TOP_K)),
        similarity_threshold=_read_number(body, "similarity_threshold", 0.2, 0, 1),
        keywords_similarity_weight=1 - _read_number(body, "vector_similarity_weight", 0.3, 0, 1),
        rerank_id=to_text(body.get("rerank_id"))[:200],
    )
    knowledge = tenant_services(get_app_state(request), caller.tenant).knowledge
    if knowledge is None or not question.strip():
        return {"chunks": [], "doc_aggs": [], "total": 0}
    try:
        found = await knowledge.search(search)
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The datasets cannot be searched: {error}") from error
    counts = [{"doc_name": entry.name, "doc_id": entry.id, "count": entry.chunks} for entry in found.documents]
    chunks = [{name: chunk.get(own) for name, own in _FOUND} for chunk in found.chunks]
    return {"chunks": chunks, "doc_aggs": counts, "total": found.total}


def _directory(request: Request, caller: ApiCaller) -> DocumentDirectory:
    knowledge = get_app_state(request).services_of(caller.tenant).knowledge
    if not isinstance(knowledge, DocumentDirectory):
        raise RequestError(_EMBEDDED_ONLY)
    return knowledge


def _read_ids(value: Any) -> list[str]:
    ids = [to_text(id_) for id_ in cast("list[Any]", value)] if isinstance(value, list) else []
    if len(ids) > 1_000:
        raise RequestError("A search names at most 1,000 datasets or documents.", 101)
    return [id_ for id_ in dict.fromkeys(ids) if id_]


def _read_number(body: dict[str, Any], name: str, default: float, least: float, most: float) -> float:
    """Return a number of the body.

    Raises:
        RequestError: if it is none, or out of range.
    """
    value = body.get(name)
    if value is None:
        return default
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
