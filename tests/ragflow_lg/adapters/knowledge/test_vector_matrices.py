from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragflow_lg.adapters.knowledge.knowledge_records import datasets_in, delete_document, documents_of
from ragflow_lg.adapters.knowledge.vector_matrices import Matrices, nearest
from tests.fakes.embedded import fill, stored_knowledge


def test_a_matrix_is_read_again_when_its_dataset_has_changed(tmp_path: Path) -> None:
    knowledge, matrices = stored_knowledge(tmp_path / "k.db"), Matrices()
    fill(knowledge, "d", {"a.md": ["one", "two"], "b.md": ["three"]})
    with knowledge.database.reading() as connection:
        (record,) = datasets_in(connection)
        first = matrices.get(connection, record)
        assert first.vectors.shape == (3, 384)
        assert matrices.get(connection, record) is first
    with knowledge.database.writing() as connection:
        delete_document(connection, record.number, documents_of(connection, record.number)[0].number)
    with knowledge.database.reading() as connection:
        assert matrices.get(connection, datasets_in(connection)[0]).chunks.tolist() == [3]


def test_the_one_that_is_used_least_makes_room(tmp_path: Path) -> None:
    knowledge, matrices = stored_knowledge(tmp_path / "k.db"), Matrices(max_bytes=2 * 384 * 4)
    for name in "abc":
        fill(knowledge, name, {"a.md": ["one"]})
    with knowledge.database.reading() as connection:
        a, b, c = datasets_in(connection)
        kept = matrices.get(connection, a)
        matrices.get(connection, b)
        matrices.get(connection, a)
        matrices.get(connection, c)
        assert matrices.get(connection, a) is kept


@pytest.mark.parametrize(
    ("count", "floor", "places"),
    [(2, -1.0, [3, 1]), (3, -1.0, [3, 1, 4]), (9, -1.0, [3, 1, 4, 0]), (9, 0.4, [3, 1, 4]), (9, 0.95, [])],
)
def test_the_nearest_come_first_and_of_equal_ones_the_first(count: int, floor: float, places: list[int]) -> None:
    cosines = np.array([0.1, 0.5, -np.inf, 0.9, 0.5], np.float32)
    assert nearest(cosines, count, floor).tolist() == places
