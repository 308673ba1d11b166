from pathlib import Path

import pytest

from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.mcp.mcp_settings import McpSections, McpServerSettings
from ragflow_lg.server.settings import Settings, load_settings
from ragflow_lg.server.settings.sections import EmbeddingSection, RerankerSection
from ragflow_lg.services.tool_policies import ToolSettings
from tests.server.settings.files import FULL, write


def test_a_whole_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "geheim-2")
    settings = load_settings(write(home / "s.toml", FULL))
    assert [settings.providers[name].api_key.read() for name in ("Acme", "Other")] == ["geheim-1", "geheim-2"]
    assert settings.chat_settings(override_model="demo") == ChatModelSettings(
        default_model="big@Acme",
        override_model="demo",
        providers={
            "Acme": ProviderSettings("https://acme.example/v1", "geheim-1", ("big", "small"), 9.0),
            "Other": ProviderSettings("https://other.example/v1", "geheim-2"),
        },
        models={"big@Acme": ModelSettings(context_tokens=1000, has_vision=True)},
    )
    assert settings.http_settings == HttpSettings(("wiki.example", "10.0.0.0/8:80"), 30.0, 1000)
    servers = {id_: section.settings() for id_, section in settings.section(McpSections).items()}
    assert servers == {
        "tickets": McpServerSettings(
            "streamable-http",
            url="https://tickets.example/mcp?key=$key",
            headers={"Authorization": "Bearer $token"},
            variables={"token": "geheim-3", "key": "geheim-2"},
            allow=("find",),
            timeout_s=20.0,
        ),
        "a b": McpServerSettings("stdio", "files-server", ("--root", "/srv"), {"TOKEN": "geheim-4"}),
    }
    assert "geheim" not in repr(servers)
    assert "geheim" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_section_without_a_key_uses_the_key_of_openai_unless_it_has_another_address(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "geheim-5")
    sections = "[providers.openai]\nmax_retries = 1\n[providers.Other]\nbase_url = 'https://o.example'\n"
    providers = load_settings(write(home / "a.toml", sections)).chat_settings().providers
    assert {name: provider.api_key for name, provider in providers.items()} == {"openai": "geheim-5", "Other": ""}
    away = "[providers.OpenAI]\nbase_url = 'https://proxy.example/v1'\n"
    (provider,) = load_settings(write(home / "b.toml", away)).chat_settings().providers.values()
    assert provider.api_key == ""


TOOLS = """
[tools.tavily]
api_key = "geheim-1"

[tools.SerpApi]
api_key = { env = "OTHER_KEY" }

[tools.wikipedia]
endpoint = " https://wiki.example/w/api.php"

[tools.github]
"""


def test_endpoints_and_keys_of_tools(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "geheim-2")
    settings = load_settings(write(home / "s.toml", TOOLS))
    assert settings.tool_settings == ToolSettings(
        {"wikipedia": "https://wiki.example/w/api.php"}, {"tavily": "geheim-1", "serpapi": "geheim-2"}
    )
    texts = repr(settings) + str(settings) + settings.model_dump_json() + repr(settings.tool_settings)
    assert "geheim" not in texts
    assert Settings().tool_settings == ToolSettings()


KEYS = """
encryption_keys = [{ id = "a", key = "geheim-1" }]
server.users."a@a.example".password = "geheim-2"
providers.a.api_key = "geheim-3"
tools.a.api_key = "geheim-4"
embeddings.a = { base_url = "https://a.example", api_key = "geheim-5" }
rerankers.a = { base_url = "https://a.example", api_key = "geheim-6" }
code.api_key = "geheim-7"
email.servers.a = { host = "a.example", sender = "a@a.example", password = "geheim-8" }
knowledge.url = "elasticsearch+https://a:geheim-9@a.example"
knowledge.ragflow_api_key = "geheim-10"
mcp.a = { url = "geheim-12", headers.a = "geheim-13", variables.a = "geheim-14" }
mcp.b = { command = "b", env.a = "geheim-15" }
speech.a = { base_url = "https://a.example", api_key = "geheim-16" }
transcription = { base_url = "https://a.example", api_key = "geheim-17" }
sql.connections.a = { db_type = "sqlite", database = "a", password = "geheim-18", options.a = "a long geheim-19" }
checkpoints = "rediss://:geheim-20@a.example"
server.metrics_key = "a key of 16 geheim-21"
server.database = "postgresql://a:geheim%2D22@a.example/a"
server.journal = "redis://a.example?password=geheim-23"
queue.url = "redis+sentinel://a:geheim-11@a.example:1,b.example:2/a"
"""


def test_the_keys_of_all_sections_are_secrets(home: Path) -> None:
    settings = load_settings(write(home / "s.toml", KEYS))
    assert "geheim" not in repr(settings)
    secrets = settings.secrets
    assert {text.rpartition(" ")[2] for text in secrets} == {f"geheim-{number}" for number in range(1, 24)}


def test_the_key_of_a_known_provider_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "geheim-6")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim-9")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "no-address")
    settings = load_settings()
    chat = settings.chat_settings()
    assert chat.default_model == "qwen-plus@Tongyi-Qianwen"
    known = ProviderSettings(api_key="geheim-6")
    assert chat.known_providers["Tongyi-Qianwen"] == known
    assert chat.known_providers["Anthropic"].api_key == "geheim-9"
    assert "Azure-OpenAI" not in chat.known_providers
    assert {"geheim-6", "geheim-9"} <= set(settings.secrets)
    embedding = settings.known_embedding("text-embedding-v4@Tongyi-Qianwen")
    assert embedding is not None
    assert (embedding.model, embedding.api_key) == ("text-embedding-v4", "geheim-6")
    assert embedding.base_url == "https://dashscope.aliyuncs.com/compatible-mode/v1"
    assert settings.known_embedding("bge-m3@SILICONFLOW") is None
    monkeypatch.setenv("DASHSCOPE_BASE_URL", "https://mirror.example/v1")
    assert load_settings().chat_settings().known_providers["Tongyi-Qianwen"].base_url == "https://mirror.example/v1"


def test_addresses_of_families_come_from_their_usual_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "geheim-10")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://acme.openai.azure.com")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "geheim-11")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    settings = load_settings()
    known = settings.chat_settings().known_providers
    assert known["Azure-OpenAI"].base_url == "https://acme.openai.azure.com"
    assert known["Bedrock"].base_url == "https://bedrock-runtime.eu-central-1.amazonaws.com"
    embedding = settings.known_embedding("text-embedding-3-small@Azure-OpenAI")
    assert embedding is not None
    assert (embedding.family, embedding.base_url) == ("azure", "https://acme.openai.azure.com")
    monkeypatch.setenv("AWS_REGION", "evil.example/")
    assert "Bedrock" not in load_settings().chat_settings().known_providers


def test_a_section_without_a_key_uses_the_usual_address(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    settings = load_settings(write(home / "s.toml", "[providers.Bedrock]\nmax_retries = 1"))
    provider = settings.chat_settings().providers["Bedrock"]
    assert (provider.base_url, provider.api_key) == ("https://bedrock-runtime.us-west-2.amazonaws.com", "")


def test_rerank_models_of_known_providers_need_no_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "geheim-12")
    found = load_settings().known_reranker("gte-rerank-v2@Tongyi-Qianwen")
    assert found is not None
    assert (found["style"], found["api_key"]) == ("dashscope", "geheim-12")
    assert found["base_url"] == "https://dashscope.aliyuncs.com/api/v1/services/rerank/text-rerank"
    assert load_settings().known_reranker("m@Jina") is None
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "geheim-13")
    assert load_settings().known_reranker("cohere.rerank-v3-5:0@Bedrock") is None  # in which region?
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    found = load_settings().known_reranker("cohere.rerank-v3-5:0@Bedrock")
    assert found is not None
    assert (found["style"], found["model"]) == ("bedrock", "cohere.rerank-v3-5:0")
    assert found["base_url"] == "https://bedrock-runtime.eu-central-1.amazonaws.com"
    assert RerankerSection(base_url="https://a.example").endpoint("m@Tongyi-Qianwen")["style"] == "jina"


def test_models_of_known_providers_need_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILICONFLOW_API_KEY", "geheim-7")
    monkeypatch.setenv("COHERE_API_KEY", "geheim-8")
    embedding = EmbeddingSection().endpoint("bge-m3@SILICONFLOW")
    assert (embedding["base_url"], embedding["api_key"]) == ("https://api.siliconflow.cn/v1", "geheim-7")
    assert RerankerSection().endpoint("rerank-v3.5@Cohere")["base_url"] == "https://api.cohere.com/v2"
    other = EmbeddingSection(base_url="https://other.example").endpoint("bge-m3@SILICONFLOW")
    assert other["api_key"] == ""  # the key is only sent to its provider
    with pytest.raises(SettingsError, match="'bge-m3@Nowhere' has no base_url"):
        EmbeddingSection().endpoint("bge-m3@Nowhere")
