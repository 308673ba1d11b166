"""DocGenerator as a node."""

import base64
import json
from typing import Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.node_values import MemorySteps
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.integrations.documents.doc_generator import doc_generator, file_name
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.integrations.documents.worker_reports import WorkerReports
from ragflow_lg.services.artifacts import Artifact, StoredArtifact
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.reports import ImageLoader, Layout, ReportRequest, Reports, WrittenReport
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.images import PNG
from tests.fakes.run import Result, run_component
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import ScriptedHttp, fake_services
from tests.harness.rows import each_row

SETTINGS = ReportSettings(system_fonts=False)
PLAIN = {"output_format": "markdown", "add_timestamp": False}


class RecordedReports:
    """The real writer, which remembers the requests."""

    def __init__(self, settings: ReportSettings) -> None:
        self.writer = WorkerReports(settings, NoWorkers())
        self.inline_bytes = settings.inline_bytes
        self.fetches_images = settings.fetch_images
        self.requests: list[ReportRequest] = []

    async def write(self, request: ReportRequest, load_image: ImageLoader) -> WrittenReport:
        self.requests.append(request)
        return await self.writer.write(request, load_image)


async def run(
    params: dict[str, Any], *, settings: ReportSettings = SETTINGS, artifacts: Any = None, **options: Any
) -> tuple[Result, NamedArtifacts, list[ReportRequest]]:
    artifacts = artifacts or NamedArtifacts()
    reports = RecordedReports(settings)
    services = fake_services(integrations={Reports: reports}, artifacts=artifacts)
    return await run_component(doc_generator, params, services=services, **options), artifacts, reports.requests


async def test_the_download_has_the_shape_of_ragflow() -> None:
    result, artifacts, _ = await run({"content": "# A {a@x}", "output_format": "html"}, outputs={"a": {"x": [1]}})
    assert result.error is None
    (stored,) = artifacts.stored
    download = json.loads(result.outputs["download"])
    known = {name: download[name] for name in ("doc_id", "filename", "mime_type", "size")}
    assert list(download) == [*known, "base64", "preview_url", "include_download_info_in_content"]
    assert base64.b64decode(download["base64"]) == stored.content
    assert (known["doc_id"], known["mime_type"], known["size"]) == (f"{1:032x}", "text/html", len(stored.content))
    assert download["preview_url"] == f"/api/v1/agents/attachments/{1:032x}/preview?ext=html&mime_type=text%2Fhtml"
    assert download["include_download_info_in_content"] is False
    assert result.outputs == {**known, "download": result.outputs["download"]}
    assert b"A [1]</h1>" in stored.content


@each_row(
    ("format_", "extension"),
    [("pdf", "pdf"), ("docx", "docx"), ("txt", "txt"), ("markdown", "md"), ("md", "md"), ("HTML", "html")],
)
async def test_files_have_the_name_of_the_canvas_or_the_time(format_: str, extension: str) -> None:
    named, _, _ = await run({"content": "x", "output_format": format_, "filename": "my report.v1"})
    assert named.outputs["filename"] == f"my report.{extension}"
    timed, _, _ = await run({"content": "x", "output_format": format_})
    prefix, stamp, clock, tail = timed.outputs["filename"].split("_")
    assert (prefix, len(stamp), len(clock), tail.partition(".")[2]) == ("document", 8, 6, extension)
    assert len(tail.partition(".")[0]) == 8


@each_row(
    ("wanted", "name"),
    [
        ("", ""), ("a/b\\c:d*e?f", "a b c d e f.pdf"), ("..", "file.pdf"), ("../../etc/passwd", "etc passwd.pdf"),
        ("x" * 300, "x" * 180 + ".pdf"), ("报告.docx", "报告.pdf"), ("a\r\nb", "a b.pdf"),
    ],
)  # fmt: skip
def test_names_are_safe(wanted: str, name: str) -> None:
    assert file_name(wanted, "pdf") == name


async def test_parameters_become_the_layout() -> None:
    params = {"header_text": "H", "footer_text": "F", "watermark_text": "W", "font_size": 14, "output_format": "txt"}
    _, _, (request,) = await run({"content": "x", **params})
    time = fake_services().clock.local_time()
    assert request == ReportRequest("x", "txt", Layout("H", "F", "W", f"Generated: {time}", True, 14))
    others = {"header": "H", "footer": "F", "watermark": "W", "add_timestamp": False, "add_page_numbers": False}
    _, _, (request,) = await run({"content": "x", "output_format": "txt", **others})
    assert request.layout == Layout("H", "F", "W", "", False, 12)


async def test_thinking_is_removed_and_errors_of_references_are_shown() -> None:
    params = {**PLAIN, "content": "<think>t</think>a {ghost@x} {a@y}"}
    info = {"doc_id": "1", "filename": "f", "mime_type": "m"}
    result, artifacts, _ = await run(params, outputs={"a": {"y": info}})
    assert result.error is None
    assert artifacts.stored[0].content == b"a [ERROR: Can't find variable: 'ghost@x']"


async def test_large_files_are_not_repeated_in_the_download() -> None:
    settings = ReportSettings(system_fonts=False, inline_bytes=3)
    results = [(await run({**PLAIN, "content": text}, settings=settings))[0] for text in ("abc", "abcd")]
    assert [json.loads(result.outputs["download"])["base64"] for result in results] == ["YWJj", ""]


async def test_images_come_from_the_files_of_the_agent() -> None:
    artifacts = NamedArtifacts()
    artifacts.files["/api/v1/documents/artifact/1.png"] = b"\x89PNG\r\n\x1a\n"
    text = "![a](/api/v1/documents/artifact/1.png) ![b](https://x/y.png)"
    result, _, _ = await run({"content": text, "output_format": "html"}, artifacts=artifacts)
    assert result.error is None
    assert len(result.outputs["warnings"]) == 2


async def test_images_of_the_web_are_fetched_only_if_the_settings_allow_it() -> None:
    text, address = "![a](https://x/a.png) ![b](https://x/b.png)", "https://x/a.png"
    for is_allowed in (False, True):
        http = ScriptedHttp({address: HttpResponse(200, {}, "", address, PNG)})
        reports = WorkerReports(ReportSettings(system_fonts=False, fetch_images=is_allowed), NoWorkers())
        artifacts = NamedArtifacts()
        services = fake_services(integrations={Reports: reports}, artifacts=artifacts, http=http)
        result = await run_component(doc_generator, {"content": text, "output_format": "html"}, services=services)
        assert len(http.requests) == (2 if is_allowed else 0)
        assert artifacts.stored[0].content.count(b"<img") == len(http.requests) // 2
        assert "https://x/b.png" in result.outputs["warnings"][0]


async def test_a_file_is_written_once_if_the_node_starts_again() -> None:
    steps, artifacts = MemorySteps(), NamedArtifacts()
    plan = plan_of(canvas({"a": node("DocGenerator", {"content": "x", "output_format": "txt"})}))
    services = fake_services(integrations={Reports: WorkerReports(SETTINGS, NoWorkers())}, artifacts=artifacts)
    outputs: list[Any] = []
    for _ in range(2):
        plan_node: Any = plan.nodes[NodeId("a")]
        ctx = RunContext(plan, plan_node, TurnContext(services, steps=steps), {}, task="t")
        outputs.append(await doc_generator.run(ctx, plan_node.params))
    assert outputs[0] == outputs[1]
    assert len(artifacts.stored) == 1


class FullStore:
    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        raise ServiceError("The folder is full.")

    async def find(self, address: str) -> bytes | None:
        return None


async def test_a_failure_fails_the_node() -> None:
    result, _, _ = await run({"content": "x", "output_format": "txt"}, artifacts=FullStore())
    assert result.error == "Document generation failed: The folder is full."
    without = await run_component(doc_generator, {"content": "x"})
    assert without.error is not None
    assert without.error.startswith("Document generation failed: This program has no Reports.")


async def test_without_a_store_the_file_is_in_the_download() -> None:
    services = fake_services(integrations={Reports: WorkerReports(SETTINGS, NoWorkers())})
    result = await run_component(doc_generator, {**PLAIN, "content": "abc"}, services=services)
    download = json.loads(result.outputs["download"])
    assert (download["base64"], download["preview_url"], len(download["doc_id"])) == ("YWJj", "", 32)


@each_row("format_", ["pdf", "docx"])
async def test_a_document_without_text_is_written(format_: str) -> None:
    result, _, _ = await run({"content": "{a@x}", "output_format": format_}, outputs={"a": {"x": ""}})
    assert result.error is None
    assert result.outputs["size"] > 0
