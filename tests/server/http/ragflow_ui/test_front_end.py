from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.ragflow_ui.front_end import RESERVED, check_build
from tests.server.http.app_server import ECHO, AppServer
from tests.server.http.ragflow_ui.ui_server import PAGE, SCRIPT, start_ui


async def test_files_and_pages_are_served_beside_the_apis(ui: AppServer) -> None:
    for path in ("/", "/index.html", "/agents", "/agent/0123/explore", "/login", "/agents/"):
        page = await ui.client.get(f"{ui.url}{path}")
        assert (page.status_code, page.text) == (200, PAGE), path
        assert page.headers["cache-control"] == "no-cache"
        assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    script = await ui.client.get(f"{ui.url}/entry/js/index-1a2b.js")
    assert (script.text, script.headers["content-encoding"]) == (SCRIPT, "gzip")
    assert "immutable" in script.headers["cache-control"]
    again = await ui.client.get(f"{ui.url}/entry/js/index-1a2b.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, await ui.get(f"{ui.url}/health")) == (304, {"status": "ok"})
    for path in ("/api/v1/nothing", "/v1/nothing", "/native/v1/nothing"):
        missing = await ui.client.get(f"{ui.url}{path}")
        assert missing.status_code == 404
        assert "default-src 'none'" in missing.headers["content-security-policy"]


async def test_nothing_outside_the_build_is_served(ui: AppServer) -> None:
    for path in ("/../", "/%2e%2e/", "/entry/..%2f..%2f", "/..%5c", "/missing/"):
        answer = await ui.client.get(f"{ui.url}{path}secret.txt")
        assert (answer.status_code, "secret" in answer.text.replace("secret.txt", "")) == (404, False), path
    document = await ui.get(f"{ui.url}/openapi.json")
    assert {path.split("/")[1] for path in document["paths"]} | {"openapi.json"} == RESERVED | {""}


async def test_only_shared_pages_can_be_embedded_and_only_by_allowed_origins(tmp_path: Path) -> None:
    async with start_ui(tmp_path, allow_origins=("https://shop.example",)) as server:
        share = await server.client.get(f"{server.url}/agent/share?shared_id=1")
        assert share.headers["content-security-policy"].endswith("frame-ancestors 'self' https://shop.example")
        editor = await server.client.get(f"{server.url}/agent/0123")
        assert editor.headers["content-security-policy"].endswith("frame-ancestors 'self'")


async def test_the_front_end_is_off_by_default(server: AppServer) -> None:
    assert (await server.get(f"{server.url}/"))["name"] == "ragflow-lg"
    assert (await server.get("/system/config"))["code"] == 102
    assert (await server.client.get(f"{server.url}/agents")).status_code == 404


def test_a_folder_without_a_build_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web").mkdir()
    for folder, problem in (("web", "has no index.html"), ("web/dist", "does not exist")):
        with pytest.raises(SettingsError) as refused:
            check_build(Path(folder))
        assert f"'{folder}', but '{tmp_path}/{folder}' {problem}: build RAGFlow's folder web/" in str(refused.value)


async def test_every_route_of_the_front_end_answers(ui: AppServer) -> None:
    agent_id = await ui.agent(ECHO)
    for route in ROUTES.replace("A/", "agents/ID/").replace("A,", "agents/ID,").strip().split(","):
        method, path = route.strip().replace("ID", agent_id).replace("TENANT", ui.tenant).split(" ")
        content = "{}" if method in ("POST", "PUT", "PATCH") else None
        answer = await ui.client.request(method, f"/{path}", content=content)
        assert answer.status_code not in (404, 405, 500) or answer.json().get("code") == 102, (route, answer.text)


ROUTES = """
GET agents, POST agents, GET agents/tags, GET agents/templates, GET agents/prompts, GET agents/download,
POST agents/chat/completions, POST agents/rerun, POST agents/test_db_connection, GET A, PUT A, POST A/reset,
PUT A/tags, GET A/versions, GET A/versions/0, GET A/components/begin/input-form, POST A/components/begin/debug,
GET A/logs/0, POST A/upload, GET A/sessions, POST A/sessions, GET A/sessions/0, DELETE A/sessions/0,
POST A/webhook/test, GET A/webhook/logs, GET agents/attachments/0/download, GET agentbots/ID/inputs,
POST agentbots/ID/completions, GET agentbots/ID/logs/0, POST tasks/0/cancel, PATCH tasks/0, DELETE A,
GET auth/login/channels, POST auth/login, POST auth/logout, GET users/me, POST users, GET users/me/models,
GET tenants, GET tenants/TENANT/users, GET system/version, GET system/config, GET system/tokens, GET language,
GET models, GET models/default, GET providers, GET datasets, GET datasets/metadata/flattened, GET mcp/servers,
GET plugin/tools, GET memories, GET pipelines, GET compilation-templates, GET thumbnails, POST documents/upload,
POST chat/audio/speech, GET chats, GET searches, GET files
"""
