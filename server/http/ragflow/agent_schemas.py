"""Bodies, parameters and responses of RAGFlow's routes for agents. Some responses omit fields that have a default."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ragflow_lg.server.database.tables import TITLE_CHARS
from ragflow_lg.server.http.shared.described_routes import COMPAT, DESC, PAGES, describe_query
from ragflow_lg.server.http.shared.route_schemas import Answer, Counted, Dated, LazyModel, Ms, with_examples

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

DSL_VERSION = describe_query("dsl_version", "Version of the DSL of the canvas.", enum=["v1", "v2"], default="v1")

AGENT_FILTERS = (
    describe_query("id", "Only the agent with this id."),
    describe_query("title", "Only agents with this title."),
    describe_query("keywords", "Only agents whose title or tags contain this text."),
    describe_query("canvas_category", "Only these categories, separated by commas."),
    describe_query("canvas_type", "Only agents of this type."),
    describe_query("tags", "Only agents with one of these tags, separated by commas."),
    describe_query("owner_ids", "Only agents of these tenants, separated by commas; only your own tenant is allowed."),
    describe_query("type", "`filter`: return the filter values instead of a list."),
    describe_query(
        "orderby", "Column to sort by.", enum=["create_time", "update_time", "title"], default="create_time"
    ),
    *PAGES,
    DESC,
    COMPAT,
)

Canvas = dict[str, Any]


class _AgentFields(LazyModel):
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

    model_config = with_examples({"title": "Parcels", "release": True})

    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)] | None = None
    dsl: Annotated[Canvas | str | None, Field(description="Canvas, as an object or as JSON text.")] = None


class NewAgent(_AgentFields):
    """An agent to create."""

    model_config = with_examples({"title": "Parcels", "dsl": _SAMPLE_CANVAS})

    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)]
    dsl: Annotated[Canvas | str, Field(description="Canvas, as an object or as JSON text.")]


class TagsBody(LazyModel):
    """All of an agent's tags."""

    model_config = with_examples({"tags": ["parcels", "shop"]})

    tags: Annotated[list[str] | str | None, Field(description="List of tags, or a text separated by commas.")]


PublishedMs = Annotated[int | None, Field(description="Epoch milliseconds of the last published version.")]


class _Agent(LazyModel):
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


class AgentPage(LazyModel):
    """A page of agents."""

    canvas: list[AgentRow]
    total: int


class AgentsFilter(LazyModel):
    """The filter values for agent lists."""

    filter: dict[Literal["owner", "canvas_category"], list[Counted]]
    total: int


class AgentShown(_Agent, Dated):
    """An agent with its draft."""

    dsl: dict[str, Any]
    user_id: str
    last_publish_time: PublishedMs


class UpdateTime(Answer):
    """The time of a change."""

    update_time: Ms


class TagCounted(Answer):
    """A tag and the number of agents that have it."""

    tag: str
    count: int


class Prompts(Answer):
    """The default prompts, which a canvas can replace."""

    task_analysis: str
    plan_generation: str
    reflection: str
    citation_guidelines: str


class TemplateShown(LazyModel):
    """A canvas from which to create an agent."""

    id: str
    title: Annotated[dict[str, str], Field(description="By language.")]
    description: Annotated[dict[str, str], Field(description="By language.")]
    canvas_type: str
    canvas_category: str
    avatar: str | None
    dsl: dict[str, Any]
