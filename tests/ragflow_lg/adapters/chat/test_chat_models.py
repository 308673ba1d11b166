from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.adapters.chat.chat_models import (
    ChatModelSettings,
    ConfiguredModels,
    ModelName,
    ModelSettings,
    ProviderSettings,
    parse_llm_id,
)
from ragflow_lg.adapters.chat.demo_chat import DemoChat, ScriptLine
from ragflow_lg.adapters.chat.openai_chat import OpenAIChat
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.mock_llm import MockLLM

HELLO = ChatRequest("", ({"role": "user", "content": "hello"},))
LOCAL = ProviderSettings("http://127.0.0.1:9/v1")


def models(**given: Any) -> ConfiguredModels:
    return ConfiguredModels(ChatModelSettings(**given))


def openai(found: Any) -> OpenAIChat:
    assert isinstance(found, OpenAIChat)
    return found


@pytest.mark.parametrize(
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
def test_llm_id_is_taken_apart(llm_id: str, expected: ModelName) -> None:
    assert parse_llm_id(llm_id) == expected


@pytest.mark.parametrize("llm_id", ["", "  ", "demo", "anything@Demo"])
def test_without_settings_there_is_the_demo_model(llm_id: str) -> None:
    assert isinstance(models().model(llm_id), DemoChat)


async def test_the_demo_model_plays_its_script() -> None:
    demo = models(demo_script=(ScriptLine("hell", "hi"),)).model("demo")
    assert (await demo.complete(HELLO)).text == "hi"


def test_an_override_takes_the_place_of_every_model() -> None:
    assert isinstance(models(override_model="demo").model("x@Nowhere"), DemoChat)


def test_an_empty_id_means_the_default_model() -> None:
    found = openai(models(default_model="big@Local", providers={"Local": LOCAL}).model(""))
    assert found.model == "big"


def test_providers_are_found_ignoring_case_and_by_instance_first() -> None:
    held = {"local": LOCAL, "work@Local": ProviderSettings("http://127.0.0.1:8/v1")}
    found = models(providers=held)
    assert openai(found.model("m@LOCAL")).endpoint.base_url == "http://127.0.0.1:9/v1"  # pyright: ignore[reportPrivateUsage]
    assert openai(found.model("m@work@Local")).endpoint.base_url == "http://127.0.0.1:8/v1"  # pyright: ignore[reportPrivateUsage]
    assert openai(found.model("m@home@Local")).endpoint.base_url == "http://127.0.0.1:9/v1"  # pyright: ignore[reportPrivateUsage]


def test_a_known_provider_needs_only_a_key() -> None:
    found = openai(models(providers={"DeepSeek": ProviderSettings(api_key="k")}).model("deepseek-chat@DeepSeek"))
    assert found.endpoint.base_url == "https://api.deepseek.com/v1"  # pyright: ignore[reportPrivateUsage]


def test_a_bare_model_is_found_where_it_is_listed_or_at_the_only_provider() -> None:
    other = ProviderSettings("http://127.0.0.1:8/v1", models=("deepseek-chat",))
    found = models(providers={"A": LOCAL, "B": other})
    assert openai(found.model("deepseek-chat")).endpoint.provider == "B"  # pyright: ignore[reportPrivateUsage]
    assert openai(models(providers={"A": LOCAL}).model("any")).endpoint.provider == "A"  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(SettingsError, match=r"'any' cannot be used: it names no provider. .*\[providers.NAME\]"):
        found.model("any")


@pytest.mark.parametrize("key", ["big@x@Local", "big@Local", "big"])
def test_what_is_set_of_a_model_counts(key: str) -> None:
    held = {key: ModelSettings(context_tokens=10, has_vision=False)}
    found = models(providers={"Local": LOCAL}, models=held).model("big@x@Local")
    assert (found.context_tokens, found.has_vision) == (10, False)


def test_a_model_of_which_nothing_is_set_is_large_and_sees() -> None:
    found = models(providers={"Local": LOCAL}).model("big@Local")
    assert (found.context_tokens, found.has_vision) == (128_000, True)


@pytest.mark.parametrize(
    ("providers", "llm_id", "expected"),
    [
        ({}, "qwen-max@Tongyi-Qianwen", r"no provider 'Tongyi-Q.*'. Set \[providers.Tongyi-Qianwen\] api_key_env, to"),
        ({}, "x@My Host", r"Set \[providers.\"My Host\"\] base_url and api_key_env, to the"),
        ({"X": ProviderSettings()}, "m@X", r"'X' has no address. Set \[providers.X\] base_url"),
        ({"X": ProviderSettings("ftp://h")}, "m@X", r"'ftp://h' is no web address. Set \[providers.X\] base_url"),
        ({"OpenAI": ProviderSettings()}, "m@OpenAI", r"has no key. Set \[providers.OpenAI\] api_key_env, to the name"),
        (
            {"OpenAI": ProviderSettings(key_variable="MY_KEY")},
            "m@OpenAI",
            r"the environment has no 'MY_KEY', which \[providers.OpenAI\] api_key_env names. Set it",
        ),
    ],
)
def test_what_is_missing_is_named(providers: dict[str, ProviderSettings], llm_id: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected) as caught:
        models(providers=providers).model(llm_id)
    assert "--model demo" in str(caught.value)
    assert repr(llm_id) in str(caught.value)


def test_settings_do_not_show_keys() -> None:
    assert "secret" not in repr(ChatModelSettings(providers={"X": ProviderSettings(api_key="secret")}))


async def test_a_found_model_answers_and_is_closed() -> None:
    async with MockLLM() as server:
        found = models(providers={"Local": ProviderSettings(server.base_url)})
        assert (await found.model("m@Local").complete(HELLO)).text == "ok"
        await found.aclose()
