from ragflow_lg.services.knowledge import Dataset, DatasetSearch, SearchResult


def test_a_search_has_the_defaults_of_ragflow() -> None:
    search = DatasetSearch("rice", (Dataset("ds1", "Manuals"),))
    assert (search.top_n, search.top_k, search.similarity_threshold) == (8, 1024, 0.2)
    assert search.keywords_similarity_weight == 0.5
    assert search.document_ids is None  # no filter; an empty tuple would match no document


def test_a_search_result_is_empty_by_default() -> None:
    assert SearchResult() == SearchResult((), (), 0)
