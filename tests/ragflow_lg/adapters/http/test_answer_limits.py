"""Answers of model servers that are too large are ended, by the real client."""

import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ragflow_lg.adapters.chat.chat_settings import ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.openai_chat import Endpoint, OpenAIChat
from ragflow_lg.adapters.http import answer_limits
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.http_server import HttpServer, Route

PATH = "/v1/chat/completions"
HELLO = ChatRequest("", ({"role": "user", "content": "hello"},))
STREAM = {"Content-Type": "text/event-stream"}
JSON = {"Content-Type": "application/json"}


def event(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n".encode()


def answer(text: str) -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}).encode()


@asynccontextmanager
async def model_of(**response: Any) -> AsyncGenerator[tuple[HttpServer, OpenAIChat]]:
    async with HttpServer([Route(PATH, **response)]).running() as server:
        endpoint = Endpoint("Test", ProviderSettings(f"http://127.0.0.1:{server.port}/v1", max_retries=1))
        try:
            yield server, OpenAIChat("m", endpoint, ModelSettings(100))
        finally:
            await endpoint.aclose()


async def read(chat: OpenAIChat) -> str:
    return "".join([delta.text async for delta in chat.stream(HELLO)])


async def test_a_whole_answer_that_is_too_large_or_compressed_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "MAX_ANSWER_BYTES", 10_000)
    for status in (200, 500):
        async with model_of(body=answer("x" * 20_000), headers=JSON, status=status) as (server, chat):
            with pytest.raises(ServiceError, match="more than 10,000 bytes"):
                await chat.complete(HELLO)
            assert len(server.received) == 1
    async with model_of(body=answer("x" * 5000), headers=JSON) as (_, chat):
        assert len((await chat.complete(HELLO)).text) == 5000
    headers = {**JSON, "Content-Encoding": "gzip"}
    async with model_of(body=gzip.compress(answer("x" * 1000)), headers=headers) as (server, chat):
        with pytest.raises(ServiceError, match="compressed by 'gzip'"):
            await chat.complete(HELLO)
        assert server.received[0].header("Accept-Encoding") == "identity"


async def test_a_stream_that_is_too_large_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "MAX_STREAM_BYTES", 100_000)
    pieces = [*[event("x" * 1000)] * 150, b"data: [DONE]\n\n"]
    async with model_of(pieces=pieces, headers=STREAM) as (_, chat):
        with pytest.raises(ServiceError, match="more than 100,000 bytes"):
            await read(chat)
    async with model_of(pieces=[*pieces[:50], pieces[-1]], headers=STREAM) as (_, chat):
        assert len(await read(chat)) == 50_000


async def test_an_event_that_is_too_large_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "MAX_EVENT_BYTES", 10_000)
    async with model_of(pieces=[event("a"), b"data: ", *[b"x" * 1000] * 15], headers=STREAM) as (_, chat):
        with pytest.raises(ServiceError, match="an event of more than 10,000 bytes"):
            await read(chat)
    # The end of an event may be cut by the network.
    pieces = [piece for _ in range(5) for piece in (event("x" * 3000)[:-1], b"\n")]
    async with model_of(pieces=[*pieces, b"data: [DONE]\n\n"], headers=STREAM) as (_, chat):
        assert len(await read(chat)) == 15_000
