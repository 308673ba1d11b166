from __future__ import annotations

import asyncio

from tests.stores import OpenStore


async def test_a_request_reaches_whoever_runs_the_session(reopen: OpenStore) -> None:
    told: list[str] = []
    async with reopen() as runner, reopen() as other:
        async with runner.cancels.watch("anna", lambda: told.append("anna")):
            await other.cancels.request("ben")
            await other.cancels.request("anna")
            async with asyncio.timeout(2):
                while not told:
                    await asyncio.sleep(0.01)
        assert told == ["anna"]


async def test_a_flag_from_before_or_after_stops_nobody(reopen: OpenStore) -> None:
    told: list[str] = []
    async with reopen() as store:
        await store.cancels.request("anna")
        async with store.cancels.watch("anna", lambda: told.append("first")):
            await asyncio.sleep(0.7)
        await store.cancels.request("anna")
        async with store.cancels.watch("anna", lambda: told.append("second")):
            await asyncio.sleep(0.3)
    assert told == []
