"""Chat models: requests, answers and the Protocols that adapters implement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import to_text


class TokenBudget:
    """A counter of used tokens, with a limit. Usage also counts towards the outer budget."""

    def __init__(self, outer: TokenBudget | None = None) -> None:
        self.limit = 0
        """The number of tokens after which the agent must answer; 0 for no limit."""
        self.spent = 0
        self._outer = outer
        self._steps: set[str] = set()

    def charge(self, tokens: int) -> None:
        """Count used tokens."""
        self.spent += tokens
        if self._outer is not None:
            self._outer.charge(tokens)

    def charge_step(self, position: str, tokens: int, *, is_charged: bool) -> None:
        """Count the tokens of a step once: when it runs, or when its result is restored after a crash."""
        if not is_charged and position not in self._steps:
            self.charge(tokens)
        self._steps.add(position)

    @property
    def is_limited(self) -> bool:
        """Whether this budget or an outer one has a limit."""
        return self.limit > 0 or self.is_shared

    @property
    def is_shared(self) -> bool:
        """Whether an outer budget, which others use at the same time, has a limit."""
        return self._outer is not None and self._outer.is_limited

    @property
    def is_spent(self) -> bool:
        """Whether this budget or an outer one has reached its limit."""
        return 0 < self.limit <= self.spent or (self._outer is not None and self._outer.is_spent)


def count_tokens(request: ChatRequest, answer: ChatAnswer) -> int:
    """Return the number of tokens used by a model call, estimated if the endpoint does not report it."""
    counted = answer.usage.prompt_tokens + answer.usage.completion_tokens
    if counted:
        return counted
    estimate = estimate_usage(request, answer.text)
    calls = sum(estimate_tokens(call.arguments) for call in answer.calls)
    return estimate.prompt_tokens + estimate.completion_tokens + calls


def estimate_usage(request: ChatRequest, answer: str) -> Usage:
    """Return the estimated tokens of a call, for one that the provider has not counted."""
    texts = (request.system, *(to_text(message.get("content")) for message in request.messages))
    return Usage(sum(map(estimate_tokens, texts)), estimate_tokens(answer), 1)


class ToolCall(NamedTuple):
    """A tool call that a model requests. ``arguments`` is the model's JSON text, not validated."""

    id: str
    name: str
    arguments: str


class Usage(NamedTuple):
    """Tokens as counted by the provider; ``calls`` is the number of model calls."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    cost: float = 0.0
    """The cost according to the prices in the settings; 0 without prices."""

    def plus(self, other: Usage) -> Usage:
        """Return the sum."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.calls + other.calls,
            self.cost + other.cost,
        )

    def minus(self, other: Usage) -> Usage:
        """Return the difference, which is never negative."""
        return Usage(
            max(self.prompt_tokens - other.prompt_tokens, 0),
            max(self.completion_tokens - other.completion_tokens, 0),
            max(self.calls - other.calls, 0),
            max(self.cost - other.cost, 0.0),
        )


NO_USAGE, ONE_CALL = Usage(), Usage(calls=1)


class ToolSchema(NamedTuple):
    """A tool as presented to a model. ``parameters`` is the JSON schema of its arguments, which is always an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ChatRequest(Struct, frozen=True):
    """One call of a chat model.

    ``messages`` follow the system message: ``{"role": "user"|"assistant", "content": text}``, an assistant message with
    ``tool_calls`` (maps with the fields of `ToolCall`), and ``{"role": "tool", "tool_call_id", "content"}``.
    ``sampling`` has only the parameters that the canvas enables (``temperature``, ``top_p``, ``presence_penalty``,
    ``frequency_penalty``, ``max_tokens``); ``images`` are ``data:`` URIs that belong to the last user message;
    ``template_kwargs`` is sent to the endpoint as ``chat_template_kwargs``; ``schema`` requests a structured answer
    from models that support it; the answer ends at any of the ``stop`` texts.
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


AnswerEnd: TypeAlias = Literal["", "stop", "length", "content_filter"]
"""Why an answer ended: it is complete, was cut at a limit of tokens, or was blocked or refused; ``""`` if unknown."""


class ChatDelta(NamedTuple):
    """A piece of a streamed answer. ``is_thinking`` marks text from a provider's separate reasoning channel.

    ``calls`` are complete; they, ``usage`` and ``end`` arrive with the last pieces.
    """

    text: str
    is_thinking: bool = False
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    end: AnswerEnd = ""


class ChatAnswer(NamedTuple):
    """A complete answer. Separate reasoning text is left out, unless there is nothing else: then it is in its tags."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = ONE_CALL
    end: AnswerEnd = ""


class ChatModel(Protocol):
    """A chat model, ready to be called.

    Both methods raise `ragflow_lg.base.errors.ServiceError` if the call fails, even in the middle of a stream.
    """

    @property
    def context_tokens(self) -> int:
        """The maximum total number of tokens in a request and its answer."""
        ...

    @property
    def has_vision(self) -> bool:
        """Whether the model accepts images."""
        ...

    @property
    def has_tools(self) -> bool:
        """Whether the model supports tool calls."""
        ...

    @property
    def has_schemas(self) -> bool:
        """Whether the model supports answers that follow a JSON schema.

        A model whose server has not been asked yet has ``tries_schemas``: its requests have the schema both in the
        prompt and as `ChatRequest.schema`.
        """
        ...

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the complete answer."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Stream the answer. Thinking is either marked or enclosed in ``<think>`` tags in the text."""
        ...


@runtime_checkable
class SupportsTitles(Protocol):
    """Models that answer in the name of a node."""

    def for_node(self, title: str) -> ChatModels:
        """Return the models for a node with this title."""
        ...


class ChatModels(Protocol):
    """Chat models by the ``llm_id`` of a canvas; ``""`` is the default model."""

    def model(self, llm_id: str) -> ChatModel:
        """Return the model, or raise `ragflow_lg.base.errors.SettingsError` naming the missing setting."""
        ...
