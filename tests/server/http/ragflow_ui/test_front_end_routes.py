from pathlib import Path

from tests.server.http.app_server import ECHO
from tests.server.http.ragflow_ui.ui_server import start_ui

AGENT_ROUTES = """\
GET /agents
POST /agents
GET /agents/tags
GET /agents/templates
GET /agents/prompts
GET /agents/download
POST /agents/chat/completions
POST /agents/rerun
POST /agents/test_db_connection
GET /agents/AGENT
PUT /agents/AGENT
POST /agents/AGENT/reset
PUT /agents/AGENT/tags
GET /agents/AGENT/versions
GET /agents/AGENT/versions/0
GET /agents/AGENT/components/begin/input-form
POST /agents/AGENT/components/begin/debug
GET /agents/AGENT/logs/0
POST /agents/AGENT/upload
GET /agents/AGENT/sessions
POST /agents/AGENT/sessions
GET /agents/AGENT/sessions/0
DELETE /agents/AGENT/sessions/0
POST /agents/AGENT/webhook/test
GET /agents/AGENT/webhook/logs
GET /agents/attachments/0/download
GET /agentbots/AGENT/inputs
POST /agentbots/AGENT/completions
GET /agentbots/AGENT/logs/0
POST /tasks/0/cancel
PATCH /tasks/0
DELETE /agents/AGENT
"""
"""What the pages of agents ask for."""

OTHER_ROUTES = """\
GET /auth/login/channels
POST /auth/login
POST /auth/logout
GET /users/me
POST /users
GET /users/me/models
GET /tenants
GET /tenants/tenant/users
GET /system/version
GET /system/config
GET /system/tokens
GET /language
GET /models
GET /models/default
GET /providers
GET /datasets
GET /datasets/metadata/flattened
GET /mcp/servers
GET /plugin/tools
GET /memories
GET /pipelines
GET /compilation-templates
GET /thumbnails
POST /documents/upload
POST /chat/audio/speech
GET /chats
GET /searches
GET /files
"""
"""What the other pages ask for."""


async def test_every_route_of_the_front_end_answers(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        for route in (AGENT_ROUTES + OTHER_ROUTES).splitlines():
            method, path = route.replace("AGENT", agent_id).split(" ")
            content = "{}" if method in ("POST", "PUT", "PATCH") else None
            answer = await server.client.request(method, path, content=content)
            assert answer.status_code not in (404, 405, 500) or answer.json().get("code") == 102, (route, answer.text)
