"""Bodies, parameters and responses of RAGFlow's routes for sessions and versions.

Some responses omit fields that have a default.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragflow_lg.server.http.openai.openai_schemas import Release
from ragflow_lg.server.http.ragflow.agent_schemas import Canvas
from ragflow_lg.server.http.shared.described_routes import COMPAT, DESC, PAGES, describe_query
from ragflow_lg.server.http.shared.route_schemas import Answer, Dated, LazyModel, with_examples

SESSION_FILTERS = (
    describe_query("id", "Only the session with this id."),
    describe_query("user_id", "Only sessions of this user."),
    describe_query("exp_user_id", "Only sessions with this `exp_user_id`: all on one page, with ids and names only."),
    describe_query("keywords", "Only sessions whose messages contain this text."),
    describe_query("from_date", "Only sessions from this time on, in ISO 8601; UTC without a zone."),
    describe_query("to_date", "Only sessions up to this time."),
    describe_query("dsl", "Whether to include the canvas of each session.", "boolean", default=True),
    describe_query("orderby", "Column to sort by.", enum=["create_time", "update_time"], default="update_time"),
    *PAGES,
    DESC,
    COMPAT,
)


class NewSession(LazyModel):
    """A session to create."""

    model_config = with_examples({"name": "Ada", "user_id": "ada"})

    name: str = ""
    user_id: str = ""
    exp_user_id: Annotated[str, Field(description="Id by which `GET` finds the session. Default: `user_id`.")] = ""
    release: Release = False


class SessionIds(LazyModel):
    """Sessions to delete."""

    model_config = with_examples({"ids": ["5f0c9a64d4e211f0"]}, {"delete_all": True})

    ids: Annotated[list[str] | None, Field(max_length=100)] = None
    delete_all: bool = False


class NewVersion(LazyModel):
    """A version to publish."""

    model_config = with_examples({"title": "Summer"})

    title: Annotated[str, Field(description="Default: the title of the agent.")] = ""
    description: str = ""
    dsl: Annotated[
        Canvas | str | None,
        Field(description="Canvas that replaces the draft before it is published. Default: the current draft."),
    ] = None


class SessionMessage(LazyModel):
    """A message from the user or the assistant."""

    role: str
    content: str
    id: Annotated[str, Field(description="Id of the run; empty for the opening words.")] = ""
    created_at: Annotated[float, Field(description="Epoch seconds.")] = 0
    reference: Annotated[Any, Field(description="Cited chunks, in lists only.")] = None


class SessionNamed(LazyModel):
    """A session in a user's list."""

    id: str
    name: str | None


class SessionReference(LazyModel):
    """The sources of one answer."""

    chunks: Annotated[dict[str, Any], Field(description="Cited chunks by number.")]
    doc_aggs: Annotated[dict[str, Any], Field(description="Their documents by name.")]


class SessionShown(Dated):
    """A conversation. The agent id is `agent_id` in lists and `dialog_id` in a single session."""

    id: str
    name: str | None
    agent_id: str = ""
    dialog_id: str = ""
    user_id: str | None
    exp_user_id: str | None
    message: list[SessionMessage]
    messages: Annotated[list[SessionMessage], Field(description="Same as `message`, for older clients.")] = Field(
        default=[]
    )
    reference: Annotated[list[SessionReference], Field(description="Sources by answer, in a single session only.")] = (
        Field(default=[])
    )
    tokens: int
    source: Annotated[str, Field(description="`agent`: created by a client. `workflow`: created by a turn.")]
    duration: float
    round: int
    thumb_up: int
    errors: str
    version_title: str
    dsl: dict[str, Any] = Field(default={})


class Deleted(Answer):
    """The result if some sessions could not be deleted."""

    success_count: int
    errors: list[str]


class VersionItem(Dated):
    """A version of an agent's canvas."""

    id: str
    title: str
    user_canvas_id: Annotated[str, Field(description="Id of the agent.")]
    release: Annotated[bool, Field(description="Whether the version is published.")]


class VersionShown(VersionItem):
    """A version with its canvas."""

    description: str | None
    dsl: dict[str, Any]
