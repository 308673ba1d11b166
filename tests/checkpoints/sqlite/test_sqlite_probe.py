from pathlib import Path

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.backends import probe_store


async def _make(path: Path) -> None:
    async with open_store(f"sqlite:///{path}", SystemClock()):
        pass


async def test_a_file_that_others_can_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await _make(path)
    assert all(f.is_well for f in await probe_store(f"sqlite:///{path}", ttl_s=60))
    path.chmod(0o644)
    (finding,) = [f for f in await probe_store(f"sqlite:///{path}", ttl_s=60) if not f.is_well]
    assert "chmod 600" in finding.advice


async def test_a_file_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s.db"
    findings = await probe_store(f"sqlite:///{path}", ttl_s=60)
    assert "does not exist yet; the first run creates it" in findings[0].what
    assert all(finding.is_well for finding in findings)
    assert list(tmp_path.iterdir()) == []


async def test_a_damaged_file_is_told_with_what_to_save(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await _make(path)
    content = bytearray(path.read_bytes())
    for page in range(8192, len(content), 4096):
        content[page : page + 200] = b"\xff" * 200
    path.write_bytes(content)
    ill = [f for f in await probe_store(f"sqlite:///{path}", ttl_s=60) if not f.is_well]
    assert f"sqlite3 {path} .recover" in ill[0].advice
    assert "\n" not in ill[0].what
