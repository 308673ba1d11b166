"""Copies of datasets in the embedded knowledge base: documents, chunks, and vectors.

RAGFlow's API does not send vectors. They are computed here with the dataset's own model, unless the server sends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.adapters.knowledge.file_chunks import TextChunk
from ragflow_lg.adapters.ragflow_api import remote_datasets
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.knowledge.knowledge_file import (
    DatasetRecord,
    KnowledgeFile,
    NewDocument,
    add_dataset,
    find_dataset,
    list_documents,
    store_document,
)

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.adapters.ragflow_api.remote_datasets import RemoteChunk, RemoteDataset, RemoteDocument
    from ragflow_lg.services.knowledge import Embedders

MAX_DOCUMENT_CHARS = 200_000_000
"""Maximum size of a document's chunks."""


async def copy_dataset(
    api: RagflowApi,
    remote: RemoteDataset,
    database: KnowledgeFile,
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
    done = await asyncio.to_thread(_hashes, database, dataset)
    documents = chunks = 0
    async for document in remote_datasets.list_documents(api, remote.id):
        documents += 1
        hash_ = f"{document.id}:{document.update_ms}:{document.chunks}"
        if hash_ in done:
            continue
        found = await _read_chunks(api, remote, document)
        vectors = await _find_vectors(found, dataset, embedders)
        await asyncio.to_thread(_store, database, dataset, document, hash_, found, vectors)
        chunks += len(found)
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


async def _find_vectors(
    chunks: Sequence[RemoteChunk], dataset: DatasetRecord, embedders: Embedders
) -> Sequence[Sequence[float]]:
    """Return the vectors of some chunks: the server's, or computed ones."""
    sizes = {len(chunk.vector) for chunk in chunks}
    if len(sizes) == 1 and 0 not in sizes and dataset.dims in (0, *sizes):
        return [chunk.vector for chunk in chunks]
    return await embedders.embedder(dataset.embedding_model).embed_chunks([c.content for c in chunks]) if chunks else ()


def _open_dataset(database: KnowledgeFile, remote: RemoteDataset, model: str) -> DatasetRecord:
    with database.writing() as connection:
        found = find_dataset(connection, remote.id)
        if found is not None and found.id == remote.id:
            return found
        name = remote.name if find_dataset(connection, remote.name) is None else f"{remote.name} ({remote.id[:8]})"
        return add_dataset(connection, name, model, id_=remote.id)


def _hashes(database: KnowledgeFile, dataset: DatasetRecord) -> set[str]:
    with database.reading() as connection:
        return {document.hash for document in list_documents(connection, dataset.number)}


def _store(
    database: KnowledgeFile,
    dataset: DatasetRecord,
    document: RemoteDocument,
    hash_: str,
    chunks: Sequence[RemoteChunk],
    vectors: Sequence[Sequence[float]],
) -> None:
    with database.writing() as connection:
        source, name = f"ragflow:{document.id}", document.name
        taken = {d.name: d.source for d in list_documents(connection, dataset.number)}
        if taken.get(name, source) != source:
            name = f"{name} ({document.id[:8]})"
        texts = [TextChunk(chunk.content, chunk.positions) for chunk in chunks]
        # The server does not tell which model has made its vectors.
        store_document(connection, dataset, NewDocument(name, source, hash_, document.metadata, texts), vectors, "")
