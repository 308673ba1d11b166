"""Documents in a running server: written by worker processes, offered by Messages, downloaded by RAGFlow's routes."""

import base64
import io
import json
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
from ragflow_lg.library import open_runner
from ragflow_lg.server.agents.retention import delete_expired_files
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.settings.component_sections import CodeSection, ReportsSection
from ragflow_lg.services.code import Artifact, CodeResult
from tests.fakes.code import ScriptedSandbox
from tests.fakes.images import PNG
from tests.server.http.app_server import AppServer, canvas, start_app

SECTIONS: dict[str, Any] = {"reports": ReportsSection(system_fonts=False), "code": CodeSection(artifact_days=1)}
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
            services = replace(server.app_state.services, code=code, reports=reports)
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
            return now + 86_401

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
