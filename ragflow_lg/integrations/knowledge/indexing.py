"""Indexing of new and changed files: each is read, split, embedded, and stored as a whole."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import NamedTuple

from msgspec import Struct, field

from ragflow_lg.adapters.knowledge.file_chunks import split_file
from ragflow_lg.adapters.knowledge.file_text import MAX_FILE_BYTES, SIDECAR, SUFFIXES, read_file, read_sidecar
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.knowledge.knowledge_file import (
    DatasetRecord,
    DocumentRecord,
    KnowledgeFile,
    NewDocument,
    delete_document,
    list_documents,
    store_document,
)
from ragflow_lg.services.knowledge import Embedder

MAX_CHUNKS = 200_000
"""Above this number of chunks, a server is better suited than the embedded knowledge base."""

MAX_SIDECAR_BYTES = 256 * 1024
"""Maximum size of a metadata file; filters load the metadata of all documents."""

_MAX_PATH_CHARS = 300


class SourceFile(NamedTuple):
    """A file. ``name`` is the name of the document: the path within the added folder."""

    path: Path
    name: str

    @property
    def is_supported(self) -> bool:
        """Whether files of this type can be read. A folder that could not be listed is read, and reports why."""
        return self.name.endswith("/") or PurePath(self.name).suffix.lower() in SUFFIXES

    @property
    def source(self) -> str:
        """The absolute path."""
        return _text(str(self.path.resolve()))


def list_source_files(path: Path) -> list[SourceFile]:
    """Return a file, or all files in a folder, sorted, except hidden files, links and metadata files.

    Raises:
        ServiceError: if the file or folder does not exist.
    """
    shown = repr(str(path)[:_MAX_PATH_CHARS])
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        raise ServiceError(f"There is no file or folder {shown}: {error.strerror}.") from None
    if not is_folder:
        return [SourceFile(path, _text(path.name))]
    files: list[SourceFile] = []
    locked: list[str] = []
    for folder, folders, names in os.walk(path, onerror=lambda error: locked.append(error.filename)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = [name for name in names if not name.startswith((".", "~$")) and not name.lower().endswith(SIDECAR)]
        files += [SourceFile(Path(folder, name), _text(os.path.relpath(f"{folder}/{name}", path))) for name in names]
    files = [file for file in files if not file.path.is_symlink()]
    files += [SourceFile(Path(folder), _text(os.path.relpath(folder, path)) + "/") for folder in locked]
    return sorted(files, key=lambda file: (file.name.count("/") > 0, file.name))


def is_deleted(source: str) -> bool:
    """Return whether a file definitely no longer exists or is a link. An inaccessible file counts as existing."""
    try:
        return stat.S_ISLNK(os.lstat(source).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


class AddedFiles(Struct):
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


class Indexer:
    """Adds files to one dataset."""

    def __init__(
        self,
        database: KnowledgeFile,
        dataset: DatasetRecord,
        embedder: Embedder,
        *,
        parallel: int = 4,
        on_progress: Callable[[int, int], None] = lambda done, all_: None,
    ) -> None:
        """Initialize. ``on_progress`` gets the number of files that are done, and of all."""
        self._database = database
        self._dataset = dataset
        self._embedder = embedder
        self._permits = asyncio.Semaphore(parallel)
        self._on_progress = on_progress
        self._report = AddedFiles()
        self._known: dict[str, DocumentRecord] = {}
        self._hashes: dict[str, SourceFile] = {}
        self._names: set[str] = set()

    async def add(self, files: Sequence[SourceFile], root: str) -> AddedFiles:
        """Add files below a folder. Stored documents stay stored, even if this fails or is cancelled.

        Raises:
            ServiceError: if the embedding model or the database fails. Files that cannot be read are only reported.
        """
        with self._database.reading() as connection:
            self._known = {document.name: document for document in list_documents(connection, self._dataset.number)}
        self._hashes = {d.hash: SourceFile(Path(d.source), d.name) for d in self._known.values()}
        try:
            async with asyncio.TaskGroup() as group:
                for done, file in enumerate(files, 1):
                    await self._permits.acquire()
                    document = await self._prepare(file)
                    if document is None:
                        self._permits.release()
                    else:
                        group.create_task(self._store(document))
                    self._on_progress(done, len(files))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        names = {file.name for file in files}
        absent = [d for d in self._known.values() if d.name not in names and _is_below(d.source, root)]
        self._report.missing = [d.name for d in absent if is_deleted(d.source)]
        return self._report

    async def _prepare(self, file: SourceFile) -> NewDocument | None:
        """Read and split a file if it is new or has changed."""
        report, known = self._report, self._known.get(file.name)
        try:
            content, sidecar, hash_ = await asyncio.to_thread(_read_source, file)
            if known is not None and known.hash == hash_:
                report.unchanged.append(file.name)
                return None
            if file.name in self._names:
                raise ServiceError("another file here has the same name after decoding; rename one of them")
            self._names.add(file.name)
            first = self._hashes.get(hash_, file)
            if first.name != file.name and _has_hash(first, hash_):
                report.duplicates[file.name] = first.name
                if known is not None:
                    with self._database.writing() as connection:
                        delete_document(connection, self._dataset.number, file.name)
                return None
            source = file.source
            if known is not None and known.source != source and not is_deleted(known.source):
                raise ServiceError(
                    f"the dataset has a document with this name from {known.source!r}; add the folder above both, "
                    "or use another dataset"
                )
            self._hashes[hash_] = file
            document = await asyncio.to_thread(self._split, file, source, content, sidecar, hash_)
        except ServiceError as error:
            report.failed[file.name] = str(error).rstrip(".")
            return None
        (report.added if known is None else report.changed).append(file.name)
        return document

    def _split(self, file: SourceFile, source: str, content: bytes, sidecar: bytes | None, hash_: str) -> NewDocument:
        text = read_file(file.name, content)
        metadata = {**text.metadata, **(read_sidecar(sidecar) if sidecar is not None else {})}
        chunks = split_file(text, self._dataset.chunk_tokens, self._dataset.overlap_tokens)
        if not chunks:
            raise ServiceError("it contains no text")
        return NewDocument(file.name, source, hash_, metadata, chunks)

    async def _store(self, document: NewDocument) -> None:
        try:
            vectors = await self._embedder.embed_chunks([chunk.content for chunk in document.chunks])
            await asyncio.to_thread(self._write, document, vectors)
            self._report.chunks += len(document.chunks)
        finally:
            self._permits.release()

    def _write(self, document: NewDocument, vectors: Sequence[Sequence[float]]) -> None:
        with self._database.writing() as connection:
            store_document(connection, self._dataset, document, vectors, self._embedder.vector_model)


def _is_below(source: str, root: str) -> bool:
    return source == root or source.startswith(root.rstrip("/") + "/")


def _has_hash(file: SourceFile, hash_: str) -> bool:
    """Return whether a file still has the given content. It may have been renamed or changed."""
    try:
        return _read_source(file)[2] == hash_
    except ServiceError:
        return False


def _read_source(file: SourceFile) -> tuple[bytes, bytes | None, str]:
    """Return the content of a file and of its metadata file, and a hash that changes with either."""
    content = _read(file.path, MAX_FILE_BYTES)
    metadata_path = file.path.with_name(file.path.name + SIDECAR)
    has_sidecar = os.path.isfile(metadata_path) and not os.path.islink(metadata_path)
    sidecar = _read(metadata_path, MAX_SIDECAR_BYTES) if has_sidecar else None
    digest = blake2b(digest_size=16)
    for part in (file.path.suffix.lower().encode("utf-8", "replace"), content, sidecar or b""):
        digest.update(len(part).to_bytes(8) + part)
    return content, sidecar, digest.hexdigest()


def _text(name: str) -> str:
    """Decode a file name; invalid bytes are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _read(path: Path, limit: int) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ServiceError("it is not a regular file")
            content = file.read(limit + 1)
    except OSError as error:
        raise ServiceError(f"it cannot be opened: {error.strerror}") from None
    if len(content) > limit:
        raise ServiceError(f"{path.name[:_MAX_PATH_CHARS]!r} is larger than {limit:,} bytes; split it")
    return content
