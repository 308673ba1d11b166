import base64
import time

import pytest

from ragflow_lg.adapters.knowledge.attachments import document_text, file_text
from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.images import GIF, JPEG, PNG, WEBP
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.knowledge.test_file_text import pdf


@each_row(
    ("name", "mime_type", "content", "type_"),
    [
        ("a.png", "image/png", PNG, "png"),
        ("a.PNG", "", PNG + b"appended", "png"),
        ("a", "image/jpeg", JPEG, "jpeg"),
        ("a.gif", "", GIF, "gif"),
        ("a.webp", "", WEBP, "webp"),
        ("a.png", "image/png", JPEG, "jpeg"),
    ],
)
async def test_the_bytes_of_an_image_decide_about_its_type(
    name: str, mime_type: str, content: bytes, type_: str
) -> None:
    uri = await file_text(NoWorkers(), name, mime_type, content)
    assert uri == f"data:image/{type_};base64,{base64.b64encode(content).decode()}"


@each_row("content", [b"", b"no image", b"\x89PNG", b"%PDF-1.4\n%%EOF", b"RIFF\0\0\0\0WAVE"])
async def test_what_is_no_image_is_refused(content: bytes) -> None:
    for name, mime_type in (("a.png", ""), ("b", "image/png")):
        with pytest.raises(
            ServiceError, match=f"'{name}' is not an image of a supported type \\(GIF, JPEG, PNG, WEBP\\)"
        ):
            await file_text(NoWorkers(), name, mime_type, content)


@each_row("content", [PNG[:-1], JPEG[:-2], GIF[:-1], WEBP[:-1]])
async def test_an_incomplete_image_is_refused(content: bytes) -> None:
    with pytest.raises(ServiceError, match=r"The image 'a\.png' is incomplete"):
        await file_text(NoWorkers(), "a.png", "", content)


async def test_documents_and_pages_become_text() -> None:
    here = NoWorkers()
    assert await file_text(here, "a.html", "text/html", b"<p>Hello</p><script>x</script>") == "Hello"
    assert await file_text(here, "a.py", "text/x-python", b"\xef\xbb\xbfx = 1\n") == "x = 1\n"
    for content in (b"\xff\xfe\x00x", b"a\0b"):
        with pytest.raises(ServiceError, match="is not UTF-8 text"):
            await file_text(here, "a.bin", "application/octet-stream", content)
    with pytest.raises(ServiceError, match="cannot be read"):
        await file_text(here, "a.docx", "", b"no zip")


async def test_a_document_that_takes_too_long_is_stopped_and_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(size=2)
    begin = time.monotonic()
    monkeypatch.setattr(document_text, "seconds", 1.0)
    with pytest.raises(ServiceError, match=r"'slow\.pdf' cannot be read: Reading the file did not finish within 1 s"):
        await file_text(pool, "slow.pdf", "application/pdf", pdf(b"(Hello) Tj T* " * 200_000))

    assert time.monotonic() - begin < 10
    monkeypatch.undo()
    assert "Hello" in await file_text(pool, "fast.pdf", "application/pdf", pdf())
    await pool.aclose()
