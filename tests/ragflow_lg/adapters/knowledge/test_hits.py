from pathlib import Path

import numpy as np
import pytest

from ragflow_lg.adapters.knowledge.endpoint_embedder import HashingEmbedder
from ragflow_lg.adapters.knowledge.hits import (
    NO_HITS,
    Hits,
    HybridQuery,
    MatrixCache,
    find_hits,
    find_nearest,
    merge_hits,
)
from ragflow_lg.adapters.knowledge.knowledge_records import (
    delete_document,
    list_datasets,
    list_documents,
    vectors_table,
)
from tests.fakes.embedded import fill, stored_knowledge
from tests.harness.rows import each_row


def hits_of(tmp_path: Path, *, count: int = 10, documents: list[int] | None = None, min_cosine: float = 0.2) -> Hits:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": ["cat sat", "cat ran", "cat"], "b.md": ["dog"]})
    with knowledge.database.writing() as connection:
        connection.execute(f"UPDATE {vectors_table(1)} SET vector = x'00' WHERE chunk = 3")
    query = HybridQuery(HashingEmbedder().vectors(["cat sat"])[0], ["cat", "sat"], count, 0.7)
    with knowledge.database.reading() as connection:
        (record,) = list_datasets(connection)
        return find_hits(connection, record, MatrixCache().get(connection, record), query, documents, min_cosine)


def test_hits_have_both_scores_and_their_weighted_sum(tmp_path: Path) -> None:
    hits = hits_of(tmp_path)
    assert hits.chunks.tolist() == [1, 2]  # the vector of 3 is damaged, 4 is far away
    assert hits.vectors[0] == pytest.approx(1.0)
    assert hits.similarities == pytest.approx(0.7 * hits.words + 0.3 * hits.vectors)
    assert hits.words[0] > hits.words[1] > 0


def test_hits_are_limited_by_documents_and_cosine(tmp_path: Path) -> None:
    assert len(hits_of(tmp_path, documents=[2]).chunks) == 0
    assert hits_of(tmp_path / "2", documents=[2], min_cosine=-1.0).chunks.tolist() == [4]


def test_hits_of_the_vector_search_have_word_scores(tmp_path: Path) -> None:
    hits = hits_of(tmp_path, count=1, min_cosine=-1.0)
    assert hits.chunks.tolist() == [1]
    assert hits.words[0] > 0


def test_the_threshold_applies_to_both_orders() -> None:
    numbers = np.arange(3)
    hits = Hits(
        numbers, numbers, numbers, np.array([0.9, 0.0, 0.5]), np.array([0.1, 0.9, 0.8]), np.array([0.5, 0.1, 0.6])
    )
    assert hits.rank(0.2, by_ranks=False).chunks.tolist() == [2, 0]
    assert hits.rank(0.0, by_ranks=True).chunks.tolist() == [0, 2, 1]
    assert merge_hits([hits, hits]).chunks.tolist() == [0, 1, 2, 0, 1, 2]
    assert merge_hits([]) is NO_HITS


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


@each_row(
    ("count", "min_cosine", "indices"),
    [(2, -1.0, [3, 1]), (3, -1.0, [3, 1, 4]), (9, -1.0, [3, 1, 4, 0]), (9, 0.4, [3, 1, 4]), (9, 0.95, [])],
)
def test_the_nearest_come_first_and_equal_cosines_keep_their_order(
    count: int, min_cosine: float, indices: list[int]
) -> None:
    cosines = np.array([0.1, 0.5, -np.inf, 0.9, 0.5], np.float32)
    assert find_nearest(cosines, count, min_cosine).tolist() == indices
