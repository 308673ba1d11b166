from ragflow_lg.checkpoints.backends import probe_store


async def test_a_fit_redis_server_passes(redis_url: str) -> None:
    findings = await probe_store(redis_url, ttl_s=30 * 86_400)
    assert all(finding.is_well for finding in findings), findings
    said = " ".join(finding.what for finding in findings)
    for word in ("answers", "search, ReJSON", "version", "single server", "maxmemory", "writing", "clock", "30.0 days"):
        assert word in said


async def test_a_short_life_is_warned_about(redis_url: str) -> None:
    (finding,) = [f for f in await probe_store(redis_url, ttl_s=60) if not f.is_well]
    assert "checkpoint_ttl_s" in finding.advice
