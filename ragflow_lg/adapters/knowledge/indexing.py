"""Taking files into a dataset: only what is new or has changed, in batches that are stored as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragflow_lg.adapters.knowledge.chunking import Piece, pieces_of
from ragflow_lg.adapters.knowledge.document_metadata import read_sidecar
from ragflow_lg.adapters.knowledge.file_text import read_blocks
from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
from ragflow_lg.adapters.knowledge.knowledge_records import (
    DatasetRecord,
    DocumentRecord,
    NewChunk,
    add_chunks,
    delete_document,
    documents_of,
    open_document,
    places_of,
    set_dims,
)
from ragflow_lg.adapters.knowledge.source_files import FileContent, SourceFile, is_gone, read_source, source_name
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.knowledge import Embedder

__all__ = ["MAX_CHUNKS", "AddedFiles", "Indexer", "Progress"]

MAX_CHUNKS = 200_000
"""From how many chunks on a dataset is better kept by a server."""

BATCH = 64
"""How many chunks are embedded and stored together."""


@dataclass
class AddedFiles:
    """What became of the files."""

    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    duplicates: dict[str, str] = field(default_factory=dict[str, str])
    """The files that hold the same as another, with its name."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Why a file could not be read."""
    missing: list[str] = field(default_factory=list[str])
    """Documents whose files are no longer there."""
    chunks: int = 0
    """How many were stored."""


class Progress(NamedTuple):
    """How far it has come."""

    files: int
    all_files: int
    chunks: int


class _Prepared(NamedTuple):
    """A document that is to be stored."""

    name: str
    source: str
    hash: str
    metadata: str
    pieces: Sequence[Piece]
    stored: frozenset[int]
    """Places of chunks that an earlier try has stored."""


class _Item(NamedTuple):
    """A chunk on its way."""

    document: _Prepared
    place: int


class Indexer:
    """Takes files into one dataset."""

    def __init__(
        self,
        database: KnowledgeDatabase,
        dataset: DatasetRecord,
        embedder: Embedder,
        *,
        batch: int = BATCH,
        parallel: int = 4,
        tell: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._dataset = dataset
        self._embedder = embedder
        self._batch, self._parallel = batch, parallel
        self._tell = tell
        self._report = AddedFiles()
        self._files = self._all_files = 0
        self._taken: set[str] = set()

    async def add(self, files: Sequence[SourceFile], root: str) -> AddedFiles:
        """Take in files below a folder. What is stored stays stored, however this ends.

        Raises:
            ServiceError: if the embedding model or the database fails. A file that cannot be read is only told of.
        """
        self._all_files = len(files)
        known = {document.name: document for document in await asyncio.to_thread(self._documents)}
        running: set[asyncio.Task[None]] = set()
        try:
            async for batch in self._batches(files, known):
                while len(running) >= self._parallel:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    _raise_first(done)
                running.add(asyncio.create_task(self._store(batch)))
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                _raise_first(done)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        names = {file.name for file in files}
        absent = [d for d in known.values() if d.name not in names and _is_below(d.source, root)]
        self._report.missing = await asyncio.to_thread(lambda: [d.name for d in absent if is_gone(d.source)])
        return self._report

    def _documents(self) -> list[DocumentRecord]:
        with self._database.reading() as connection:
            return documents_of(connection, self._dataset.number)

    async def _batches(
        self, files: Sequence[SourceFile], known: Mapping[str, DocumentRecord]
    ) -> AsyncIterator[list[_Item]]:
        """Read the files one after the other and give their chunks, many small files or a part of a large one."""
        holders = {d.hash: SourceFile(Path(d.source), d.name) for d in known.values() if d.is_complete}
        gathered: list[_Item] = []
        for file in files:
            prepared = await self._prepared(file, known.get(file.name), holders)
            self._files += 1
            self._tell(Progress(self._files, self._all_files, self._report.chunks))
            if prepared is None:
                continue
            items = [_Item(prepared, place) for place in range(len(prepared.pieces)) if place not in prepared.stored]
            if not items:
                await asyncio.to_thread(self._write, [(prepared, [])], 0)
            gathered += items
            while len(gathered) >= self._batch:
                yield gathered[: self._batch]
                gathered = gathered[self._batch :]
        if gathered:
            yield gathered

    async def _prepared(
        self, file: SourceFile, known: DocumentRecord | None, holders: dict[str, SourceFile]
    ) -> _Prepared | None:
        """Read a file, if it is new or has changed."""
        report = self._report
        try:
            held = await asyncio.to_thread(read_source, file)
            if known is not None and known.is_complete and known.hash == held.hash:
                report.unchanged.append(file.name)
                return None
            if file.name in self._taken:
                raise ServiceError("its name is shown as that of another file here; rename one of them")
            self._taken.add(file.name)
            first = holders.get(held.hash, file)
            if first.name != file.name and await asyncio.to_thread(_still_holds, first, held.hash):
                report.duplicates[file.name] = first.name
                if known is not None:
                    await asyncio.to_thread(self._delete, known)
                return None
            source = source_name(file.path)
            if known is not None and known.source != source and not is_gone(known.source):
                raise ServiceError(
                    f"the dataset has a document of this name from {known.source!r}; add the folder above both, "
                    "or use another dataset"
                )
            pieces, metadata = await asyncio.to_thread(self._pieces, file, held)
        except ServiceError as error:
            report.failed[file.name] = str(error).rstrip(".")
            return None
        holders[held.hash] = file
        if known is not None and known.hash == held.hash:
            stored = await asyncio.to_thread(self._places, known)
        else:
            stored = frozenset[int]()
        (report.added if known is None or known.hash == held.hash else report.changed).append(file.name)
        return _Prepared(file.name, source, held.hash, metadata, pieces, stored)

    def _pieces(self, file: SourceFile, held: FileContent) -> tuple[Sequence[Piece], str]:
        text = read_blocks(file.name, held.content)
        beside = read_sidecar(held.sidecar) if held.sidecar is not None else {}
        pieces = list(pieces_of(text.blocks, self._dataset.chunk_tokens, self._dataset.overlap_tokens))
        if not pieces:
            raise ServiceError("it holds no text")
        pieces = [piece._replace(content=_plain(piece.content)) for piece in pieces]
        return pieces, json.dumps({**text.metadata, **beside}, ensure_ascii=False)

    def _places(self, document: DocumentRecord) -> frozenset[int]:
        with self._database.reading() as connection:
            return places_of(connection, document.number)

    def _delete(self, document: DocumentRecord) -> None:
        with self._database.writing() as connection:
            delete_document(connection, self._dataset.number, document.number)

    async def _store(self, batch: Sequence[_Item]) -> None:
        """Embed chunks and store them in one transaction."""
        vectors = await self._embedder.embed_chunks([item.document.pieces[item.place].content for item in batch])
        await asyncio.to_thread(self._write_batch, batch, vectors)
        self._report.chunks += len(batch)
        self._tell(Progress(self._files, self._all_files, self._report.chunks))

    def _write_batch(self, batch: Sequence[_Item], vectors: Sequence[Sequence[float]]) -> None:
        rows = np.asarray(vectors, np.float64)  # the lengths of large ones are no float32
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = (rows / np.where(lengths == 0, 1, lengths)).astype("<f4")
        chunks: dict[str, tuple[_Prepared, list[NewChunk]]] = {}
        for item, row in zip(batch, rows, strict=True):
            piece = item.document.pieces[item.place]
            made = NewChunk(item.place, piece.content, piece.positions, row.tobytes())
            chunks.setdefault(item.document.name, (item.document, []))[1].append(made)
        self._write(list(chunks.values()), rows.shape[1])

    def _write(self, documents: Sequence[tuple[_Prepared, Sequence[NewChunk]]], dims: int) -> None:
        with self._database.writing() as connection:
            expected = set_dims(connection, self._dataset.number, dims)
            if expected < 0:
                raise ServiceError(f"The dataset {self._dataset.name!r} has been deleted meanwhile.")
            if dims and expected != dims:
                raise ServiceError(
                    f"The dataset {self._dataset.name!r} holds vectors of {expected} numbers, but the embedding model "
                    f"{self._embedder.name!r} gives {dims}: it is another model. Use the one that the dataset was made "
                    "with, or make a new dataset."
                )
            for held, chunks in documents:
                number = open_document(
                    connection, self._dataset, held.name, held.source, held.hash, held.metadata, len(held.pieces)
                )
                add_chunks(connection, self._dataset, number, held.name, chunks)


def _raise_first(done: set[asyncio.Task[None]]) -> None:
    for task in done:
        task.result()


def _is_below(source: str, root: str) -> bool:
    return source == root or source.startswith(root.rstrip("/") + "/")


def _still_holds(file: SourceFile, hash_: str) -> bool:
    """Whether a file that once had this content has it still. It may have got another name, or other content."""
    try:
        return read_source(file).hash == hash_
    except ServiceError:
        return False


def _plain(text: str) -> str:
    """Give a text that can be stored: JSON, PDF and others may hold halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
