"""Indexing of new and changed files, in batches that are stored one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragflow_lg.adapters.knowledge.chunking import TextChunk, split_into_chunks
from ragflow_lg.adapters.knowledge.file_text import read_blocks, read_sidecar
from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
from ragflow_lg.adapters.knowledge.knowledge_records import (
    DatasetRecord,
    DocumentRecord,
    NewChunk,
    add_chunks,
    delete_document,
    differ,
    list_documents,
    list_places,
    open_document,
    other_model_error,
    set_dims,
)
from ragflow_lg.adapters.knowledge.source_files import (
    FileContent,
    SourceFile,
    is_deleted,
    read_source,
    resolve_source_name,
)
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.services.knowledge import Embedder

MAX_CHUNKS = 200_000
"""Above this number of chunks, a server is better suited than the embedded knowledge base."""

BATCH = 64
"""Default number of chunks that are embedded and stored together."""


@dataclass
class AddedFiles:
    """The result of adding files."""

    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    duplicates: dict[str, str] = field(default_factory=dict[str, str])
    """Files with the same content as another file, and the other file's name."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Files that could not be read, with the reason."""
    missing: list[str] = field(default_factory=list[str])
    """Documents whose files no longer exist."""
    chunks: int = 0
    """Number of stored chunks."""


class Progress(NamedTuple):
    """The progress of adding files."""

    files: int
    all_files: int
    chunks: int


class _Document(NamedTuple):
    """A document to store."""

    name: str
    source: str
    hash: str
    metadata: str
    chunks: Sequence[TextChunk]
    stored: frozenset[int]
    """Indices of chunks that an earlier run stored."""


class _Item(NamedTuple):
    """A chunk to store."""

    document: _Document
    place: int


class Indexer:
    """Adds files to one dataset."""

    def __init__(
        self,
        database: KnowledgeDatabase,
        dataset: DatasetRecord,
        embedder: Embedder,
        *,
        batch: int = BATCH,
        parallel: int = 4,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._dataset = dataset
        self._embedder = embedder
        self._batch, self._parallel = batch, parallel
        self._on_progress = on_progress
        self._report = AddedFiles()
        self._files = self._all_files = 0
        self._names: set[str] = set()

    async def add(self, files: Sequence[SourceFile], root: str) -> AddedFiles:
        """Add files below a folder. Stored chunks stay stored, even if this fails or is cancelled.

        Raises:
            ServiceError: if the embedding model or the database fails. Files that cannot be read are only reported.
        """
        self._all_files = len(files)
        known = {document.name: document for document in await asyncio.to_thread(self._documents)}
        tasks: set[asyncio.Task[None]] = set()
        try:
            async for batch in self._batches(files, known):
                while len(tasks) >= self._parallel:
                    done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    _raise_first(done)
                tasks.add(asyncio.create_task(self._store(batch)))
            while tasks:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                _raise_first(done)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        names = {file.name for file in files}
        absent = [d for d in known.values() if d.name not in names and _is_below(d.source, root)]
        self._report.missing = await asyncio.to_thread(lambda: [d.name for d in absent if is_deleted(d.source)])
        return self._report

    def _documents(self) -> list[DocumentRecord]:
        with self._database.reading() as connection:
            return list_documents(connection, self._dataset.number)

    async def _batches(
        self, files: Sequence[SourceFile], known: Mapping[str, DocumentRecord]
    ) -> AsyncIterator[list[_Item]]:
        """Read the files one by one and yield their chunks in batches of several small files or parts of large ones."""
        files_by_hash = {d.hash: SourceFile(Path(d.source), d.name) for d in known.values() if d.is_complete}
        pending: list[_Item] = []
        for file in files:
            document = await self._prepare(file, known.get(file.name), files_by_hash)
            self._files += 1
            self._on_progress(Progress(self._files, self._all_files, self._report.chunks))
            if document is None:
                continue
            items = [_Item(document, place) for place in range(len(document.chunks)) if place not in document.stored]
            if not items:
                await asyncio.to_thread(self._write, [(document, [])], 0)
            pending += items
            while len(pending) >= self._batch:
                yield pending[: self._batch]
                pending = pending[self._batch :]
        if pending:
            yield pending

    async def _prepare(
        self, file: SourceFile, known: DocumentRecord | None, files_by_hash: dict[str, SourceFile]
    ) -> _Document | None:
        """Read a file if it is new or has changed."""
        report = self._report
        try:
            content = await asyncio.to_thread(read_source, file)
            if known is not None and known.is_complete and known.hash == content.hash:
                report.unchanged.append(file.name)
                return None
            if file.name in self._names:
                raise ServiceError("another file here has the same name after decoding; rename one of them")
            self._names.add(file.name)
            first = files_by_hash.get(content.hash, file)
            if first.name != file.name and await asyncio.to_thread(_has_hash, first, content.hash):
                report.duplicates[file.name] = first.name
                if known is not None:
                    await asyncio.to_thread(self._delete, known)
                return None
            source = resolve_source_name(file.path)
            if known is not None and known.source != source and not is_deleted(known.source):
                raise ServiceError(
                    f"the dataset has a document with this name from {known.source!r}; add the folder above both, "
                    "or use another dataset"
                )
            chunks, metadata = await asyncio.to_thread(self._split, file, content)
        except ServiceError as error:
            report.failed[file.name] = str(error).rstrip(".")
            return None
        files_by_hash[content.hash] = file
        if known is not None and known.hash == content.hash:
            stored = await asyncio.to_thread(self._places, known)
        else:
            stored = frozenset[int]()
        (report.added if known is None or known.hash == content.hash else report.changed).append(file.name)
        return _Document(file.name, source, content.hash, metadata, chunks, stored)

    def _split(self, file: SourceFile, content: FileContent) -> tuple[Sequence[TextChunk], str]:
        text = read_blocks(file.name, content.content)
        metadata = read_sidecar(content.sidecar) if content.sidecar is not None else {}
        chunks = list(split_into_chunks(text.blocks, self._dataset.chunk_tokens, self._dataset.overlap_tokens))
        if not chunks:
            raise ServiceError("it contains no text")
        chunks = [chunk._replace(content=join_surrogates(chunk.content)) for chunk in chunks]
        return chunks, json.dumps({**text.metadata, **metadata}, ensure_ascii=False)

    def _places(self, document: DocumentRecord) -> frozenset[int]:
        with self._database.reading() as connection:
            return list_places(connection, document.number)

    def _delete(self, document: DocumentRecord) -> None:
        with self._database.writing() as connection:
            delete_document(connection, self._dataset.number, document.number)

    async def _store(self, batch: Sequence[_Item]) -> None:
        """Embed chunks and store them in one transaction."""
        vectors = await self._embedder.embed_chunks([item.document.chunks[item.place].content for item in batch])
        await asyncio.to_thread(self._write_batch, batch, vectors)
        self._report.chunks += len(batch)
        self._on_progress(Progress(self._files, self._all_files, self._report.chunks))

    def _write_batch(self, batch: Sequence[_Item], vectors: Sequence[Sequence[float]]) -> None:
        rows = np.asarray(vectors, np.float64)  # norms of large vectors would overflow in float32
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = (rows / np.where(lengths == 0, 1, lengths)).astype("<f4")
        chunks: dict[str, tuple[_Document, list[NewChunk]]] = {}
        for item, row in zip(batch, rows, strict=True):
            chunk = item.document.chunks[item.place]
            new_chunk = NewChunk(item.place, chunk.content, chunk.positions, row.tobytes())
            chunks.setdefault(item.document.name, (item.document, []))[1].append(new_chunk)
        self._write(list(chunks.values()), rows.shape[1])

    def _write(self, documents: Sequence[tuple[_Document, Sequence[NewChunk]]], dims: int) -> None:
        with self._database.writing() as connection:
            model = self._embedder.vector_model
            expected, vector_model = set_dims(connection, self._dataset.number, dims, model)
            if expected < 0:
                raise ServiceError(f"The dataset {self._dataset.name!r} has been deleted.")
            if dims and differ(vector_model, model):
                raise other_model_error(self._dataset.name, vector_model, model)
            if dims and expected != dims:
                raise ServiceError(
                    f"The dataset {self._dataset.name!r} has vectors of {expected} numbers, but the embedding model "
                    f"{self._embedder.name!r} returns {dims}. Use the model that created the dataset, or create a "
                    "new dataset."
                )
            for document, chunks in documents:
                number = open_document(
                    connection,
                    self._dataset,
                    document.name,
                    document.source,
                    document.hash,
                    document.metadata,
                    len(document.chunks),
                )
                add_chunks(connection, self._dataset, number, document.name, chunks)


def _raise_first(done: set[asyncio.Task[None]]) -> None:
    for task in done:
        task.result()


def _is_below(source: str, root: str) -> bool:
    return source == root or source.startswith(root.rstrip("/") + "/")


def _has_hash(file: SourceFile, hash_: str) -> bool:
    """Return whether a file still has the given content. It may have been renamed or changed."""
    try:
        return read_source(file).hash == hash_
    except ServiceError:
        return False
