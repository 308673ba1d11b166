import asyncio
import json
from typing import Any

import pytest

from ragflow_lg.adapters.ragflow_api.api_client import MAX_SIDE_BY_SIDE, MAX_WAIT_S, ApiAddress, RagflowApi
from ragflow_lg.base.errors import RefusalError, ServiceError
from ragflow_lg.services.http import HttpResponse
from tests.fakes.http_server import Received, Route
from tests.fakes.recorded_ragflow import RecordedRagflow
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.ragflow_api.opened_api import KEY, open_api


@each_row(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "86400"}, MAX_WAIT_S),
        ({"Retry-After": "Sat, 22 Aug 2026 10:00:09 GMT", "Date": "Sat, 22 Aug 2026 10:00:00 GMT"}, 9.0),
        ({"Retry-After": "soon"}, 1.0),
        ({}, 1.0),
    ],
)
async def test_a_busy_server_says_when_to_ask_again(
    ragflow: RecordedRagflow, headers: dict[str, str], wait_s: float
) -> None:
    ragflow.faults = [Route("", status=429, headers=headers)]
    waits: list[float] = []
    data = await open_api(ragflow, waits).get("/api/v1/agents")
    assert (waits, data["total"]) == ([wait_s], 3)


async def test_a_server_that_stays_busy_is_given_up(ragflow: RecordedRagflow) -> None:
    ragflow.faults = [Route("", status=503, body="busy")] * 20
    waits: list[float] = []
    with pytest.raises(ServiceError, match="status 503"):
        await open_api(ragflow, waits).get("/api/v1/agents")
    assert len(ragflow.received) == ApiAddress("", "").tries
    assert waits == [1.0, 2.0, 4.0, 8.0]


async def test_a_change_is_not_repeated_after_a_failure(ragflow: RecordedRagflow) -> None:
    ragflow.faults = [Route("", raw=b"HTTP/1.1 2")] * 3
    with pytest.raises(ServiceError, match="cannot be reached"):
        await open_api(ragflow).send("PUT", "/api/v1/agents/a", body={})
    assert len(ragflow.received) == 1


async def test_few_requests_run_side_by_side() -> None:
    running = most = 0

    class Counting:
        async def send(self, request: Any) -> HttpResponse:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            return HttpResponse(200, {}, '{"code":0,"data":[]}', "")

    api = RagflowApi(ApiAddress("https://r.example", KEY), Counting())
    await asyncio.gather(*(api.get("/x") for _ in range(20)))
    assert most == MAX_SIDE_BY_SIDE


async def test_endless_pages_end(ragflow: RecordedRagflow) -> None:
    api = open_api(ragflow)
    ragflow.set("/same", [{"id": str(number)} for number in range(30)])
    assert len([row async for row in api.rows("/same", limit=100)]) == 30
    assert len(ragflow.received) == 2

    def fresh(request: Received) -> Route:
        start = len(ragflow.received) * 30
        return Route("", body=json.dumps({"code": 0, "data": [{"id": str(start + number)} for number in range(30)]}))

    ragflow._route = fresh  # type: ignore[method-assign]
    with pytest.raises(ServiceError, match="more than 100 entries"):
        _ = [row async for row in api.rows("/endless", limit=100)]
    assert len(ragflow.received) < 8


@each_row(
    ("body", "problem"),
    [
        ("<html>proxy</html>", "not as RAGFlow's API does"),
        ("[" * 100_000, "nested more than 100 levels"),
        ("7", "not as RAGFlow's API does"),
        (f'{{"code": 109, "message": "API key {KEY} is invalid"}}', r"is invalid\. Check the API key"),
        ('{"code": 403, "message": "Super user shouldn\'t access the URL"}', "It is that of RAGFlow's superuser"),
        ('{"code": 0, "data": {"canvas": "no"}}', "without a list"),
        ('{"code": 0, "data": null}', "without a list"),
    ],
)
async def test_strange_answers_are_reported(ragflow: RecordedRagflow, body: str, problem: str) -> None:
    ragflow.faults = [Route("", body=body)]
    with pytest.raises(ServiceError, match=problem) as caught:
        _ = [row async for row in open_api(ragflow).rows("/api/v1/agents", "canvas", limit=10)]
    assert KEY not in str(caught.value)


async def test_values_that_cannot_be_stored_are_replaced(ragflow: RecordedRagflow) -> None:
    ragflow.faults = [
        Route("", body='{"code": 0, "data": ["a\\ud800b", "\\ud83d\\ude00", 12345678901234567890123, 7]}')
    ]
    data = await open_api(ragflow).get("/x")
    assert data == ["a?b", "😀", 12345678901234567890123.0, 7]
    assert isinstance(data[2], float)


async def test_huge_answers_are_refused(ragflow: RecordedRagflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.adapters.ragflow_api.api_client.MAX_BODY_BYTES", 1000)
    with pytest.raises(ServiceError, match="larger than the limit of 1,000 bytes"):
        await open_api(ragflow).get("/api/v1/agents")


async def test_an_unknown_route_is_told_apart(ragflow: RecordedRagflow) -> None:
    with pytest.raises(RefusalError) as caught:
        await open_api(ragflow).get("/api/v1/other")
    assert caught.value.is_unknown_route


async def test_a_stream_is_read_frame_by_frame(ragflow: RecordedRagflow) -> None:
    text = 'data:{"event":"message","data":{"content":"a\u2028b"}}\n\n: ping\n\ndata: {"code":500}\n\ndata:[DONE]\n\n'
    ragflow.faults = [Route("", body=text)]
    frames = await open_api(ragflow).stream("/api/v1/agents/chat/completions", {})
    assert frames == [{"event": "message", "data": {"content": "a\u2028b"}}, {"code": 500}]


@each_row(
    ("body", "problem"),
    [('{"code": 102, "message": "Session not found!"}', "Session not found"), ('{"code": 0, "data": {}}', "a stream")],
)
async def test_an_answer_in_place_of_a_stream_is_an_error(ragflow: RecordedRagflow, body: str, problem: str) -> None:
    ragflow.faults = [Route("", body=body)]
    with pytest.raises(ServiceError, match=problem):
        await open_api(ragflow).stream("/api/v1/agents/chat/completions", {})
