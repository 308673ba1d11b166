"""The providers of models that RAGFlow knows, by the name that it writes after the ``@`` of an ``llm_id``.

``known_providers.toml`` has them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Family: TypeAlias = Literal["openai", "anthropic", "azure", "bedrock", "google", "ollama", ""]
"""The kind of API. ``openai``: compatible with OpenAI's. ``""``: only what `KnownProvider.note` says."""

RerankStyle: TypeAlias = Literal["bedrock", "cohere", "dashscope", "jina", "nvidia", "tei", "voyage"]
"""How requests for reranking look."""


_PATH = re.compile(r"^https?://[^/]*", re.IGNORECASE)
"""What precedes the path of an address."""
_OWN_PATHS = ("", "/v1beta", "/openai")


class KnownProvider(NamedTuple):
    """A provider of models."""

    base_url: str = ""
    """The address for ``/chat/completions`` and ``/embeddings``; ``""`` if every user has another one."""
    key: str = ""
    """The usual environment variable with the key; ``""`` if servers of this kind usually need none."""
    abilities: str = "chat"
    """What its models do: ``chat``, ``embedding``, ``rerank``, ``speech``, ``transcription``, ``vision``."""
    family: Family = "openai"
    rerank_url: str = ""
    """The address for ``/rerank``, if it is another one."""
    note: str = ""
    """Why it cannot be used, or what it needs."""
    compatible_path: str = ""
    """How addresses end that are compatible with OpenAI's API, for providers whose other addresses are not."""
    own_family: Family = ""
    """The family of addresses that have no other path than such APIs have. Others may be those of a proxy."""
    rerank_style: RerankStyle = "jina"
    address_name: str = ""
    """The environment variable that replaces the address, if it has an unusual name."""

    def family_at(self, base_url: str) -> Family:
        """Return the family of an address; ``""`` stands for the default address.

        >>> [PROVIDERS["Ollama"].family_at(f"http://localhost:11434{path}") for path in ("", "/v1")]
        ['ollama', 'openai']
        """
        path = _PATH.sub("", base_url.partition("?")[0].rstrip("/"))
        if not base_url or not self.compatible_path:
            return self.family
        if path.endswith(self.compatible_path):
            return "openai"
        return self.own_family if path in _OWN_PATHS else self.family

    @property
    def required_variable(self) -> str:
        """The environment variable that says where its server is, if there is no default."""
        return "AWS_REGION" if self.family == "bedrock" else self.address_variable

    @property
    def address_variable(self) -> str:
        """The environment variable that replaces the address, such as ``OPENAI_BASE_URL``."""
        return self.address_name or f"{self.key.removesuffix('_KEY').removesuffix('_API')}_BASE_URL"


def _read_providers() -> dict[str, KnownProvider]:
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {name: KnownProvider(**entries[name]) for name in sorted(entries, key=str.lower)}


PROVIDERS: Mapping[str, KnownProvider] = _read_providers()
"""By name. RAGFlow compares names exactly, here their case does not matter."""

_BY_LOWER_NAME = {name.lower(): (name, provider) for name, provider in PROVIDERS.items()}


def find_provider(name: str) -> tuple[str, KnownProvider] | None:
    """Return a provider with its name, ignoring case.

    >>> find_provider("deepseek")[1].key
    'DEEPSEEK_API_KEY'
    """
    return _BY_LOWER_NAME.get(name.lower())


def provider_of_model(id_: str) -> tuple[str, KnownProvider] | None:
    """Return the provider that the id of a model names, as in ``bge-m3@SILICONFLOW`` or ``m@work@OpenAI#acme``."""
    return find_provider(id_.rpartition("@")[2].partition("#")[0]) if "@" in id_ else None
