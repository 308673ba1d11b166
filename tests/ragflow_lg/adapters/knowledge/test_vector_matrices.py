from pathlib import Path

import numpy as np
import pytest

from ragflow_lg.adapters.knowledge.knowledge_records import delete_document, list_datasets, list_documents
from ragflow_lg.adapters.knowledge.vector_matrices import MatrixCache, find_nearest
from tests.fakes.embedded import fill, stored_knowledge


def test_a_matrix_is_read_again_after_a_change_of_its_dataset(tmp_path: Path) -> None:
    knowledge, matrices = stored_knowledge(tmp_path / "k.db"), MatrixCache()
    fill(knowledge, "d", {"a.md": ["one", "two"], "b.md": ["three"]})
    with knowledge.database.reading() as connection:
        (record,) = list_datasets(connection)
        first = matrices.get(connection, record)
        assert first.vectors.shape == (3, 384)
        assert matrices.get(connection, record) is first
    with knowledge.database.writing() as connection:
        delete_document(connection, record.number, list_documents(connection, record.number)[0].number)
    with knowledge.database.reading() as connection:
        assert matrices.get(connection, list_datasets(connection)[0]).chunks.tolist() == [3]


def test_the_least_recently_used_matrix_is_evicted(tmp_path: Path) -> None:
    knowledge, matrices = stored_knowledge(tmp_path / "k.db"), MatrixCache(max_bytes=2 * 384 * 4)
    for name in "abc":
        fill(knowledge, name, {"a.md": ["one"]})
    with knowledge.database.reading() as connection:
        a, b, c = list_datasets(connection)
        matrix = matrices.get(connection, a)
        matrices.get(connection, b)
        matrices.get(connection, a)
        matrices.get(connection, c)
        assert matrices.get(connection, a) is matrix


@pytest.mark.parametrize(
    ("count", "min_cosine", "indices"),
    [(2, -1.0, [3, 1]), (3, -1.0, [3, 1, 4]), (9, -1.0, [3, 1, 4, 0]), (9, 0.4, [3, 1, 4]), (9, 0.95, [])],
)
def test_the_nearest_come_first_and_equal_cosines_keep_their_order(
    count: int, min_cosine: float, indices: list[int]
) -> None:
    cosines = np.array([0.1, 0.5, -np.inf, 0.9, 0.5], np.float32)
    assert find_nearest(cosines, count, min_cosine).tolist() == indices
