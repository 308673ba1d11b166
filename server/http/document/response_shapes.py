"""What RAGFlow's routes answer with, inside their envelopes. These models describe, they make nothing.

What has a default is left out of some answers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AgentPage",
    "AgentRow",
    "AgentShown",
    "AgentsFilter",
    "Deleted",
    "EmbeddedAgent",
    "FileShown",
    "Health",
    "NotHere",
    "Prompts",
    "Readiness",
    "Refusal",
    "SessionNamed",
    "SessionShown",
    "TagCounted",
    "TemplateShown",
    "Traced",
    "TurnAnswer",
    "TurnFrame",
    "UpdateTime",
    "VersionItem",
    "VersionShown",
    "WebhookAnswer",
    "WebhookEvents",
    "WebhookRefusal",
]

Ms = Annotated[int, Field(description="Epoch milliseconds.")]
Date = Annotated[str, Field(description="As HTTP writes dates.", examples=["Sat, 21 Nov 2026 20:41:00 GMT"])]


class Refusal(BaseModel):
    """Why a request is refused, or has failed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": 102, "message": "Session not found!"}]})

    code: Annotated[
        int,
        Field(
            description="101: something does not fit. 102: not found, or taken. 103: not yours, or busy. 100, 500: it "
            "failed. Others: as HTTP's status.",
            json_schema_extra={"not": {"const": 0}},
        ),
    ]
    message: Annotated[str, Field(description="For people.")]
    data: Annotated[Any, Field(description="Mostly left out; else what RAGFlow has there, such as `false`.")] = None


class NotHere(BaseModel):
    """There is no such path, or it does not take the method."""

    code: int
    message: str
    data: None
    error: str


class AgentRow(BaseModel):
    """An agent in a list; for older clients with what `AgentShown` has besides."""

    id: str
    avatar: str | None
    title: str
    description: str | None
    permission: str
    tenant_id: str
    nickname: str
    tenant_avatar: None
    create_time: Ms
    update_time: Ms
    canvas_type: str | None
    canvas_category: str
    tags: str
    release_time: Annotated[int | None, Field(description="As `last_publish_time`.")]
    type: Literal["agent"]


class AgentPage(BaseModel):
    """A page of agents."""

    canvas: list[AgentRow]
    total: int


class Counted(BaseModel):
    """One value to narrow a list down to, and how many agents have it."""

    id: str
    count: int


class AgentsFilter(BaseModel):
    """What a list of agents can be narrowed down to."""

    filter: dict[Literal["owner", "canvas_category"], list[Counted]]
    total: int


class _Dated(BaseModel):
    create_time: Ms
    create_date: Date
    update_time: Ms
    update_date: Date


class AgentShown(_Dated):
    """An agent with its draft."""

    id: str
    avatar: str | None
    title: str
    dsl: dict[str, Any]
    description: str | None
    permission: str
    user_id: str
    canvas_type: str | None
    canvas_category: str
    nickname: str
    tenant_avatar: None
    last_publish_time: Annotated[int | None, Field(description="Epoch milliseconds of the last published version.")]


class UpdateTime(BaseModel):
    """When a change was stored."""

    update_time: Ms


class TagCounted(BaseModel):
    """A tag, and how many agents have it."""

    tag: str
    count: int


class Prompts(BaseModel):
    """Prompts that stand where a canvas has none of its own."""

    task_analysis: str
    plan_generation: str
    reflection: str
    citation_guidelines: str


class TemplateShown(BaseModel):
    """A canvas to begin an agent with."""

    id: str
    title: Annotated[dict[str, str], Field(description="By language.")]
    description: Annotated[dict[str, str], Field(description="By language.")]
    canvas_type: str
    canvas_category: str
    avatar: str | None
    dsl: dict[str, Any]


class SessionMessage(BaseModel):
    """What one side has said."""

    role: str
    content: str
    id: Annotated[str, Field(description="Of the run; the opening words have none.")] = ""
    created_at: Annotated[float, Field(description="Epoch seconds.")] = 0
    reference: Annotated[Any, Field(description="In lists: the chunks that it cites.")] = None


class SessionNamed(BaseModel):
    """A session in a list of one user's."""

    id: str
    name: str | None


class SessionShown(_Dated):
    """A conversation. In lists the agent is `agent_id`, in one that is shown by its id `dialog_id`."""

    id: str
    name: str | None
    agent_id: str = ""
    dialog_id: str = ""
    user_id: str | None
    exp_user_id: str | None
    message: list[SessionMessage]
    messages: Annotated[list[SessionMessage], Field(description="For older clients, as `message`.")] = []
    reference: Annotated[list[Any], Field(description="By answer, the chunks that it cites.")] = []
    tokens: int
    source: Annotated[str, Field(description="`agent`: a client made it. `workflow`: a turn did.")]
    duration: float
    round: int
    thumb_up: int
    errors: str
    version_title: str
    dsl: dict[str, Any] = {}


class Deleted(BaseModel):
    """How it went where some sessions could not be deleted."""

    success_count: int
    errors: list[str]


class VersionItem(_Dated):
    """A version of an agent's canvas."""

    id: str
    title: str
    user_canvas_id: Annotated[str, Field(description="The agent.")]
    release: Annotated[bool, Field(description="Whether it was published.")]


class VersionShown(VersionItem):
    """A version with its canvas."""

    description: str | None
    dsl: dict[str, Any]


class FileShown(BaseModel):
    """A stored file; goes as it is into the `files` of a turn."""

    id: str
    name: str
    size: int
    extension: str
    mime_type: str
    created_by: str
    created_at: Annotated[float, Field(description="Epoch seconds.")]
    preview_url: None


class Traced(BaseModel):
    """Entries of one component that follow each other."""

    component_id: str
    trace: list[dict[str, Any]]


class TurnAnswer(BaseModel):
    """The last event of a turn, with all of the answer. Where a form waits it is `user_inputs`, with the form."""

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

    session_id: str
    event: str = ""
    message_id: Annotated[str, Field(description="The run.")] = ""
    created_at: Annotated[int, Field(description="Epoch seconds.")] = 0
    task_id: Annotated[str, Field(description="What `/tasks/ID/cancel` takes.")] = ""
    data: Annotated[
        dict[str, Any],
        Field(
            description="`content`: the answer. `reference`: what it cites. `structured`: by component. `inputs` and "
            "`tips`: the form that waits. `usage`, `trace`: if there are any."
        ),
    ] = {}


class TurnFrame(BaseModel):
    """An event of a turn. The first frame of a run without events has `session_id` and an empty `data` only."""

    session_id: str
    data: Annotated[dict[str, Any], Field(description="By event; of a `message` the next piece is `content`.")]
    event: Annotated[
        Literal[
            "workflow_started",
            "node_started",
            "message",
            "message_end",
            "node_finished",
            "user_inputs",
            "workflow_finished",
        ],
        Field(description="What has happened."),
    ] = "message"
    message_id: Annotated[str, Field(description="The run.")] = ""
    created_at: Annotated[int, Field(description="Epoch seconds.")] = 0
    task_id: Annotated[str, Field(description="What `/tasks/ID/cancel` takes.")] = ""


class EmbeddedAgent(BaseModel):
    """An agent as a page presents it."""

    title: str
    avatar: str | None
    inputs: Annotated[dict[str, Any], Field(description="Begin's form, by field.")]
    prologue: Annotated[str, Field(description="What it says first.")]
    mode: str


class WebhookAnswer(BaseModel):
    """The answer of a turn that a webhook has played."""

    message: str
    success: bool
    code: int


class WebhookRefusal(BaseModel):
    """Why a webhook is refused, or has failed."""

    code: int
    message: str
    success: bool = False


class WebhookEvents(BaseModel):
    """What a test of a webhook has shown behind a time."""

    webhook_id: str | None
    events: list[dict[str, Any]]
    next_since_ts: Annotated[float, Field(description="What to ask for next.")]
    finished: bool


class Greeting(BaseModel):
    """What answers here, and where to look further."""

    name: Literal["ragflow-lg"]
    version: str
    openapi: Literal["/openapi.json"]
    health: Literal["/health"]


class Health(BaseModel):
    """The process lives."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether requests can be answered."""

    status: Literal["ready", "stopping", "failing"]
    parts: dict[str, Literal["ok", "failed", "timed out"]]
