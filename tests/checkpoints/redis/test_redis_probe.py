from ragflow_lg.checkpoints.backends import probe_store


async def test_a_suitable_server_passes(redis_url: str) -> None:
    results = await probe_store(redis_url, ttl_s=30 * 86_400)
    assert all(result.is_well for result in results), results
    text = " ".join(result.what for result in results)
    for word in ("answers", "search, ReJSON", "version", "single server", "maxmemory", "writes", "clock", "30.0 days"):
        assert word in text


async def test_a_short_time_to_live_is_reported(redis_url: str) -> None:
    (result,) = [r for r in await probe_store(redis_url, ttl_s=60) if not r.is_well]
    assert "checkpoint_ttl_s" in result.advice
