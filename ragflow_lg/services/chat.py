"""Chat models: what a request holds, what an answer holds, and the Protocols that adapters implement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

__all__ = [
    "NO_USAGE",
    "ONE_CALL",
    "ChatAnswer",
    "ChatDelta",
    "ChatModel",
    "ChatModels",
    "ChatRequest",
    "ToolCall",
    "ToolSchema",
    "Usage",
]


class ToolCall(NamedTuple):
    """A call that a model asks for. ``arguments`` is JSON as the model wrote it, which may be anything."""

    id: str
    name: str
    arguments: str


class Usage(NamedTuple):
    """Tokens as the provider counts them; ``calls`` of a model."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    cost: float = 0.0
    """By the prices in the settings, 0 without."""

    def plus(self, other: Usage) -> Usage:
        """Give the sum."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.calls + other.calls,
            self.cost + other.cost,
        )


NO_USAGE, ONE_CALL = Usage(), Usage(calls=1)


class ToolSchema(NamedTuple):
    """A tool as a model is shown it. ``parameters`` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ChatRequest(Struct, frozen=True):
    """One call of a chat model.

    ``messages`` stand behind the system message: ``{"role": "user"|"assistant", "content": text}``, an assistant one
    with ``tool_calls`` (maps with the fields of `ToolCall`), and ``{"role": "tool", "tool_call_id", "content"}``.
    ``sampling`` holds only what the canvas switched on (``temperature``, ``top_p``, ``presence_penalty``,
    ``frequency_penalty``, ``max_tokens``); ``images`` are ``data:`` URIs for the last user message;
    ``template_kwargs`` goes to the endpoint as ``chat_template_kwargs``; ``schema`` asks for an answer that
    matches it, for models that can; at a text of ``stop`` the answer ends.
    """

    system: str
    messages: tuple[Mapping[str, Any], ...]
    sampling: Mapping[str, float | int] = field(default_factory=dict[str, float])
    thinking: str = ""
    images: tuple[str, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: tuple[ToolSchema, ...] = ()
    schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()


class ChatDelta(NamedTuple):
    """A piece of a streamed answer. ``is_thinking`` marks a provider's separate reasoning text.

    ``calls`` are whole; they and ``usage`` come with the last pieces.
    """

    text: str
    is_thinking: bool = False
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None


class ChatAnswer(NamedTuple):
    """A whole answer, without a separate reasoning text."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = ONE_CALL


class ChatModel(Protocol):
    """A chat model that is ready to be called.

    Both ways raise `ragflow_lg.base.errors.ServiceError` when the call fails, whenever that is.
    """

    @property
    def context_tokens(self) -> int:
        """How many tokens a request and its answer may have together."""
        ...

    @property
    def has_vision(self) -> bool:
        """Whether the model reads images."""
        ...

    @property
    def has_tools(self) -> bool:
        """Whether the model calls tools by itself."""
        ...

    @property
    def has_schemas(self) -> bool:
        """Whether the model answers by a JSON schema."""
        ...

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Give the whole answer."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the answer as it comes; thinking is marked, or between ``<think>`` tags in the text."""
        ...


class ChatModels(Protocol):
    """Finds the model for the ``llm_id`` of a canvas; ``""`` means the default model."""

    def model(self, llm_id: str) -> ChatModel:
        """Give the model, or raise `ragflow_lg.base.errors.SettingsError` naming the missing setting."""
        ...
