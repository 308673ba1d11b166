from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ragflow_lg.errors import ConflictError
from ragflow_lg.runner import Runner
from server.hub import DirectHub
from server.library import load_canvas
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.server.http.running import ECHO, MODEL


def runner(canvas: dict[str, Any], *replies: Reply) -> tuple[Runner, ScriptedModel]:
    model = ScriptedModel(list(replies))
    return Runner(load_canvas(canvas), fake_services(models=OneModel(model))), model


async def test_several_follow_a_run_each_from_where_it_likes() -> None:
    hub = DirectHub()
    run_id = await hub.start(runner(ECHO)[0].start("s", {"query": "hi"}))
    whole, rest = hub.follow(run_id), hub.follow(run_id, after=3)
    numbers = [number async for number, _ in whole]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [number async for number, _ in rest] == numbers[3:]
    await hub.drain()
    assert [pair async for pair in hub.follow(run_id)] == []
    assert await hub.cancel(run_id) is False


async def test_a_run_goes_on_without_anybody_and_can_be_cancelled() -> None:
    hub = DirectHub()
    playing, model = runner(MODEL, Reply(chunks=["a"], hangs=True))
    run = playing.start("s", {"query": "hi"})
    run_id = await hub.start(run)
    events = hub.follow(run_id)
    while not model.is_hanging:
        await asyncio.sleep(0.001)
    assert await hub.cancel(run_id) is True
    names = [event.event async for _, event in events if not isinstance(event, tuple)]
    assert (names[-1], run.status) == ("workflow_finished", "cancelled")


async def test_a_refusal_comes_at_the_end() -> None:
    hub = DirectHub()
    events = hub.follow(await hub.start(runner(ECHO)[0].resume("s", {"a": 1})))
    with pytest.raises(ConflictError):
        await anext(events)


async def test_draining_ends_runs_at_their_next_step() -> None:
    hub = DirectHub()
    run = runner(ECHO)[0].start("s", {"query": "hi"})
    await hub.start(run)
    await hub.drain()
    assert run.status in ("drained", "succeeded")
