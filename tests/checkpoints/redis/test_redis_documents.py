from typing import Any

import orjson
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from redis.asyncio import Redis

from ragflow_lg.checkpoints.redis.redis_client import Command, collecting_writes, open_redis
from ragflow_lg.checkpoints.redis.redis_saver import RedisSaver
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from tests.stores import fresh_prefix

METADATA: Any = {"source": "loop", "step": 1, "parents": {}, "run_id": "r", "more": "text \u00e4"}
WRITES: list[tuple[str, Any]] = [("outputs", "text \u00e4"), ("globals", None), ("__interrupt__", "pause")]


async def test_the_documents_are_those_of_langgraphs_saver(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        ours = RedisSaver(client, RedisSessions(client, prefix, 60), prefix)
        await ours.asetup()
        theirs = _langgraphs_saver(client, prefix)
        await theirs.asetup()
        for place in ({}, {"checkpoint_id": "parent"}):
            assert await _written(ours, place) == await _written(theirs, place)


def _langgraphs_saver(client: Redis, prefix: str) -> AsyncRedisSaver:
    saver: Any = AsyncRedisSaver(
        redis_client=client,
        checkpoint_prefix=f"{prefix}checkpoint",
        checkpoint_write_prefix=f"{prefix}checkpoint_write",
    )
    saver.serde = PlainSerializer(is_json=True)
    return saver


async def _written(saver: BaseCheckpointSaver[Any], place: dict[str, Any]) -> list[Any]:
    """Return the commands that store a checkpoint and its writes, with their documents as data."""
    checkpoint = empty_checkpoint()
    checkpoint.update(id="id", ts="now", channel_values={"outputs": "text", "globals": None})
    checkpoint["channel_versions"] = {"outputs": 1}
    checkpoint["versions_seen"] = {"node": {"outputs": 1}}
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", **place}}
    with collecting_writes() as commands:
        stored = await saver.aput(config, checkpoint, METADATA, {})
        await saver.aput_writes(stored, WRITES, "task", "path")
    return [_as_data(command) for command in commands if command[0] != "JSON.MERGE"]


def _as_data(command: Command) -> list[Any]:
    if command[0] != "JSON.SET":
        return list(command)
    document = orjson.loads(command[3])
    if "has_writes" in document:
        document["has_writes"] = True  # LangGraph's saver sets it with the first write
        document["metadata"] = orjson.loads(document["metadata"])
        document.pop("checkpoint_ts", None)
    return [*command[:3], document]
