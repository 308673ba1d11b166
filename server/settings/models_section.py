"""Sections of models: chat models and where they are reached, embeddings, rerankers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from ragflow_lg.server.settings.section import KeySection, Section, web_address

__all__ = ["EmbeddingSection", "ModelSection", "ProviderSection", "RerankerSection"]


class ProviderSection(KeySection):
    """``[providers.NAME]``: an endpoint, OpenAI-compatible unless ``client`` is set.

    NAME is the part after ``@`` in an ``llm_id``.
    """

    base_url: str = ""
    """Needed unless NAME is a provider whose own is known."""
    client: str = ""
    """An installed LangChain chat model, by its entry point's name in the group ``ragflow_lg.chat_models``."""
    models: tuple[str, ...] = ()
    """Models that are found here when a canvas names them without a provider."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    idle_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """How long a streamed answer may pause between two pieces."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a call is tried again that was refused for a while (429, 5xx), as long as nothing was shown."""
    concurrency: Annotated[int, Field(gt=0)] = 64
    """How many calls may run at the same time."""
    counts_streams: bool = True
    """Whether streamed answers are asked for their usage; false for servers that refuse ``stream_options``."""


class ModelSection(Section):
    """``[models."MODEL"]``: what differs for one model, named with or without its provider."""

    context_tokens: Annotated[int, Field(gt=0)] | None = None
    has_vision: bool | None = None
    has_tools: bool | None = None
    """Whether it calls tools; false makes an Agent describe them in its prompt."""
    has_schemas: bool | None = None
    """Whether it answers by a JSON schema itself."""
    input_price: Annotated[float, Field(ge=0)] = 0.0
    """Of a million tokens, in any currency."""
    output_price: Annotated[float, Field(ge=0)] = 0.0


class EmbeddingSection(KeySection):
    """``[embeddings."ID"]``: an embedding model of an OpenAI-compatible endpoint, by the id that datasets know."""

    base_url: str
    model: str = ""
    """Its name at the endpoint; where it is not set, ID without what stands behind its last ``@``."""
    dims: Annotated[int, Field(ge=0, le=65_536)] = 0
    """How long its vectors are; an answer of another length is refused."""
    batch: Annotated[int, Field(gt=0, le=2048)] = 64
    """How many texts go into one request."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 3
    timeout_s: Annotated[float, Field(gt=0)] = 60.0

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value)


class RerankerSection(KeySection):
    """``[rerankers."ID"]``: a rerank model, by the ``rerank_id`` of canvases. ``/rerank`` is added to ``base_url``."""

    base_url: str
    model: str = ""
    """Its name at the endpoint; where it is not set, ID without what stands behind its last ``@``."""
    style: Literal["cohere", "jina", "tei"] = "jina"
    batch: Annotated[int, Field(gt=0, le=1000)] = 64
    """How many texts go into one request."""
    max_chars: Annotated[int, Field(gt=0)] = 8_000
    """How much of a text is sent."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    timeout_s: Annotated[float, Field(gt=0)] = 30.0

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value)
