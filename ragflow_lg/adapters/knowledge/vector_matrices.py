"""The vectors of datasets as matrices in memory, read once and again when the dataset has changed."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord, vectors_table

__all__ = ["Matrices", "Matrix", "nearest"]

MAX_KEPT_BYTES = 2 * 1024**3
"""How large the matrices that are kept may be together; the newest is kept, however large it is."""

_ROWS_AT_ONCE = 4096


class Matrix(NamedTuple):
    """The vectors of a dataset, each of length 1, with the numbers of their chunks (rising) and documents."""

    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def cosines(self, question: NDArray[np.float32]) -> NDArray[np.float32]:
        """Give how near each vector is to that of a question."""
        length = float(np.linalg.norm(question))
        return self.vectors @ (question / length if length else question)


class Matrices:
    """Keeps matrices. Any thread may ask."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[int, tuple[int, Matrix]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, connection: sqlite3.Connection, dataset: DatasetRecord) -> Matrix:
        """Give the vectors of a dataset as they are in the state that the connection sees."""
        with self._lock:  # two searches at once should not read the same file twice
            kept = self._kept.get(dataset.number)
            if kept is not None and kept[0] == dataset.version:
                self._kept.move_to_end(dataset.number)
                return kept[1]
            self._kept.pop(dataset.number, None)
            matrix = _read(connection, dataset)
            self._kept[dataset.number] = dataset.version, matrix
            while len(self._kept) > 1 and sum(m.vectors.nbytes for _, m in self._kept.values()) > self._max_bytes:
                self._kept.popitem(last=False)
            return matrix


def _read(connection: sqlite3.Connection, dataset: DatasetRecord) -> Matrix:
    table, width = vectors_table(dataset.number), 4 * dataset.dims
    (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE length(vector) = ?", (width,)).fetchone()
    chunks, documents = np.empty(count, np.int64), np.empty(count, np.int64)
    vectors = np.empty((count, dataset.dims), np.float32)
    rows = connection.execute(
        f"SELECT chunk, document, vector FROM {table} WHERE length(vector) = ? ORDER BY chunk", (width,)
    )
    at = 0
    while some := rows.fetchmany(_ROWS_AT_ONCE):
        end = at + len(some)
        chunks[at:end] = [row[0] for row in some]
        documents[at:end] = [row[1] for row in some]
        joined = b"".join(row[2] for row in some)
        vectors[at:end] = np.frombuffer(joined, "<f4").reshape(len(some), dataset.dims)
        at = end
    return Matrix(chunks, documents, vectors)


def nearest(cosines: NDArray[np.float32], count: int, at_least: float) -> NDArray[np.int64]:
    """Give the places of the highest cosines, the highest first; of equal ones the first."""
    places = np.arange(len(cosines))
    if count < len(cosines):
        border = np.partition(cosines, len(cosines) - count)[len(cosines) - count]
        places = np.flatnonzero(cosines >= border)
    places = places[np.isfinite(cosines[places]) & (cosines[places] >= at_least)]
    return places[np.argsort(-cosines[places], kind="stable")][:count]
