"""Request models that document RAGFlow's and the OpenAI-compatible routes; the routes parse bodies themselves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.server.database.tables import TITLE_CHARS

_SAMPLE_CANVAS: dict[str, Any] = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:0"]},
        "Message:0": {
            "obj": {"component_name": "Message", "params": {"content": ["You said {sys.query}"]}},
            "downstream": [],
        },
    }
}
"""The smallest canvas that answers."""

Canvas = dict[str, Any]
Inputs = Annotated[
    dict[str, "FieldValue"],
    Field(description="Values of Begin's form or of open forms, by field.", examples=[{"size": {"value": 42}}]),
]
Files = Annotated[
    list[dict[str, Any]],
    Field(description="Files, as the upload route returned them; they may be nested in a second list."),
]
ChatTemplateKwargs = Annotated[dict[str, Any], Field(description="Passed to models that accept it.")]
Release = Annotated[bool, Field(description="Whether a new session uses the published version instead of the draft.")]
SessionName = Annotated[str, Field(description="Name of a new session. Default: the beginning of the query.")]
ReturnTrace = Annotated[bool, Field(description="Whether to include the trace of nodes.")]
Stream = Annotated[bool, Field(description="Whether to stream the events.")]
UserId = Annotated[str, Field(description="Id of the user; used for a new session only.")]


def _with_examples(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class FieldValue(BaseModel):
    """A field value."""

    value: Any


class TurnBody(BaseModel):
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


class AgentCompletionBody(TurnBody):
    """A turn with the agent in the path."""

    model_config = _with_examples({"question": "Where is my parcel?", "stream": True})

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

    model_config = _with_examples(
        {"agent_id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?", "stream": False},
        {"agent_id": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    agent_id: Annotated[str, Field(min_length=1)]


class EmbeddedBody(TurnBody):
    """A turn from an embedded page."""

    model_config = _with_examples({"query": "Where is my parcel?"})

    stream: Stream = True
    release: Release = False


class PlayBody(TurnBody):
    """A turn with a version, or the continuation of a run. All fields can also be sent as query parameters."""

    model_config = _with_examples({"query": "Where is my parcel?", "version": "draft"})

    user_input: Annotated[str, Field(description="Alternative to `query`; takes precedence over it.")] = ""
    message: Annotated[str, Field(description="Alternative to `query`, which takes precedence.")] = ""
    version: Annotated[str, Field(description="Version for a new session: `draft`, `published` or an id.")] = ""
    resume_from: Annotated[str, Field(description="Run to continue, in any state.")] = ""
    on_disconnect: Annotated[
        str, Field(pattern=r"^(cancel|continue|grace:[0-9]+)$", description="`cancel`, `continue` or `grace:SECONDS`.")
    ] = "continue"


class CancelBody(BaseModel):
    """The turn to cancel."""

    model_config = _with_examples({"session_id": "5f0c9a64d4e211f0"})

    session_id: str = ""
    task_id: Annotated[str, Field(description="Alternative to `session_id`, which takes precedence.")] = ""


class _AgentFields(BaseModel):
    """Agent fields other than title and canvas."""

    description: str | None = None
    avatar: Annotated[str | None, Field(description="Picture as a `data:` URI.")] = None
    canvas_type: Annotated[str | None, Field(max_length=64)] = None
    canvas_category: Annotated[str | None, Field(max_length=32)] = None
    permission: Annotated[
        str | None, Field(max_length=16, description="Stored only: agents are always private to their tenant.")
    ] = None
    release: Annotated[bool, Field(description="Whether to publish the draft.")] = False


class AgentChange(_AgentFields):
    """Changes to an agent."""

    model_config = _with_examples({"title": "Parcels", "release": True})

    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)] | None = None
    dsl: Annotated[Canvas | str | None, Field(description="Canvas, as an object or as JSON text.")] = None


class NewAgent(_AgentFields):
    """An agent to create."""

    model_config = _with_examples({"title": "Parcels", "dsl": _SAMPLE_CANVAS})

    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)]
    dsl: Annotated[Canvas | str, Field(description="Canvas, as an object or as JSON text.")]


class TagsBody(BaseModel):
    """All of an agent's tags."""

    model_config = _with_examples({"tags": ["parcels", "shop"]})

    tags: Annotated[list[str] | str | None, Field(description="List of tags, or a text separated by commas.")]


class NewSession(BaseModel):
    """A session to create."""

    model_config = _with_examples({"name": "Ada", "user_id": "ada"})

    name: str = ""
    user_id: str = ""
    exp_user_id: Annotated[str, Field(description="Id by which `GET` finds the session. Default: `user_id`.")] = ""
    release: Release = False


class SessionIds(BaseModel):
    """Sessions to delete."""

    model_config = _with_examples({"ids": ["5f0c9a64d4e211f0"]}, {"delete_all": True})

    ids: Annotated[list[str] | None, Field(max_length=100)] = None
    delete_all: bool = False


class NewVersion(BaseModel):
    """A version to publish."""

    model_config = _with_examples({"title": "Summer"})

    title: Annotated[str, Field(description="Default: the title of the agent.")] = ""
    description: str = ""
    dsl: Annotated[
        Canvas | str | None,
        Field(description="Canvas that replaces the draft before it is published. Default: the current draft."),
    ] = None


class DebugBody(BaseModel):
    """Values for a component's input form, by name."""

    model_config = _with_examples({"params": {"sys.query": {"value": "Where is my parcel?"}}})

    params: dict[str, FieldValue] | None


class DatabaseBody(BaseModel):
    """A database whose connection is tested."""

    model_config = _with_examples(
        {
            "db_type": "postgres",
            "database": "shop",
            "username": "reader",
            "host": "db.example.org",
            "port": 5432,
            "password": "secret",
        }
    )

    db_type: Annotated[str, Field(description="`mysql`, `mariadb`, `oceanbase` or `postgres`.")]
    database: str
    username: str
    host: str
    port: int | str
    password: str


class RerunBody(BaseModel):
    """A pipeline to rerun; always refused."""

    model_config = _with_examples({"id": "5f0c9a64d4e211f0", "dsl": {}, "component_id": "Parser:0"})

    id: str
    dsl: dict[str, Any]
    component_id: str


class TaskChange(BaseModel):
    """A change of a task."""

    action: Literal["stop"]


class ChatPart(BaseModel):
    """A text part of a message. Images, audio and files are refused: upload them and list them in `files`."""

    type: str = "text"
    text: str = ""


class ChatMessage(BaseModel):
    """A message in the conversation."""

    role: Annotated[str, Field(examples=["user", "assistant"])]
    content: str | list[ChatPart] | None


class ChatBody(BaseModel):
    """A conversation. Its last message with the role `user` is the query. Other OpenAI fields are ignored.

    With `inputs`, messages are optional; if a form is open, the inputs are the whole answer.
    """

    model_config = _with_examples(
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
