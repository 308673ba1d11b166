"""Probing a store of sessions: what is right with it, what is not, and what to do."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.store_url import KINDS, sqlite_path, store_kind

__all__ = ["Finding", "probe"]

LEAST_REDIS = (7, 4)
MOST_SKEW_S = 5.0
LEAST_TTL_S = 24 * 3600
LEAST_FREE_MIB = 100
_SAMPLE = "ragflow-lg:doctor"


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    is_well: bool
    what: str
    advice: str = ""


async def probe(url: str, *, ttl_s: int) -> list[Finding]:
    """Look at the store that a URL names. What cannot be reached ends the list."""
    try:
        kind = store_kind(url)
    except CheckpointError as error:
        what, _, advice = str(error).partition(": ")
        return [Finding(False, what, advice[:1].upper() + advice[1:])]
    if kind == "memory":
        advice = "Sessions end with the process; use sqlite:/// or redis:// to keep them."
        return [Finding(True, "sessions are kept in memory", advice)]
    if kind == "redis":
        return [finding async for finding in _redis(url, ttl_s)]
    path = sqlite_path(url).expanduser()
    if not path.exists():
        return [Finding(True, f"{path} does not exist yet; the first run makes it"), *_folder_facts(path)]
    return [finding async for finding in _sqlite(path)]


async def _sqlite(path: Path) -> AsyncIterator[Finding]:
    from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
    from ragflow_lg.checkpoints.sqlite.sqlite_saver import sqlite_saver

    rescue = f"Copy it, then save what can be read: sqlite3 {shlex.quote(str(path))} .recover | sqlite3 NEW.db"
    try:
        async with open_sqlite(path) as file:
            await sqlite_saver(file)
            rows = await file.rows("PRAGMA integrity_check(1)")
    except CheckpointError as error:
        text = str(error)
        yield Finding(False, text, rescue if "malformed" in text else "Choose another path, or move it away.")
        return
    yield Finding(True, f"{path} is a session store")
    row: Any = rows[0] if rows else None
    is_sound = row is not None and row[0] == "ok"
    said = "the file is sound" if is_sound else f"the file is damaged: {' '.join(str(row and row[0]).split())}"
    yield Finding(is_sound, said, "" if is_sound else rescue)
    for finding in (*_file_facts(path), *_folder_facts(path)):
        yield finding


def _file_facts(path: Path) -> list[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    is_private = not mode & 0o077
    return [
        Finding(is_private, f"its rights are {mode:o}", "" if is_private else f"Others can read it: chmod 600 {path}."),
        _writable(path, "it"),
    ]


def _folder_facts(path: Path) -> list[Finding]:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free // 2**20
    has_room = free > LEAST_FREE_MIB
    return [
        _writable(folder, f"the folder {folder}"),
        Finding(has_room, f"{free:,} MiB are free on its disk", "" if has_room else "Make room."),
    ]


def _writable(path: Path, name: str) -> Finding:
    if os.access(path, os.W_OK):
        return Finding(True, f"{name} can be written")
    return Finding(False, f"{name} cannot be written", "Give yourself the right, or choose another path.")


async def _redis(url: str, ttl_s: int) -> AsyncIterator[Finding]:
    from redis.asyncio import Redis
    from redis.asyncio.sentinel import Sentinel
    from redis.exceptions import RedisError

    from ragflow_lg.checkpoints.redis.redis_server import MODULES, missing_modules
    from ragflow_lg.checkpoints.redis.redis_url import client_of

    try:
        client: Any = client_of(url, Redis, Sentinel)
    except CheckpointError as error:
        yield Finding(False, str(error), f"Correct it: {KINDS}.")
        return
    try:
        missing = missing_modules(url)
    except CheckpointError as error:
        yield Finding(False, str(error), "Start the server, or correct the URL, user and password.")
        return
    yield Finding(True, "the server answers")
    found = ", ".join(module for module in MODULES if module not in missing) or "none"
    advice = f"It lacks {', '.join(missing)}: use redis:8 or redis-stack." if missing else ""
    yield Finding(not missing, f"modules: {found}", advice)
    try:
        async for finding in _redis_facts(client):
            yield finding
    except RedisError as error:
        yield Finding(False, f"the user may not do all that is needed: {error}", "Grant +@all on the prefix's keys.")
    finally:
        await client.aclose()
    days = ttl_s / 86400
    is_long = ttl_s >= LEAST_TTL_S
    advice = "" if is_long else "A form may be answered later than that; raise checkpoint_ttl_s."
    yield Finding(is_long, f"sessions are kept for {days:.1f} days after their last use", advice)


async def _redis_facts(client: Any) -> AsyncIterator[Finding]:
    info: dict[str, Any] = await client.info()
    version = str(info.get("redis_version", "0"))
    is_new = tuple(int(part) for part in version.split(".")[:2]) >= LEAST_REDIS
    yield Finding(is_new, f"version {version}", "" if is_new else f"Use {LEAST_REDIS[0]}.{LEAST_REDIS[1]} or newer.")
    is_cluster = bool(info.get("cluster_enabled"))
    advice = "A cluster is not supported: name a single server, or a Sentinel." if is_cluster else ""
    yield Finding(not is_cluster, "a cluster" if is_cluster else "a single server", advice)
    policy = str(info.get("maxmemory_policy", "noeviction"))
    is_kept = policy == "noeviction" or not info.get("maxmemory")
    yield Finding(
        is_kept, f"maxmemory-policy {policy}", "" if is_kept else "Set it to noeviction: sessions could vanish."
    )
    await client.set(_SAMPLE, "x", ex=60)
    await client.eval("return redis.call('GET', KEYS[1])", 1, _SAMPLE)
    await client.json().set(_SAMPLE + ":json", "$", {"a": 1})
    await client.expire(_SAMPLE + ":json", 60)
    await client.publish(_SAMPLE, "x")
    await client.delete(_SAMPLE, _SAMPLE + ":json")
    yield Finding(True, "it can be written, run scripts and publish")
    seconds, micros = await client.time()
    skew = abs(time.time() - (seconds + micros / 1e6))  # noqa: TID251 - two real clocks are compared
    advice = "Let both machines keep time (NTP); run records would be out of order." if skew > MOST_SKEW_S else ""
    yield Finding(skew <= MOST_SKEW_S, f"its clock differs by {skew:.1f} s", advice)
