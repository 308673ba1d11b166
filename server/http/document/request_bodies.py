"""What clients of RAGFlow's and OpenAI's routes send. These models describe: requests are read by the routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.server.database.tables import TITLE_CHARS

__all__ = [
    "AgentChange",
    "AgentCompletionBody",
    "CancelBody",
    "ChatBody",
    "ChatMessage",
    "ChatPart",
    "CompletionBody",
    "DebugBody",
    "EmbeddedBody",
    "FieldValue",
    "NewAgent",
    "NewSession",
    "NewVersion",
    "PlayBody",
    "SessionIds",
    "TagsBody",
    "UploadBody",
]

_SAMPLE_CANVAS: dict[str, Any] = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:0"]},
        "Message:0": {
            "obj": {"component_name": "Message", "params": {"content": ["You said {sys.query}"]}},
            "downstream": [],
        },
    }
}
"""The least that answers."""

Canvas = dict[str, Any]
Inputs = Annotated[
    dict[str, "FieldValue"],
    Field(description="Answers to Begin's form or to open forms, by field.", examples=[{"size": {"value": 42}}]),
]
Files = Annotated[
    list[dict[str, Any]], Field(description="Uploads, as the upload gave them; also as a list in a list.")
]
ChatTemplateKwargs = Annotated[dict[str, Any], Field(description="Passed on to models that take them.")]
Release = Annotated[bool, Field(description="Whether a new session takes the published version, not the draft.")]
SessionName = Annotated[str, Field(description="Name of a new session; left out: the beginning of the query.")]
ReturnTrace = Annotated[bool, Field(description="Whether what the nodes have done is told, too.")]
Stream = Annotated[bool, Field(description="Whether to answer with the events.")]
UserId = Annotated[str, Field(description="Who asks; only a new session takes it.")]


def _like(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class FieldValue(BaseModel):
    """The value of one field."""

    value: Any


class _Asked(BaseModel):
    """What every turn can be given."""

    query: Annotated[str | dict[str, Any], Field(description="What the user says, or fields of Begin's form.")] = ""
    inputs: Inputs | None = None
    files: Files | None = None
    session_id: Annotated[
        str, Field(max_length=TITLE_CHARS, description="The session to go on with; left out: a new one.")
    ] = ""
    user_id: UserId = ""
    stream: Stream = False
    return_trace: ReturnTrace = False
    chat_template_kwargs: ChatTemplateKwargs | None = None


class AgentCompletionBody(_Asked):
    """A turn, of an agent that the path names."""

    model_config = _like({"question": "Where is my parcel?", "stream": True})

    question: Annotated[str, Field(description="As `query`, which goes first.")] = ""
    name: SessionName = ""
    release: Release = False
    openai_compatible: Annotated[
        bool, Field(alias="openai-compatible", description="Read `messages` and answer as OpenAI does.")
    ] = False
    messages: Annotated[list[ChatMessage] | None, Field(description="With `openai-compatible`: the conversation.")] = (
        None
    )


class CompletionBody(AgentCompletionBody):
    """A turn."""

    model_config = _like(
        {"agent_id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?", "stream": False},
        {"agent_id": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    agent_id: Annotated[str, Field(min_length=1)]


class EmbeddedBody(_Asked):
    """A turn of an embedded page."""

    model_config = _like({"query": "Where is my parcel?"})

    stream: Stream = True
    release: Release = False


class PlayBody(_Asked):
    """A turn of a version, or on from a run. All of it may stand in the query of the address, too."""

    model_config = _like({"query": "Where is my parcel?", "version": "draft"})

    user_input: Annotated[str, Field(description="As `query`, before which it goes.")] = ""
    message: Annotated[str, Field(description="As `query`, which goes first.")] = ""
    version: Annotated[str, Field(description="`draft`, `published` or an id; of a new session.")] = ""
    resume_from: Annotated[str, Field(description="A run to go on from, however it stands.")] = ""
    on_disconnect: Annotated[
        str, Field(pattern=r"^(cancel|continue|grace:[0-9]+)$", description="`cancel`, `continue` or `grace:SECONDS`.")
    ] = "continue"


class CancelBody(BaseModel):
    """Which turn to stop."""

    model_config = _like({"session_id": "5f0c9a64d4e211f0"})

    session_id: str = ""
    task_id: Annotated[str, Field(description="The same as `session_id`, which goes first.")] = ""


class _AgentFields(BaseModel):
    """What an agent has beside its title and its canvas."""

    description: str | None = None
    avatar: Annotated[str | None, Field(description="A picture as a `data:` address.")] = None
    canvas_type: Annotated[str | None, Field(max_length=64)] = None
    canvas_category: Annotated[str | None, Field(max_length=32)] = None
    permission: Annotated[str | None, Field(max_length=16, description="Kept; agents are their tenant's only.")] = None
    release: Annotated[bool, Field(description="Whether to publish the draft.")] = False


class AgentChange(_AgentFields):
    """What is to be changed of an agent."""

    model_config = _like({"title": "Parcels", "release": True})

    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)] | None = None
    dsl: Annotated[Canvas | str | None, Field(description="A canvas, as an object or as JSON in a text.")] = None


class NewAgent(_AgentFields):
    """An agent to make."""

    model_config = _like({"title": "Parcels", "dsl": _SAMPLE_CANVAS})

    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)]
    dsl: Annotated[Canvas | str, Field(description="A canvas, as an object or as JSON in a text.")]


class TagsBody(BaseModel):
    """All tags of an agent."""

    model_config = _like({"tags": ["parcels", "shop"]})

    tags: Annotated[list[str] | str | None, Field(description="A list, or a text with commas.")]


class NewSession(BaseModel):
    """A session to make."""

    model_config = _like({"name": "Ada", "user_id": "ada"})

    name: str = ""
    user_id: str = ""
    exp_user_id: Annotated[str, Field(description="Whose it is, where a page has users of its own.")] = ""
    release: Release = False


class SessionIds(BaseModel):
    """Sessions to delete."""

    model_config = _like({"ids": ["5f0c9a64d4e211f0"]}, {"delete_all": True})

    ids: Annotated[list[str] | None, Field(max_length=100)] = None
    delete_all: bool = False


class NewVersion(BaseModel):
    """A version to publish."""

    model_config = _like({"title": "Summer"})

    title: Annotated[str, Field(description="Left out: the agent's title.")] = ""
    description: str = ""
    dsl: Annotated[
        Canvas | str | None, Field(description="A canvas that becomes the draft first; left out: the draft as it is.")
    ] = None


class DebugBody(BaseModel):
    """Values for what a component reads, by the names of its form."""

    model_config = _like({"params": {"sys.query": {"value": "Where is my parcel?"}}})

    params: dict[str, FieldValue] | None


class UploadBody(BaseModel):
    """Files to store."""

    file: Annotated[list[bytes], Field(min_length=1, max_length=20)]


class ChatPart(BaseModel):
    """A part of a message: a text. Pictures, sound and files are refused; upload them, and name them in `files`."""

    type: str = "text"
    text: str = ""


class ChatMessage(BaseModel):
    """What somebody has said."""

    role: Annotated[str, Field(examples=["user", "assistant"])]
    content: str | list[ChatPart] | None


class ChatBody(BaseModel):
    """A conversation whose last message of the role `user` is asked. What OpenAI has besides is passed over.

    With `inputs` there need be no message; those that a form waits for are then the whole answer.
    """

    model_config = _like(
        {"model": "0c7f4a1e2b5d11f0", "messages": [{"role": "user", "content": "Where is my parcel?"}]},
        {"model": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    model: Annotated[str, Field(description="Id of an agent; where the path names one, any text.")] = ""
    messages: Annotated[list[ChatMessage] | None, Field(description="Left out with `inputs` only.")] = None
    inputs: Inputs | None = None
    files: Files | None = None
    stream: Stream = False
    session_id: Annotated[str, Field(description="A session to go on with: the `id` of its answers.")] = ""
    id: Annotated[str, Field(description="As `session_id`, which goes first.")] = ""
    metadata: Annotated[
        dict[Literal["id"] | str, Any] | None, Field(description="`id` in it is as `session_id`, which goes first.")
    ] = None
    user: Annotated[str, Field(description="Who asks; `user_id` goes first.")] = ""
    user_id: UserId = ""
    release: Release = False
    chat_template_kwargs: ChatTemplateKwargs | None = None
