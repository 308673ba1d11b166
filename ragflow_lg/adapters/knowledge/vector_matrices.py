"""Dataset vectors as in-memory matrices, read again after a dataset has changed."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord, vectors_table

MAX_CACHED_BYTES = 2 * 1024**3
"""Maximum size of all cached matrices; the newest is always cached."""

_ROWS_AT_ONCE = 4096


class Matrix(NamedTuple):
    """The unit vectors of a dataset, with the numbers of their chunks (ascending) and documents."""

    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def cosines(self, question: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of the angle between each vector and the question's vector."""
        length = float(np.linalg.norm(question))
        return self.vectors @ (question / length if length else question)


class MatrixCache:
    """A cache of matrices, usable from any thread."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._matrices: OrderedDict[int, tuple[int, Matrix]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, connection: sqlite3.Connection, dataset: DatasetRecord) -> Matrix:
        """Return a dataset's vectors in the state that the connection sees."""
        with self._lock:  # concurrent searches should not read the same vectors twice
            cached = self._matrices.get(dataset.number)
            if cached is not None and cached[0] == dataset.version:
                self._matrices.move_to_end(dataset.number)
                return cached[1]
            self._matrices.pop(dataset.number, None)
            matrix = _read(connection, dataset)
            self._matrices[dataset.number] = dataset.version, matrix
            while len(self._matrices) > 1 and self._size() > self._max_bytes:
                self._matrices.popitem(last=False)
            return matrix

    def _size(self) -> int:
        return sum(matrix.vectors.nbytes for _, matrix in self._matrices.values())


def _read(connection: sqlite3.Connection, dataset: DatasetRecord) -> Matrix:
    table, width = vectors_table(dataset.number), 4 * dataset.dims
    (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE length(vector) = ?", (width,)).fetchone()
    chunks, documents = np.empty(count, np.int64), np.empty(count, np.int64)
    vectors = np.empty((count, dataset.dims), np.float32)
    rows = connection.execute(
        f"SELECT chunk, document, vector FROM {table} WHERE length(vector) = ? ORDER BY chunk", (width,)
    )
    start = 0
    while batch := rows.fetchmany(_ROWS_AT_ONCE):
        end = start + len(batch)
        chunks[start:end] = [row[0] for row in batch]
        documents[start:end] = [row[1] for row in batch]
        data = b"".join(row[2] for row in batch)
        vectors[start:end] = np.frombuffer(data, "<f4").reshape(len(batch), dataset.dims)
        start = end
    return Matrix(chunks, documents, vectors)


def find_nearest(cosines: NDArray[np.float32], count: int, min_cosine: float) -> NDArray[np.int64]:
    """Return the indices of the highest cosines, the highest first; equal cosines keep their order."""
    indices = np.arange(len(cosines))
    if count < len(cosines):
        limit = np.partition(cosines, len(cosines) - count)[len(cosines) - count]
        indices = np.flatnonzero(cosines >= limit)
    indices = indices[np.isfinite(cosines[indices]) & (cosines[indices] >= min_cosine)]
    return indices[np.argsort(-cosines[indices], kind="stable")][:count]
