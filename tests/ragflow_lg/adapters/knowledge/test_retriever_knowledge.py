from typing import Any

import pytest
from langchain_core.documents import Document

from ragflow_lg.adapters.knowledge.retriever_knowledge import RetrieverKnowledge, RetrieverSettings
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from tests.fakes import retrievers
from tests.fakes.retrievers import BadRetriever, ListRetriever, open_plain_store, open_store

WIKI = Dataset("wiki-id", "wiki")


def knowledge_of(opened: Any, **more: Any) -> RetrieverKnowledge:
    open_it = opened if callable(opened) and not isinstance(opened, ListRetriever) else lambda: opened
    return RetrieverKnowledge(RetrieverSettings(WIKI, open_it, **more))


def search(question: str = "rice", **more: Any) -> DatasetSearch:
    return DatasetSearch(question, (WIKI,), **more)


async def test_a_retriever_is_searched_in_its_order() -> None:
    knowledge = knowledge_of(retrievers.retriever, metadata=("author",))
    assert await knowledge.datasets(["wiki", "wiki-id", "x"]) == {"wiki": WIKI, "wiki-id": WIKI}
    result = await knowledge.search(search())
    assert [chunk["docnm_kwd"] for chunk in result.chunks] == ["Rice", "Tea"]
    assert [(document.name, document.chunks) for document in result.documents] == [("Rice", 1), ("Tea", 1)]
    assert len((await knowledge.search(search(top_n=1))).chunks) == 1
    assert [chunk["docnm_kwd"] for chunk in (await knowledge.search(search(similarity_threshold=0.5))).chunks] == [
        "Rice"
    ]
    await knowledge.aclose()
    assert retrievers.retriever.closed


@pytest.mark.parametrize("opened", [open_store, open_plain_store, lambda: open_plain_store().as_retriever()])
async def test_a_vector_store_returns_as_many_as_the_search_wants(opened: Any) -> None:
    knowledge = knowledge_of(opened)
    result = await knowledge.search(search("rice", top_n=1))
    assert [chunk["docnm_kwd"] for chunk in result.chunks] == ["Rice"]
    assert len((await knowledge.search(search("rice"))).chunks) == 2


async def test_relevance_scores_meet_the_threshold() -> None:
    chunks = (await knowledge_of(open_store).search(search("tea likes hills", similarity_threshold=0.9))).chunks
    assert [chunk["docnm_kwd"] for chunk in chunks] == ["Tea"]
    assert chunks[0]["similarity"] == pytest.approx(0.99, abs=0.02)


@pytest.mark.parametrize(
    ("opened", "more", "problem"),
    [
        (BadRetriever, {}, r"dataset 'wiki'.* failed: RuntimeError: no connection to db://user:\*\*\*@host"),
        (lambda: BadRetriever(is_slow=True), {"timeout_s": 0.05}, "took longer than 0.05 s"),
        (lambda: ListRetriever(documents=["text"]), {}, "returned a str where a Document should be"),
        (lambda: ListRetriever.model_construct(documents=None), {}, "failed: "),
    ],
)
async def test_failures_are_errors_of_the_service(opened: Any, more: Any, problem: str) -> None:
    with pytest.raises(ServiceError, match=problem):
        await knowledge_of(opened, secrets=("s3cret-word",), **more).search(search())


async def test_what_is_no_retriever_is_an_error_of_the_settings() -> None:
    with pytest.raises(SettingsError, match=r"'wiki'.* is a str, not a LangChain BaseRetriever"):
        await knowledge_of(retrievers.open_nothing).search(search())


@pytest.mark.parametrize("option", [{"use_kg": True}, {"toc_enhance": True}, {"rerank_id": "m"}])
async def test_options_that_a_retriever_lacks_are_refused(option: Any) -> None:
    with pytest.raises(SettingsError, match=f"sets {next(iter(option))}"):
        await knowledge_of(retrievers.retriever).search(search(**option))


async def test_a_filter_is_refused() -> None:
    with pytest.raises(SettingsError, match="meta_data_filter"):
        await knowledge_of(retrievers.retriever).metadata([WIKI])


async def test_chosen_documents_only() -> None:
    knowledge = knowledge_of(lambda: ListRetriever(documents=[Document(id_, metadata={"doc_id": id_}) for id_ in "ab"]))
    chunks = (await knowledge.search(search(document_ids=("b",)))).chunks
    assert [chunk["doc_id"] for chunk in chunks] == ["b"]
