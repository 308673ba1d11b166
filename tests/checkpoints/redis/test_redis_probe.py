from pathlib import Path

import pytest

from ragflow_lg.checkpoints.backends import probe_store
from tests.fakes.redis_process import AOF, RDB, redis_process


async def test_a_suitable_server_passes(tmp_path: Path) -> None:
    with redis_process(tmp_path, *AOF) as server:
        results = await probe_store(server.url, ttl_s=30 * 86_400)
    assert all(result.is_well for result in results), results
    text = " ".join(result.what for result in results)
    words = ("answers", "version", "single server", "maxmemory", "writes", "clock", "30.0 days")
    for word in (*words, "appendfsync everysec"):
        assert word in text


async def test_a_short_time_to_live_is_reported(redis_url: str) -> None:
    results = [r for r in await probe_store(redis_url, ttl_s=60) if not r.is_well]
    assert "checkpoint_ttl_s" in results[-1].advice


@pytest.mark.parametrize(
    ("options", "what", "is_well"),
    [
        ((*RDB, "--save", ""), "not stored on disk", False),
        ((*RDB, "--save", "60 1"), "stored in snapshots", True),
        ((*AOF, "--appendfsync", "no"), "appendfsync no", True),
    ],
)
async def test_missing_persistence_is_reported(
    tmp_path: Path, options: tuple[str, ...], what: str, is_well: bool
) -> None:
    with redis_process(tmp_path, *options) as server:
        results = await probe_store(server.url, ttl_s=30 * 86_400)
    (result,) = [result for result in results if what in result.what]
    assert result.is_well is is_well
    assert "appendonly yes" in result.advice or "use everysec" in result.advice
