from typing import Any

from langgraph.checkpoint.redis.aio import AsyncRedisSaver

from ragflow_lg.checkpoints.redis.redis_client import open_redis
from tests.checkpoints.redis.test_redis_saver import PLACE, THREAD, saver_of
from tests.stores import checkpoint_config, fresh_prefix, put_checkpoint


async def test_langgraphs_saver_reads_sessions_where_the_server_has_json(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, prefix)
        place = PLACE
        for _ in range(3):
            place = await put_checkpoint(saver, PLACE, {"outputs": {"a": "text \u00e4"}, "globals": None})
            await saver.aput_writes(place, [("outputs", "text"), ("globals", None)], "task", "path")
        inner = checkpoint_config(THREAD, "Loop:0|a:b")
        await put_checkpoint(saver, inner, {"outputs": {"a": 1}})
        names: Any = {
            "checkpoint_prefix": f"{prefix}checkpoint",
            "checkpoint_write_prefix": f"{prefix}checkpoint_write",
        }
        theirs = AsyncRedisSaver(redis_client=client, **names)
        await theirs.asetup()
        for config in (PLACE, place, inner):
            ours, found = await saver.inner.aget_tuple(config), await theirs.aget_tuple(config)
            assert ours is not None
            assert found is not None
            assert found.checkpoint["id"] == ours.checkpoint["id"]
            assert found.checkpoint["channel_values"] == ours.checkpoint["channel_values"]
            assert sorted(map(str, found.pending_writes or [])) == sorted(map(str, ours.pending_writes or []))
            assert found.parent_config == ours.parent_config
            assert found.metadata == ours.metadata
