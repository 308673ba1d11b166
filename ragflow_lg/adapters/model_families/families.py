"""The families by name: the extra with their packages, and how they are opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ragflow_lg.adapters.model_families.model_family import (
    AnthropicFamily,
    AzureFamily,
    FamilyEndpoint,
    GoogleFamily,
    ModelFamily,
    OllamaFamily,
)
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require


class Family(NamedTuple):
    """A kind of API. Its extra has the same name."""

    title: str
    needs_key: bool = True
    """Whether its servers refuse all requests without a key. Others take other credentials, or none."""
    has_embeddings: bool = True


FAMILIES: Mapping[str, Family] = {
    "anthropic": Family("Anthropic's API", has_embeddings=False),
    "azure": Family("Azure OpenAI"),
    "bedrock": Family("Amazon Bedrock", needs_key=False),
    "google": Family("Google's API", needs_key=False),
    "ollama": Family("Ollama's API", needs_key=False),
}


def missing_packages(name: str) -> str:
    """Return what is missing for a family, with the command that installs it, or ``""``."""
    try:
        require(name, FAMILIES[name].title)
    except SettingsError as error:
        return str(error)
    return ""


def open_family(name: str, endpoint: FamilyEndpoint) -> ModelFamily:
    """Return the family for one endpoint. The LangChain package is imported when its first model is created.

    Raises:
        SettingsError: if the packages are not installed. It names the command.
    """
    require(name, FAMILIES[name].title)
    if name == "bedrock":
        from ragflow_lg.adapters.model_families.bedrock import BedrockFamily

        return BedrockFamily(endpoint)
    return _CLASSES[name](endpoint)


_CLASSES: Mapping[str, type[ModelFamily]] = {
    "anthropic": AnthropicFamily,
    "azure": AzureFamily,
    "google": GoogleFamily,
    "ollama": OllamaFamily,
}
