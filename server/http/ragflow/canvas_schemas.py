"""Bodies and responses of RAGFlow's routes of 0.25.0 and older for its web pages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragflow_lg.server.database.tables import TITLE_CHARS
from ragflow_lg.server.http.openai.openai_schemas import Release, Stream
from ragflow_lg.server.http.ragflow.agent_schemas import NewAgent
from ragflow_lg.server.http.ragflow.debug_routes import DebugBody
from ragflow_lg.server.http.ragflow.session_schemas import SessionNamed, SessionShown
from ragflow_lg.server.http.ragflow.turn_schemas import TurnBody
from ragflow_lg.server.http.shared.route_schemas import LazyModel, with_examples

AgentId = Annotated[str, Field(description="Id of the agent.")]


class SavedAgent(NewAgent):
    """An agent to create, or with its ``id`` to change."""

    id: AgentId = ""


class AgentSaved(LazyModel):
    """The fields of the request; the canvas is an object, and ``id`` is that of the agent."""

    id: str
    title: str
    dsl: dict[str, Any]
    release: bool


class AgentSettings(LazyModel):
    """Changes to an agent other than its canvas."""

    model_config = with_examples({"id": "0c7f4a1e2b5d11f0", "title": "Parcels", "permission": "me"})

    id: AgentId
    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)]
    permission: Annotated[str, Field(max_length=16, description="Stored only.")]
    description: str = ""
    avatar: Annotated[str, Field(description="Picture as a `data:` URI.")] = ""


class AgentNamed(LazyModel):
    """An agent."""

    id: AgentId


class AgentIds(LazyModel):
    """Agents to delete."""

    canvas_ids: list[str]


class ComponentRun(DebugBody):
    """A component to run alone."""

    model_config = with_examples(
        {"id": "0c7f4a1e2b5d11f0", "component_id": "LLM:0", "params": {"sys.query": {"value": "Hi"}}}
    )

    id: AgentId
    component_id: str


class EditorTurn(TurnBody):
    """A turn; it is always streamed."""

    model_config = with_examples({"query": "Where is my parcel?"})

    stream: Stream = True
    release: Release = False


class AgentTurn(EditorTurn):
    """A turn with the agent ``id``; it is always streamed."""

    model_config = with_examples({"id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?"})

    id: AgentId


class SessionsPage(LazyModel):
    """A page of sessions."""

    total: int
    sessions: list[SessionShown] | list[SessionNamed]
