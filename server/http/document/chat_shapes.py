"""What OpenAI's routes answer with. These models describe, they make nothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

__all__ = ["ChatAnswer", "ChatChunk", "ChatError", "ChatModel", "ChatModels"]


class ChatUsage(BaseModel):
    """Tokens, estimated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: dict[str, int]


class ChatAnswered(BaseModel):
    """What the agent says."""

    role: Literal["assistant"]
    content: str
    reference: Annotated[dict[str, Any], Field(description="What it cites.")] = {}
    waiting_for_user: Annotated[dict[str, Any], Field(description="`inputs` and `tips` of the form that waits.")] = {}


class ChatChoice(BaseModel):
    """The one answer."""

    index: int
    message: ChatAnswered
    finish_reason: Literal["stop", "waiting_for_user"]
    logprobs: None


class ChatAnswer(BaseModel):
    """A whole answer, as OpenAI gives it."""

    id: Annotated[str, Field(description="The session.")]
    object: Literal["chat.completion"]
    created: int
    model: Annotated[str, Field(description="The agent.")]
    param: None
    usage: ChatUsage
    choices: list[ChatChoice]


class ChatDelta(BaseModel):
    """The next piece of the answer; at the end also the form that waits, or what failed."""

    role: Literal["assistant"]
    content: str
    function_call: None
    tool_calls: None
    reference: Annotated[dict[str, Any], Field(description="What it cites.")] = {}
    waiting_for_user: Annotated[dict[str, Any], Field(description="`inputs` and `tips` of the form that waits.")] = {}
    error: str = ""


class ChatStep(BaseModel):
    """The one answer, in a stream."""

    index: int
    delta: ChatDelta
    finish_reason: Literal["stop", "waiting_for_user"] | None
    logprobs: None


class ChatChunk(BaseModel):
    """A frame of a stream, as OpenAI gives it."""

    id: Annotated[str, Field(description="The session.")]
    object: Literal["chat.completion.chunk"]
    created: int
    model: Annotated[str, Field(description="The agent.")]
    system_fingerprint: str
    usage: Annotated[ChatUsage | None, Field(description="Of the last frame.")]
    choices: list[ChatStep]


class ChatModel(BaseModel):
    """An agent as a model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    name: str


class ChatModels(BaseModel):
    """All agents as models."""

    object: Literal["list"]
    data: list[ChatModel]


class ChatProblem(BaseModel):
    """What is wrong."""

    message: str
    type: Annotated[str, Field(examples=["invalid_request_error", "authentication_error", "not_found_error"])]
    param: None
    code: Annotated[str | None, Field(examples=["model_not_found"])]


class ChatError(BaseModel):
    """A refusal, as OpenAI writes it."""

    error: ChatProblem
