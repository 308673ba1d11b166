import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.knowledge.rerankers import (
    ConfiguredRerankers,
    RerankerSettings,
    compute_window_size,
    normalize_scores,
    search_reranked,
)
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Reranker, SearchResult
from tests.fakes.http_server import HttpServer, Route
from tests.harness.rows import each_row

DATASET = Dataset("ds1", "Manuals")

HTTP = HttpSettings(allow=("127.0.0.1",))
TEXTS = ["one", "two", "three"]


def results(*scores: float, name: str = "relevance_score") -> list[dict[str, Any]]:
    """Return results best first, like endpoints."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [{"index": index, name: scores[index]} for index in order]


async def score(server: HttpServer, **settings: Any) -> Any:
    options: dict[str, Any] = {"max_retries": 0, **settings}
    reranker = RerankerSettings(f"http://127.0.0.1:{server.port}/v1/", **options)
    http = GuardedHttpClient(HTTP)
    try:
        return await ConfiguredRerankers({"m": reranker}, http).reranker("m@Provider").scores("q", TEXTS)
    finally:
        await http.aclose()


ANSWER: dict[str, Any] = {"results": results(0.1, 0.9, 0.5)}
DOCUMENTS: dict[str, Any] = {"query": "q", "documents": TEXTS}


@each_row(
    ("style", "path", "answer", "expected"),
    [
        ("cohere", "rerank", ANSWER, {**DOCUMENTS, "model": "m", "top_n": 3}),
        ("jina", "rerank", ANSWER, {**DOCUMENTS, "model": "m", "top_n": 3, "return_documents": False}),
        ("dashscope", "text-rerank", {"output": ANSWER},
         {"model": "m", "input": DOCUMENTS, "parameters": {"top_n": 3}}),
        ("voyage", "rerank", {"data": results(0.1, 0.9, 0.5)}, {**DOCUMENTS, "model": "m", "top_k": 3}),
        ("tei", "rerank", results(0.1, 0.9, 0.5, name="score"),
         {"query": "q", "texts": TEXTS, "raw_scores": False, "truncate": True}),
    ],
)  # fmt: skip
async def test_requests_follow_the_style(style: str, path: str, answer: Any, expected: dict[str, Any]) -> None:
    async with HttpServer([Route(f"/v1/{path}", "POST", body=json.dumps(answer))]).running() as server:
        assert await score(server, style=style, api_key="k3y") == [0.1, 0.9, 0.5]
        assert json.loads(server.received[0].body) == expected
        assert server.received[0].header("authorization") == "Bearer k3y"


async def test_a_known_model_needs_no_section() -> None:
    async with HttpServer([Route("/v1/rerank", body=json.dumps({"results": results(0.5)}))]).running() as server:
        known = RerankerSettings(f"http://127.0.0.1:{server.port}/v1", "small")
        http = GuardedHttpClient(HTTP)
        rerankers = ConfiguredRerankers({}, http, find_known={"small@Jina": known}.get)
        assert await rerankers.reranker("small@Jina").scores("q", ["a"]) == [0.5]
        with pytest.raises(SettingsError):
            rerankers.reranker("small@Nowhere")
        await http.aclose()


async def test_texts_are_truncated_and_sent_in_batches() -> None:
    async with HttpServer([Route("/v1/rerank", body=json.dumps({"results": results(0.5)}))]).running() as server:
        assert await score(server, batch=1, max_chars=2) == [0.5, 0.5, 0.5]
        assert [json.loads(request.body)["documents"] for request in server.received] == [["on"], ["tw"], ["th"]]


@each_row(
    ("route", "text"),
    [
        (Route("/v1/rerank", status=401, body="bad k3y"), r"answered with status 401: bad \*\*\*\.$"),
        (Route("/v1/rerank", status=503), "answered with status 503: nothing"),
        (Route("/v1/rerank", body="<html>"), "without scores: <html>"),
        (Route("/v1/rerank", body='{"results": {"a": 1}}'), "without scores"),
        (Route("/v1/rerank", body='{"results": [{"index": 0}]}'), "without scores"),
        (Route("/v1/rerank", body=json.dumps({"results": results(0.5, 0.6)})), "returned 2 valid scores for 3 texts"),
        (
            Route("/v1/rerank", body='[{"index":0,"score":NaN},{"index":1,"score":1},{"index":2,"score":1}]'),
            "without scores",
        ),
        (Route("/v1/rerank", body=json.dumps([{"index": 0, "score": 1}] * 3)), "returned 1 valid scores"),
        (Route("/v1/rerank", body="[" * 200_000), "without scores"),
        (Route("/v1/rerank", delay_ms=500), "did not answer within"),
    ],
)
async def test_invalid_responses_are_errors(route: Route, text: str) -> None:
    async with HttpServer([route]).running() as server:
        with pytest.raises(ServiceError, match=text) as caught:
            await score(server, api_key="k3y", timeout_s=0.2 if route.delay_ms else 30)
        assert '[rerankers."m"]' in str(caught.value)


async def test_temporary_failures_are_retried_unless_the_pause_is_too_long() -> None:
    async with HttpServer([Route("/v1/rerank", status=429, headers={"Retry-After": "999"})]).running() as server:
        with pytest.raises(ServiceError, match="429"):
            await score(server, max_retries=3)
        assert len(server.received) == 1  # the requested pause is too long
    async with HttpServer([Route("/v1/rerank", status=429)]).running() as server:
        with pytest.raises(ServiceError, match="429"):
            await score(server, max_retries=1)
        assert len(server.received) == 2


async def test_errors_name_missing_settings() -> None:
    http = GuardedHttpClient(HTTP)
    rerankers = ConfiguredRerankers({"m": RerankerSettings("http://x", key_problem="no NO_KEY")}, http)
    with pytest.raises(SettingsError, match=r"add \[rerankers\.\"other\"\].*Known models: 'm'"):
        rerankers.reranker("other")
    with pytest.raises(SettingsError, match=r"cannot be used: no NO_KEY"):
        await rerankers.reranker("m").scores("q", TEXTS)
    assert "k3y" not in repr(RerankerSettings("http://x", api_key="k3y"))


def test_window_sizes_and_scaled_scores_equal_those_of_ragflow() -> None:
    windows = {(8, 1024): 64, (6, 1024): 66, (1, 1024): 30, (100, 10): 100}
    assert {sizes: compute_window_size(*sizes, is_reranked=False) for sizes in windows} == windows
    assert [compute_window_size(*sizes, is_reranked=True) for sizes in ((8, 20), (1, 9))] == [24, 9]
    for scores, expected in (
        ([0.1, 0.9], [0.1, 0.9]),
        ([-1.0, 1.0, 3.0], [0.0, 0.5, 1.0]),
        ([7.0, 7.0005], [1.0, 1.0]),
        ([-3.0], [0.0]),
        ([], []),
    ):
        assert normalize_scores(scores) == expected


def finding(chunks: int, seen: list[DatasetSearch] | None = None) -> Callable[[DatasetSearch], Awaitable[SearchResult]]:
    """Return a search for up to so many chunks; the n-th has the term score n/10."""

    async def find(search: DatasetSearch) -> SearchResult:
        (seen if seen is not None else []).append(search)
        fields = [(n, f"d{n % 2}") for n in range(min(chunks, search.top_n))]
        return SearchResult(
            tuple(
                {"content_with_weight": str(n), "docnm_kwd": name, "doc_id": name, "term_similarity": 0.1 * n}
                for n, name in fields
            )
        )

    return find


class _Rerankers:
    """Has one model with prepared scores."""

    def __init__(self, scores: Sequence[float] | Exception) -> None:
        self._scores = scores

    def reranker(self, rerank_id: str) -> Reranker:
        if rerank_id != "r":
            raise SettingsError(f"The settings have no rerank model {rerank_id!r}.")
        return self

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        if isinstance(self._scores, Exception):
            raise self._scores
        return self._scores[: len(texts)]


def search(**options: Any) -> DatasetSearch:
    fields: dict[str, Any] = {"top_n": 2, "rerank_id": "r", **options}
    return DatasetSearch("rice", (DATASET,), **fields)


async def test_the_model_orders_the_chunks_and_documents_are_counted_over_all_of_them() -> None:
    seen: list[DatasetSearch] = []
    result = await search_reranked(search(similarity_threshold=0.3), finding(4, seen), _Rerankers([0.0, 0.9, 0.1, 1.0]))
    assert [chunk["content_with_weight"] for chunk in result.chunks] == ["3", "1"]
    assert [chunk["similarity"] for chunk in result.chunks] == pytest.approx([0.65, 0.5])
    assert [chunk["vector_similarity"] for chunk in result.chunks] == [1.0, 0.9]
    assert [(d.name, d.chunks) for d in result.documents] == [("d1", 2)]
    assert result.total == 2
    assert (seen[0].top_n, seen[0].rerank_id, seen[0].similarity_threshold) == (64, "", 0.0)
    by_words = search(keywords_similarity_weight=1.0, similarity_threshold=0.9)
    assert (await search_reranked(by_words, finding(2), _Rerankers([0.0, 0.0]))).total == 2


async def test_a_failing_or_unknown_model_is_an_error_if_it_is_needed() -> None:
    down = _Rerankers(ServiceError("down"))
    assert len((await search_reranked(search(rerank_id=""), finding(1), down)).chunks) == 1
    assert (await search_reranked(search(), finding(0), down)).chunks == ()
    with pytest.raises(ServiceError, match="down"):
        await search_reranked(search(), finding(1), down)
    with pytest.raises(SettingsError, match="no rerank model 'x'"):
        await search_reranked(search(rerank_id="x"), finding(1), down)
