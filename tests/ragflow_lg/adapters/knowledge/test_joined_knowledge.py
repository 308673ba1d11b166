import pytest

from ragflow_lg.adapters.knowledge.joined_knowledge import JoinedKnowledge
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from tests.fakes.knowledge import FakeKnowledge, chunk

WIKI, NEWS = Dataset("w", "Wiki"), Dataset("ds2", "News")


def stores(error: str = "") -> tuple[JoinedKnowledge, FakeKnowledge, FakeKnowledge]:
    wiki = FakeKnowledge(
        [WIKI], [chunk("w1", "a", dataset="w"), chunk("w2", "b", dataset="w")], {"k": {"v": ["1"]}}, error
    )
    others = FakeKnowledge(
        [NEWS], [chunk("n1", "c", dataset="ds2"), chunk("n2", "d", dataset="ds2")], {"k": {"v": ["2"]}}
    )
    return JoinedKnowledge({"w": wiki}, others), wiki, others


async def test_all_stores_know_their_datasets() -> None:
    joined, *_ = stores()
    assert await joined.datasets(["Wiki", "News", "x"]) == {"Wiki": WIKI, "News": NEWS}
    assert await joined.metadata([WIKI, NEWS]) == {"k": {"v": ["1", "2"]}}


async def test_one_store_is_searched_as_if_it_were_alone() -> None:
    joined, wiki, others = stores()
    result = await joined.search(DatasetSearch("q", (WIKI,)))
    assert [each["chunk_id"] for each in result.chunks] == ["w1", "w2"]
    assert len(wiki.searches) == 1
    assert not others.searches


async def test_the_results_of_several_stores_alternate() -> None:
    joined, *_ = stores()
    result = await joined.search(DatasetSearch("q", (NEWS, WIKI), top_n=3))
    assert [each["chunk_id"] for each in result.chunks] == ["n1", "w1", "n2"]
    assert result.total == 4


async def test_one_failing_store_fails_the_search() -> None:
    joined, *_ = stores("down")
    with pytest.raises(ServiceError, match="down"):
        await joined.search(DatasetSearch("q", (NEWS, WIKI)))
