"""Bodies and responses of RAGFlow's routes of 0.25.0 and older for its web pages, for the document only."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.server.database.tables import TITLE_CHARS
from ragflow_lg.server.http.document.request_bodies import DebugBody, NewAgent, Release, Stream, TurnBody
from ragflow_lg.server.http.document.response_shapes import SessionNamed, SessionShown

AgentId = Annotated[str, Field(description="Id of the agent.")]


class SavedAgent(NewAgent):
    """An agent to create, or with its ``id`` to change."""

    id: AgentId = ""


class AgentSaved(BaseModel):
    """The fields of the request; the canvas is an object, and ``id`` is that of the agent."""

    id: str
    title: str
    dsl: dict[str, Any]
    release: bool


class AgentSettings(BaseModel):
    """Changes to an agent other than its canvas."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "0c7f4a1e2b5d11f0", "title": "Parcels", "permission": "me"}]}
    )

    id: AgentId
    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)]
    permission: Annotated[str, Field(max_length=16, description="Stored only.")]
    description: str = ""
    avatar: Annotated[str, Field(description="Picture as a `data:` URI.")] = ""


class AgentNamed(BaseModel):
    """An agent."""

    id: AgentId


class AgentIds(BaseModel):
    """Agents to delete."""

    canvas_ids: list[str]


class ComponentRun(DebugBody):
    """A component to run alone."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "0c7f4a1e2b5d11f0", "component_id": "LLM:0", "params": {"sys.query": {"value": "Hi"}}}]
        }
    )

    id: AgentId
    component_id: str


class EditorTurn(TurnBody):
    """A turn; it is always streamed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "Where is my parcel?"}]})

    stream: Stream = True
    release: Release = False


class AgentTurn(EditorTurn):
    """A turn with the agent ``id``; it is always streamed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?"}]}
    )

    id: AgentId


class SessionsPage(BaseModel):
    """A page of sessions."""

    total: int
    sessions: list[SessionShown] | list[SessionNamed]
