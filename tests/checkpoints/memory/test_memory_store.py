from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.memory.memory_store import MemoryBlobs, MemoryLeaseTable
from ragflow_lg.checkpoints.records.lease_owner import this_process
from tests.fakes.regions import form, loop, node, out, play_run, runner_of, text


async def test_blobs_belong_to_their_thread() -> None:
    blobs = MemoryBlobs()
    await blobs.put("a", {"1": b"x"})
    assert await blobs.find("a", ["1", "2"]) == {"1": b"x"}
    assert await blobs.find("b", ["1"]) == {}
    blobs.delete("a")
    assert await blobs.find("a", ["1"]) == {}


async def test_the_history_has_every_step_of_a_long_session_and_a_fork_continues() -> None:
    first = {
        "A": node("Loop", {"loop_variables": [], "maximum_loop_count": 70}, ["lp"]),
        "Ai": node("LoopItem", {}, ["t"], parent_id="A"),
        "t": {**text(script="x"), "parent_id": "A"},
    }
    second = loop({"ask": form("f")}, count=2)
    async with open_store("memory://", SystemClock(), durability="steps") as store:
        runner = runner_of({**first, **second, **out("done")}, first=["A"], store=store)
        await play_run(runner.start("s", {"query": "q"}))
        await play_run(runner.resume("s", {"f": "1"}))
        checkpoints = [checkpoint async for checkpoint in runner.history("s")]
        assert {checkpoint.region for checkpoint in checkpoints} == {None, "A", "lp"}
        assert len({checkpoint.checkpoint for checkpoint in checkpoints}) == len(checkpoints) > 70
        await runner.fork("s", "twin")
        assert (await play_run(runner.resume("twin", {"f": "2"})))[0] == "done"


async def test_leases_in_memory_do_not_expire() -> None:
    table = MemoryLeaseTable()
    assert await table.take("s", this_process(), 0) == 1
    assert await table.renew("s", 1)
    assert not await table.renew("s", 2)
    await table.free("s", 2)
    await table.free("s", 1)
    assert await table.take("s", this_process(), 0) == 2
