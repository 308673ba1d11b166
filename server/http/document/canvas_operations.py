"""Descriptions of RAGFlow's routes of 0.25.0 and older for its web pages."""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from ragflow_lg.server.http.document.agent_operations import AGENT_ROUTES
from ragflow_lg.server.http.document.canvas_shapes import (
    AgentIds,
    AgentNamed,
    AgentSaved,
    AgentSettings,
    AgentTurn,
    ComponentRun,
    EditorTurn,
    SavedAgent,
    SessionsPage,
)
from ragflow_lg.server.http.document.descriptions import Route
from ragflow_lg.server.http.document.request_bodies import NewSession
from ragflow_lg.server.http.document.response_shapes import AgentPage, AgentsFilter, AgentShown, SessionShown, Traced
from ragflow_lg.server.http.document.turn_operations import TURN_ROUTES
from ragflow_lg.server.http.shared.answers import Refusal
from ragflow_lg.server.http.shared.described_routes import describe_query

_SAME = {
    "GET /templates": "GET /api/v1/agents/templates",
    "GET /prompts": "GET /api/v1/agents/prompts",
    "GET /get/{agent_id}": "GET /api/v1/agents/{agent_id}",
    "GET /getlistversion/{agent_id}": "GET /api/v1/agents/{agent_id}/versions",
    "GET /getversion/{version_id}": "GET /api/v1/agents/{agent_id}/versions/{version_id}",
    "PUT /cancel/{task_id}": "POST /api/v1/tasks/{task_id}/cancel",
    "POST /test_db_connect": "POST /api/v1/agents/test_db_connection",
    "POST /rerun": "POST /api/v1/agents/rerun",
    "GET /{agent_id}/sessions/{session_id}": "GET /api/v1/agents/{agent_id}/sessions/{session_id}",
    "DELETE /{agent_id}/sessions/{session_id}": "DELETE /api/v1/agents/{agent_id}/sessions/{session_id}",
}
"""Other names for current routes."""

_CURRENT = AGENT_ROUTES | TURN_ROUTES
_AGENTS = replace(_CURRENT["GET /api/v1/agents"], answer=AgentPage | AgentsFilter)
_TURN = replace(_CURRENT["POST /api/v1/agents/chat/completions"], surface="none", answer=Refusal, more={})
_AGENT = describe_query("id", "Id of the agent.")

_DIFFERENT: dict[str, Route] = {
    "GET /list": _AGENTS,
    "GET /listteam": _AGENTS,
    "POST /set": Route(answer=AgentSaved, body=SavedAgent),
    "POST /setting": Route(answer=Literal[1], body=AgentSettings),
    "POST /rm": Route(answer=Literal[True], body=AgentIds),
    "GET /getsse/{agent_id}": Route(answer=AgentShown, key="BetaKey"),
    "POST /completion": replace(_TURN, body=AgentTurn),
    "POST /{agent_id}/completion": replace(_TURN, body=EditorTurn),
    "POST /reset": Route(answer=dict[str, Any], body=AgentNamed),
    "GET /input_form": Route(
        answer=dict[str, Any],
        parameters=(_AGENT, describe_query("component_id", "Id of the component.")),
    ),
    "POST /debug": Route(answer=dict[str, Any], body=ComponentRun),
    "GET /trace": Route(
        answer=list[Traced] | dict[str, Any],
        parameters=(
            describe_query("canvas_id", "Id of the agent."),
            describe_query("message_id", "Id of the run: the `message_id` of its frames."),
        ),
        key="AnyKey",
    ),
    "GET /{agent_id}/sessions": replace(
        _CURRENT["GET /api/v1/agents/{agent_id}/sessions"], surface="envelope", answer=SessionsPage
    ),
    "PUT /{agent_id}/sessions": Route(answer=SessionShown, body=NewSession, is_body_required=False),
}


def _under_canvas(route: str) -> str:
    method, _, path = route.partition(" ")
    return f"{method} /v1/canvas{path}"


CANVAS_ROUTES: dict[str, Route] = {
    **{_under_canvas(route): _CURRENT[current] for route, current in _SAME.items()},
    **{_under_canvas(route): described for route, described in _DIFFERENT.items()},
}
