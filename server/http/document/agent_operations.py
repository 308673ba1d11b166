"""Descriptions of RAGFlow's routes for agents, sessions, versions, files and debugging."""

from __future__ import annotations

from typing import Any, Literal

from ragflow_lg.server.http.document.descriptions import Route, describe_pages
from ragflow_lg.server.http.document.request_bodies import (
    AgentChange,
    DatabaseBody,
    DebugBody,
    NewAgent,
    NewSession,
    NewVersion,
    RerunBody,
    SessionIds,
    TagsBody,
)
from ragflow_lg.server.http.document.response_shapes import (
    AgentPage,
    AgentRow,
    AgentsFilter,
    AgentShown,
    Deleted,
    Prompts,
    SessionNamed,
    SessionShown,
    TagCounted,
    TemplateShown,
    Traced,
    UpdateTime,
    VersionItem,
    VersionShown,
)
from ragflow_lg.server.http.shared.described_routes import describe_header, describe_query

COMPAT = describe_header(
    "X-RAGFlow-Compat",
    "RAGFlow version that the client is written for: `current`, `0.25.1` for 0.25.1 to 0.25.6 (long pages), or `0.24` "
    "for 0.25.0 and older (other response shapes, long pages). Default: the setting of the key.",
    enum=["current", "0.25.1", "0.24"],
)
True_ = Literal[True]

AGENT_ROUTES: dict[str, Route] = {
    "GET /api/v1/agents": Route(
        answer=AgentPage | AgentsFilter | list[AgentRow],
        parameters=(
            describe_query("id", "Only the agent with this id."),
            describe_query("title", "Only agents with this title."),
            describe_query("keywords", "Only agents whose title or tags contain this text."),
            describe_query("canvas_category", "Only these categories, separated by commas."),
            describe_query("canvas_type", "Only agents of this type."),
            describe_query("tags", "Only agents with one of these tags, separated by commas."),
            describe_query(
                "owner_ids", "Only agents of these tenants, separated by commas; only your own tenant is allowed."
            ),
            describe_query("type", "`filter`: return the filter values instead of a list."),
            describe_query(
                "orderby", "Column to sort by.", enum=["create_time", "update_time", "title"], default="create_time"
            ),
            *describe_pages(),
            COMPAT,
        ),
    ),
    "POST /api/v1/agents": Route(answer=AgentShown | True_, body=NewAgent, parameters=(COMPAT,)),
    "GET /api/v1/agents/{agent_id}": Route(answer=AgentShown, parameters=(COMPAT,)),
    "PUT /api/v1/agents/{agent_id}": Route(answer=UpdateTime | True_, body=AgentChange, parameters=(COMPAT,)),
    "PATCH /api/v1/agents/{agent_id}": Route(answer=UpdateTime | True_, body=AgentChange, parameters=(COMPAT,)),
    "DELETE /api/v1/agents/{agent_id}": Route(answer=True_),
    "GET /api/v1/agents/tags": Route(
        answer=list[TagCounted], parameters=(describe_query("canvas_category", "Only agents of this category."),)
    ),
    "PUT /api/v1/agents/{agent_id}/tags": Route(answer=True_, body=TagsBody),
    "POST /api/v1/agents/test_db_connection": Route(answer=str, body=DatabaseBody),
    "POST /api/v1/agents/rerun": Route(answer=True_, body=RerunBody),
    "GET /api/v1/agents/templates": Route(answer=list[TemplateShown]),
    "GET /api/v1/agents/prompts": Route(answer=Prompts),
    # sessions
    "POST /api/v1/agents/{agent_id}/sessions": Route(
        "plain", SessionShown, NewSession, is_body_required=False, parameters=(COMPAT,)
    ),
    "GET /api/v1/agents/{agent_id}/sessions": Route(
        "listing",
        list[SessionShown] | list[SessionNamed],
        parameters=(
            describe_query("id", "Only the session with this id."),
            describe_query("user_id", "Only sessions of this user."),
            describe_query(
                "exp_user_id", "Only sessions with this `exp_user_id`: all on one page, with ids and names only."
            ),
            describe_query("keywords", "Only sessions whose messages contain this text."),
            describe_query("from_date", "Only sessions from this time on, in ISO 8601; UTC without a zone."),
            describe_query("to_date", "Only sessions up to this time."),
            describe_query("dsl", "Whether to include the canvas of each session.", "boolean", default=True),
            describe_query("orderby", "Column to sort by.", enum=["create_time", "update_time"], default="update_time"),
            *describe_pages(),
            COMPAT,
        ),
    ),
    "DELETE /api/v1/agents/{agent_id}/sessions": Route(
        "plain",
        Deleted | None,
        SessionIds,
        is_body_required=False,
        parameters=(
            describe_query("ids", "Same as in the body.", "array", items={"type": "string"}),
            describe_query("delete_all", "Same as in the body.", "boolean"),
        ),
    ),
    "GET /api/v1/agents/{agent_id}/sessions/{session_id}": Route(answer=SessionShown),
    "DELETE /api/v1/agents/{agent_id}/sessions/{session_id}": Route(answer=Literal[1]),
    # versions
    "GET /api/v1/agents/{agent_id}/versions": Route(answer=list[VersionItem]),
    "POST /api/v1/agents/{agent_id}/versions": Route(answer=VersionShown, body=NewVersion, is_body_required=False),
    "POST /api/v1/agents/{agent_id}/publish": Route(answer=VersionShown, body=NewVersion, is_body_required=False),
    "GET /api/v1/agents/{agent_id}/versions/{version_id}": Route(answer=VersionShown),
    "DELETE /api/v1/agents/{agent_id}/versions/{version_id}": Route(answer=True_),
    # debugging
    "POST /api/v1/agents/{agent_id}/reset": Route(answer=dict[str, Any]),
    "GET /api/v1/agents/{agent_id}/components/{component_id}/input-form": Route(answer=dict[str, Any]),
    "POST /api/v1/agents/{agent_id}/components/{component_id}/debug": Route(answer=dict[str, Any], body=DebugBody),
    "GET /api/v1/agents/{agent_id}/logs/{message_id}": Route(answer=list[Traced] | dict[str, Any]),
    "GET /api/v1/agentbots/{agent_id}/logs/{message_id}": Route(answer=dict[str, Any], key="BetaKey"),
}
