from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.ragflow_ui.front_end import OLDER_REASONS, REASONS, RESERVED, SHARED_AREAS, check_build
from tests.server.http.app_server import ECHO, start_app
from tests.server.http.ragflow_ui.ui_server import PAGE, SCRIPT, start_ui


async def test_files_and_pages_are_served_beside_the_apis(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for path in ("/", "/index.html", "/agents", "/agent/0123/explore", "/login", "/agents/"):
            page = await server.client.get(f"{server.url}{path}")
            assert (page.status_code, page.text) == (200, PAGE), path
            assert page.headers["cache-control"] == "no-cache"
            assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
        script = await server.client.get(f"{server.url}/entry/js/index-1a2b.js")
        assert script.text == SCRIPT
        assert script.headers["content-encoding"] == "gzip"
        assert "immutable" in script.headers["cache-control"]
        again = await server.client.get(
            f"{server.url}/entry/js/index-1a2b.js", headers={"If-None-Match": script.headers["etag"]}
        )
        assert again.status_code == 304
        assert (await server.client.get(f"{server.url}/health")).json() == {"status": "ok"}
        for path in ("/api/v1/nothing", "/v1/nothing", "/native/v1/nothing"):
            missing = await server.client.get(f"{server.url}{path}")
            assert missing.status_code == 404
            assert "default-src 'none'" in missing.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["/../secret.txt", "/%2e%2e/secret.txt", "/entry/..%2f..%2fsecret.txt", "/..%5csecret.txt", "/missing.js"]
)
async def test_nothing_outside_the_build_is_served(tmp_path: Path, path: str) -> None:
    async with start_ui(tmp_path) as server:
        answer = await server.client.get(f"{server.url}{path}")
        assert answer.status_code == 404
        assert "secret" not in answer.text.replace("secret.txt", "")


async def test_only_shared_pages_can_be_embedded_and_only_by_allowed_origins(tmp_path: Path) -> None:
    async with start_ui(tmp_path, allow_origins=("https://shop.example",)) as server:
        share = await server.client.get(f"{server.url}/agent/share?shared_id=1")
        assert share.headers["content-security-policy"].endswith("frame-ancestors 'self' https://shop.example")
        editor = await server.client.get(f"{server.url}/agent/0123")
        assert editor.headers["content-security-policy"].endswith("frame-ancestors 'self'")


async def test_no_path_of_an_api_is_hidden(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        document = (await server.client.get(f"{server.url}/openapi.json")).json()
        assert {path.split("/")[1] for path in document["paths"]} | {"openapi.json"} == RESERVED | {""}


async def test_the_front_end_is_off_by_default(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        assert (await server.client.get(f"{server.url}/")).json()["name"] == "ragflow-lg"
        assert (await server.client.get("/system/config")).status_code == 404
        assert (await server.client.get(f"{server.url}/agents")).status_code == 404


def test_a_folder_without_a_build_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web").mkdir()
    for folder, problem in (("web", "has no index.html"), ("web/dist", "does not exist")):
        with pytest.raises(SettingsError) as refused:
            check_build(Path(folder))
        assert f"'{folder}', but '{tmp_path}/{folder}' {problem}: build RAGFlow's folder web/" in str(refused.value)


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


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "/datasets", "[knowledge]"),
        ("POST", "/datasets/0123/documents", "[knowledge]"),
        ("POST", "/chats", "chat assistants"),
        ("GET", "/files", "file manager"),
        ("POST", "/chat/audio/speech", "neither speaks nor listens"),
        ("POST", "/users", "[server.users]"),
        ("PATCH", "/users/me", "[server.users]"),
        ("POST", "/system/tokens", "`ragflow-lg keys create`"),
        ("POST", "/mcp/servers", "[mcp]"),
        ("POST", "/memories", "memories"),
        ("PUT", "/providers", "[providers]"),
        ("PATCH", "/models/default", "[providers]"),
        ("DELETE", "/providers/OpenAI", "[providers]"),
        ("GET", "/pipelines/general", "ingestion pipelines"),
    ],
)
async def test_a_reason_is_given_for_what_the_server_does_not_have(
    tmp_path: Path, method: str, path: str, reason: str
) -> None:
    async with start_ui(tmp_path) as server:
        answer = await server.client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (200, 102)
        assert reason in answer.json()["message"]


@pytest.mark.parametrize("area", sorted(SHARED_AREAS))
async def test_visitors_of_shared_pages_get_the_reason_without_a_key(tmp_path: Path, area: str) -> None:
    async with start_ui(tmp_path) as server:
        for key in ("", "Bearer beta-of-a-page"):
            answer = await server.client.get(f"/{area}/0123/info", headers={"Authorization": key})
            expected = {"code": 102, "message": REASONS[area], "data": {"title": REASONS[area]}}
            assert (answer.status_code, answer.json()) == (200, expected)


async def test_other_reasons_need_a_key(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for area in sorted(REASONS.keys() - SHARED_AREAS):
            answer = await server.client.post(f"/{area}/0123", headers={"Authorization": ""})
            assert answer.status_code == 401, area


@pytest.mark.parametrize("area", OLDER_REASONS)
async def test_front_ends_of_0_25_get_the_same_reasons(tmp_path: Path, area: str) -> None:
    async with start_ui(tmp_path) as server:
        answer = await server.client.post(f"{server.url}/v1/{area}/set")
        assert (answer.status_code, answer.json()["message"]) == (200, OLDER_REASONS[area])


async def test_paths_that_only_begin_alike_stay_unknown(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for area in REASONS:
            assert (await server.client.get(f"/{area}-of-nobody")).status_code == 404
