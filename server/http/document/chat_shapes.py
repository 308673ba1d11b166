"""Response models of the OpenAI-compatible routes, for the document only."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field


class ChatUsage(BaseModel):
    """Estimated token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: dict[str, int]


class ChatAnswered(BaseModel):
    """The agent's message."""

    role: Literal["assistant"]
    content: str
    reference: Annotated[dict[str, Any], Field(description="Cited chunks and documents.")] = {}
    waiting_for_user: Annotated[dict[str, Any], Field(description="`inputs` and `tips` of the open form.")] = {}


class ChatChoice(BaseModel):
    """The only choice in a response."""

    index: int
    message: ChatAnswered
    finish_reason: Literal["stop", "waiting_for_user"]
    logprobs: None


class ChatAnswer(BaseModel):
    """A chat completion object."""

    id: Annotated[str, Field(description="Id of the session.")]
    object: Literal["chat.completion"]
    created: int
    model: Annotated[str, Field(description="Id of the agent.")]
    param: None
    usage: ChatUsage
    choices: list[ChatChoice]


class ChatDelta(BaseModel):
    """The next part of the answer; the last frames also contain the open form or the error."""

    role: Literal["assistant"]
    content: str
    function_call: None
    tool_calls: None
    reference: Annotated[dict[str, Any], Field(description="Cited chunks and documents.")] = {}
    waiting_for_user: Annotated[dict[str, Any], Field(description="`inputs` and `tips` of the open form.")] = {}
    error: str = ""


class ChatStep(BaseModel):
    """The only choice in a streamed response."""

    index: int
    delta: ChatDelta
    finish_reason: Literal["stop", "waiting_for_user"] | None
    logprobs: None


class ChatChunk(BaseModel):
    """A chat completion chunk object."""

    id: Annotated[str, Field(description="Id of the session.")]
    object: Literal["chat.completion.chunk"]
    created: int
    model: Annotated[str, Field(description="Id of the agent.")]
    system_fingerprint: str
    usage: Annotated[ChatUsage | None, Field(description="In the last frame only.")]
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
    """The reason for a refusal."""

    message: str
    type: Annotated[str, Field(examples=["invalid_request_error", "authentication_error", "not_found_error"])]
    param: None
    code: Annotated[str | None, Field(examples=["model_not_found"])]


class ChatError(BaseModel):
    """An error object."""

    error: ChatProblem
