import asyncio
import json

import httpx
import pytest

from ragflow_lg.server.devtools.mock_llm.mock_llm_app import Exchange
from ragflow_lg.server.devtools.mock_llm.mock_llm_server import RequestLog
from ragflow_lg.server.devtools.mock_llm.scripts import MockRequest
from tests.fakes.mock_llm import MockLLM, reply


async def test_the_server_ends_at_once_during_a_response() -> None:
    async with httpx.AsyncClient() as http:
        async with MockLLM([reply("a", delay_s=60)]) as server:
            ask = http.post(f"{server.base_url}/chat/completions", json={"model": "m", "messages": []})
            asking = asyncio.create_task(ask)
            await asyncio.wait_for(server.received_request.wait(), 5)
            start_time = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - start_time < 2
        with pytest.raises(httpx.HTTPError):
            await asking


def test_a_line_describes_request_and_reply_without_the_key() -> None:
    lines: list[str] = []
    log = RequestLog(lines.append)
    key = "sk-0123456789abcdef0123"
    request = MockRequest("m", "sys", f"my key is {key} " + "x" * 500, "", "user", ("look",), True, False, 3)
    exchange = Exchange(1, "POST", "/v1/chat/completions", {"authorization": f"Bearer {key}"}, {}, request, 2, 1, 200)
    log(exchange)
    assert lines == []
    exchange.pieces, exchange.end = 4, "done"
    log(exchange)
    row = json.loads(lines[0])
    assert key not in lines[0]
    assert len(row["user"]) == 200
    assert isinstance(row.pop("elapsed_ms"), int)
    assert row.pop("user").startswith("my key is *** ")
    assert row == {
        "request": 1,
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "m",
        "stream": True,
        "tools": ["look"],
        "last_role": "user",
        "rule": 2,
        "reply": 1,
        "status": 200,
        "pieces": 4,
        "end": "done",
    }


def test_a_line_has_the_problem() -> None:
    lines: list[str] = []
    RequestLog(lines.append)(Exchange(1, "GET", "/x", {}, status=404, problem="There is no GET /x.", end="done"))
    assert json.loads(lines[0])["problem"] == "There is no GET /x."
