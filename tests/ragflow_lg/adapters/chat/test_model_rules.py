from typing import Any

from ragflow_lg.adapters.chat.model_rules import RULES, adapt_request, find_unsent
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
