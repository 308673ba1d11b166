import asyncio
import io
import json
import wave
from typing import Any

import httpx
import pytest

from ragflow_lg.integrations.mock_model import mock_llm_app as module
from ragflow_lg.integrations.mock_model.mock_llm_app import Exchange, RequestLog, mock_app
from ragflow_lg.integrations.mock_model.rules import Rules
from ragflow_lg.integrations.mock_model.scripts import MockRequest
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.rows import each_row

ASK = {"model": "m", "messages": [{"role": "user", "content": "q"}]}


def client(*rules: Any, exchanges: list[Exchange] | None = None) -> httpx.AsyncClient:
    app = mock_app(Rules.model_validate({"rules": list(rules)}), (exchanges if exchanges is not None else []).append)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://mock/v1")


async def test_it_completes_and_lists_its_models() -> None:
    async with client({"when": {"model": "m"}, "replies": [{"text": "hi"}]}) as http:
        answer = await http.post("/chat/completions", json=ASK)
        assert answer.json()["choices"][0]["message"]["content"] == "hi"
        listed = (await http.get("/models")).json()
        assert [row["id"] for row in listed["data"]] == ["m"]


@each_row(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "/embeddings", b"{}", 404, "There is no route POST /v1/embeddings"),
        ("GET", "/chat/completions", b"", 405, "There is no route GET /v1/chat"),
        ("POST", "/chat/completions", b"{", 400, "not JSON"),
        ("POST", "/chat/completions", b"[" * 100_000, 400, "not JSON"),
        ("POST", "/chat/completions", b"\xff", 400, "not JSON"),
        ("POST", "/chat/completions", b"{}", 400, "'model'"),
        ("POST", "/chat/completions", json.dumps({**ASK, "model": "other"}).encode(), 400, "No rule matches"),
    ],
)
async def test_invalid_requests_get_errors_in_openais_format(
    method: str, path: str, body: bytes, status: int, text: str
) -> None:
    exchanges: list[Exchange] = []
    async with client({"when": {"model": "m"}, "replies": [{}]}, exchanges=exchanges) as http:
        answer = await http.request(method, path, content=body)
    assert answer.status_code == status
    assert text in answer.json()["error"]["message"]
    assert text in exchanges[-1].problem


async def test_a_body_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 10)
    async with client({"replies": [{}]}) as http:
        answer = await http.post("/chat/completions", json=ASK)
    assert "larger than 10 bytes" in answer.json()["error"]["message"]


async def test_a_cut_connection_and_a_client_that_disconnects() -> None:
    async with MockLLM([reply("a", "b", cut_after=1), reply(*"ab" * 500, piece_delay_s=0.01)]) as server:
        async with httpx.AsyncClient() as http:
            with pytest.raises(httpx.RemoteProtocolError):
                await http.post(f"{server.base_url}/chat/completions", json={**ASK, "stream": True})
            async with http.stream("POST", f"{server.base_url}/chat/completions", json={**ASK, "stream": True}) as left:
                await anext(left.aiter_lines())
        await asyncio.wait_for(server.client_left.wait(), 60)
        assert [exchange.end for exchange in server.requests] == ["cut", "left"]


async def test_the_server_ends_at_once_during_a_response() -> None:
    async with httpx.AsyncClient() as http:
        async with MockLLM([reply("a", delay_s=60)]) as server:
            ask = http.post(f"{server.base_url}/chat/completions", json={"model": "m", "messages": []})
            asking = asyncio.create_task(ask)
            await asyncio.wait_for(server.received_request.wait(), 60)
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
    assert (key in lines[0], len(row["user"]), row["user"][:14]) == (False, 200, "my key is *** ")
    expected = {"method": "POST", "path": "/v1/chat/completions", "model": "m", "stream": True, "tools": ["look"]}
    assert expected.items() <= row.items()
    counts = {"request": 1, "last_role": "user", "rule": 2, "reply": 1, "status": 200, "pieces": 4, "end": "done"}
    assert counts.items() <= row.items()


async def test_a_text_becomes_a_tone() -> None:
    async with MockLLM() as mock, httpx.AsyncClient(base_url=mock.base_url) as client:
        short = await client.post("/audio/speech", json={"input": "Hi", "model": "m", "voice": "v"})
        long = await client.post("/audio/speech", json={"input": "Hello " * 20, "model": "m", "voice": "v"})
        wrong = await client.post("/audio/speech", json={"model": "m"})
    assert short.headers["content-type"] == "audio/wav"
    lengths: list[float] = []
    for response in (short, long):
        with wave.open(io.BytesIO(response.content)) as audio:
            lengths.append(audio.getnframes() / audio.getframerate())
    assert 0.05 < lengths[0] < lengths[1] <= 2.0
    assert (wrong.status_code, "input" in wrong.json()["error"]["message"]) == (400, True)


async def test_a_file_becomes_a_text() -> None:
    async with MockLLM() as mock, httpx.AsyncClient(base_url=mock.base_url) as client:
        heard = await client.post("/audio/transcriptions", data={"model": "m"}, files={"file": ("a.mp3", b"ID3")})
        wrong = await client.post("/audio/transcriptions", data={"model": "m"})
    assert heard.json() == {"text": "You said: a.mp3"}
    assert wrong.status_code == 400
