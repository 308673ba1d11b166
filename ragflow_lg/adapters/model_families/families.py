"""The families by name, which is that of the extra with their packages too, and how they are opened."""

from __future__ import annotations

from collections.abc import Mapping

from ragflow_lg.adapters.model_families.bedrock import BedrockFamily
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

FAMILIES: Mapping[str, type[ModelFamily]] = {
    "anthropic": AnthropicFamily,
    "azure": AzureFamily,
    "bedrock": BedrockFamily,
    "google": GoogleFamily,
    "ollama": OllamaFamily,
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
    return FAMILIES[name](endpoint)
