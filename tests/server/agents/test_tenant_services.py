"""Artifacts in a running server: links, downloads, expiry and quotas."""

import base64
import io
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pypdf import PdfReader

from ragflow_lg.adapters.reports.worker_reports import WorkerReports
from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.local_paths import local_path
from ragflow_lg.integrations.code.programs import CodeResult, CodeSandbox
from ragflow_lg.library import open_runner
from ragflow_lg.server.agents.file_store import FILE_LIMITS
from ragflow_lg.server.agents.retention import delete_expired_files
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.settings.component_sections import ReportsSection
from ragflow_lg.services.artifacts import Artifact
from tests.fakes.code import ScriptedSandbox
from tests.fakes.images import PNG
from tests.ragflow_lg.base.spreadsheets.books import book, cells
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
    """Replace the sandbox by one in which every program creates the files."""
    code: Any = ScriptedSandbox(CodeResult("", "", 0, True, 1, FILES))
    services = replace(server.app_state.services, integrations={CodeSandbox: code})
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
    async with start_app(tmp_path) as server:
        with_files(server)
        agent_id = await server.agent(RUNS)
        answer = await answer_of(server, agent_id)
        (url, *_) = re.findall(r"\((/api/v1/documents/artifact/[^)]+)\)", answer)
        sent = [("file", ("notes.txt", b"kept", "text/plain"))]
        upload = (await server.client.post(f"/agents/{agent_id}/upload", files=sent)).json()["data"]["id"]
        assert await delete_expired_files(server.app_state) == 0
        now = server.app_state.services.clock.now()

        def tomorrow(_: object) -> float:
            return now + 8 * 86_400

        monkeypatch.setattr(type(server.app_state.services.clock), "now", tomorrow)
        assert (await server.client.get(server.url + url)).json()["code"] == 102, "before it is deleted"
        assert await delete_expired_files(server.app_state) == 3
        stored = [path.name for path in (tmp_path / "files").rglob("*") if path.is_file()]
        assert stored == [upload]


async def test_an_artifact_over_the_quota_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILE_LIMITS, "max_files", 1)
    async with start_app(tmp_path) as server:
        with_files(server)
        answer = await answer_of(server, await server.agent(RUNS))
        assert answer.startswith('["![chart.png](/api/v1/documents/artifact/')
        assert '"data.csv", "page.html"]' in answer
        assert "The file cannot be downloaded: The tenant has used up its quota files of 1." in answer


SECTIONS: dict[str, Any] = {"reports": ReportsSection(system_fonts=False)}
TEXT = "# Report on {sys.query}\n\n{CodeExec:0@attachments.0}\n\n| a |\n|---|\n| 1 |"
REPORT = canvas(
    ("begin", "Begin", {}, ["CodeExec:0"]),
    ("CodeExec:0", "CodeExec", {"script": "x", "outputs": {"r": {"type": "Any"}}}, ["DocGenerator:0"]),
    ("DocGenerator:0", "DocGenerator", {"content": TEXT, "filename": "report", "header_text": "H"}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Here: {DocGenerator:0@download}"], "output_format": "docx"}, []),
)


@asynccontextmanager
async def start_server(folder: Path) -> AsyncGenerator[AppServer]:
    """Start a server that writes documents in a worker process, and whose programs all create an image."""
    pool = WorkerPool(1)
    code: Any = ScriptedSandbox(CodeResult("", "", 0, True, 1, (Artifact("chart.png", "image/png", PNG),)))
    try:
        async with start_app(folder, sections=SECTIONS) as server:
            reports = WorkerReports(SECTIONS["reports"].settings, pool)
            services = replace(server.app_state.services, integrations={CodeSandbox: code}, reports=reports)
            server.app_state = replace(server.app_state, services=services)
            server.app.state.app_state = server.app_state
            server.turns._app_state = server.app_state
            yield server
    finally:
        await pool.aclose()


async def end_of(server: AppServer, agent_id: str) -> dict[str, Any]:
    frames = await server.stream(agent_id, "tea")
    (end,) = [frame["data"] for frame in frames if frame.get("event") == "message_end"]
    return end


async def test_a_document_is_offered_and_downloaded(tmp_path: Path) -> None:
    async with start_server(tmp_path) as server:
        end = await end_of(server, await server.agent(REPORT))
        assert list(end) == ["attachment", "downloads"]
        (download,) = end["downloads"]
        assert (download["filename"], download["mime_type"]) == ("report.pdf", "application/pdf")
        assert "include_download_info_in_content" not in download
        shown = await server.client.get(server.url + download["preview_url"])
        assert shown.headers["content-disposition"].startswith('inline; filename="report.pdf"')
        page = PdfReader(io.BytesIO(shown.content)).pages[0]
        assert "Report on tea" in page.extract_text()
        assert len(page.images) == 1
        saved = await server.client.get(f"/agents/attachments/{download['doc_id']}/download?ext=pdf")
        assert saved.headers["content-disposition"].startswith("attachment")
        assert saved.content == shown.content
        assert download["size"] == len(saved.content)


async def test_the_text_of_a_message_is_offered_as_a_file_that_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_server(tmp_path) as server:
        agent_id = await server.agent(REPORT)
        attachment = (await end_of(server, agent_id))["attachment"]
        assert (attachment["format"], attachment["file_name"]) == ("docx", f"{attachment['doc_id'][:8]}.docx")
        path = f"/agents/attachments/{attachment['doc_id']}/download"
        assert (await server.client.get(path)).content.startswith(b"PK")
        now = server.app_state.services.clock.now()

        def tomorrow(_: object) -> float:
            return now + 8 * 86_400

        monkeypatch.setattr(type(server.app_state.services.clock), "now", tomorrow)
        assert (await server.client.get(path)).json()["code"] == 102
        assert await delete_expired_files(server.app_state) == 3


async def test_images_of_other_agents_are_not_shown(tmp_path: Path) -> None:
    async with start_server(tmp_path) as server:
        first = await server.agent(REPORT)
        await end_of(server, first)
        files = (await server.client.get(f"{server.url}/native/v1/files")).json()["files"]
        (chart,) = [file["id"] for file in files if file["name"] == "chart.png"]
        document = canvas(
            ("begin", "Begin", {}, ["DocGenerator:0"]),
            (
                "DocGenerator:0",
                "DocGenerator",
                {"content": "![c]({sys.query})", "output_format": "html"},
                ["Message:0"],
            ),
            ("Message:0", "Message", {"content": ["{DocGenerator:0@warnings}"]}, []),
        )
        other = await server.agent(document, "Other")
        for address in (f"/api/v1/documents/artifact/{chart}.png", "/etc/passwd", "../../server.db"):
            answer = (await server.ask(other, address))["data"]["data"]["content"]
            assert address in json.loads(answer)[0]


async def test_files_are_found_by_all_their_addresses_but_only_by_their_agent(tmp_path: Path) -> None:
    async with start_server(tmp_path) as server:
        agent_id = await server.agent(REPORT)
        sent = [("file", ("a.png", PNG, "image/png"))]
        file_id = (await server.client.post(f"/agents/{agent_id}/upload", files=sent)).json()["data"]["id"]
        mine = tenant_services(server.app_state, "tenant", agent_id).artifacts
        for path in (
            f"documents/artifact/{file_id}.png",
            f"agents/attachments/{file_id}/preview?ext=png",
            f"agents/download?id={file_id}",
            f"document/download/{file_id}",
        ):
            assert await mine.find(f"/api/v1/{path}") == PNG
        address = f"/api/v1/agents/attachments/{file_id}/download"
        for tenant, agent in (("tenant", "0" * 32), ("other", agent_id)):
            assert await tenant_services(server.app_state, tenant, agent).artifacts.find(address) is None
        for odd in (
            f"https://x{address}",
            f"/api/v1/agents/attachments/{file_id}0",
            f"../{file_id}",
            "/etc/passwd",
            "",
        ):
            assert await mine.find(odd) is None


async def test_a_program_gets_the_file_in_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = canvas(
        ("begin", "Begin", {}, ["DocsGenerator:0"]),
        ("DocsGenerator:0", "DocsGenerator", {"content": "# {sys.query}"}, ["Message:0"]),
        ("Message:0", "Message", {"content": ["{DocsGenerator:0@download}"], "output_format": "pdf"}, []),
    )
    async with open_runner(document, model="demo") as runner:
        events = [event async for event in runner.start("s", {"query": "tea"})]
    end: dict[str, Any]
    (end,) = [event.data() for event in events if event.event == "message_end"]
    content = base64.b64decode(end["downloads"][0]["base64"])
    assert PdfReader(io.BytesIO(content)).pages[0].extract_text().startswith("tea")
    assert "attachment" not in end, "nothing keeps the file"


async def test_a_program_keeps_files_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGFLOW_LG_RUN__DOWNLOADS", "files")
    document = canvas(
        ("begin", "Begin", {}, ["DocGenerator:0"]),
        ("DocGenerator:0", "DocGenerator", {"content": "a", "output_format": "txt", "filename": "b"}, ["Message:0"]),
        ("Message:0", "Message", {"content": ["{DocGenerator:0@download}c"], "output_format": "html"}, []),
    )
    async with open_runner(document, model="demo") as runner:
        events = [event async for event in runner.start("s", {"query": "tea"})]
    end: dict[str, Any]
    (end,) = [event.data() for event in events if event.event == "message_end"]
    assert end["downloads"][0]["preview_url"] == "files/b.txt"
    attachment: dict[str, str] = end["attachment"]
    assert (attachment["format"], attachment["file_name"]) == ("html", "files/answer.html")
    assert local_path(attachment["doc_id"]) == tmp_path / "files" / "answer.html"
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["answer.html", "b.txt"]


READS = canvas(
    ("begin", "Begin", {"inputs": {"table": {"name": "Table", "type": "file"}}}, ["ExcelProcessor:0"]),
    ("ExcelProcessor:0", "ExcelProcessor", {"input_files": ["begin@table", "sys.files"]}, ["ExcelProcessor:1"]),
    (
        "ExcelProcessor:1",
        "ExcelProcessor",
        {"operation": "output", "transform_data": "ExcelProcessor:0@data", "output_filename": "copy"},
        ["ExcelProcessor:2"],
    ),
    ("ExcelProcessor:2", "ExcelProcessor", {"input_files": ["ExcelProcessor:1@attachment"]}, ["Message:0"]),
    (
        "Message:0",
        "Message",
        {"content": ["{ExcelProcessor:0@summary}\n{ExcelProcessor:1@download}{ExcelProcessor:2@summary}"]},
        [],
    ),
)


async def upload(server: AppServer, agent_id: str, name: str, content: bytes) -> Any:
    response = await server.client.post(f"/agents/{agent_id}/upload", files={"file": (name, content)})
    return response.json()["data"]


async def test_uploads_are_read_and_new_files_are_downloaded(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(READS)
        table = await upload(server, agent_id, "people.xlsx", book({"P": [["name"], ["@Ann"]]}))
        more = await upload(server, agent_id, "more.csv", b"n\n1\n2\n")
        result = await server.ask(agent_id, inputs={"table": {"type": "file", "value": [table]}}, files=[more])
        answer = result["data"]["data"]
        assert answer["content"].splitlines() == [
            "**people.xlsx**: 1 rows, 1 columns (name)",
            "**more.csv**: 2 rows, 1 columns (n)",
            "**copy.xlsx_people.xlsx**: 1 rows, 1 columns (name)",
            "**copy.xlsx_more.csv**: 2 rows, 1 columns (n)",
        ], json.dumps(result)[:2000]
        (info,) = answer["outputs"]["downloads"]
        assert info["filename"] == "copy.xlsx"
        for url in (server.url + info["url"], f"/agents/download?id={info['doc_id']}&created_by=x"):
            response = await server.client.get(url)
            assert cells(response.content)["people.xlsx"] == [[("name", "s")], [("@Ann", "s")]], url
