from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.probe import probe


async def test_a_fit_redis_server_passes(redis_url: str) -> None:
    findings = await probe(redis_url, ttl_s=30 * 86_400)
    assert all(finding.is_well for finding in findings), findings
    said = " ".join(finding.what for finding in findings)
    for word in ("answers", "search, ReJSON", "version", "single server", "maxmemory", "written", "clock", "30.0 days"):
        assert word in said


async def test_a_short_life_is_warned_about(redis_url: str) -> None:
    (finding,) = [f for f in await probe(redis_url, ttl_s=60) if not f.is_well]
    assert "checkpoint_ttl_s" in finding.advice


async def test_a_file_that_others_can_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await _make(path)
    assert all(f.is_well for f in await probe(f"sqlite:///{path}", ttl_s=60))
    path.chmod(0o644)
    (finding,) = [f for f in await probe(f"sqlite:///{path}", ttl_s=60) if not f.is_well]
    assert "chmod 600" in finding.advice


async def _make(path: Path) -> None:
    async with open_store(f"sqlite:///{path}", SystemClock()):
        pass


async def test_a_file_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s.db"
    findings = await probe(f"sqlite:///{path}", ttl_s=60)
    assert "does not exist yet; the first run makes it" in findings[0].what
    assert all(finding.is_well for finding in findings)
    assert list(tmp_path.iterdir()) == []


async def test_a_damaged_file_is_told_with_what_to_save(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await _make(path)
    content = bytearray(path.read_bytes())
    for page in range(8192, len(content), 4096):
        content[page : page + 200] = b"\xff" * 200
    path.write_bytes(content)
    ill = [f for f in await probe(f"sqlite:///{path}", ttl_s=60) if not f.is_well]
    assert f"sqlite3 {path} .recover" in ill[0].advice
    assert "\n" not in ill[0].what


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("redis://127.0.0.1:1", "Start the server"), ("ftp://x", "Give memory"), ("", "Give memory"),
        ("redis://h:x", "Correct it: memory://"), ("sqlite://a.db", "three slashes"), ("sqlite:///", "names no file"),
    ],
)  # fmt: skip
async def test_what_cannot_be_used_is_told(url: str, advice: str) -> None:
    (finding,) = await probe(url, ttl_s=60)
    assert not finding.is_well
    assert advice in finding.advice


async def test_no_session_store_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Nothing like a database. " * 100)
    (finding,) = await probe(f"sqlite:///{path}", ttl_s=60)
    assert "no session store" in finding.what
    (finding,) = await probe("memory://", ttl_s=60)
    assert finding.is_well
