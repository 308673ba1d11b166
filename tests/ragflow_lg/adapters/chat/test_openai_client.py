import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import HumanMessage

from ragflow_lg.adapters.chat.openai_client import REASONING, EndpointChat, make_chat
from tests.harness.rows import each_row

USER = [HumanMessage("hello")]


def chat_with(handler: httpx.MockTransport) -> EndpointChat:
    return make_chat(
        "m",
        httpx.AsyncClient(transport=handler, follow_redirects=False),
        base_url="http://models.test/v1",
        api_key="",
        timeout_s=5.0,
        counts_streams=False,
    )


def streaming(body: str) -> EndpointChat:
    async def content() -> AsyncIterator[bytes]:
        yield body.encode()

    headers = {"Content-Type": "text/event-stream"}
    return chat_with(httpx.MockTransport(lambda request: httpx.Response(200, content=content(), headers=headers)))


@each_row(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"thinking": "hm"},
        {"reasoning": {"summary": [{"type": "summary_text", "text": "h"}, {"text": "m"}]}},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}]},
    ],
)
async def test_reasoning_of_chunks_is_kept_under_one_name(delta: dict[str, Any]) -> None:
    body = f'data: {{"choices": [{{"index": 0, "delta": {json.dumps(delta)}}}]}}\n\ndata: [DONE]\n\n'
    chunks = [chunk async for chunk in streaming(body).astream(USER)]
    assert chunks[0].additional_kwargs[REASONING] == "hm"


async def test_done_counts_as_a_finish_reason() -> None:
    body = 'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n'
    for end, reasons in (("", []), ("data: [DONE]\n\n", ["stop"])):
        chunks = [chunk async for chunk in streaming(body + end).astream(USER)]
        assert [r for chunk in chunks if (r := chunk.response_metadata.get("finish_reason"))] == reasons


async def test_the_client_does_not_retry() -> None:
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(503)

    with pytest.raises(openai.InternalServerError):
        await chat_with(httpx.MockTransport(respond)).ainvoke(USER)
    assert len(requests) == 1
