"""What the native API answers. Times are epoch milliseconds, 0 where it has not happened."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from ragflow_lg.server.http.shared.responses import encode_json

__all__ = [
    "CheckAnswer",
    "DiagnosticAnswer",
    "HistoryAnswer",
    "MessageAnswer",
    "MomentAnswer",
    "NodeAnswer",
    "PauseAnswer",
    "RunAnswer",
    "RunListAnswer",
    "RunState",
    "SessionAnswer",
    "SessionListAnswer",
    "SessionWhole",
    "UsageAnswer",
    "VersionAnswer",
    "VersionListAnswer",
    "VersionWhole",
    "respond_model",
]

RunState = Literal["running", "succeeded", "failed", "cancelled", "waiting", "answered", "interrupted", "refused"]
"""How a run stands. ``waiting`` has asked the user something, ``answered`` had and another run went on from there;
``interrupted`` was stopped with its process and can be continued; ``refused`` never began."""


class PauseAnswer(BaseModel):
    """A form that waits for its user."""

    id: Annotated[str, Field(examples=["5f0c9a64d4e2f1a8b7c6d5e4f3a2b1c0"])]
    node: Annotated[str, Field(description="Id of the component that asks.", examples=["UserFillUp:Size"])]
    tips: Annotated[str, Field(description="What the user is told.")]
    fields: Annotated[dict[str, Any], Field(description="The form as the canvas declares it, by field.")]
    answer_schema: Annotated[dict[str, Any], Field(description="JSON Schema of the answer.")]


class UsageAnswer(BaseModel):
    """What the models have counted."""

    prompt_tokens: int
    completion_tokens: int


class RunAnswer(BaseModel):
    """One run: a turn, or a part of one."""

    id: Annotated[str, Field(examples=["9b1f0d9e3c5a4f6e8d7c6b5a49382716"])]
    agent_id: str
    session_id: str
    version_id: Annotated[str, Field(description="The version of the canvas that it was played with.")]
    parent_run_id: Annotated[str, Field(description="The run that this one goes on from, empty if there is none.")]
    status: RunState
    error: Annotated[str, Field(description="What stopped it; empty if nothing did.")]
    answer: Annotated[str, Field(description="What was said; that of an interrupted run is not known.")]
    reference: Annotated[list[Any], Field(description="The chunks that the answer cites.")]
    pauses: Annotated[list[PauseAnswer], Field(description="What it waits for.")]
    checkpoint: Annotated[str, Field(description="Where it ended or waits; to be forked at.")]
    usage: UsageAnswer
    start_ms: int
    end_ms: int


class RunListAnswer(BaseModel):
    """Runs, the newest first, without answers and pauses."""

    runs: list[RunAnswer]
    total: int


class MessageAnswer(BaseModel):
    """What one side said."""

    role: Annotated[str, Field(examples=["user", "assistant"])]
    content: str
    run_id: str
    reference: list[Any]
    create_ms: int


class SessionAnswer(BaseModel):
    """A conversation."""

    id: str
    agent_id: str
    version_id: Annotated[str, Field(description="The version of the canvas that it keeps to.")]
    name: str
    user_id: str
    turns: Annotated[int, Field(description="How many runs were kept.")]
    tokens: int
    create_ms: int
    update_ms: int


class SessionListAnswer(BaseModel):
    """A page of sessions, the one that was used last first."""

    sessions: list[SessionAnswer]
    total: int


class SessionWhole(SessionAnswer):
    """A conversation with all that was said, and what it waits for."""

    messages: list[MessageAnswer]
    pauses: list[PauseAnswer]
    is_busy: Annotated[bool, Field(description="Whether a run of it goes on.")]


class NodeAnswer(BaseModel):
    """A component of the canvas."""

    id: str
    title: str


class MomentAnswer(BaseModel):
    """A stored step. `fork` and `rerun` begin at any."""

    checkpoint: str
    step: int
    create_ms: int
    size_bytes: int
    next: Annotated[list[NodeAnswer], Field(description="The nodes that come next.")]
    region: Annotated[NodeAnswer | None, Field(description="The Loop or Iteration that the step belongs to.")]
    round: Annotated[int | None, Field(description="Its round, from 0.")]


class HistoryAnswer(BaseModel):
    """Steps of a session, the newest first; those of regions stand behind the canvas's own."""

    moments: list[MomentAnswer]
    has_more: bool


class VersionAnswer(BaseModel):
    """A version of an agent's canvas. Its canvas never changes."""

    id: str
    agent_id: str
    title: str
    description: str
    is_draft: bool
    is_published: bool
    create_ms: int
    update_ms: int


class VersionListAnswer(BaseModel):
    """All versions, the newest first."""

    versions: list[VersionAnswer]


class VersionWhole(VersionAnswer):
    """A version with its canvas."""

    dsl: dict[str, Any]


class DiagnosticAnswer(BaseModel):
    """One thing that is wrong with a canvas, or worth knowing."""

    code: Annotated[str, Field(examples=["reference-unknown-node"])]
    severity: Annotated[str, Field(examples=["error", "warning", "info"])]
    pointer: Annotated[str, Field(description="RFC 6901, into the canvas as it was sent.")]
    message: str
    hint: str
    node: str
    title: str
    line: Annotated[int, Field(description="From 1; 0 if not known.")]
    column: int


class CheckAnswer(BaseModel):
    """What a check has found."""

    runs: Annotated[bool, Field(description="Whether the canvas can run.")]
    diagnostics: list[DiagnosticAnswer]


def respond_model(answer: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer with a model. Texts may hold anything: what JSON has no word for is replaced."""
    return Response(encode_json(answer.model_dump()), status, headers, media_type="application/json")
