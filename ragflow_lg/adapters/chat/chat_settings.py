"""Settings for chat models. They are separate from them so that reading the settings imports no client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEMO = "demo"
"""The ``llm_id``, or the provider, of the model that needs neither a key nor network access."""


def is_demo(llm_id: str) -> bool:
    """Return whether an id names the demo model."""
    return DEMO in (llm_id.strip(), llm_id.rpartition("@")[2].partition("#")[0].strip().lower())


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The settings for one endpoint. Without ``client``, its provider and address say which API it has."""

    base_url: str = ""
    """``""`` for a known provider's default."""
    api_key: str = field(default="", repr=False)
    models: tuple[str, ...] = ()
    """Models from this provider that a canvas may name without the provider."""
    timeout_s: float = 600.0
    idle_timeout_s: float = 120.0
    max_retries: int = 2
    concurrency: int = 64
    counts_streams: bool = True
    client: str = ""
    """Name of a family in `ragflow_lg.adapters.model_families` or of an installed LangChain client."""
    key_problem: str = ""
    """Why there is no key although the settings say where it is: the end of a sentence."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings for one model; None means the default. Prices are per million tokens, in any currency."""

    context_tokens: int | None = None
    has_vision: bool | None = None
    has_tools: bool | None = None
    has_schemas: bool | None = None
    sends_max_tokens: bool = False
    use: str = ""
    """The ``llm_id`` of another model that answers in its place."""
    input_price: float = 0.0
    output_price: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatModelSettings:
    """All chat model settings.

    ``providers`` are looked up by ``instance@Provider``, then by the last part of the ``llm_id``, ignoring case;
    ``known_providers`` replace missing ones. ``models`` are looked up by the whole ``llm_id``, then ``model@Provider``,
    then the model name. ``override_model`` replaces the model of every request.
    """

    default_model: str = DEMO
    override_model: str = ""
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    known_providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    tenant: str = ""
    """The tenant that may use no other providers, or ``""``. For error messages."""
    shared: tuple[str, ...] = ("*",)
    """What the tenant may use of the providers: patterns of their names, or of ``model@Provider``, ignoring case."""
