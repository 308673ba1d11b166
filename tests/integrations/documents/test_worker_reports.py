import base64
import io
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from pypdf import PdfReader

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base import extras
from ragflow_lg.base.errors import ServiceError, SettingsError, WorkLimitError
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.integrations.documents import typst_compiler
from ragflow_lg.integrations.documents.pandoc import run_pandoc
from ragflow_lg.integrations.documents.report_tasks import MAX_BYTES, ReportSettings, list_images
from ragflow_lg.integrations.documents.typst_compiler import compile_source, open_fonts
from ragflow_lg.integrations.documents.worker_reports import WorkerReports, probe_fonts
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.reports import Layout, ReportFormat, ReportRequest
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.images import PNG

PLAIN = ReportSettings(system_fonts=False)


pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncGenerator[WorkerPool]:
    pool = WorkerPool(1)
    yield pool
    await pool.aclose()


async def no_image(address: str) -> bytes | None:
    return None


@pytest.mark.parametrize(
    ("format_", "start"),
    [
        ("pdf", b"%PDF"),
        ("docx", b"PK"),
        ("xlsx", b"PK"),
        ("html", b"<!DOCTYPE html>"),
        ("markdown", b"Generated: 2026\n\n# A *b*"),
        ("txt", b"Generated: 2026\n\nA b"),
    ],
)
async def test_a_file_is_written_in_a_worker(pool: WorkerPool, format_: ReportFormat, start: bytes) -> None:
    reports = WorkerReports(PLAIN, pool)
    request = ReportRequest("# A *b*\n\n| c |\n|---|\n| d |", format_, Layout(timestamp="Generated: 2026"))
    written = await reports.write(request, no_image)
    assert written.content.startswith(start)
    assert written.warnings == ()
    assert len(pool.processes) == 1


@pytest.mark.parametrize("format_", ["pdf", "docx"])
async def test_headers_can_contain_anything(format_: ReportFormat) -> None:
    hostile = 'a\x00\x1b\ud800\n"#<w:t>]]>\\'
    layout = Layout(hostile, hostile, hostile, hostile, True)
    assert (await WorkerReports(PLAIN, NoWorkers()).write(ReportRequest("a", format_, layout), no_image)).content


async def test_only_images_that_are_given_are_shown() -> None:
    asked: list[str] = []

    async def load(address: str) -> bytes | None:
        asked.append(address)
        if address == "/error":
            raise ServiceError("No.")
        return {"/a": PNG, "/text": b"text"}.get(address)

    data = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    text = f"![a](/a) ![a](/a) ![e](/error) ![f](/etc/passwd) ![t](/text) ![d]({data})"
    written = await WorkerReports(PLAIN, NoWorkers()).write(ReportRequest(text, "pdf"), load)
    page = PdfReader(io.BytesIO(written.content)).pages[0]
    assert asked == ["/a", "/error", "/etc/passwd", "/text"]
    assert len(page.images) == 1, "the same image is stored once"
    assert all(words in page.extract_text() for words in ("[e]", "[f]", "[t]"))
    assert ["/error, /etc/passwd" in warning for warning in written.warnings] == [True, False]
    assert "/text" in written.warnings[1]


async def test_images_have_limits() -> None:
    async def load(address: str) -> bytes | None:
        return PNG

    settings = ReportSettings(system_fonts=False, max_images=2, image_bytes=len(PNG))
    request = ReportRequest("![a](/a) ![b](/b) ![c](/c)", "html")
    written = await WorkerReports(settings, NoWorkers()).write(request, load)
    assert written.content.count(b"<img") == 1
    assert "/c, /b" in written.warnings[0]


async def test_texts_and_files_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.integrations.documents.report_tasks.MAX_BYTES", 10)
    assert MAX_BYTES > 10
    for request, message in (
        (ReportRequest("a" * 500_001, "pdf"), "a file can have 500,000"),
        (ReportRequest("a", "pdf", Layout("h" * 2_001)), "at most 2,000 characters"),
        (ReportRequest("a" * 11, "markdown"), "more than 10"),
    ):
        with pytest.raises(ServiceError, match=message):
            await WorkerReports(PLAIN, NoWorkers()).write(request, no_image)


async def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "reports", ("no_such_module",))
    with pytest.raises(SettingsError, match=r"Writing PDF files needs no_such_module.*\[reports\]"):
        await WorkerReports(PLAIN, NoWorkers()).write(ReportRequest("a", "pdf"), no_image)


@worker_task("Loading a package", small_size=0)
def load_package() -> str:
    """Return why Typst loads none."""
    try:
        compile_source('#import "@preview/cetz:0.4.0"', open_fonts((), False)[0])
    except ServiceError as error:
        return str(error)
    return ""


async def test_workers_load_nothing_from_the_web(pool: WorkerPool) -> None:
    assert "Connection refused" in await pool.run(load_package)


HOSTILE = [
    "*" * 50_000,
    "[" * 5_000,
    "![" * 600,
    "$" + "{" * 1_900 + "$",
    "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + ("|" + "a|" * 300 + "\n") * 10,
    "a" * 200_000,
    "漢" * 100_000,
    "a\u0301" * 5_000,
    "$$" + "\\frac{1}{" * 100 + "}" * 100 + "$$",
]
TOO_DEEP = [
    "> " * 20_000 + "a",
    "- " * 5_000 + "a",
    "".join(f"{'  ' * level}- a\n" for level in range(300)),
    "**a *b " * 50 + "c* d**" * 50,
]


async def test_hostile_texts_are_written_or_refused(pool: WorkerPool) -> None:
    reports = WorkerReports(PLAIN, pool)
    for format_ in ("pdf", "docx", "html"):
        for text in HOSTILE:
            assert (await reports.write(ReportRequest(text, format_), no_image)).content
        for text in TOO_DEEP:
            with pytest.raises(ServiceError, match="more than 25 levels deep"):
                await reports.write(ReportRequest(text, format_), no_image)


async def test_work_that_takes_too_long_is_killed(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_images, "seconds", 1)
    with pytest.raises(WorkLimitError, match=r"Pandoc needs more memory or time|Looking for the images"):
        await WorkerReports(PLAIN, pool).write(ReportRequest("![" * 200_000, "pdf"), no_image)
    monkeypatch.setattr("ragflow_lg.integrations.documents.pandoc.SECONDS", 1)
    with pytest.raises(WorkLimitError, match="Pandoc did not finish within 1 s"):
        await WorkerReports(PLAIN, NoWorkers()).write(ReportRequest("[" * 200_000, "docx"), no_image)
    assert (await WorkerReports(PLAIN, pool).write(ReportRequest("a", "html"), no_image)).content


async def test_pandoc_has_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.integrations.documents.pandoc.HEAP_MB", 30)
    with pytest.raises(WorkLimitError, match="more memory"):
        run_pandoc(b"a " * 200_000, "commonmark", "docx")


async def test_languages_without_a_font_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    typst_compiler.open_fonts.cache_clear()
    monkeypatch.setattr(typst_compiler, "find_cjk_font", lambda: None)
    (finding,) = await probe_fonts(Settings.model_validate({"reports": {"system_fonts": False}}))
    assert finding.is_well
    assert finding.what.startswith("PDF files show boxes instead of Japanese, Korean, Chinese")
    assert "Noto Sans CJK JP for Japanese" in finding.advice
    assert "[reports]" in finding.advice
    monkeypatch.setitem(extras.EXTRAS, "reports", ("no_such_module",))
    assert await probe_fonts(Settings()) == []
    typst_compiler.open_fonts.cache_clear()
