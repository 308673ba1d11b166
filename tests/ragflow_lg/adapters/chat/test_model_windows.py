import json
from collections.abc import Mapping
from typing import Any

import httpx

from ragflow_lg.adapters.chat.model_windows import ask_for_window, find_window, is_about_length
from tests.harness.rows import each_row

OLLAMA = {"data": [{"id": "m", "owned_by": "library"}]}
LOADED = {"models": [{"name": "x", "context_length": 4096}, {"name": "m:latest", "context_length": 2048}]}
LLAMA = {"data": [{"id": "m", "meta": {"n_ctx_train": 8192}}]}


async def ask(
    answers: Mapping[str, Any], base_url: str = "http://server.test/v1", *, is_ollama: bool = False
) -> tuple[int | None, list[str]]:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        assert request.headers["authorization"] == "Bearer k"
        answer = answers.get(request.url.path)
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return httpx.Response(404 if answer is None else 200, text=text)

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as connections:
        return await ask_for_window(connections, base_url, "k", "m", is_ollama=is_ollama), asked


@each_row(
    ("answers", "window"),
    [
        ({"/v1/models": {"data": [{"id": "x", "max_model_len": 1}, {"id": "m", "max_model_len": 4096}]}}, 4096),
        ({"/v1/models": LLAMA, "/props": {"default_generation_settings": {"n_ctx": 2048}}}, 2048),
        ({"/v1/models": LLAMA}, 8192),
        ({"/v1/models": {"data": [{"id": "/weights/m.gguf", "meta": {"n_ctx_train": 8192}}]}}, 8192),
        ({"/v1/models": OLLAMA, "/api/show": {"model_info": {"llama.context_length": 131072}}}, 131072),
        ({"/v1/models": OLLAMA, "/api/show": {"parameters": 'stop "x"\nnum_ctx    4096', "model_info": {}}}, 4096),
        ({"/v1/models": OLLAMA, "/api/ps": LOADED, "/api/show": {"parameters": "num_ctx 8192"}}, 2048),
        ({"/v1/models": OLLAMA, "/api/ps": {"models": [1]}, "/api/show": {"parameters": "num_ctx 8192"}}, 8192),
        ({"/v1/models": {"data": [{"id": "m"}]}}, None),
        ({"/v1/models": {"data": [{"id": "a", "max_model_len": 4096}, {"id": "b"}]}}, None),
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": "4096"}]}}, None),
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": -1}]}}, None),
        ({"/v1/models": "{"}, None),
        ({"/v1/models": "[" * 1000}, None),
        ({"/v1/models": [1]}, None),
        ({"/v1/models": " " * 100_000}, None),
        ({"/v1/models": httpx.ConnectError("down")}, None),
        ({}, None),
    ],
)
async def test_the_server_tells_the_window(answers: dict[str, Any], window: int | None) -> None:
    assert (await ask(answers))[0] == window


@each_row(
    ("answers", "window", "asked"),
    [
        ({"/api/ps": LOADED}, 2048, ["/api/ps"]),
        ({"/api/show": {"parameters": "num_ctx 4096"}}, 4096, ["/api/ps", "/api/show"]),
        ({}, None, ["/api/ps", "/api/show"]),
    ],
)
async def test_ollamas_own_api_is_asked_directly(answers: dict[str, Any], window: int | None, asked: list[str]) -> None:
    assert await ask(answers, "http://server.test", is_ollama=True) == (window, asked)


async def test_other_addresses_are_those_of_the_same_server() -> None:
    assert (await ask({"/x/v1/models": LLAMA}, "http://server.test/x/v1/"))[1] == ["/x/v1/models", "/x/props"]


@each_row(
    ("refusal", "window"),
    [
        ("request (4111 tokens) exceeds the available context size (2048 tokens), try increasing it", 2048),
        ("This model's maximum context length is 8192 tokens. However, you requested 9001 tokens", 8192),
        ("the input length exceeds the context length", None),
        ("prompt is too long: 9000 tokens > 4096 maximum", None),
    ],
)
def test_a_refusal_names_the_window(refusal: str, window: int | None) -> None:
    assert is_about_length(refusal)
    assert find_window(refusal) == window


def test_other_refusals_are_not_about_the_length() -> None:
    assert not is_about_length("temperature is not supported")
    assert find_window("temperature is not supported") is None
