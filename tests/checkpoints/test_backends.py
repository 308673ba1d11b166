from pathlib import Path

from ragflow_lg.checkpoints.backends import probe_store
from tests.harness.rows import each_row


@each_row(
    ("url", "advice"),
    [
        ("redis://127.0.0.1:1", "Start the server"), ("ftp://x", "Use memory"), ("", "Use memory"),
        ("redis://h:x", "Correct it: memory://"),
        ("sqlite://a.db", "three slashes"), ("sqlite:///", "has no file name"),
    ],
)  # fmt: skip
async def test_an_unusable_url_is_reported_with_advice(url: str, advice: str) -> None:
    (result,) = await probe_store(url, ttl_s=60)
    assert not result.is_well
    assert advice in result.advice


async def test_a_probe_rejects_another_file_and_accepts_memory(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Not a database. " * 100)
    (result,) = await probe_store(f"sqlite:///{path}", ttl_s=60)
    assert "not a session store" in result.what
    (result,) = await probe_store("memory://", ttl_s=60)
    assert result.is_well
