"""The table of providers: complete, consistent and usable with a key alone."""

import json
import re
from urllib.parse import urlsplit

from ragflow_lg.adapters.known_providers import PROVIDERS, KnownProvider, find_provider, provider_of_model
from tests.conftest import FIXTURES
from tests.harness.rows import each_row

ABILITIES = {"chat", "embedding", "rerank", "speech", "transcription", "vision"}
NAMES: list[str] = json.loads((FIXTURES / "ragflow_providers.json").read_text("utf-8"))


def test_every_provider_that_ragflow_writes_is_known() -> None:
    found = {name: find_provider(name) for name in NAMES}
    assert [name for name, provider in found.items() if provider is None or provider[0] != name] == []


@each_row(("name", "provider"), PROVIDERS.items())
def test_a_provider_is_usable_or_says_why_not(name: str, provider: KnownProvider) -> None:
    assert set(provider.abilities.split()) <= ABILITIES
    if not provider.family:
        assert provider.note.endswith(".")
        assert not provider.base_url
        return
    assert provider.base_url or provider.note
    if provider.base_url:
        address = urlsplit(provider.base_url)
        assert address.scheme == ("http" if address.hostname == "localhost" else "https")
        assert not provider.base_url.endswith("/")
        assert bool(provider.key) == (address.scheme == "https"), name
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*|", provider.key)


def test_no_two_providers_read_the_same_key_for_different_hosts() -> None:
    hosts: dict[str, set[str]] = {}
    for provider in PROVIDERS.values():
        if provider.key:
            hosts.setdefault(provider.key, set()).add(urlsplit(provider.base_url).netloc)
    assert {key: found for key, found in hosts.items() if len(found) > 1} == {}


def test_names_are_found_in_ids() -> None:
    assert provider_of_model("bge-m3@SILICONFLOW") == ("SILICONFLOW", PROVIDERS["SILICONFLOW"])
    assert provider_of_model("m@work@deepseek#acme") == ("DeepSeek", PROVIDERS["DeepSeek"])
    assert provider_of_model("m@Nowhere") is None
    assert provider_of_model("m") is None


@each_row(
    ("name", "base_url", "family"),
    [
        ("Gemini", "", "openai"),
        ("Gemini", "https://generativelanguage.googleapis.com/v1beta", "google"),
        ("Gemini", "https://generativelanguage.googleapis.com/v1beta/openai/", "openai"),
        ("Gemini", "https://proxy.example/v1", "openai"),
        ("Ollama", "http://localhost:11434/", "ollama"),
        ("Ollama", "http://proxy.example/ollama/v1", "openai"),
        ("Azure-OpenAI", "https://acme.openai.azure.com/?api-version=2025-03-01-preview", "azure"),
        ("Azure-OpenAI", "https://acme.openai.azure.com/openai/v1", "openai"),
        ("Anthropic", "https://proxy.example/v1", "anthropic"),
    ],
)
def test_the_address_decides_between_two_apis(name: str, base_url: str, family: str) -> None:
    assert PROVIDERS[name].family_at(base_url) == family
