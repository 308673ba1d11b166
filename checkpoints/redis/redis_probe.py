"""Checks a Redis session store for ``ragflow-lg doctor``."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from redis.exceptions import RedisError

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.checkpoints.redis.redis_client import START_ADVICE
from ragflow_lg.checkpoints.redis.redis_url import create_client
from ragflow_lg.checkpoints.store_url import STORE_URLS, cluster_name, key_prefix

MIN_VERSION = (7, 0)
MAX_SKEW_S = 5.0
MIN_TTL_S = 24 * 3600


async def probe_redis(url: str, ttl_s: int) -> AsyncIterator[CheckResult]:
    """Check a server's modules, version, eviction policy, permissions and clock, and how long sessions live."""
    try:
        client: Any = create_client(url)
    except CheckpointError as error:
        yield CheckResult(False, str(error), f"Correct it: {STORE_URLS}.")
        return
    try:
        await client.ping()
    except (RedisError, OSError) as error:
        yield CheckResult(False, f"the server does not answer: {plain_reason(error)}", START_ADVICE)
        return
    yield CheckResult(True, "the server answers")
    try:
        async for result in _check_server(
            client, key_prefix(url, "ragflow-lg:doctor"), is_cluster=bool(cluster_name(url))
        ):
            yield result
    except RedisError as error:
        text = f"the user lacks permissions: {error}"
        yield CheckResult(False, text, "Grant +@all on the keys with this prefix.")
    finally:
        await client.aclose()
    days = ttl_s / 86400
    is_long = ttl_s >= MIN_TTL_S
    advice = "" if is_long else "Users may take longer than that to answer a form; raise checkpoint_ttl_s."
    yield CheckResult(is_long, f"sessions are kept for {days:.1f} days after their last use", advice)


async def _check_server(client: Any, sample: str, *, is_cluster: bool) -> AsyncIterator[CheckResult]:
    info: dict[str, Any] = await client.info()
    version = str(info.get("redis_version", "0"))  # of the Redis with which Valkey is compatible
    is_new = tuple(int(part) for part in version.split(".")[:2]) >= MIN_VERSION
    yield CheckResult(
        is_new, f"version {version}", "" if is_new else f"Use {MIN_VERSION[0]}.{MIN_VERSION[1]} or newer."
    )
    is_node = bool(info.get("cluster_enabled"))
    advice = "" if is_node == is_cluster else "It is part of a cluster: write redis+cluster://HOST:PORT/NAME."
    yield CheckResult(is_node == is_cluster, "a cluster" if is_node else "a single server", advice)
    if advice:
        return
    policy = str(info.get("maxmemory_policy", "noeviction"))
    is_safe = policy == "noeviction" or not info.get("maxmemory")
    advice = "" if is_safe else "Set it to noeviction: otherwise Redis may delete sessions."
    yield CheckResult(is_safe, f"maxmemory-policy {policy}", advice)
    yield await _check_persistence(client, bool(info.get("aof_enabled")))
    await client.set(sample, "x", ex=60)
    await client.eval("return redis.call('GET', KEYS[1])", 1, sample)
    await client.publish(sample, "x")
    await client.delete(sample)
    yield CheckResult(True, "writes, scripts and publishing work")
    seconds, micros = await client.time()
    skew = abs(time.time() - (seconds + micros / 1e6))  # noqa: TID251 - compares two real clocks
    advice = "" if skew <= MAX_SKEW_S else "Synchronize the clocks of both machines (NTP) to keep run records in order."
    yield CheckResult(skew <= MAX_SKEW_S, f"its clock differs by {skew:.1f} s", advice)


async def _check_persistence(client: Any, has_log: bool) -> CheckResult:
    try:
        options: dict[str, str] = await client.config_get("save", "appendfsync")
    except RedisError:  # hosted servers forbid CONFIG
        options = {}
    if has_log:
        fsync = options.get("appendfsync", "everysec")
        advice = "A crash can lose the last second." if fsync == "everysec" else ""
        advice = "A crash can lose everything since the last flush; use everysec." if fsync == "no" else advice
        return CheckResult(True, f"data is stored in an append-only log (appendfsync {fsync})", advice)
    if options.get("save", "unknown"):
        return CheckResult(True, "data is stored in snapshots", "A crash loses the steps since then: appendonly yes.")
    return CheckResult(False, "data is not stored on disk", "A restart loses all sessions: set appendonly yes.")
