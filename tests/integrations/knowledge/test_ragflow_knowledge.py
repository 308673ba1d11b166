import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.knowledge.ragflow_knowledge import PAGE_SIZE, RagflowApiKnowledge
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from tests.fakes.http_server import HttpServer, Received, Route
from tests.harness.rows import each_row

GUIDE = Dataset("1", "guide", "bge", "t1")


class FakeRagflow(HttpServer):
    """A server with prepared data by path; data may be a function of the request."""

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, Any] = {}
        self.fault: Route | None = None

    def _route(self, request: Received) -> Route:
        if self.fault is not None:
            return self.fault
        data = self.data[request.path.partition("?")[0]]
        answer = data(request) if callable(data) else data
        return Route("", headers={"Content-Type": "application/json"}, body=json.dumps({"code": 0, "data": answer}))


@pytest.fixture
async def ragflow() -> AsyncGenerator[FakeRagflow]:
    async with FakeRagflow().running() as server:
        assert isinstance(server, FakeRagflow)
        yield server


def knowledge_of(server: HttpServer, **settings: Any) -> RagflowApiKnowledge:
    values: dict[str, Any] = {"url": f"http://127.0.0.1:{server.port}/", "key": "k3y", **settings}
    return RagflowApiKnowledge(**values, http=GuardedHttpClient(HttpSettings(allow=("127.0.0.1",))))


async def test_datasets_are_read_from_all_pages(ragflow: FakeRagflow) -> None:
    first = [{"id": str(number), "name": f"d{number}"} for number in range(100, 100 + PAGE_SIZE)]
    second = [
        {"id": "1", "name": "guide", "embedding_model": "bge", "tenant_id": "t1"},
        {"id": "2", "name": "1"},
        "odd",
    ]

    def page(request: Received) -> list[Any]:
        return first if "page=1&" in request.path else second

    ragflow.data["/api/v1/datasets"] = page
    datasets = await knowledge_of(ragflow).datasets(["guide", "d150", "1", "unknown"])
    assert datasets == {"guide": GUIDE, "d150": Dataset("150", "d150"), "1": Dataset("2", "1")}
    assert {request.header("authorization") for request in ragflow.received} == {"Bearer k3y"}
    assert await knowledge_of(ragflow).datasets([]) == {}


CHUNK = {
    **{"id": "c1", "content": "text", "content_ltks": "text", "document_id": "d1", "document_keyword": "a.md"},
    **{"dataset_id": "1", "image_id": None, "important_keywords": ["x"], "positions": [[1, 2, 3, 4, 5]]},
    **{"similarity": 0.8, "term_similarity": 0.7, "vector_similarity": 0.9},
}
SENT = {
    **{"question": "q", "dataset_ids": ["1"], "document_ids": ["d1"], "page": 1, "page_size": 1, "top_k": 1024},
    **{"similarity_threshold": 0.2, "vector_similarity_weight": pytest.approx(0.3), "keyword": False},
    **{"highlight": False, "rerank_id": "r", "use_kg": True, "toc_enhance": True},
}
FOUND = {
    **{"chunk_id": "c1", "content_with_weight": "text", "doc_id": "d1", "docnm_kwd": "a.md", "kb_id": "1"},
    **{"important_kwd": ["x"], "tag_kwd": [], "image_id": "", "similarity": 0.8, "vector_similarity": 0.9},
    **{"term_similarity": 0.7, "positions": [[1, 2, 3, 4, 5]], "doc_type_kwd": "", "mom_id": "", "row_id": None},
}


async def test_a_search_sends_all_options_and_parses_the_result(ragflow: FakeRagflow) -> None:
    counts = [{"doc_name": "a.md", "doc_id": "d1", "count": 3}]
    ragflow.data["/api/v1/retrieval"] = {"chunks": [CHUNK, {**CHUNK, "id": "c2"}], "doc_aggs": counts, "total": 4}
    search = DatasetSearch(
        "q", (GUIDE,), ("d1",), top_n=1, keywords_similarity_weight=0.7, rerank_id="r", toc_enhance=True, use_kg=True
    )
    result = await knowledge_of(ragflow).search(search)
    assert json.loads(ragflow.received[0].body) == SENT
    assert result.total == 4
    assert [tuple(document) for document in result.documents] == [("a.md", "d1", 3)]
    assert list(result.chunks) == [FOUND]


async def test_a_search_for_many_chunks_is_sent_page_by_page(ragflow: FakeRagflow) -> None:
    chunks = [{**CHUNK, "id": f"c{number}"} for number in range(230)]

    def page(request: Any) -> Any:
        sent = json.loads(request.body)
        start = (sent["page"] - 1) * sent["page_size"]
        return {"chunks": chunks[start : start + sent["page_size"]], "doc_aggs": [], "total": 230}

    ragflow.data["/api/v1/retrieval"] = page
    for top_n, pages in ((150, 2), (1000, 3)):
        ragflow.received.clear()
        result = await knowledge_of(ragflow).search(DatasetSearch("q", (GUIDE,), top_n=top_n))
        assert [chunk["chunk_id"] for chunk in result.chunks] == [chunk["id"] for chunk in chunks[:top_n]]
        assert [json.loads(request.body)["page_size"] for request in ragflow.received] == [100] * pages


async def test_a_search_without_documents_is_not_sent(ragflow: FakeRagflow) -> None:
    for documents in ((), ("-999",)):
        assert (await knowledge_of(ragflow).search(DatasetSearch("q", (GUIDE,), documents))).total == 0
    assert ragflow.received == []


async def test_metadata_are_read_from_the_list_of_documents(ragflow: FakeRagflow) -> None:
    ragflow.data["/api/v1/datasets/1/documents"] = {
        "docs": [{"id": "d1", "meta_fields": {"year": 2024, "tags": ["a", "b"]}}, {"id": "d2", "meta_fields": None}],
        "total": 2,
    }
    assert await knowledge_of(ragflow).metadata([GUIDE]) == {
        "year": {"2024": ["d1"]},
        "tags": {"a": ["d1"], "b": ["d1"]},
    }


def answer(status: int, **body: Any) -> Route:
    return Route("", status=status, body=json.dumps(body))


@each_row(
    ("fault", "text"),
    [
        (answer(200, code=109, message="API key is invalid!"), r"\(109\): API key is invalid.*api_key"),
        (answer(200, code=102, message="k3y does not own it"), r"/api/v1/\w+ \(102\): \*\*\* does not own it\.$"),
        (answer(403, code=403), r"\(403\): no reason given\. Check \[knowledge\] api_key"),
        (answer(502), r"RAGFlow \(\[knowledge\] url\) answered \S+ with status 502"),
        (Route("", body="<html>"), r"not as RAGFlow's API does\. Check the address"),
        (Route("", body="[" * 200_000), "not as RAGFlow's API does|nested more than 100 levels"),
        (answer(200, code=0, data=None), r"answered .*without"),
        (answer(200, code=0, data={"chunks": 1}), r"answered .*without"),
        (Route("", delay_ms=500), "did not answer within"),
    ],
)
async def test_invalid_responses_are_errors(ragflow: FakeRagflow, fault: Route, text: str) -> None:
    ragflow.fault = fault
    knowledge = knowledge_of(ragflow, timeout_s=0.2 if fault.delay_ms else 30)
    for attempt in (knowledge.search(DatasetSearch("q", (GUIDE,))), knowledge.datasets(["a"])):
        with pytest.raises(ServiceError, match=text) as caught:
            await attempt
        assert "[knowledge]" in str(caught.value)


async def test_the_error_for_a_missing_key_names_the_setting(ragflow: FakeRagflow) -> None:
    with pytest.raises(SettingsError, match="api_key"):
        await knowledge_of(ragflow, key="").datasets(["a"])
