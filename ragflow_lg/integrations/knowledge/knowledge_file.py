"""The SQLite file of the embedded knowledge base: datasets, documents, and chunks with their words and vectors.

Only its owner may read the file. All functions take a connection of `KnowledgeFile`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from ragflow_lg.adapters.knowledge.file_chunks import TextChunk
from ragflow_lg.adapters.knowledge.words import split_words
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import join_surrogates

CHUNK_TOKENS = 256
OVERLAP_TOKENS = 32

_BUSY_TIMEOUT_S = 30.0
_APPLICATION_ID = 0x72666B63
_TABLES = Path(__file__).with_name("knowledge_tables.sql").read_text("utf-8").format(application_id=_APPLICATION_ID)
_TOKENIZER = "unicode61 remove_diacritics 0 categories ''L* N* M* Co Pc''"


class DatasetRecord(NamedTuple):
    """A dataset. ``dims`` is 0 until the first vector is stored; ``version`` changes whenever its chunks change.

    ``vector_model`` is the `ragflow_lg.services.knowledge.Embedder.vector_model` of its vectors, ``""`` if unknown.
    """

    number: int
    id: str
    name: str
    embedding_model: str
    vector_model: str
    dims: int
    chunk_tokens: int
    overlap_tokens: int
    version: int
    documents: int
    chunks: int

    def check_vectors(self, model: str, dims: int) -> None:
        """Check that vectors of a model can be compared with those of the dataset.

        Raises:
            ServiceError: if they are those of another model, or have another length.
        """
        is_other = self.vector_model != model and self.vector_model and model
        if self.dims and (is_other or self.dims != dims):
            raise ServiceError(
                f"The dataset {self.name!r} has vectors of the embedding model {self.vector_model!r} with {self.dims} "
                f"numbers, which cannot be compared with those of {model!r} with {dims}. Set the model that created "
                'the dataset ([embeddings."ID"] model), or create the dataset again.'
            )


class DocumentRecord(NamedTuple):
    """A stored document."""

    number: int
    id: str
    name: str
    source: str
    hash: str
    metadata: Mapping[str, Any]
    chunks: int


class NewDocument(NamedTuple):
    """A document to store."""

    name: str
    source: str
    hash: str
    metadata: Mapping[str, Any]
    chunks: Sequence[TextChunk]


class ChunkRecord(NamedTuple):
    """A stored chunk. The vector is in little-endian float32."""

    number: int
    id: str
    content: str
    positions: list[list[int]]
    vector: bytes
    document_id: str
    document_name: str
    dataset_id: str


class KnowledgeFile:
    """The file. The first write creates it; without the file there are no datasets."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()

    @property
    def exists(self) -> bool:
        """Whether the file exists. Opening one that is inaccessible reports the reason."""
        try:
            self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    def find_dataset(self, name_or_id: str) -> DatasetRecord | None:
        """Return a dataset, or None if there is none or no file."""
        if not self.exists:
            return None
        with self.reading() as connection:
            return find_dataset(connection, name_or_id)

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Open a read transaction.

        Raises:
            ServiceError: if the file cannot be opened, is damaged or is not a knowledge base.
        """
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Open a write transaction, which is committed at the end and rolled back after an exception.

        Raises:
            ServiceError: if the file cannot be created, opened or written.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        what = f"The knowledge base {str(self.path)!r} ([knowledge] url)"
        try:
            if begin != "BEGIN":
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            elif not self.exists:
                raise ServiceError(f"{what} does not exist.")
        except OSError as error:
            raise ServiceError(f"{what} cannot be used: {error.strerror or error}.") from error
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as connection:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("PRAGMA synchronous = NORMAL")
                if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    connection.executescript(_TABLES)
                if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
                    raise ServiceError(f"{what} is another kind of database. Name a knowledge base or a new file.")
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")  # closing rolls back what is not committed
        except sqlite3.OperationalError as error:
            is_busy = "locked" in str(error)
            why = "another process is writing to it; try again" if is_busy else str(error)
            raise ServiceError(f"{what} cannot be used: {why}.", is_retryable=is_busy) from error
        except (sqlite3.Error, ValueError, RecursionError) as error:  # texts and values in a damaged file
            raise ServiceError(f"{what} cannot be used: it is damaged ({error}).") from error


def derive_id(*parts: str) -> str:
    """Return 32 hexadecimal digits that depend only on the texts."""
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def words_table(dataset: int) -> str:
    """Return the name of a dataset's full-text index; words are weighted within their dataset."""
    return f"words_{dataset:d}"


_DATASETS = """
SELECT number, id, name, embedding_model, vector_model, dims, chunk_tokens, overlap_tokens, version,
    (SELECT count(*) FROM documents WHERE dataset = datasets.number),
    (SELECT count(*) FROM chunks JOIN documents ON documents.number = document WHERE dataset = datasets.number)
FROM datasets
"""


def list_datasets(connection: sqlite3.Connection) -> list[DatasetRecord]:
    """Return all datasets, sorted by name."""
    return [DatasetRecord(*row) for row in connection.execute(_DATASETS + "ORDER BY name")]


def find_dataset(connection: sqlite3.Connection, name_or_id: str) -> DatasetRecord | None:
    """Return the dataset with the given name, or else with the given id, or else the one that is used for it."""
    query = _DATASETS + "WHERE name = ?1 OR id = ?1 ORDER BY name = ?1 DESC LIMIT 1"
    key = join_surrogates(name_or_id)
    row = connection.execute(query, (key,)).fetchone()
    if row is None and connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'other_names'").fetchone():
        query = _DATASETS + "WHERE number = (SELECT dataset FROM other_names WHERE name = ?)"
        row = connection.execute(query, (key,)).fetchone()
    return DatasetRecord(*row) if row else None


def use_dataset(connection: sqlite3.Connection, name: str, dataset: DatasetRecord) -> None:
    """Use a dataset wherever another name or id occurs that no dataset has."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS other_names "
        "(name TEXT PRIMARY KEY, dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE)"
    )
    connection.execute("INSERT OR REPLACE INTO other_names VALUES (?, ?)", (join_surrogates(name), dataset.number))


def add_dataset(
    connection: sqlite3.Connection,
    name: str,
    embedding_model: str,
    *,
    id_: str = "",
    chunk_tokens: int = CHUNK_TOKENS,
    overlap_tokens: int = OVERLAP_TOKENS,
) -> DatasetRecord:
    """Store a new dataset; its name and id must be unique."""
    id_ = join_surrogates(id_) or derive_id("dataset", name)
    number = connection.execute(
        "INSERT INTO datasets (id, name, embedding_model, chunk_tokens, overlap_tokens) VALUES (?, ?, ?, ?, ?)",
        (id_, join_surrogates(name), embedding_model, chunk_tokens, overlap_tokens),
    ).lastrowid
    table = words_table(number or 0)
    connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5(title, content, tokenize = '{_TOKENIZER}')")
    connection.execute(f"CREATE VIRTUAL TABLE {table}_terms USING fts5vocab({table}, row)")
    (row,) = connection.execute(_DATASETS + "WHERE number = ?", (number,))
    return DatasetRecord(*row)


def delete_dataset(connection: sqlite3.Connection, dataset: int) -> None:
    """Delete a dataset with its documents and chunks."""
    for table in (f"{words_table(dataset)}_terms", words_table(dataset)):
        connection.execute(f"DROP TABLE {table}")
    connection.execute("DELETE FROM datasets WHERE number = ?", (dataset,))


def list_documents(
    connection: sqlite3.Connection, dataset: int, start: int = 0, count: int = -1
) -> list[DocumentRecord]:
    """Return a dataset's documents, sorted by name: all, or a page of them."""
    rows = connection.execute(
        "SELECT number, id, name, source, hash, metadata, (SELECT count(*) FROM chunks WHERE document = d.number) "
        "FROM documents AS d WHERE dataset = ? ORDER BY name LIMIT ? OFFSET ?",
        (dataset, count, start),
    )
    return [DocumentRecord._make((*row[:5], _parse(row[5], dict), row[6])) for row in rows]


def store_document(
    connection: sqlite3.Connection, dataset: DatasetRecord, document: NewDocument, vectors: Any, model: str
) -> None:
    """Store a document with the vectors of its chunks, one row each, in place of any document with its name.

    Raises:
        ServiceError: if the dataset has been deleted, or has vectors of another model.
    """
    import numpy as np

    rows = np.asarray(vectors, np.float64)  # norms of large vectors would overflow in float32
    if document.chunks and (rows.ndim != 2 or len(rows) != len(document.chunks)):
        raise ServiceError(f"There are {len(rows)} vectors for the {len(document.chunks)} chunks of {document.name!r}.")
    rows = rows.reshape(len(document.chunks), rows.shape[-1])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = (rows / np.where(lengths == 0, 1, lengths)).astype("<f4")
    current = find_dataset(connection, dataset.id)
    if current is None or current.number != dataset.number:
        raise ServiceError(f"The dataset {dataset.name!r} has been deleted.")
    if document.chunks:
        current.check_vectors(model, rows.shape[1])
        connection.execute(
            "UPDATE datasets SET dims = ?, vector_model = ? WHERE number = ? AND dims = 0",
            (rows.shape[1], join_surrogates(model), dataset.number),
        )
    delete_document(connection, dataset.number, document.name)
    id_ = derive_id(dataset.id, document.name)
    metadata = json.dumps(document.metadata, ensure_ascii=False)
    number = connection.execute(
        "INSERT INTO documents (id, dataset, name, source, hash, metadata) VALUES (?, ?, ?, ?, ?, ?)",
        (id_, dataset.number, document.name, document.source, document.hash, metadata),
    ).lastrowid
    title = " ".join(split_words(document.name))
    for place, (chunk, vector) in enumerate(zip(document.chunks, rows, strict=True)):
        content = join_surrogates(chunk.content)
        row = connection.execute(
            "INSERT INTO chunks (id, document, content, positions, vector) VALUES (?, ?, ?, ?, ?)",
            (derive_id(id_, str(place), content), number, content, json.dumps(chunk.positions), vector.tobytes()),
        ).lastrowid
        connection.execute(
            f"INSERT INTO {words_table(dataset.number)} (rowid, title, content) VALUES (?, ?, ?)",
            (row, title, " ".join(split_words(content))),
        )


def delete_document(connection: sqlite3.Connection, dataset: int, name: str) -> None:
    """Delete a document with its chunks, if there is one with this name."""
    connection.execute(
        f"DELETE FROM {words_table(dataset)} WHERE rowid IN (SELECT chunks.number FROM chunks JOIN documents "
        "ON documents.number = document WHERE dataset = ? AND name = ?)",
        (dataset, name),
    )
    connection.execute("DELETE FROM documents WHERE dataset = ? AND name = ?", (dataset, name))
    connection.execute("UPDATE datasets SET version = random() WHERE number = ?", (dataset,))


def read_chunks(connection: sqlite3.Connection, where: str, *values: Any) -> Generator[ChunkRecord]:
    """Yield the chunks that a condition selects, document by document."""
    query = (
        "SELECT chunks.number, chunks.id, content, positions, vector, documents.id, documents.name, datasets.id "
        "FROM chunks JOIN documents ON documents.number = document JOIN datasets ON datasets.number = dataset "
        f"WHERE {where}"
    )
    for row in connection.execute(query, values):
        if not isinstance(row[2], str):
            raise ValueError("the content of a chunk is not text")
        yield ChunkRecord._make((*row[:3], _parse(row[3], list), *row[4:]))


def _parse(text: Any, kind: type) -> Any:
    value = json.loads(text) if isinstance(text, str) else None
    if not isinstance(value, kind):
        raise ValueError("metadata or positions are not valid")
    return value
