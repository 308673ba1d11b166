"""Datasets, documents and chunks as rows of the knowledge database. Every function takes an open connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from ragflow_lg.adapters.knowledge.words import split_words
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import join_surrogates

CHUNK_TOKENS = 256
OVERLAP_TOKENS = 32


class DatasetRecord(NamedTuple):
    """A dataset. ``dims`` is 0 until the first vector is stored; ``version`` changes whenever its chunks change.

    ``vector_model`` is the `ragflow_lg.services.knowledge.Embedder.vector_model` of its vectors, ``""`` if unknown.
    """

    number: int
    id: str
    name: str
    embedding_model: str
    dims: int
    chunk_tokens: int
    overlap_tokens: int
    version: int
    vector_model: str
    documents: int
    chunks: int


class DocumentRecord(NamedTuple):
    """A document. ``chunks`` is its number of chunks; it is complete when all of them are stored."""

    number: int
    id: str
    name: str
    source: str
    hash: str
    metadata: Mapping[str, Any]
    chunks: int
    is_complete: bool


class NewChunk(NamedTuple):
    """A chunk to store: its index in the document from 0, and its vector as little-endian float32."""

    place: int
    content: str
    positions: Sequence[Sequence[int]]
    vector: bytes


class ChunkRecord(NamedTuple):
    """A stored chunk."""

    number: int
    id: str
    content: str
    positions: list[list[int]]
    document_id: str
    document_name: str
    place: int


def derive_id(*parts: str) -> str:
    """Return 32 hexadecimal digits that depend only on the texts."""
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def words_table(dataset: int) -> str:
    """Return the name of a dataset's full-text index; words are weighted within their dataset."""
    return f"words_{dataset:d}"


def vectors_table(dataset: int) -> str:
    """Return the name of the table with a dataset's vectors."""
    return f"vectors_{dataset:d}"


_DATASETS = """
SELECT number, id, name, embedding_model, dims, chunk_tokens, overlap_tokens, version, vector_model,
    (SELECT count(*) FROM documents WHERE dataset = datasets.number),
    (SELECT coalesce(sum(chunks), 0) FROM documents WHERE dataset = datasets.number)
FROM datasets
"""
_TOKENIZER = "unicode61 remove_diacritics 0 categories ''L* N* M* Co Pc''"


def list_datasets(connection: sqlite3.Connection) -> list[DatasetRecord]:
    """Return all datasets, sorted by name."""
    return [DatasetRecord(*row) for row in connection.execute(_DATASETS + "ORDER BY name")]


def find_dataset(connection: sqlite3.Connection, name_or_id: str) -> DatasetRecord | None:
    """Return the dataset with the given name, or else with the given id."""
    query = _DATASETS + "WHERE name = ?1 OR id = ?1 ORDER BY name = ?1 DESC LIMIT 1"
    row = connection.execute(query, (join_surrogates(name_or_id),)).fetchone()
    return DatasetRecord(*row) if row else None


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
    values = (
        join_surrogates(id_) or derive_id("dataset", name),
        join_surrogates(name),
        embedding_model,
        chunk_tokens,
        overlap_tokens,
    )
    number = connection.execute(
        "INSERT INTO datasets (id, name, embedding_model, dims, chunk_tokens, overlap_tokens) "
        "VALUES (?, ?, ?, 0, ?, ?)",
        values,
    ).lastrowid
    assert number is not None
    connection.execute(
        f"CREATE TABLE {vectors_table(number)} (chunk INTEGER PRIMARY KEY, document INTEGER, vector BLOB)"
    )
    table = words_table(number)
    connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5(title, content, tokenize = '{_TOKENIZER}')")
    connection.execute(f"CREATE VIRTUAL TABLE {table}_terms USING fts5vocab({table}, row)")
    record = find_dataset(connection, values[0])
    assert record is not None
    return record


def set_dims(connection: sqlite3.Connection, dataset: int, dims: int, vector_model: str = "") -> tuple[int, str]:
    """Store the length and the model of a dataset's vectors if the length is 0.

    Return what is stored. The length is -1 for a deleted dataset.
    """
    values = dims, join_surrogates(vector_model), dataset
    connection.execute("UPDATE datasets SET dims = ?, vector_model = ? WHERE number = ? AND dims = 0", values)
    row = connection.execute("SELECT dims, vector_model FROM datasets WHERE number = ?", (dataset,)).fetchone()
    return (int(row[0]), str(row[1])) if row else (-1, "")


def differ(stored: str, current: str) -> bool:
    """Return whether the names of two models are known and different."""
    return stored != current and bool(stored) and bool(current)


def other_model_error(dataset: str, stored: str, current: str) -> ServiceError:
    """Return the error for a dataset whose vectors are those of another model."""
    return ServiceError(
        f"The dataset {dataset!r} has vectors of the embedding model {stored!r}, which cannot be compared with those of"
        f' {current!r}. Set the model that created the dataset ([embeddings."ID"] model), or create the dataset again.'
    )


def delete_dataset(connection: sqlite3.Connection, dataset: int) -> None:
    """Delete a dataset with its documents and chunks."""
    for table in (f"{words_table(dataset)}_terms", words_table(dataset), vectors_table(dataset)):
        connection.execute(f"DROP TABLE {table}")
    for table in ("chunks", "documents"):
        connection.execute(f"DELETE FROM {table} WHERE dataset = ?", (dataset,))
    connection.execute("DELETE FROM datasets WHERE number = ?", (dataset,))


def list_documents(connection: sqlite3.Connection, dataset: int) -> list[DocumentRecord]:
    """Return a dataset's documents, sorted by name."""
    rows = connection.execute(
        "SELECT number, id, name, source, hash, metadata, chunks, is_complete FROM documents WHERE dataset = ? "
        "ORDER BY name",
        (dataset,),
    )
    return [DocumentRecord._make((*row[:5], _parse_json(row[5], dict), row[6], bool(row[7]))) for row in rows]


def open_document(
    connection: sqlite3.Connection,
    dataset: DatasetRecord,
    name: str,
    source: str,
    hash_: str,
    metadata: str,
    chunks: int,
) -> int:
    """Return the number of a document to add chunks to, after deleting any document with different content."""
    row = connection.execute(
        "SELECT number, hash FROM documents WHERE dataset = ? AND name = ?", (dataset.number, name)
    ).fetchone()
    if row and row[1] == hash_:
        return int(row[0])
    if row:
        delete_document(connection, dataset.number, row[0])
    number = connection.execute(
        "INSERT INTO documents (id, dataset, name, source, hash, metadata, chunks, is_complete) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (derive_id(dataset.id, name), dataset.number, name, source, hash_, metadata, chunks, not chunks),
    ).lastrowid
    assert number is not None
    return number


def add_chunks(
    connection: sqlite3.Connection, dataset: DatasetRecord, document: int, title: str, chunks: Iterable[NewChunk]
) -> None:
    """Store chunks of a document, except for the ones that are already stored."""
    document_id, chunk_count = connection.execute(
        "SELECT id, chunks FROM documents WHERE number = ?", (document,)
    ).fetchone()
    title_words = " ".join(split_words(title))
    for chunk in chunks:
        insertion = connection.execute(
            "INSERT OR IGNORE INTO chunks (id, dataset, document, place, content, positions) VALUES (?, ?, ?, ?, ?, ?)",
            (
                derive_id(document_id, str(chunk.place), chunk.content),
                dataset.number,
                document,
                chunk.place,
                chunk.content,
                json.dumps(chunk.positions, separators=(",", ":")),
            ),
        )
        if not insertion.rowcount:
            continue
        row = insertion.lastrowid
        connection.execute(
            f"INSERT INTO {vectors_table(dataset.number)} (chunk, document, vector) VALUES (?, ?, ?)",
            (row, document, chunk.vector),
        )
        connection.execute(
            f"INSERT INTO {words_table(dataset.number)} (rowid, title, content) VALUES (?, ?, ?)",
            (row, title_words, " ".join(split_words(chunk.content))),
        )
    (stored,) = connection.execute("SELECT count(*) FROM chunks WHERE document = ?", (document,)).fetchone()
    connection.execute("UPDATE documents SET is_complete = ? WHERE number = ?", (stored >= chunk_count, document))
    connection.execute("UPDATE datasets SET version = random() WHERE number = ?", (dataset.number,))


def list_places(connection: sqlite3.Connection, document: int) -> frozenset[int]:
    """Return the indices of the stored chunks of a document."""
    return frozenset(row[0] for row in connection.execute("SELECT place FROM chunks WHERE document = ?", (document,)))


def delete_document(connection: sqlite3.Connection, dataset: int, document: int) -> None:
    """Delete a document with its chunks."""
    of_document = "(SELECT number FROM chunks WHERE document = ?)"
    connection.execute(f"DELETE FROM {words_table(dataset)} WHERE rowid IN {of_document}", (document,))
    connection.execute(f"DELETE FROM {vectors_table(dataset)} WHERE chunk IN {of_document}", (document,))
    connection.execute("DELETE FROM chunks WHERE document = ?", (document,))
    connection.execute("DELETE FROM documents WHERE number = ?", (document,))
    connection.execute("UPDATE datasets SET version = random() WHERE number = ?", (dataset,))


_CHUNKS = """
SELECT chunks.number, chunks.id, chunks.content, chunks.positions, documents.id, documents.name, chunks.place
FROM chunks JOIN documents ON documents.number = chunks.document
"""


def read_chunks(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, ChunkRecord]:
    """Return chunks by number."""
    rows = connection.execute(
        _CHUNKS + "WHERE chunks.number IN (SELECT value FROM json_each(?))", (json.dumps(list(numbers)),)
    )
    return {row[0]: _chunk(row) for row in rows}


def iterate_chunks(connection: sqlite3.Connection, dataset: int) -> Iterator[ChunkRecord]:
    """Yield the chunks of a dataset, document by document."""
    query = _CHUNKS + "WHERE documents.dataset = ? ORDER BY documents.name, chunks.place"
    return (_chunk(row) for row in connection.execute(query, (dataset,)))


def page_of_documents(
    connection: sqlite3.Connection, dataset: int, start: int, count: int
) -> tuple[list[tuple[str, str, int, dict[str, Any]]], int]:
    """Return the id, name, number of chunks and metadata of some of a dataset's documents, and the number of all."""
    (total,) = connection.execute("SELECT count(*) FROM documents WHERE dataset = ?", (dataset,)).fetchone()
    rows = connection.execute(
        "SELECT id, name, chunks, metadata FROM documents WHERE dataset = ? ORDER BY name LIMIT ? OFFSET ?",
        (dataset, count, start),
    )
    return [(row[0], row[1], row[2], _parse_json(row[3], dict)) for row in rows], total


def page_of_chunks(
    connection: sqlite3.Connection, dataset: int, document: str, start: int, count: int
) -> tuple[list[tuple[ChunkRecord, bytes]], int]:
    """Return some of a document's chunks with their vectors, in order, and the number of all. ``document`` is an id."""
    of_document = "documents.dataset = ? AND documents.id = ?"
    (total,) = connection.execute(
        f"SELECT count(*) FROM chunks JOIN documents ON documents.number = chunks.document WHERE {of_document}",
        (dataset, document),
    ).fetchone()
    rows = connection.execute(
        f"{_CHUNKS} WHERE {of_document} ORDER BY chunks.place LIMIT ? OFFSET ?", (dataset, document, count, start)
    )
    found = [_chunk(row) for row in rows]
    numbers = json.dumps([chunk.number for chunk in found])
    query = f"SELECT chunk, vector FROM {vectors_table(dataset)} WHERE chunk IN (SELECT value FROM json_each(?))"
    vectors = dict(connection.execute(query, (numbers,)).fetchall())
    return [(chunk, vectors.get(chunk.number, b"")) for chunk in found], total


def _chunk(row: Sequence[Any]) -> ChunkRecord:
    number, id_, content, positions, document_id, document_name, place = row
    if not isinstance(content, str):
        raise sqlite3.DatabaseError("it is damaged: the content of a chunk is not text")
    return ChunkRecord(number, id_, content, _parse_json(positions, list), document_id, document_name, place)


def _parse_json(text: Any, kind: type) -> Any:
    """Parse a stored JSON value.

    Raises:
        sqlite3.DatabaseError: if the file is damaged.
    """
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise sqlite3.DatabaseError("it is damaged: metadata or positions are not valid")
    return value
