import asyncio
from pathlib import Path

import pytest

from ragflow_lg.server.runs.turn_starts import TurnStarts
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, start_app


async def test_turns_begin_in_order_as_others_have_their_first_event() -> None:
    starts, begun = TurnStarts(2), list[str]()
    leaves = [await starts.enter("a")]

    async def begin(name: str) -> None:
        leaves.append(await starts.enter("a"))
        begun.append(name)

    tasks = [asyncio.create_task(begin(name)) for name in ("first", "second")]
    other = await starts.enter("b")  # a tenant may not have all places
    assert begun == []
    for _ in range(2):  # the second time, it does nothing
        leaves[0]()
        await asyncio.sleep(0.001)
    assert begun == ["first"]
    leaves[1]()
    await asyncio.wait(tasks)
    for leave in (*leaves, other):
        leave()


async def test_a_slow_turn_does_not_keep_others_from_beginning() -> None:
    starts = TurnStarts(1, patience_s=0.01)
    slow = await starts.enter("a")
    fast = await starts.enter("a")
    slow()
    waiting = asyncio.create_task(starts.enter("a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    fast()
    (await waiting)()


async def test_a_cancelled_turn_takes_no_place() -> None:
    starts = TurnStarts(1)
    leave = await starts.enter("a")
    waiting = asyncio.create_task(starts.enter("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    leave()
    (await asyncio.wait_for(starts.enter("a"), 1))()


async def test_a_turn_holds_its_place_until_its_first_event_or_its_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.server.runs.turns.TurnStarts", lambda: TurnStarts(1, 60.0))
    async with start_app(tmp_path, [Reply("Hello")] * 3) as server:
        agent = await server.agent(MODEL)
        await asyncio.gather(*(server.ask(agent) for _ in range(3)))
        await server.app_state.run_manager.drain()
        assert "shutting down" in (await server.ask(agent))["message"]
        (await asyncio.wait_for(server.turns._starts.enter("tenant"), 1))()  # pyright: ignore[reportPrivateUsage]
