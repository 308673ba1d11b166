from pathlib import Path

from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.backends import probe_store


async def _create(path: Path) -> None:
    async with open_store(f"sqlite:///{path}"):
        pass


async def test_a_file_that_others_can_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await _create(path)
    assert all(r.is_well for r in await probe_store(f"sqlite:///{path}", ttl_s=60))
    path.chmod(0o644)
    (result,) = [r for r in await probe_store(f"sqlite:///{path}", ttl_s=60) if not r.is_well]
    assert "chmod 600" in result.advice


async def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s.db"
    results = await probe_store(f"sqlite:///{path}", ttl_s=60)
    assert "does not exist yet; the first run will create it" in results[0].what
    assert all(result.is_well for result in results)
    assert list(tmp_path.iterdir()) == []


async def test_a_damaged_file_is_reported_with_a_way_to_recover_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await _create(path)
    content = bytearray(path.read_bytes())
    for page in range(8192, len(content), 4096):
        content[page : page + 200] = b"\xff" * 200
    path.write_bytes(content)
    failures = [r for r in await probe_store(f"sqlite:///{path}", ttl_s=60) if not r.is_well]
    assert f"sqlite3 {path} .recover" in failures[0].advice
    assert "\n" not in failures[0].what
