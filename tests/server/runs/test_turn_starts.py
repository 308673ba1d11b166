import asyncio
from pathlib import Path

import pytest

from ragflow_lg.server.runs.turn_starts import TurnStart, TurnStarts
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
        leaves[0].end()
        await asyncio.sleep(0.001)
    assert begun == ["first"]
    leaves[1].end()
    await asyncio.wait(tasks)
    for leave in (*leaves, other):
        leave.end()


async def test_a_slow_turn_does_not_keep_others_from_beginning() -> None:
    starts = TurnStarts(1, patience_s=0.01)
    slow = await starts.enter("a")
    fast = await starts.enter("a")
    slow.end()
    waiting = asyncio.create_task(starts.enter("a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    fast.end()
    (await waiting).end()


async def test_a_cancelled_turn_takes_no_place() -> None:
    starts = TurnStarts(1)
    leave = await starts.enter("a")
    waiting = asyncio.create_task(starts.enter("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    leave.end()
    (await asyncio.wait_for(starts.enter("a"), 1)).end()


async def test_a_turn_holds_its_place_until_its_first_event_or_its_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.server.runs.turns.TurnStarts", lambda: TurnStarts(1, 60.0))
    async with start_app(tmp_path, [Reply("Hello")] * 3) as server:
        agent = await server.agent(MODEL)
        await asyncio.gather(*(server.ask(agent) for _ in range(3)))
        await server.app_state.run_manager.drain()
        assert "shutting down" in (await server.ask(agent))["message"]
        (await asyncio.wait_for(server.turns._starts.enter("tenant"), 1)).end()  # pyright: ignore[reportPrivateUsage]


class Held:
    """A run that may be held."""

    until: asyncio.Future[None] | None = None

    def hold(self, until: asyncio.Future[None]) -> None:
        self.until = until


async def _begin(starts: TurnStarts, tenants: str) -> tuple[list[TurnStart], list[Held]]:
    """Begin a turn for each tenant, and give each its first event."""
    waiting = [asyncio.create_task(starts.enter(tenant)) for tenant in tenants]
    turns, runs = list[TurnStart](), list[Held]()
    for task in waiting:
        turns.append(await task)
        runs.append(Held())
        turns[-1].begin(runs[-1].hold)
    await asyncio.sleep(0.001)
    return turns, runs


def _free(runs: list[Held]) -> list[bool]:
    return [run.until is None or run.until.done() for run in runs]


async def test_turns_of_a_burst_go_on_in_order_when_all_have_begun() -> None:
    starts = TurnStarts(2, patience_s=60.0, hold_s=60.0)
    turns, runs = await _begin(starts, "aaabaa")
    assert _free(runs) == [True, False, False, True, True, True]  # beside the last two, few are left
    turns[0].end()
    assert runs[0].until is not None
    await asyncio.sleep(0.001)
    assert _free(runs) == [True, True, False, True, True, True]
    for turn in turns:
        turn.end()
    await asyncio.sleep(0.001)
    assert all(_free(runs))


async def test_a_turn_beside_few_that_begin_is_not_held() -> None:
    starts = TurnStarts(2)
    beside = await starts.enter("a")
    _, runs = await _begin(starts, "a")
    assert runs[0].until is None
    beside.end()


async def test_nobody_waits_long_for_a_place_to_go_on() -> None:
    turns, runs = await _begin(TurnStarts(2, patience_s=60.0, hold_s=0.05), "aaaa")
    held = [run.until for run in runs if run.until is not None]
    assert [until.done() for until in held] == [True, False]  # there is one place for a tenant
    await asyncio.wait_for(held[1], 5)
    for turn in turns:
        turn.end()


async def test_nobody_is_held_for_long() -> None:
    starts, run = TurnStarts(4, patience_s=60.0, hold_s=0.01), Held()
    waiting = [asyncio.create_task(starts.enter("a")) for _ in range(5)]
    turn = await waiting[0]
    turn.begin(run.hold)
    assert run.until is not None
    await asyncio.wait_for(run.until, 5)
    turn.end()
    for task in waiting[1:]:
        (await task).end()
