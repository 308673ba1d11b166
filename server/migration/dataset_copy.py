"""Copies of datasets in the embedded knowledge base: documents, chunks, and vectors.

RAGFlow's API does not send vectors. They are computed here with the dataset's own model, unless the server sends them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ragflow_lg.adapters.knowledge.knowledge_records import (
    DatasetRecord,
    NewChunk,
    add_chunks,
    add_dataset,
    find_dataset,
    list_documents,
    open_document,
    set_dims,
)
from ragflow_lg.adapters.ragflow_api import remote_datasets
from ragflow_lg.base.errors import ServiceError

if TYPE_CHECKING:
    from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.adapters.ragflow_api.remote_datasets import RemoteChunk, RemoteDataset, RemoteDocument
    from ragflow_lg.services.knowledge import Embedders

BATCH = 64
"""Number of chunks that are embedded and stored at once."""

MAX_DOCUMENT_CHARS = 200_000_000
"""Maximum size of a document's chunks."""


async def copy_dataset(
    api: RagflowApi,
    remote: RemoteDataset,
    database: KnowledgeDatabase,
    embedders: Embedders,
    *,
    embedding: str = "",
    report: Callable[[str], None] = lambda line: None,
) -> tuple[int, int]:
    """Copy a dataset under its id and name; return the number of its documents and of the chunks copied now.

    Documents that are here already and have not changed there are skipped. ``embedding`` replaces the model.

    Raises:
        ServiceError: if the server, the model or the database fails.
        SettingsError: if the model is not in the settings.
    """
    model = embedding or remote.embedding_model
    dataset = await asyncio.to_thread(_open_dataset, database, remote, model)
    done = await asyncio.to_thread(_complete_hashes, database, dataset)
    documents = chunks = 0
    async for document in remote_datasets.list_documents(api, remote.id):
        documents += 1
        hash_ = f"{document.id}:{document.update_ms}:{document.chunks}"
        if hash_ in done:
            continue
        found = await _read_chunks(api, remote, document)
        for start in range(0, max(len(found), 1), BATCH):
            batch = found[start : start + BATCH]
            vectors = await _find_vectors(batch, dataset, embedders)
            rows = _build_rows(batch, vectors, start)
            await asyncio.to_thread(_store, database, dataset, document, hash_, len(found), rows)
            chunks += len(batch)
            report(f"{remote.name}: {documents:,}/{remote.documents:,} documents, {chunks:,} chunks")
    return documents, chunks


async def _read_chunks(api: RagflowApi, remote: RemoteDataset, document: RemoteDocument) -> list[RemoteChunk]:
    found: list[RemoteChunk] = []
    size = 0
    async for chunk in remote_datasets.list_chunks(api, remote.id, document.id):
        found.append(chunk)
        size += len(chunk.content)
        if size > MAX_DOCUMENT_CHARS:
            raise ServiceError(f"The document {document.name!r} has more than {MAX_DOCUMENT_CHARS:,} characters.")
    return found


async def _find_vectors(batch: Sequence[RemoteChunk], dataset: DatasetRecord, embedders: Embedders) -> Any:
    """Return the vectors of some chunks, one row each: the server's, or computed ones."""
    sizes = {len(chunk.vector) for chunk in batch}
    if len(sizes) == 1 and 0 not in sizes and dataset.dims in (0, *sizes):
        rows = np.asarray([chunk.vector for chunk in batch], np.float64)
    elif batch:
        embedder = embedders.embedder(dataset.embedding_model)
        rows = np.asarray(await embedder.embed_chunks([chunk.content for chunk in batch]), np.float64)
    else:
        return np.zeros((0, 0), "<f4")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype("<f4")


def _build_rows(batch: Sequence[RemoteChunk], vectors: Any, start: int) -> list[tuple[NewChunk, int]]:
    return [
        (NewChunk(start + at, chunk.content, chunk.positions, vectors[at].tobytes()), len(vectors[at]))
        for at, chunk in enumerate(batch)
    ]


def _open_dataset(database: KnowledgeDatabase, remote: RemoteDataset, model: str) -> DatasetRecord:
    with database.writing() as connection:
        found = find_dataset(connection, remote.id)
        if found is not None and found.id == remote.id:
            return found
        name = remote.name if find_dataset(connection, remote.name) is None else f"{remote.name} ({remote.id[:8]})"
        return add_dataset(connection, name, model, id_=remote.id)


def _complete_hashes(database: KnowledgeDatabase, dataset: DatasetRecord) -> set[str]:
    with database.reading() as connection:
        return {document.hash for document in list_documents(connection, dataset.number) if document.is_complete}


def _store(
    database: KnowledgeDatabase,
    dataset: DatasetRecord,
    document: RemoteDocument,
    hash_: str,
    count: int,
    rows: Sequence[tuple[NewChunk, int]],
) -> None:
    with database.writing() as connection:
        for dims in {dims for _, dims in rows}:
            expected, _ = set_dims(connection, dataset.number, dims)
            if expected != dims:
                raise ServiceError(
                    f"The dataset {dataset.name!r} has vectors of {expected} numbers here, but these have {dims}. "
                    f"Delete the copy with `ragflow-lg kb delete {dataset.id}` and pull again."
                )
        metadata = json.dumps(document.metadata, ensure_ascii=False)
        source = f"ragflow:{document.id}"
        name = document.name
        taken = {d.name: d.source for d in list_documents(connection, dataset.number)}
        if taken.get(name, source) != source:
            name = f"{name} ({document.id[:8]})"
        number = open_document(connection, dataset, name, source, hash_, metadata, count)
        add_chunks(connection, dataset, number, name, [chunk for chunk, _ in rows])
