"""Artifacts in a running server: links, downloads, expiry and quotas."""

import base64
import io
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pypdf import PdfReader

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.local_paths import local_path
from ragflow_lg.integrations.code.programs import CodeResult, CodeSandbox
from ragflow_lg.integrations.documents.reports_section import ReportsSection
from ragflow_lg.integrations.documents.worker_reports import WorkerReports
from ragflow_lg.library import open_runner
from ragflow_lg.server.agents.file_store import FILE_LIMITS
from ragflow_lg.server.agents.retention import delete_expired_files
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.services.artifacts import Artifact
from ragflow_lg.services.reports import Reports
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


def use(server: AppServer, **services: Any) -> None:
    """Replace services of a server."""
    server.app_state = replace(server.app_state, services=replace(server.app_state.services, **services))
    server.app.state.app_state = server.turns._app_state = server.app_state


def with_files(server: AppServer, *files: Artifact) -> None:
    """Replace the sandbox by one in which every program creates the files."""
    code: Any = ScriptedSandbox(CodeResult("", "", 0, True, 1, files or FILES))
    use(server, integrations={CodeSandbox: code})


def let_days_pass(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = server.app_state.services.clock
    later = clock.now() + 8 * 86_400

    def now(_: object) -> float:
        return later

    monkeypatch.setattr(type(clock), "now", now)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[AppServer]:
    async with start_app(tmp_path) as server:
        with_files(server)
        yield server


async def answer_of(server: AppServer, agent_id: str) -> str:
    return (await server.ask(agent_id))["data"]["data"]["content"]


async def test_artifacts_are_linked_and_downloaded(server: AppServer) -> None:
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


async def test_other_tenants_and_visitors_without_a_key_see_nothing(server: AppServer) -> None:
    answer = await answer_of(server, await server.agent(RUNS))
    (url, *_) = re.findall(r"\((/api/v1/documents/artifact/[^)]+)\)", answer)
    other = await KeyRepository(server.app_state.database).create("other", 1)
    for header in ({"Authorization": f"Bearer {other}"}, {"Authorization": ""}):
        response = await server.client.get(server.url + url, headers=header)
        assert PNG not in response.content
        assert response.json()["code"] in (102, 401)
    for odd in ("x.png", "..%2f..%2fserver.db", "0" * 32 + ".png"):
        assert (await server.client.get(f"/documents/artifact/{odd}")).json()["code"] != 0


async def test_artifacts_expire(tmp_path: Path, server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    agent_id = await server.agent(RUNS)
    answer = await answer_of(server, agent_id)
    (url, *_) = re.findall(r"\((/api/v1/documents/artifact/[^)]+)\)", answer)
    sent = [("file", ("notes.txt", b"kept", "text/plain"))]
    upload = (await server.client.post(f"/agents/{agent_id}/upload", files=sent)).json()["data"]["id"]
    assert await delete_expired_files(server.app_state) == 0
    let_days_pass(server, monkeypatch)
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


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncGenerator[AppServer]:
    """A server that writes documents in a worker process, and whose programs all create an image."""
    pool = WorkerPool(1)
    try:
        async with start_app(tmp_path, sections=SECTIONS) as server:
            with_files(server, FILES[0])
            writer = WorkerReports(SECTIONS["reports"].settings, pool)
            use(server, integrations={**server.app_state.services.integrations, Reports: writer})
            yield server
    finally:
        await pool.aclose()


async def end_of(server: AppServer, agent_id: str) -> dict[str, Any]:
    frames = await server.stream(agent_id, "tea")
    (end,) = [frame["data"] for frame in frames if frame.get("event") == "message_end"]
    return end


async def test_a_document_is_offered_and_downloaded(writer: AppServer) -> None:
    end = await end_of(writer, await writer.agent(REPORT))
    assert list(end) == ["attachment", "downloads"]
    (download,) = end["downloads"]
    assert (download["filename"], download["mime_type"]) == ("report.pdf", "application/pdf")
    assert "include_download_info_in_content" not in download
    shown = await writer.client.get(writer.url + download["preview_url"])
    assert shown.headers["content-disposition"].startswith('inline; filename="report.pdf"')
    page = PdfReader(io.BytesIO(shown.content)).pages[0]
    assert "Report on tea" in page.extract_text()
    assert len(page.images) == 1
    saved = await writer.client.get(f"/agents/attachments/{download['doc_id']}/download?ext=pdf")
    assert saved.headers["content-disposition"].startswith("attachment")
    assert saved.content == shown.content
    assert download["size"] == len(saved.content)


async def test_images_of_other_agents_are_not_shown(writer: AppServer) -> None:
    first = await writer.agent(REPORT)
    await end_of(writer, first)
    files = (await writer.client.get(f"{writer.url}/native/v1/files")).json()["files"]
    (chart,) = [file["id"] for file in files if file["name"] == "chart.png"]
    document = canvas(
        ("begin", "Begin", {}, ["d"]),
        ("d", "DocGenerator", {"content": "![c]({sys.query})", "output_format": "html"}, ["m"]),
        ("m", "Message", {"content": ["{d@warnings}"]}, []),
    )
    other = await writer.agent(document, "Other")
    for address in (f"/api/v1/documents/artifact/{chart}.png", "/etc/passwd", "../../writer.db"):
        answer = (await writer.ask(other, address))["data"]["data"]["content"]
        assert address in json.loads(answer)[0]


async def test_files_are_found_by_all_their_addresses_but_only_by_their_agent(writer: AppServer) -> None:
    agent_id = await writer.agent(REPORT)
    sent = [("file", ("a.png", PNG, "image/png"))]
    file_id = (await writer.client.post(f"/agents/{agent_id}/upload", files=sent)).json()["data"]["id"]
    mine = tenant_services(writer.app_state, "tenant", agent_id).artifacts
    for path in (
        f"documents/artifact/{file_id}.png",
        f"agents/attachments/{file_id}/preview?ext=png",
        f"agents/download?id={file_id}",
        f"document/download/{file_id}",
    ):
        assert await mine.find(f"/api/v1/{path}") == PNG
    address = f"/api/v1/agents/attachments/{file_id}/download"
    for tenant, agent in (("tenant", "0" * 32), ("other", agent_id)):
        assert await tenant_services(writer.app_state, tenant, agent).artifacts.find(address) is None
    odd_ones = (f"https://x{address}", f"/api/v1/agents/attachments/{file_id}0", f"../{file_id}", "/etc/passwd", "")
    for odd in odd_ones:
        assert await mine.find(odd) is None


async def end_in_program(node: tuple[str, dict[str, Any]], text: str, output_format: str) -> dict[str, Any]:
    """Run a canvas in a program; return what its message ends with."""
    name, params = node
    message = {"content": [text], "output_format": output_format}
    document = canvas(("begin", "Begin", {}, ["d"]), ("d", name, params, ["m"]), ("m", "Message", message, []))
    async with open_runner(document, model="demo") as runner:
        events = [event async for event in runner.start("s", {"query": "tea"})]
    (end,) = [event.data() for event in events if event.event == "message_end"]
    return end


async def test_a_program_gets_the_file_in_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    end = await end_in_program(("DocsGenerator", {"content": "# {sys.query}"}), "{d@download}", "pdf")
    content = base64.b64decode(end["downloads"][0]["base64"])
    assert PdfReader(io.BytesIO(content)).pages[0].extract_text().startswith("tea")
    assert "attachment" not in end, "nothing keeps the file"
    monkeypatch.setenv("RAGFLOW_LG_RUN__DOWNLOADS", "files")
    text = {"content": "a", "output_format": "txt", "filename": "b"}
    end = await end_in_program(("DocGenerator", text), "{d@download}c", "html")
    assert end["downloads"][0]["preview_url"] == "files/b.txt"
    attachment: dict[str, str] = end["attachment"]
    assert (attachment["format"], attachment["file_name"]) == ("html", "files/answer.html")
    assert local_path(attachment["doc_id"]) == tmp_path / "files" / "answer.html"
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["answer.html", "b.txt"]


COPIED = {"operation": "output", "transform_data": "In@data", "output_filename": "copy"}
READS = canvas(
    ("begin", "Begin", {"inputs": {"table": {"name": "Table", "type": "file"}}}, ["In"]),
    ("In", "ExcelProcessor", {"input_files": ["begin@table", "sys.files"]}, ["Out"]),
    ("Out", "ExcelProcessor", COPIED, ["Again"]),
    ("Again", "ExcelProcessor", {"input_files": ["Out@attachment"]}, ["m"]),
    ("m", "Message", {"content": ["{In@summary}\n{Out@download}{Again@summary}"]}, []),
)


async def upload(server: AppServer, agent_id: str, name: str, content: bytes) -> Any:
    response = await server.client.post(f"/agents/{agent_id}/upload", files={"file": (name, content)})
    return response.json()["data"]


async def test_uploads_are_read_and_new_files_are_downloaded(server: AppServer) -> None:
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
