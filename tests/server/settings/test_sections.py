from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.knowledge_sections import KnowledgeSection
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import (
    EmbeddingSection,
    McpSection,
    ProviderSection,
    RerankerSection,
    ToolSection,
    web_address,
)


def test_a_missing_key_is_empty() -> None:
    settings = Settings(providers={"A": ProviderSection(), "B": ProviderSection(api_key=Secret(env="OTHER_KEY"))})
    assert [provider.api_key for provider in settings.chat_settings().providers.values()] == ["", ""]


@pytest.mark.parametrize("value", ["ftp://geheim.example", "geheim", ""])
def test_only_web_addresses_are_accepted(value: str) -> None:
    assert web_address(" HTTPS://a.example ") == "HTTPS://a.example"
    with pytest.raises(ValueError, match="http://"):
        web_address(value)


@pytest.mark.parametrize("section", [EmbeddingSection, RerankerSection])
def test_base_url_must_be_a_web_address(section: type[EmbeddingSection | RerankerSection]) -> None:
    assert section(base_url=" https://a.example/v1").base_url == "https://a.example/v1"
    with pytest.raises(ValidationError, match="http://"):
        section(base_url="a.example/v1")


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("elasticsearch+https://ada:geheim@here:9200", "geheim"),
        ("elasticsearch+https://ada@here:9200", ""),
        ("sqlite:///k.db", ""),
    ],
)
def test_the_password_of_the_url(url: str, password: str) -> None:
    section = KnowledgeSection(url=url)
    assert section.password() == password
    assert "geheim" not in repr(section)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"url": SecretStr("http://a.example/"), "command": "c"},
        {"command": "c", "type": "sse"},
        {"url": SecretStr("http://a.example/"), "type": "stdio"},
    ],
)
def test_an_mcp_server_has_either_a_url_or_a_command(values: dict[str, Any]) -> None:
    assert McpSection(command="c", type="stdio").command == "c"
    with pytest.raises(ValidationError):
        McpSection(**values)


def test_an_endpoint_is_a_web_address_or_empty() -> None:
    assert ToolSection(endpoint=" ").endpoint == ""
    with pytest.raises(ValidationError, match="http://"):
        ToolSection(endpoint="a.example")


@pytest.mark.parametrize("name", ["embedding", "embedding_model"])
def test_the_embedding_model_has_one_name_and_an_old_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"RAGFLOW_LG_KNOWLEDGE__{name.upper()}", "m@P")
    settings = Settings.model_validate({"memories": {"facts": {name: "m@Q"}}})
    assert settings.default_embedding == "m@P"
    assert settings.memories["facts"].settings("facts").embedding_model == "m@Q"
