"""Response models that document RAGFlow's routes, without their envelopes.

Some responses omit fields that have a default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.server.http.shared.answers import Counted, Date, Ms

PublishedMs = Annotated[int | None, Field(description="Epoch milliseconds of the last published version.")]


class _Agent(BaseModel):
    id: str
    avatar: str | None
    title: str
    description: str | None
    permission: str
    nickname: str
    tenant_avatar: None
    create_time: Ms
    update_time: Ms
    canvas_type: str | None
    canvas_category: str


class AgentRow(_Agent):
    """An agent in a list; older clients receive the fields of `AgentShown` instead."""

    tenant_id: str
    tags: str
    release_time: PublishedMs
    type: Literal["agent"]


class AgentPage(BaseModel):
    """A page of agents."""

    canvas: list[AgentRow]
    total: int


class AgentsFilter(BaseModel):
    """The filter values for agent lists."""

    filter: dict[Literal["owner", "canvas_category"], list[Counted]]
    total: int


class _Dated(BaseModel):
    create_time: Ms
    create_date: Date
    update_time: Ms
    update_date: Date


class AgentShown(_Agent, _Dated):
    """An agent with its draft."""

    dsl: dict[str, Any]
    user_id: str
    last_publish_time: PublishedMs


class UpdateTime(BaseModel):
    """The time of a change."""

    update_time: Ms


class TagCounted(BaseModel):
    """A tag and the number of agents that have it."""

    tag: str
    count: int


class Prompts(BaseModel):
    """The default prompts, which a canvas can replace."""

    task_analysis: str
    plan_generation: str
    reflection: str
    citation_guidelines: str


class TemplateShown(BaseModel):
    """A canvas from which to create an agent."""

    id: str
    title: Annotated[dict[str, str], Field(description="By language.")]
    description: Annotated[dict[str, str], Field(description="By language.")]
    canvas_type: str
    canvas_category: str
    avatar: str | None
    dsl: dict[str, Any]


class SessionMessage(BaseModel):
    """A message from the user or the assistant."""

    role: str
    content: str
    id: Annotated[str, Field(description="Id of the run; empty for the opening words.")] = ""
    created_at: Annotated[float, Field(description="Epoch seconds.")] = 0
    reference: Annotated[Any, Field(description="Cited chunks, in lists only.")] = None


class SessionNamed(BaseModel):
    """A session in a user's list."""

    id: str
    name: str | None


class SessionReference(BaseModel):
    """The sources of one answer."""

    chunks: Annotated[dict[str, Any], Field(description="Cited chunks by number.")]
    doc_aggs: Annotated[dict[str, Any], Field(description="Their documents by name.")]


class SessionShown(_Dated):
    """A conversation. The agent id is `agent_id` in lists and `dialog_id` in a single session."""

    id: str
    name: str | None
    agent_id: str = ""
    dialog_id: str = ""
    user_id: str | None
    exp_user_id: str | None
    message: list[SessionMessage]
    messages: Annotated[list[SessionMessage], Field(description="Same as `message`, for older clients.")] = []
    reference: Annotated[list[SessionReference], Field(description="Sources by answer, in a single session only.")] = []
    tokens: int
    source: Annotated[str, Field(description="`agent`: created by a client. `workflow`: created by a turn.")]
    duration: float
    round: int
    thumb_up: int
    errors: str
    version_title: str
    dsl: dict[str, Any] = {}


class Deleted(BaseModel):
    """The result if some sessions could not be deleted."""

    success_count: int
    errors: list[str]


class VersionItem(_Dated):
    """A version of an agent's canvas."""

    id: str
    title: str
    user_canvas_id: Annotated[str, Field(description="Id of the agent.")]
    release: Annotated[bool, Field(description="Whether the version is published.")]


class VersionShown(VersionItem):
    """A version with its canvas."""

    description: str | None
    dsl: dict[str, Any]


class Traced(BaseModel):
    """Successive entries from one component."""

    component_id: str
    trace: list[dict[str, Any]]


class _Event(BaseModel):
    session_id: str
    message_id: Annotated[str, Field(description="Id of the run.")] = ""
    created_at: Annotated[int, Field(description="Epoch seconds.")] = 0
    task_id: Annotated[str, Field(description="Id for `/tasks/ID/cancel`.")] = ""


class TurnAnswer(_Event):
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
    ] = {}


class TurnFrame(_Event):
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


class EmbeddedAgent(BaseModel):
    """The agent details that an embedded page shows."""

    title: str
    avatar: str | None
    inputs: Annotated[dict[str, Any], Field(description="Fields of Begin's form.")]
    prologue: Annotated[str, Field(description="Opening words.")]
    mode: str


class WebhookAnswer(BaseModel):
    """The answer from a webhook's turn."""

    message: str
    success: bool
    code: int


class WebhookRefusal(BaseModel):
    """The reason why a webhook call was refused or failed."""

    code: int
    message: str
    success: bool = False


class WebhookEvents(BaseModel):
    """Webhook test events after a given time."""

    webhook_id: str | None
    events: list[dict[str, Any]]
    next_since_ts: Annotated[float, Field(description="Value of `since_ts` for the next request.")]
    finished: bool


class Greeting(BaseModel):
    """Name and version of the server, and links."""

    name: Literal["ragflow-lg"]
    version: str
    openapi: Literal["/openapi.json"]
    health: Literal["/health"]


class Health(BaseModel):
    """The process is alive."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether the server can handle requests."""

    status: Literal["ready", "stopping", "failing"]
    parts: dict[str, Literal["ok", "failed", "timed out", "late"]]
