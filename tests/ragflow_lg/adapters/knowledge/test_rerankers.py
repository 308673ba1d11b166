import json
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient, HttpSettings
from ragflow_lg.adapters.knowledge.rerankers import ConfiguredRerankers, RerankerSettings
from ragflow_lg.base.errors import ServiceError, SettingsError
from tests.fakes.http_server import HttpServer, Route

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


@pytest.mark.parametrize(
    ("style", "answer", "expected"),
    [
        (
            "cohere",
            {"results": results(0.1, 0.9, 0.5)},
            {"query": "q", "model": "m", "documents": TEXTS, "top_n": 3},
        ),
        (
            "jina",
            {"results": results(0.1, 0.9, 0.5)},
            {"query": "q", "model": "m", "documents": TEXTS, "top_n": 3, "return_documents": False},
        ),
        (
            "tei",
            results(0.1, 0.9, 0.5, name="score"),
            {"query": "q", "texts": TEXTS, "raw_scores": False, "truncate": True},
        ),
    ],
)
async def test_requests_follow_the_style(style: str, answer: Any, expected: dict[str, Any]) -> None:
    async with HttpServer([Route("/v1/rerank", "POST", body=json.dumps(answer))]).running() as server:
        assert await score(server, style=style, api_key="k3y") == [0.1, 0.9, 0.5]
        assert json.loads(server.received[0].body) == expected
        assert server.received[0].header("authorization") == "Bearer k3y"


async def test_texts_are_truncated_and_sent_in_batches() -> None:
    async with HttpServer([Route("/v1/rerank", body=json.dumps({"results": results(0.5)}))]).running() as server:
        assert await score(server, batch=1, max_chars=2) == [0.5, 0.5, 0.5]
        assert [json.loads(request.body)["documents"] for request in server.received] == [["on"], ["tw"], ["th"]]


@pytest.mark.parametrize(
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
            "returned 2",
        ),
        (Route("/v1/rerank", body=json.dumps([{"index": 0, "score": 1}] * 3)), "returned 1 valid scores"),
        (Route("/v1/rerank", body="[" * 200_000), "without scores"),
        (Route("/v1/rerank", delay_ms=500), "did not answer within"),
    ],
    ids=["key", "busy", "page", "map", "no score", "too few", "nan", "twice", "deep", "slow"],
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
    rerankers = ConfiguredRerankers({"m": RerankerSettings("http://x", key_variable="NO_KEY")}, http)
    with pytest.raises(SettingsError, match=r"add \[rerankers\.\"other\"\].*Known models: 'm'"):
        rerankers.reranker("other")
    with pytest.raises(SettingsError, match=r"variable 'NO_KEY' of .* is not set"):
        await rerankers.reranker("m").scores("q", TEXTS)
    assert "k3y" not in repr(RerankerSettings("http://x", api_key="k3y"))
