"""Bodies and responses of the OpenAI-compatible routes. The routes ignore other fields of OpenAI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ragflow_lg.server.http.shared.route_schemas import Answer, LazyModel, with_examples


class FieldValue(LazyModel):
    """A field value."""

    value: Any


Inputs = Annotated[
    dict[str, FieldValue],
    Field(description="Values of Begin's form or of open forms, by field.", examples=[{"size": {"value": 42}}]),
]
Files = Annotated[
    list[dict[str, Any]],
    Field(description="Files, as the upload route returned them; they may be nested in a second list."),
]
ChatTemplateKwargs = Annotated[dict[str, Any], Field(description="Passed to models that accept it.")]
Release = Annotated[bool, Field(description="Whether a new session uses the published version instead of the draft.")]
Stream = Annotated[bool, Field(description="Whether to stream the events.")]
UserId = Annotated[str, Field(description="Id of the user; used for a new session only.")]

CHAT_STREAM = (
    'data: {"id":"5f0c…","object":"chat.completion.chunk","choices":[{"delta":{"content":"It is"},'
    '"finish_reason":null,"index":0}]}\n\ndata: [DONE]\n\n'
)


class ChatPart(LazyModel):
    """A text part of a message. Images, audio and files are refused: upload them and list them in `files`."""

    type: str = "text"
    text: str = ""


class ChatMessage(LazyModel):
    """A message in the conversation."""

    role: Annotated[str, Field(examples=["user", "assistant"])]
    content: str | list[ChatPart] | None


class ChatBody(LazyModel):
    """A conversation. Its last message with the role `user` is the query. Other OpenAI fields are ignored.

    With `inputs`, messages are optional; if a form is open, the inputs are the whole answer.
    """

    model_config = with_examples(
        {"model": "0c7f4a1e2b5d11f0", "messages": [{"role": "user", "content": "Where is my parcel?"}]},
        {"model": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    model: Annotated[str, Field(description="Id of the agent; ignored if the path names an agent.")] = ""
    messages: Annotated[list[ChatMessage] | None, Field(description="Required unless `inputs` is set.")] = None
    inputs: Inputs | None = None
    files: Files | None = None
    stream: Stream = False
    session_id: Annotated[str, Field(description="Session to continue: the `id` of its responses.")] = ""
    id: Annotated[str, Field(description="Alternative to `session_id`, which takes precedence.")] = ""
    metadata: Annotated[
        dict[Literal["id"] | str, Any] | None,
        Field(description="`id` is an alternative to `session_id`, which takes precedence."),
    ] = None
    user: Annotated[str, Field(description="Id of the user; `user_id` takes precedence.")] = ""
    user_id: UserId = ""
    release: Release = False
    chat_template_kwargs: ChatTemplateKwargs | None = None


class ChatUsage(LazyModel):
    """Estimated token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: dict[str, int]


class ChatAnswered(LazyModel):
    """The agent's message."""

    role: Literal["assistant"]
    content: str
    reference: dict[str, Any] = Field(default={}, description="Cited chunks and documents.")
    refusal: Annotated[str, Field(description="The error, if a content filter blocked the answer.")] = ""
    waiting_for_user: Annotated[dict[str, Any], Field(description="`inputs` and `tips` of the open form.")] = Field(
        default={}
    )


class ChatChoice(LazyModel):
    """The only choice in a response."""

    index: int
    message: ChatAnswered
    finish_reason: Literal["stop", "length", "content_filter", "waiting_for_user"]
    logprobs: None


class ChatAnswer(LazyModel):
    """A chat completion object."""

    id: Annotated[str, Field(description="Id of the session.")]
    object: Literal["chat.completion"]
    created: int
    model: Annotated[str, Field(description="Id of the agent.")]
    param: None
    usage: ChatUsage
    choices: list[ChatChoice]


class ChatDelta(ChatAnswered):
    """The next part of the answer; the last frames also contain the open form or the error."""

    function_call: None
    tool_calls: None
    error: str = ""


class ChatStep(LazyModel):
    """The only choice in a streamed response."""

    index: int
    delta: ChatDelta
    finish_reason: Literal["stop", "length", "content_filter", "waiting_for_user"] | None
    logprobs: None


class ChatChunk(LazyModel):
    """A chat completion chunk object."""

    id: Annotated[str, Field(description="Id of the session.")]
    object: Literal["chat.completion.chunk"]
    created: int
    model: Annotated[str, Field(description="Id of the agent.")]
    system_fingerprint: str
    usage: Annotated[ChatUsage | None, Field(description="In the last frame only.")]
    choices: list[ChatStep]


class ChatModel(Answer):
    """An agent as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    name: str


class ChatModels(Answer):
    """All agents as models."""

    object: Literal["list"] = "list"
    data: list[ChatModel]


class ChatProblem(LazyModel):
    """The reason for a refusal."""

    message: str
    type: Annotated[str, Field(examples=["invalid_request_error", "authentication_error", "not_found_error"])]
    param: None
    code: Annotated[str | None, Field(examples=["model_not_found"])]


class ChatError(LazyModel):
    """An error object."""

    error: ChatProblem
