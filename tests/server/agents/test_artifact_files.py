"""Artifacts in a running server: links, downloads, expiry and quotas."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.server.agents.retention import delete_expired_files
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.settings.component_sections import CodeSection
from ragflow_lg.services.code import Artifact, CodeResult
from tests.fakes.code import ScriptedSandbox
from tests.fakes.images import PNG
from tests.server.http.app_server import AppServer, canvas, start_app

FILES = (
    Artifact("chart.png", "image/png", PNG),
    Artifact("data.csv", "text/csv", b"a,b\n1,2\n"),
    Artifact("page.html", "text/html", b"<script>alert(1)</script><p>Hello</p>"),
)
RUNS = canvas(
    ("begin", "Begin", {}, ["CodeExec:0"]),
    ("CodeExec:0", "CodeExec", {"script": "x", "outputs": {"r": {"type": "Any"}}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{CodeExec:0@attachments}\n{CodeExec:0@content}"]}, []),
)


def with_files(server: AppServer) -> None:
    """Let every program create the files."""
    code: Any = ScriptedSandbox(CodeResult("", "", 0, True, 1, FILES))
    services = replace(server.app_state.services, code=code)
    server.app_state = replace(server.app_state, services=services)
    server.app.state.app_state = server.app_state
    server.turns._app_state = server.app_state


async def answer_of(server: AppServer, agent_id: str) -> str:
    return (await server.ask(agent_id))["data"]["data"]["content"]


async def test_artifacts_are_linked_and_downloaded(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        with_files(server)
        answer = await answer_of(server, await server.agent(RUNS))
        urls = re.findall(r"\((/api/v1/documents/artifact/[0-9a-f]{32}\.\w+)\)", answer)
        assert f"![chart.png]({urls[0]})" in answer
        assert f"[Download data.csv]({urls[1]})" in answer
        assert "attachment2 (csv): data.csv\na,b\n1,2\n\nattachment3 (html): page.html\nHello" in answer
        image, table, page = [await server.client.get(server.url + url) for url in urls]
        assert (image.content, image.headers["content-type"]) == (PNG, "image/png")
        assert image.headers["content-disposition"].startswith("inline")
        assert (table.text, table.headers["content-type"]) == ("a,b\n1,2\n", "text/csv; charset=utf-8")
        assert page.headers["content-type"] == "application/octet-stream", "a browser must not run it"
        assert page.headers["content-disposition"].startswith("attachment")
        listed = (await server.client.get(f"{server.url}/native/v1/files")).json()["files"]
        assert {file["name"] for file in listed} == {"chart.png", "data.csv", "page.html"}
        assert all(6.9 < (file["expires_at"] - file["created_at"]) / 86_400 < 7.1 for file in listed)


async def test_other_tenants_and_visitors_without_a_key_see_nothing(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        with_files(server)
        answer = await answer_of(server, await server.agent(RUNS))
        (url, *_) = re.findall(r"\((/api/v1/documents/artifact/[^)]+)\)", answer)
        other = await KeyRepository(server.app_state.database).create("other", 1)
        for header in ({"Authorization": f"Bearer {other}"}, {"Authorization": ""}):
            response = await server.client.get(server.url + url, headers=header)
            assert PNG not in response.content
            assert response.json()["code"] in (102, 401)
        for odd in ("x.png", "..%2f..%2fserver.db", "0" * 32 + ".png"):
            assert (await server.client.get(f"/documents/artifact/{odd}")).json()["code"] != 0


async def test_artifacts_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path, sections={"code": CodeSection(artifact_days=1)}) as server:
        with_files(server)
        agent_id = await server.agent(RUNS)
        answer = await answer_of(server, agent_id)
        (url, *_) = re.findall(r"\((/api/v1/documents/artifact/[^)]+)\)", answer)
        sent = [("file", ("notes.txt", b"kept", "text/plain"))]
        upload = (await server.client.post(f"/agents/{agent_id}/upload", files=sent)).json()["data"]["id"]
        assert await delete_expired_files(server.app_state) == 0
        now = server.app_state.services.clock.now()

        def tomorrow(_: object) -> float:
            return now + 86_401

        monkeypatch.setattr(type(server.app_state.services.clock), "now", tomorrow)
        assert (await server.client.get(server.url + url)).json()["code"] == 102, "before it is deleted"
        assert await delete_expired_files(server.app_state) == 3
        stored = [path.name for path in (tmp_path / "files").rglob("*") if path.is_file()]
        assert stored == [upload]


async def test_an_artifact_over_the_quota_is_not_kept(tmp_path: Path) -> None:
    async with start_app(tmp_path, max_files=1) as server:
        with_files(server)
        answer = await answer_of(server, await server.agent(RUNS))
        assert answer.startswith('["![chart.png](/api/v1/documents/artifact/')
        assert '"data.csv", "page.html"]' in answer
        assert "The file cannot be downloaded: The tenant has used up its quota files of 1." in answer
