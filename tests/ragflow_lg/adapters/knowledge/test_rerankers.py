from __future__ import annotations

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
    """Best first, as endpoints give them."""
    order = sorted(range(len(scores)), key=lambda at: -scores[at])
    return [{"index": at, name: scores[at]} for at in order]


async def ask(server: HttpServer, **settings: Any) -> Any:
    found = RerankerSettings(f"http://127.0.0.1:{server.port}/v1/", **{"max_retries": 0, **settings})
    http = GuardedHttpClient(HTTP)
    try:
        return await ConfiguredRerankers({"m": found}, http).reranker("m@Provider").scores("q", TEXTS)
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
async def test_each_style_is_asked_as_it_wants(style: str, answer: Any, expected: dict[str, Any]) -> None:
    async with HttpServer([Route("/v1/rerank", "POST", body=json.dumps(answer))]).running() as server:
        assert await ask(server, style=style, api_key="k3y") == [0.1, 0.9, 0.5]
        assert json.loads(server.received[0].body) == expected
        assert server.received[0].header("authorization") == "Bearer k3y"


async def test_many_texts_go_in_batches_and_are_cut() -> None:
    async with HttpServer([Route("/v1/rerank", body=json.dumps({"results": results(0.5)}))]).running() as server:
        assert await ask(server, batch=1, max_chars=2) == [0.5, 0.5, 0.5]
        assert [json.loads(request.body)["documents"] for request in server.received] == [["on"], ["tw"], ["th"]]


@pytest.mark.parametrize(
    ("route", "text"),
    [
        (Route("/v1/rerank", status=401, body="bad k3y"), r"refused with status 401: bad \*\*\*\.$"),
        (Route("/v1/rerank", status=503), "refused with status 503: nothing"),
        (Route("/v1/rerank", body="<html>"), "with no scores: <html>"),
        (Route("/v1/rerank", body='{"results": {"a": 1}}'), "with no scores"),
        (Route("/v1/rerank", body='{"results": [{"index": 0}]}'), "with no scores"),
        (Route("/v1/rerank", body=json.dumps({"results": results(0.5, 0.6)})), "gave 2 usable scores for 3 texts"),
        (Route("/v1/rerank", body='[{"index":0,"score":NaN},{"index":1,"score":1},{"index":2,"score":1}]'), "gave 2"),
        (Route("/v1/rerank", body=json.dumps([{"index": 0, "score": 1}] * 3)), "gave 1 usable scores"),
        (Route("/v1/rerank", body="[" * 200_000), "with no scores"),
        (Route("/v1/rerank", delay_ms=500), "did not answer within"),
    ],
    ids=["key", "busy", "page", "map", "no score", "too few", "nan", "twice", "deep", "slow"],
)
async def test_what_is_no_answer_is_an_error(route: Route, text: str) -> None:
    async with HttpServer([route]).running() as server:
        with pytest.raises(ServiceError, match=text) as caught:
            await ask(server, api_key="k3y", timeout_s=0.2 if route.delay_ms else 30)
        assert '[rerankers."m"]' in str(caught.value)


async def test_a_busy_endpoint_is_asked_again() -> None:
    async with HttpServer([Route("/v1/rerank", status=429, headers={"Retry-After": "999"})]).running() as server:
        with pytest.raises(ServiceError, match="429"):
            await ask(server, max_retries=3)
        assert len(server.received) == 1  # it says that it is not worth waiting
    async with HttpServer([Route("/v1/rerank", status=429)]).running() as server:
        with pytest.raises(ServiceError, match="429"):
            await ask(server, max_retries=1)
        assert len(server.received) == 2


async def test_missing_settings_are_named() -> None:
    http = GuardedHttpClient(HTTP)
    rerankers = ConfiguredRerankers({"m": RerankerSettings("http://x", key_variable="NO_KEY")}, http)
    with pytest.raises(SettingsError, match=r"add \[rerankers\.\"other\"\].*The settings have 'm'"):
        rerankers.reranker("other")
    with pytest.raises(SettingsError, match=r"no 'NO_KEY'"):
        await rerankers.reranker("m").scores("q", TEXTS)
    assert "k3y" not in repr(RerankerSettings("http://x", api_key="k3y"))
