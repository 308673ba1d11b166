from typing import Any

import pytest

from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels, ModelName, parse_llm_id
from ragflow_lg.adapters.chat.openai_chat import OpenAIChat
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.chat import ChatModel, ChatRequest
from tests.harness.rows import each_row

HELLO = ChatRequest("", ({"role": "user", "content": "hello"},))
LOCAL = ProviderSettings("http://127.0.0.1:9/v1")


def models(**settings: Any) -> ConfiguredModels:
    return ConfiguredModels(ChatModelSettings(**settings))


def openai(model: ChatModel) -> OpenAIChat:
    assert isinstance(model, OpenAIChat)
    return model


@each_row(
    ("llm_id", "expected"),
    [
        ("qwen-max@Tongyi-Qianwen", ModelName("qwen-max", "", "Tongyi-Qianwen")),
        ("glm-4.7-flashx@zz@ZHIPU-AI", ModelName("glm-4.7-flashx", "zz", "ZHIPU-AI")),
        ("Qwen/Qwen3-8B@default@SILICONFLOW", ModelName("Qwen/Qwen3-8B", "default", "SILICONFLOW")),
        ("glm-4-flash___OpenAI-API@OpenAI-API-Compatible#admin", ModelName("glm-4-flash", "", "OpenAI-API-Compatible")),
        ("deepseek-chat", ModelName("deepseek-chat")),
        (" a@b@c@d ", ModelName("a@b", "c", "d")),
        ("@cf/meta/llama@Cloud", ModelName("@cf/meta/llama", "", "Cloud")),
        ("", ModelName("")),
    ],
)
def test_an_llm_id_is_split_into_its_parts(llm_id: str, expected: ModelName) -> None:
    assert parse_llm_id(llm_id) == expected


def test_without_settings_or_with_an_override_the_demo_model_is_used() -> None:
    for llm_id in ("", "  ", "demo", "anything@Demo"):
        assert isinstance(models().model(llm_id), DemoChat)
    assert isinstance(models(override_model="demo").model("x@Nowhere"), DemoChat)
    assert openai(models(default_model="big@Local", providers={"Local": LOCAL}).model("")).model == "big"


def test_providers_are_found_ignoring_case_and_by_instance_first() -> None:
    providers = {"local": LOCAL, "work@Local": ProviderSettings("http://127.0.0.1:8/v1")}
    configured = models(providers=providers)
    assert openai(configured.model("m@LOCAL")).endpoint.base_url == "http://127.0.0.1:9/v1"
    assert openai(configured.model("m@work@Local")).endpoint.base_url == "http://127.0.0.1:8/v1"
    assert openai(configured.model("m@home@Local")).endpoint.base_url == "http://127.0.0.1:9/v1"


def test_a_known_provider_needs_only_a_key() -> None:
    model = openai(models(providers={"DeepSeek": ProviderSettings(api_key="k")}).model("deepseek-chat@DeepSeek"))
    assert model.endpoint.base_url == "https://api.deepseek.com/v1"


def test_a_key_that_no_header_takes_is_refused() -> None:
    with pytest.raises(SettingsError, match="the key of 'DeepSeek' has a character that no key has"):
        models(providers={"DeepSeek": ProviderSettings(api_key="sk-abcd…1234")}).model("deepseek-chat@DeepSeek")


def test_a_model_without_provider_is_served_by_the_provider_that_lists_it_or_the_only_one() -> None:
    other = ProviderSettings("http://127.0.0.1:8/v1", models=("deepseek-chat",))
    configured = models(providers={"A": LOCAL, "B": other})
    assert openai(configured.model("deepseek-chat")).endpoint.provider == "B"
    assert openai(models(providers={"A": LOCAL}).model("any")).endpoint.provider == "A"
    with pytest.raises(SettingsError, match=r"it names no provider, as 'any@OpenAI' does\. .*\[providers.NAME\]"):
        configured.model("any")


def test_a_known_provider_replaces_a_missing_one_but_does_not_serve_other_models() -> None:
    known = {"OpenAI": ProviderSettings(api_key="k")}
    assert openai(models(known_providers=known).model("gpt-4.1@openai")).endpoint.provider == "OpenAI"
    assert openai(models(known_providers=known).model("gpt-4.1")).endpoint.provider == "OpenAI"
    configured = models(providers={"A": LOCAL}, known_providers=known)
    assert openai(configured.model("any")).endpoint.provider == "A"
    own = models(providers={"openai": LOCAL}, known_providers=known)
    assert openai(own.model("gpt-4.1@OpenAI")).endpoint.base_url == LOCAL.base_url


@each_row(
    ("llm_id", "near"),
    [
        ("gpt-4.1@Opnai", "OpenAI"),
        ("gpt@locl", "Local"),
        ("dmeo", "demo"),
        ("demos", "demo"),
        ("x@dem", "demo"),
        ("qwen-max@Tongi", "Tongyi-Qianwen"),
        ("big-modle", "big-model"),
    ],
)
def test_a_similar_name_is_suggested_for_an_unknown_provider_or_model(llm_id: str, near: str) -> None:
    providers = {"Local": ProviderSettings("http://127.0.0.1:9/v1", models=("big-model",)), "B": LOCAL}
    with pytest.raises(SettingsError, match=rf"^The model '{llm_id}' cannot be used: .* Did you mean '{near}'\?$"):
        models(providers=providers).model(llm_id)


@each_row("key", ["big@x@Local", "big@Local", "big", "other"])
def test_model_settings_apply(key: str) -> None:
    settings = {key: ModelSettings(context_tokens=10, has_vision=False)}
    model = models(providers={"Local": LOCAL}, models=settings).model("big@x@Local")
    assert (model.context_tokens, model.has_vision) == ((128_000, True) if key == "other" else (10, False))


@each_row(
    ("providers", "llm_id", "expected"),
    [
        (
            {},
            "qwen-max@Tongyi-Qianwen",
            r"Set DASHSCOPE_API_KEY in the environment, or \[providers.Tongyi-Qianwen\] api_key, or api_key = ",
        ),
        ({}, "gpt-4.1@OpenAI", r"Set OPENAI_API_KEY in the environment, or \[providers.OpenAI\] api_key"),
        ({}, "m@ollama", r"Set \[providers.ollama\] base_url, which is usually http://localhost:11434/v1, in the"),
        ({}, "m@GPUStack", r"Set \[providers.GPUStack\] base_url and api_key"),
        ({}, "m@Anthropic", r"Set ANTHROPIC_API_KEY in the environment, or \[providers.Anthropic\] api_key"),
        ({}, "m@Bedrock", r"Set AWS_BEARER_TOKEN_BEDROCK and AWS_REGION in the environment, or \[providers.Bedrock\]"),
        ({"Anthropic": ProviderSettings()}, "m@Anthropic", r"the provider 'Anthropic' has no key"),
        ({}, "m@DeepSeek", r"no key for 'DeepSeek' was found\. Set DEEPSEEK_API_KEY in the environment"),
        ({}, "m@Replicate", r"cannot be used. Its API is not compatible .* Choose another model with --model"),
        ({}, "x@My Host", r"Set \[providers.\"My Host\"\] base_url and api_key, or api_key = "),
        ({"X": ProviderSettings()}, "m@X", r"'X' has no address. Set \[providers.X\] base_url"),
        (
            {"X": ProviderSettings("ftp://h")},
            "m@X",
            r"'ftp://h' is not an HTTP or HTTPS URL. Set \[providers.X\] base_",
        ),
        ({"OpenAI": ProviderSettings()}, "m@OpenAI", r"has no key. Set \[providers.OpenAI\] api_key, or"),
        (
            {"OpenAI": ProviderSettings(key_problem="the environment variable 'MY_KEY' is not set")},
            "m@OpenAI",
            r"environment variable 'MY_KEY' is not set. Put the key there, correct \[providers.OpenAI\]",
        ),
    ],
)
def test_the_error_names_the_missing_setting(
    providers: dict[str, ProviderSettings], llm_id: str, expected: str
) -> None:
    with pytest.raises(SettingsError, match=expected) as caught:
        models(providers=providers).model(llm_id)
    assert "--model demo" in str(caught.value)
    assert repr(llm_id) in str(caught.value)


def test_the_repr_of_settings_contains_no_keys() -> None:
    assert "secret" not in repr(ChatModelSettings(providers={"X": ProviderSettings(api_key="secret")}))
