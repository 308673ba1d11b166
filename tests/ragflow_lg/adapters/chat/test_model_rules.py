import json
from collections.abc import Mapping
from typing import Any

import httpx

from ragflow_lg.adapters.chat.model_rules import RULES, adapt_request, find_unsent
from ragflow_lg.adapters.chat.model_windows import ask_for_window, find_window, is_about_length
from ragflow_lg.services.chat import ChatRequest
from tests.harness.rows import each_row

ALL: dict[str, float] = {"temperature": 0.3, "top_p": 0.5, "presence_penalty": 0.4, "frequency_penalty": 0.7}
SAMPLING: dict[str, float] = {**ALL, "max_tokens": 50}


def adapt(provider: str, model: str, thinking: str = "", **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    request = ChatRequest("", (), SAMPLING, thinking, template_kwargs=more.pop("template_kwargs", {}))
    adapted, body = adapt_request(request, provider, model, sends_max_tokens=more.pop("sends_max_tokens", False))
    return dict(adapted.sampling), body


def without(*names: str, **more: float) -> dict[str, float]:
    return {name: value for name, value in SAMPLING.items() if name not in names} | more


KIMI = {"top_p": 0.95, "n": 1, "presence_penalty": 0.0, "frequency_penalty": 0.0}


@each_row(
    ("provider", "model", "sampling", "body"),
    [
        ("OpenAI", "gpt-4.1", without("max_tokens"), {}),
        ("OpenAI", "gpt-5-mini", without("max_tokens", "temperature", "top_p"), {}),
        ("work@Azure-OpenAI", "GPT-5", without("max_tokens", "temperature", "top_p"), {}),
        ("OpenRouter", "openai/gpt-5", without("max_tokens"), {}),
        ("VLLM", "Qwen/Qwen3-8B", without("max_tokens"), {"enable_thinking": False}),
        ("Tongyi-Qianwen", "qwen3-max-preview", without("max_tokens"), {"enable_thinking": True}),
        ("Tongyi-Qianwen", "qwen2.5-72b", without("max_tokens"), {}),
        ("DeepSeek", "deepseek-chat", SAMPLING, {"thinking": {"type": "disabled"}}),
        ("SILICONFLOW", "deepseek-ai/DeepSeek-V3", without("max_tokens"), {}),
        ("Moonshot", "kimi-k2.5", without("max_tokens", "temperature", **KIMI), {}),
        ("Moonshot", "kimi-k2-turbo", without("max_tokens"), {}),
        ("Tencent Hunyuan", "hunyuan-pro", without("max_tokens", "presence_penalty", "frequency_penalty"), {}),
        ("Mistral", "mistral-large", SAMPLING, {}),
    ],
)
def test_a_model_gets_what_ragflow_sends(
    provider: str, model: str, sampling: dict[str, float], body: dict[str, Any]
) -> None:
    assert adapt(provider, model) == (sampling, body)


def test_a_canvas_decides_whether_a_model_thinks() -> None:
    assert adapt("VLLM", "qwen3-8b", "enabled")[1] == {"enable_thinking": True}
    assert adapt("VLLM", "qwen3-8b", template_kwargs={"enable_thinking": True})[1] == {"enable_thinking": True}
    assert adapt("DeepSeek", "deepseek-chat", "enabled")[1] == {"thinking": {"type": "enabled"}}
    assert adapt("ZHIPU-AI", "glm-4.6", "disabled")[1] == {"thinking": {"type": "disabled"}}
    assert adapt("Tongyi-Qianwen", "qwen3-max-preview", "disabled")[1] == {"enable_thinking": True}
    assert adapt("Moonshot", "kimi-k2-turbo", "enabled") == (
        without("max_tokens", "temperature", **KIMI),
        {"thinking": {"type": "enabled"}},
    )


def test_max_tokens_can_be_sent() -> None:
    assert adapt("OpenAI", "gpt-4.1", sends_max_tokens=True)[0] == SAMPLING


def test_what_is_not_sent_is_known_before() -> None:
    assert find_unsent({"max_tokens": 5, "top_p": 0.5}, "OpenAI", "gpt-4.1", sends_max_tokens=False) == ["max_tokens"]
    assert find_unsent({"temperature": 0.1}, "OpenAI", "gpt-5", sends_max_tokens=True) == ["temperature"]
    assert find_unsent({"top_p": 0.95, "n": 1}, "Moonshot", "kimi-k2.6", sends_max_tokens=True) == []


def test_providers_are_written_in_lower_case() -> None:
    assert [name for rule in RULES for name in rule.providers if name != name.lower()] == []


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
