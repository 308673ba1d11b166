"""Bodies and responses of RAGFlow's routes that run turns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ragflow_lg.server.database.tables import TITLE_CHARS
from ragflow_lg.server.http.openai.openai_schemas import (
    ChatAnswer,
    ChatChunk,
    ChatMessage,
    ChatTemplateKwargs,
    Files,
    Inputs,
    Release,
    Stream,
    UserId,
)
from ragflow_lg.server.http.shared.route_schemas import LazyModel, Refusal, with_examples

SessionName = Annotated[str, Field(description="Name of a new session. Default: the beginning of the query.")]
ReturnTrace = Annotated[bool, Field(description="Whether to include the trace of nodes.")]

STREAM = (
    'data:{"event":"message","message_id":"9b1f…","created_at":1795293660,"task_id":"5f0c…",'
    '"data":{"content":"It is"},"session_id":"5f0c…"}\n\ndata:[DONE]\n\n'
)


class QuestionBody(LazyModel):
    """Fields that every turn has."""

    query: Annotated[str | dict[str, Any], Field(description="Message of the user, or fields of Begin's form.")] = ""
    inputs: Inputs | None = None
    files: Files | None = None
    session_id: Annotated[
        str, Field(max_length=TITLE_CHARS, description="Session to continue. Default: a new session.")
    ] = ""
    user_id: UserId = ""
    stream: Stream = False
    return_trace: ReturnTrace = False
    chat_template_kwargs: ChatTemplateKwargs | None = None


class AgentCompletionBody(QuestionBody):
    """A turn with the agent in the path."""

    model_config = with_examples({"question": "Where is my parcel?", "stream": True})

    question: Annotated[str, Field(description="Alternative to `query`, which takes precedence.")] = ""
    name: SessionName = ""
    release: Release = False
    openai_compatible: Annotated[
        bool, Field(alias="openai-compatible", description="Whether to read `messages` and respond as OpenAI does.")
    ] = False
    messages: Annotated[list[ChatMessage] | None, Field(description="The conversation, with `openai-compatible`.")] = (
        None
    )


class CompletionBody(AgentCompletionBody):
    """A turn."""

    model_config = with_examples(
        {"agent_id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?", "stream": False},
        {"agent_id": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    agent_id: Annotated[str, Field(min_length=1)]


class EmbeddedBody(QuestionBody):
    """A turn from an embedded page."""

    model_config = with_examples({"query": "Where is my parcel?"})

    stream: Stream = True
    release: Release = False


class PlayBody(QuestionBody):
    """A turn with a version, or the continuation of a run. All fields can also be sent as query parameters."""

    model_config = with_examples({"query": "Where is my parcel?", "version": "draft"})

    user_input: Annotated[str, Field(description="Alternative to `query`; takes precedence over it.")] = ""
    message: Annotated[str, Field(description="Alternative to `query`, which takes precedence.")] = ""
    version: Annotated[str, Field(description="Version for a new session: `draft`, `published` or an id.")] = ""
    resume_from: Annotated[str, Field(description="Run to continue, in any state.")] = ""
    on_disconnect: Annotated[
        str, Field(pattern=r"^(cancel|continue|grace:[0-9]+)$", description="`cancel`, `continue` or `grace:SECONDS`.")
    ] = "continue"


class CancelBody(LazyModel):
    """The turn to cancel."""

    model_config = with_examples({"session_id": "5f0c9a64d4e211f0"})

    session_id: str = ""
    task_id: Annotated[str, Field(description="Alternative to `session_id`, which takes precedence.")] = ""


class TaskChange(LazyModel):
    """A change of a task."""

    action: Literal["stop"]


class _Event(LazyModel):
    session_id: str
    message_id: Annotated[str, Field(description="Id of the run.")] = ""
    created_at: Annotated[int, Field(description="Epoch seconds.")] = 0
    task_id: Annotated[str, Field(description="Id for `/tasks/ID/cancel`.")] = ""


class CompletionAnswer(_Event):
    """The last event of a turn, with the complete answer. If a form is open, the event is `user_inputs`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "event": "workflow_finished",
                    "message_id": "9b1f0d9e3c5a11f0",
                    "created_at": 1795293660,
                    "task_id": "5f0c9a64d4e211f0",
                    "session_id": "5f0c9a64d4e211f0",
                    "data": {"content": "It is on its way.", "outputs": "It is on its way."},
                }
            ]
        }
    )

    event: str = ""
    data: Annotated[
        dict[str, Any],
        Field(
            description="`content`: the answer. `reference`: cited chunks and documents. `structured`: structured "
            "outputs by component. `inputs` and `tips`: the open form. `usage`, `trace`: if available."
        ),
    ] = Field(default={})


class CompletionFrame(_Event):
    """An event in a turn. A run without events has one frame with `session_id` and an empty `data`."""

    data: Annotated[
        dict[str, Any],
        Field(
            description="Fields by event; `content` of a `message` is the next part of the answer; that of a "
            "`message_reset` replaces the text of the current Message."
        ),
    ]
    event: Annotated[
        Literal[
            "workflow_started",
            "node_started",
            "message",
            "message_reset",
            "message_end",
            "node_finished",
            "user_inputs",
            "workflow_finished",
        ],
        Field(description="Name of the event."),
    ] = "message"


FRAME = CompletionFrame | Refusal

RUN: dict[str, Any] = {"surface": "plain", "answer": CompletionAnswer | str, "stream": STREAM, "frame": FRAME}
"""The description of a route that answers as RAGFlow does."""
COMPLETION = RUN | {"frame": FRAME | ChatChunk, "more": {200: ChatAnswer}}
"""The description of a route that can also answer as OpenAI does."""
