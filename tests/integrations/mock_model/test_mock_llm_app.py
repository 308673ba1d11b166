import asyncio
import io
import json
import wave
from typing import Any

import httpx
import pytest

from ragflow_lg.integrations.mock_model import mock_llm_app as module
from ragflow_lg.integrations.mock_model.mock_llm_app import Exchange, mock_app
from ragflow_lg.integrations.mock_model.mock_llm_wire import Answer, build_answer, build_error
from ragflow_lg.integrations.mock_model.rules import Reply, Rules
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


WHOLE = MockRequest("m", "s", "user text", "last text", "tool", (), False, False, 10)
STREAM = MockRequest("m", "s", "user text", "last text", "tool", (), True, True, 10)


def deltas(answer: Answer) -> list[dict[str, Any]]:
    """Return the delta of each streamed piece."""
    assert answer.content_type == "text/event-stream"
    lines = [piece.decode().removeprefix("data: ").rstrip() for piece in answer.pieces]
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]


def message(answer: Answer) -> dict[str, Any]:
    """Return the message of an answer that is not streamed."""
    return json.loads(answer.pieces[0])["choices"][0]["message"]


def test_a_text_is_cut_into_pieces() -> None:
    for cut, expected in ((4, ["abcd", "efgh", "ij"]), (0, ["abcdefghij"]), ([1, 9, 50], ["a", "bcdefghi", "j"])):
        result = deltas(build_answer(Reply(text="abcdefghij", cut_text=cut), STREAM, 1))
        assert [delta["content"] for delta in result[:-1]] == expected
        assert result[0]["role"] == "assistant"
    result = deltas(build_answer(Reply(text=["x", "yz"], reasoning=["r"]), STREAM, 1))
    assert message(build_answer(Reply.model_validate({"json": {"a": [1]}}), WHOLE, 1))["content"] == '{"a": [1]}'
    assert result[:-1] == [{"role": "assistant", "reasoning_content": "r"}, {"content": "x"}, {"content": "yz"}]


def test_calls_are_streamed_in_fragments_of_names_and_arguments() -> None:
    reply = Reply.model_validate(
        {"calls": [{"name": "look", "arguments": {"q": "ü"}, "id": "c1"}], "cut_names": 2, "cut_arguments": [3]}
    )
    result = [delta["tool_calls"][0] for delta in deltas(build_answer(reply, STREAM, 1))[:-1]]
    assert result == [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "lo", "arguments": ""}},
        {"index": 0, "function": {"name": "ok", "arguments": '{"q'}},
        {"index": 0, "function": {"arguments": '": "ü"}'}},
    ]


def test_calls_that_are_not_streamed() -> None:
    reply = Reply.model_validate({"calls": [{"name": "a"}, {"name": "b", "arguments": "no json", "has_index": False}]})
    whole = build_answer(reply, WHOLE, 7)
    assert [(c["id"], c["function"]["arguments"]) for c in message(whole)["tool_calls"]] == [
        ("call_mock_7_1", "{}"),
        ("call_mock_7_2", "no json"),
    ]
    assert json.loads(whole.pieces[0])["choices"][0]["finish_reason"] == "tool_calls"
    streamed = deltas(build_answer(reply, STREAM, 7))
    assert [delta["tool_calls"][0]["index"] for delta in streamed[:-1]] == [0, None]


def test_placeholders_are_replaced_once() -> None:
    request = MockRequest("m", "", '${last} " {', "L", "user", (), False, False, 0)
    calls = [{"name": "n", "arguments": {"q": ["${user}"]}}]
    reply = {"text": "${user}|${last}|${model}|${number}|${x}|${", "calls": calls}
    result = message(build_answer(Reply.model_validate(reply), request, 3))
    assert result["content"] == '${last} " {|L|m|3|${x}|${'
    assert json.loads(result["tool_calls"][0]["function"]["arguments"]) == {"q": ['${last} " {']}


def test_usage_is_sent_on_request() -> None:
    reply = Reply.model_validate({"text": "a", "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    expected = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    assert json.loads(build_answer(reply, WHOLE, 1).pieces[0])["usage"] == expected
    last = json.loads(build_answer(reply, STREAM, 1).pieces[-2].decode().removeprefix("data: "))
    assert (last["usage"], last["choices"]) == (expected, [])
    silent = MockRequest("m", "s", "", "", "", (), True, False, 10)
    assert b"usage" not in b"".join(build_answer(reply, silent, 1).pieces)
    assert b"usage" not in build_answer(Reply(text="a", usage=False), WHOLE, 1).pieces[0]
    estimated = json.loads(build_answer(Reply(text="abcde"), WHOLE, 1).pieces[0])["usage"]
    assert estimated == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_errors_have_openais_format() -> None:
    answer = build_answer(Reply(status=429, retry_after=2.0, error="slow", headers={"X-A": "b"}), STREAM, 1)
    assert (answer.status, answer.headers) == (429, {"X-A": "b", "Retry-After": "2"})
    expected = {"message": "slow", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
    assert json.loads(answer.pieces[0])["error"] == expected
    assert json.loads(build_error(503, "x").pieces[0])["error"]["type"] == "server_error"
    assert build_answer(Reply(status=500, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), WHOLE, 1).headers["Retry-After"]
