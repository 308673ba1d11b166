"""Datasets, documents and chunks on a RAGFlow server. All functions raise ServiceError if the server fails."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi, as_map, is_id, read_number, read_text
from ragflow_lg.base.lenient_values import as_list

MAX_DATASETS = 2_000
MAX_DOCUMENTS = 50_000
MAX_CHUNKS = 200_000
"""Maximum number of chunks in one document."""

MAX_DIMS = 16_384
_VECTOR = re.compile(r"q_\d{1,5}_vec")


class RemoteDataset(Struct, frozen=True):
    """A dataset."""

    id: str
    name: str
    embedding_model: str
    documents: int
    chunks: int


class RemoteDocument(Struct, frozen=True):
    """A document of a dataset."""

    id: str
    name: str
    chunks: int
    metadata: dict[str, Any]
    update_ms: int


class RemoteChunk(Struct, frozen=True):
    """A chunk; its vector is empty if the server does not send it."""

    id: str
    content: str
    positions: list[list[int]]
    vector: list[float]


async def list_datasets(api: RagflowApi) -> Sequence[RemoteDataset]:
    """Return the datasets of the key's owner."""
    return [
        RemoteDataset(
            read_text(row, "id", max_chars=64),
            read_text(row, "name", max_chars=255) or read_text(row, "id", max_chars=64),
            read_text(row, "embedding_model", "embd_id", max_chars=200),
            read_number(row, "document_count"),
            read_number(row, "chunk_count"),
        )
        async for row in api.rows("/api/v1/datasets", limit=MAX_DATASETS)
        if is_id(read_text(row, "id", max_chars=200))
    ]


async def list_documents(api: RagflowApi, dataset: str) -> AsyncIterator[RemoteDocument]:
    """Yield the documents of a dataset."""
    async for row in api.rows(f"/api/v1/datasets/{quote(dataset, safe='')}/documents", "docs", limit=MAX_DOCUMENTS):
        id_ = read_text(row, "id", max_chars=200)
        if is_id(id_):
            name = read_text(row, "name", max_chars=255) or id_
            count = read_number(row, "chunk_count")
            yield RemoteDocument(id_, name, count, as_map(row.get("meta_fields")), read_number(row, "update_time"))


async def list_chunks(api: RagflowApi, dataset: str, document: str) -> AsyncIterator[RemoteChunk]:
    """Yield the chunks of a document, in the order of the server. Chunks that are switched off are left out."""
    path = f"/api/v1/datasets/{quote(dataset, safe='')}/documents/{quote(document, safe='')}/chunks"
    async for row in api.rows(path, "chunks", {"vectors": "true"}, limit=MAX_CHUNKS, page_size=100):
        content = read_text(row, "content", "content_with_weight", max_chars=200_000)
        if content.strip() and row.get("available") is not False:
            yield RemoteChunk(read_text(row, "id", max_chars=200), content, _read_positions(row), _read_vector(row))


def _read_positions(row: Mapping[str, Any]) -> list[list[int]]:
    rows = [as_list(entry) for entry in as_list(row.get("positions"))[:1_000]]
    return [[n for n in entry[:8] if type(n) is int and abs(n) < 2**53] for entry in rows]


def _read_vector(row: Mapping[str, Any]) -> list[float]:
    values = next((as_list(value) for name, value in row.items() if _VECTOR.fullmatch(name)), list[Any]())
    is_whole = 0 < len(values) <= MAX_DIMS and all(type(n) in (int, float) and abs(n) < 1e30 for n in values)
    return [float(n) for n in values] if is_whole else []
