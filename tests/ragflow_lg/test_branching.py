from typing import Any

import pytest

from ragflow_lg.errors import CheckpointError, ConflictError
from ragflow_lg.sessions import leased
from tests.fakes.regions import assign, form, loop, out, played, runner_of, text
from tests.stores import OpenStore

BODY = {
    "t": text(["set"], "{lp@seen}{env.add}"),
    "set": assign("lp@seen", "t@result"),
}
LOOP = {**loop(BODY, count=4, variables={"seen": ""}), **out("{lp@seen}")}
ADD = {"add": {"name": "add", "type": "string", "value": "a"}}
ASK = {"ask": form("w", downstream=["out"]), **out("{sys.query}:{ask@w}")}


async def test_a_turn_is_run_again_from_a_node_of_any_round(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(LOOP, variables=ADD, store=store)
        assert (await played(play.start("s", {"query": "q"})))[0] == "aaaa"
        before = [moment async for moment in play.history("s")]
        assert await played(await play.rerun("s", "1", "out")) == ("aaaa", ["+out", "-out"])
        answer, events = await played(await play.rerun("s", "2", "t", round=2, changes={"env.add": "X"}))
        assert (answer, events.count("+t")) == ("aaXX", 2)
        assert (await played(await play.rerun("s", "3", "set", round=1, changes={"t@result": "E"})))[0] == "Eaa"
        assert (await played(await play.rerun("s", "4", "lp", changes={"env.add": "b", "sys.query": "other"})))[
            0
        ] == "bbbb"
        assert (await played(await play.rerun("s", "5", "begin")))[0] == "aaaa"
        assert [moment async for moment in play.history("s")] == before
        assert (await play.state("s"))["outputs"]["out"]["content"] == "aaaa"
        runs = [record.status async for record in store.runs.of_session("2")]
        assert runs == ["succeeded"]


async def test_siblings_keep_what_they_gave() -> None:
    components = {
        "a": text(["j"], "A{env.add}"),
        "b": text(["j"], "B{env.add}"),
        "j": text(["out"], "{a@result}{b@result}"),
    }
    play = runner_of({**components, **out("{j@result}")}, first=["a", "b"], variables=ADD, saver=_saver())
    await played(play.start("s", {"query": "q"}))
    answer, events = await played(await play.rerun("s", "again", "a", changes={"env.add": "!"}))
    assert answer == "A!Ba"
    assert "+b" not in events


async def test_a_fork_waits_where_the_original_waits(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(ASK, store=store)
        await played(play.start("s", {"query": "q"}))
        await play.fork("s", "twin")
        assert [p.node for p in await play.pauses("twin")] == ["ask"]
        assert (await played(play.resume("twin", {"w": "twin"})))[0] == "q:twin"
        assert (await played(play.resume("s", {"w": "first"})))[0] == "q:first"


async def test_two_forks_do_not_write_into_the_same_session(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store, reopen_shared() as other:
        play = runner_of(ASK, store=store)
        await played(play.start("s", {"query": "q"}))
        async with leased(other.leases, "twin"):
            with pytest.raises(ConflictError, match="is being run by"):
                await play.fork("s", "twin")
            with pytest.raises(ConflictError, match="is being run by"):
                await play.rerun("s", "twin", "out")
        assert await play.state("twin") == {}


async def test_a_fork_of_an_older_step_runs_what_came_next(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(LOOP, variables=ADD, store=store)
        await played(play.start("s", {"query": "q"}))
        moments = [m async for m in play.history("s") if not m.namespace]
        (before_out,) = [m for m in moments if m.next == ("out",)]
        await play.fork("s", "older", before_out.checkpoint)
        assert await played(play.go_on("older")) == ("aaaa", ["+out", "-out"])


async def test_a_fork_in_the_middle_of_a_loop_takes_the_loop_along(reopen: OpenStore) -> None:
    body = {"ask": form("w", downstream=["set"]), "set": assign("lp@seen", "ask@w", "append")}
    body["set"]["obj"]["params"]["variables"][0]["variable"] = "lp@seen"
    rows = [{"variable": "seen", "input_mode": "constant", "type": "array", "value": []}]
    components = {**loop(body, count=3, loop_variables=rows), **out("{lp@seen}")}
    async with reopen() as store:
        play = runner_of(components, store=store)
        await played(play.start("s", {"query": "q"}))
        await played(play.resume("s", {"w": "1"}))
        await play.fork("s", "twin")
        for word in ("2", "3"):
            answer, _ = await played(play.resume("twin", {"w": word}))
        assert answer == '["1", "2", "3"]'
        assert [p.node for p in await play.pauses("s")] == ["ask"]


async def test_what_cannot_be_branched_is_told() -> None:
    play = runner_of(LOOP, variables=ADD, saver=_saver())
    await played(play.start("s", {"query": "q"}))
    for node, more, reason in (
        ("nobody", {}, "no node 'nobody'"),
        ("t", {"round": 9}, "in round 9"),
        ("t", {"changes": {"nonsense": 1}}, "no variable"),
        ("t", {"changes": {"nobody@x": 1}}, "no variable"),
    ):
        with pytest.raises(CheckpointError, match=reason):
            await play.rerun("s", "new", node, **more)  # type: ignore[arg-type]
    with pytest.raises(ConflictError, match="already"):
        await play.rerun("s", "s", "t")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        await play.fork("s", "new", "1f000000-0000-6000-8000-000000000000")
    with pytest.raises(CheckpointError, match="no such session"):
        await play.fork("nobody", "new")
    with pytest.raises(CheckpointError, match="Without a session store"):
        await runner_of(LOOP, variables=ADD).fork("s", "new")


def _saver() -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()
