"""Sections for models: providers, chat models, embeddings, rerankers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from ragflow_lg.server.settings.section import KeySection, Section, web_address


class ProviderSection(KeySection):
    """``[providers.NAME]``: an endpoint, OpenAI-compatible unless ``client`` is set.

    NAME is the part after ``@`` in an ``llm_id``.
    """

    base_url: str = ""
    """Required unless provider NAME has a known address."""
    client: str = ""
    """An installed LangChain chat model, given by its entry point name in the group ``ragflow_lg.chat_models``."""
    models: tuple[str, ...] = ()
    """This provider's models that canvases refer to without a provider."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    idle_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """How long a streamed answer may pause between two pieces."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a temporarily refused call (429, 5xx) is retried, as long as no output has been shown."""
    concurrency: Annotated[int, Field(gt=0)] = 64
    """Maximum number of concurrent calls."""
    counts_streams: bool = True
    """Whether to request usage data for streamed answers; false for servers that refuse ``stream_options``."""


class ModelSection(Section):
    """``[models."MODEL"]``: one model's properties. MODEL is its name, with or without its provider."""

    context_tokens: Annotated[int, Field(gt=0)] | None = None
    has_vision: bool | None = None
    has_tools: bool | None = None
    """Whether it supports tool calls. If false, an Agent describes its tools in the prompt."""
    has_schemas: bool | None = None
    """Whether it supports answers that follow a JSON schema."""
    input_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million tokens, in any currency."""
    output_price: Annotated[float, Field(ge=0)] = 0.0


class EmbeddingSection(KeySection):
    """``[embeddings."ID"]``: an embedding model at an OpenAI-compatible endpoint, by the id that datasets use."""

    base_url: str
    model: str = ""
    """The model's name at the endpoint. Default: ID without the last ``@`` and everything after it."""
    dims: Annotated[int, Field(ge=0, le=65_536)] = 0
    """Length of its vectors. Vectors with a different length are refused; 0 accepts any length."""
    batch: Annotated[int, Field(gt=0, le=2048)] = 64
    """Maximum number of texts per request."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 3
    timeout_s: Annotated[float, Field(gt=0)] = 60.0

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value)


class RerankerSection(KeySection):
    """``[rerankers."ID"]``: a rerank model, by the ``rerank_id`` that canvases use.

    ``/rerank`` is appended to ``base_url``.
    """

    base_url: str
    model: str = ""
    """The model's name at the endpoint. Default: ID without the last ``@`` and everything after it."""
    style: Literal["cohere", "jina", "tei"] = "jina"
    batch: Annotated[int, Field(gt=0, le=1000)] = 64
    """Maximum number of texts per request."""
    max_chars: Annotated[int, Field(gt=0)] = 8_000
    """Longer texts are cut."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    timeout_s: Annotated[float, Field(gt=0)] = 30.0

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value)
