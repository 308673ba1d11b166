"""A server that tells nothing about its model, which is found out by what it reads and answers."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ragflow_lg.adapters.chat.ability_probe import probe_abilities
from ragflow_lg.adapters.chat.chat_settings import ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_abilities import Abilities
from ragflow_lg.adapters.chat.openai_chat import Endpoint, OpenAIChat
from tests.fakes.tool_stubs.stub import serving
from tests.harness.rows import each_row


@asynccontextmanager
async def serving_model(*, reads: str, refuses: str, text: str) -> AsyncGenerator[tuple[str, list[Mapping[str, Any]]]]:
    asked: list[Mapping[str, Any]] = []

    def parts_of(body: Mapping[str, Any]) -> set[str]:
        has_image = isinstance(body["messages"][-1]["content"], list)
        return {name for name in ("tools", "response_format") if name in body} | ({"image"} if has_image else set())

    async def complete(request: Request) -> JSONResponse:
        asked.append(body := await request.json())
        parts = parts_of(body)
        if refused := parts & {*refuses.split()}:
            return JSONResponse({"error": {"message": f"it does not support {refused.pop()}"}}, 400)
        answer = '{"ready' if "response_format" in parts & {*reads.split()} else text
        usage = {"prompt_tokens": 10 + len(parts & {*reads.split()}), "completion_tokens": 2, "total_tokens": 12}
        choice = {"message": {"role": "assistant", "content": answer}, "finish_reason": "length"}
        return JSONResponse({"choices": [choice], "usage": usage})

    async with serving(Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])) as address:
        yield f"http://{address}/v1", asked


@each_row(
    ("reads", "refuses", "text", "found"),
    [
        ("tools image response_format", "", "ready", Abilities(None, True, True, True)),
        ("response_format", "", "ready", Abilities(None, False, False, True)),
        ("tools", "image", "<think>The user", Abilities(None, False, True, None, True)),
        ("image", "tools", "ready", Abilities(None, True, False)),
    ],
)
async def test_what_a_server_does_not_tell_is_found_out(reads: str, refuses: str, text: str, found: Abilities) -> None:
    async with serving_model(reads=reads, refuses=refuses, text=text) as (base_url, asked):
        endpoint = Endpoint("Test", ProviderSettings(base_url, max_retries=0))
        try:
            assert await probe_abilities(OpenAIChat("m", endpoint, ModelSettings())) == found
            assert [body["max_tokens"] for body in asked] == [8] * len(asked)
            before = len(asked)
            said = ModelSettings(100, has_vision=True, has_tools=True, has_schemas=False)
            await probe_abilities(OpenAIChat("m", endpoint, said))
            assert len(asked) == before + 1  # what the settings say is not asked
        finally:
            await endpoint.aclose()
