"""Bodies and queries of RAGFlow's routes for agents."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragflow_lg.server.database.tables import TITLE_CHARS
from ragflow_lg.server.http.shared.route_schemas import Fields, Flag, Pages, Text, with_examples

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


class AgentFilters(Pages):
    """Which agents to list."""

    id: Annotated[str, Field(description="Only the agent with this id.")] = ""
    title: Annotated[str, Field(description="Only agents with this title.")] = ""
    keywords: Annotated[str, Field(description="Only agents whose title or tags contain this text.")] = ""
    canvas_category: Annotated[str, Field(description="Only these categories, separated by commas.")] = ""
    canvas_type: Annotated[str, Field(description="Only agents of this type.")] = ""
    tags: Annotated[Text, Field(description="Only agents with one of these tags, separated by commas.")] = ""
    owner_ids: Annotated[str, Field(description="Tenants, separated by commas; only your own is allowed.")] = ""
    type: Annotated[str, Field(description="`filter`: return the filter values instead of a list.")] = ""
    orderby: Annotated[str, Field(description="`create_time`, `update_time` or `title`.")] = "create_time"
    desc: Annotated[str, Field(description="`false`: sort in ascending order.")] = "true"


class AgentChange(Fields):
    """Changes to an agent."""

    model_config = with_examples({"title": "Parcels", "dsl": _SAMPLE_CANVAS})

    title: Annotated[Text, Field(description=f"1 to {TITLE_CHARS} characters.")] = ""
    dsl: Annotated[Any, Field(description="Canvas, as an object or as JSON text.")] = None
    description: Text = ""
    avatar: Annotated[Text, Field(description="Picture as a `data:` URI.")] = ""
    canvas_type: Annotated[Text, Field(description="At most 64 characters.")] = ""
    canvas_category: Annotated[Text, Field(description="At most 32 characters.")] = ""
    permission: Annotated[Text, Field(description="Stored only: agents are always private to their tenant.")] = ""
    release: Annotated[Flag, Field(description="Whether to publish the draft.")] = False


class TagsBody(Fields):
    """All of an agent's tags."""

    model_config = with_examples({"tags": ["parcels", "shop"]})

    tags: Annotated[Any, Field(description="List of tags, or a text separated by commas.")] = None
