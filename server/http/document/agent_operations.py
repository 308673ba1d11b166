"""What the document says of RAGFlow's routes of agents: rows, sessions, versions, files, and trying a draft."""

from __future__ import annotations

from typing import Any, Literal

from ragflow_lg.server.http.document.descriptions import (
    Route,
    describe_header,
    describe_pages,
    describe_query,
)
from ragflow_lg.server.http.document.request_bodies import (
    AgentChange,
    DebugBody,
    NewAgent,
    NewSession,
    NewVersion,
    SessionIds,
    TagsBody,
    UploadBody,
)
from ragflow_lg.server.http.document.response_shapes import (
    AgentPage,
    AgentRow,
    AgentsFilter,
    AgentShown,
    Deleted,
    FileShown,
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

__all__ = ["AGENT_ROUTES", "COMPAT"]

COMPAT = describe_header(
    "X-RAGFlow-Compat",
    "Shapes of which RAGFlow: `current`, or `0.24` for clients up to 0.25.0. Left out: what the key says.",
    enum=["current", "0.24"],
)
True_ = Literal[True]

_NAMED = (
    describe_query("filename", "Name that a browser saves it under."),
    describe_query("ext", "Ending of that name."),
    describe_query("mime_type", "Its media type, in place of the stored one."),
)
_BYTES = {
    "application/octet-stream": "The file.",
    "text/plain": "The file.",
    "image/png": "The file, and so on for other pictures, sound, films and PDF.",
}
_DOWNLOAD = Route("none", parameters=_NAMED, key="AnyKey", raw=_BYTES)

AGENT_ROUTES: dict[str, Route] = {
    "GET /api/v1/agents": Route(
        answer=AgentPage | AgentsFilter | list[AgentRow],
        parameters=(
            describe_query("id", "Only the agent of this id."),
            describe_query("title", "Only agents of this title."),
            describe_query("keywords", "Only agents whose title has these words."),
            describe_query("canvas_category", "Only these categories, with commas between."),
            describe_query("canvas_type", "Only this type."),
            describe_query("tags", "Only agents that have one of these tags, with commas between."),
            describe_query("owner_ids", "Only agents of these tenants, with commas between: your own."),
            describe_query("type", "`filter`: what a list can be narrowed down to, in place of a list."),
            describe_query(
                "orderby", "What comes first.", enum=["create_time", "update_time", "title"], default="create_time"
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
            describe_query("id", "Only the session of this id."),
            describe_query("user_id", "Only sessions of this user."),
            describe_query("exp_user_id", "Only sessions of this user of a page; then with ids and names only."),
            describe_query("keywords", "Only sessions in which these words were said."),
            describe_query("from_date", "Only sessions since then, ISO 8601; without a zone it is UTC."),
            describe_query("to_date", "Only sessions until then."),
            describe_query("dsl", "Whether the canvas comes with each.", "boolean", default=True),
            describe_query("orderby", "What comes first.", enum=["create_time", "update_time"], default="update_time"),
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
            describe_query("ids", "As in the body.", "array", items={"type": "string"}),
            describe_query("delete_all", "As in the body.", "boolean"),
        ),
    ),
    "GET /api/v1/agents/{agent_id}/sessions/{session_id}": Route(answer=SessionShown),
    "DELETE /api/v1/agents/{agent_id}/sessions/{session_id}": Route("plain", True_),
    # versions
    "GET /api/v1/agents/{agent_id}/versions": Route(answer=list[VersionItem]),
    "POST /api/v1/agents/{agent_id}/versions": Route(answer=VersionShown, body=NewVersion, is_body_required=False),
    "POST /api/v1/agents/{agent_id}/publish": Route(answer=VersionShown, body=NewVersion, is_body_required=False),
    "GET /api/v1/agents/{agent_id}/versions/{version_id}": Route(answer=VersionShown),
    "DELETE /api/v1/agents/{agent_id}/versions/{version_id}": Route(answer=True_),
    # files
    "POST /api/v1/agents/{agent_id}/upload": Route(
        answer=FileShown | list[FileShown],
        body=UploadBody,
        body_kind="multipart/form-data",
        is_body_required=False,
        parameters=(
            describe_query("url", "A page to store in place of files.", examples=["https://example.org/prices"]),
        ),
        key="AnyKey",
    ),
    "GET /api/v1/agents/download": Route(
        "none", parameters=(describe_query("id", "Id of the file."), *_NAMED), key="AnyKey", raw=_BYTES
    ),
    "GET /api/v1/agents/attachments/{file_id}/download": _DOWNLOAD,
    "GET /api/v1/agents/attachments/{file_id}/preview": _DOWNLOAD,
    "GET /api/v1/document/download/{file_id}": _DOWNLOAD,
    "GET /v1/document/download/{file_id}": _DOWNLOAD,
    # trying
    "POST /api/v1/agents/{agent_id}/reset": Route(answer=dict[str, Any]),
    "GET /api/v1/agents/{agent_id}/components/{component_id}/input-form": Route(answer=dict[str, Any]),
    "POST /api/v1/agents/{agent_id}/components/{component_id}/debug": Route(answer=dict[str, Any], body=DebugBody),
    "GET /api/v1/agents/{agent_id}/logs/{message_id}": Route(answer=list[Traced] | dict[str, Any]),
    "GET /api/v1/agentbots/{agent_id}/logs/{message_id}": Route(answer=list[Traced] | dict[str, Any], key="BetaKey"),
}
