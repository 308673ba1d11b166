from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import switch
from tests.fakes.regions import assign, form, iteration, loop, node, out, play_run, runner_of, text
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
        assert (await play_run(play.start("s", {"query": "q"})))[0] == "aaaa"
        before = [moment async for moment in play.history("s")]
        assert await play_run(await play.rerun("s", "1", "out")) == ("aaaa", ["+out", "-out"])
        answer, events = await play_run(await play.rerun("s", "2", "t", round=2, changes={"env.add": "X"}))
        assert (answer, events.count("+t")) == ("aaXX", 2)
        assert (await play_run(await play.rerun("s", "3", "set", round=1, changes={"t@result": "E"})))[0] == "Eaa"
        assert (await play_run(await play.rerun("s", "4", "lp", changes={"env.add": "b", "sys.query": "other"})))[
            0
        ] == "bbbb"
        assert (await play_run(await play.rerun("s", "5", "begin")))[0] == "aaaa"
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
    await play_run(play.start("s", {"query": "q"}))
    answer, events = await play_run(await play.rerun("s", "again", "a", changes={"env.add": "!"}))
    assert answer == "A!Ba"
    assert "+b" not in events


async def test_a_fork_waits_where_the_original_waits(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(ASK, store=store)
        await play_run(play.start("s", {"query": "q"}))
        await play.fork("s", "twin")
        assert [p.node for p in await play.pauses("twin")] == ["ask"]
        assert (await play_run(play.resume("twin", {"w": "twin"})))[0] == "q:twin"
        assert (await play_run(play.resume("s", {"w": "first"})))[0] == "q:first"


async def test_a_fork_that_dies_has_made_no_session_at_all(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of({**loop({"ask": form("w")}, count=1), **out("{sys.query}")}, store=store)
        await play_run(play.start("s", {"query": "q"}))
        puts, stores = 0, store.saver.aput

        async def dies(config: Any, *arguments: Any) -> Any:
            nonlocal puts
            puts += 1
            if config["configurable"]["checkpoint_ns"] == "":
                raise KeyboardInterrupt
            return await stores(config, *arguments)

        store.saver.aput = dies  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            await play.fork("s", "twin")
        assert puts == 2
        store.saver.aput = stores  # type: ignore[method-assign]
        assert await play.pauses("twin") == []
        await play.fork("s", "twin")
        assert (await play_run(play.resume("twin", {"w": "x"})))[0] == "q"


async def test_two_forks_do_not_write_into_the_same_session(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store, reopen_shared() as other:
        play = runner_of(ASK, store=store)
        await play_run(play.start("s", {"query": "q"}))
        async with hold_lease(other.leases, "twin"):
            with pytest.raises(ConflictError, match="is already running"):
                await play.fork("s", "twin")
            with pytest.raises(ConflictError, match="is already running"):
                await play.rerun("s", "twin", "out")
        assert await play.state("twin") == {}


async def test_a_fork_of_an_older_step_runs_what_came_next(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(LOOP, variables=ADD, store=store)
        await play_run(play.start("s", {"query": "q"}))
        moments = [m async for m in play.history("s") if not m.namespace]
        (before_out,) = [m for m in moments if m.next == ("out",)]
        await play.fork("s", "older", before_out.checkpoint)
        assert await play_run(play.continue_("older")) == ("aaaa", ["+out", "-out"])


async def test_a_fork_in_the_middle_of_a_loop_takes_the_loop_along(reopen: OpenStore) -> None:
    body = {"ask": form("w", downstream=["set"]), "set": assign("lp@seen", "ask@w", "append")}
    body["set"]["obj"]["params"]["variables"][0]["variable"] = "lp@seen"
    rows = [{"variable": "seen", "input_mode": "constant", "type": "array", "value": []}]
    components = {**loop(body, count=3, loop_variables=rows), **out("{lp@seen}")}
    async with reopen() as store:
        play = runner_of(components, store=store)
        await play_run(play.start("s", {"query": "q"}))
        await play_run(play.resume("s", {"w": "1"}))
        await play.fork("s", "twin")
        for word in ("2", "3"):
            answer, _ = await play_run(play.resume("twin", {"w": word}))
        assert answer == '["1", "2", "3"]'
        assert [p.node for p in await play.pauses("s")] == ["ask"]


def _over(items: str = "begin@items", **params: Any) -> dict[str, Any]:
    body = {"t": text(["u"], "{item}!"), "u": text([], "{t@result}?")}
    declared = {"items": {"name": "items", "type": "object", "optional": False}}
    begin = node("Begin", {"mode": "task", "inputs": declared}, ["it"])
    return {"begin": begin, **iteration(body, {"r": "u@result"}, items=items, **params), **out("{it@r}")}


@pytest.mark.parametrize("components", [LOOP, _over(), _over(max_concurrency=2)], ids=["loop", "items", "side by side"])
async def test_a_fork_of_any_step_that_is_listed_ends_as_the_original(
    reopen: OpenStore, components: dict[str, Any]
) -> None:
    async with reopen() as store:
        play = runner_of(components, variables=ADD, store=store)
        answer, _ = await play_run(play.start("s", {"inputs": {"items": {"value": ["a", "b"]}}}))
        moments = [moment async for moment in play.history("s")]
        assert {moment.region for moment in moments} == {None, "lp" if "lp" in components else "it"}
        for number, moment in enumerate(moments):
            await play.fork("s", f"fork {number}", moment.checkpoint)
            if number:
                await play_run(play.continue_(f"fork {number}"))
            state = await play.state(f"fork {number}")
            assert (state["outputs"]["out"]["content"], state["turn"]["status"]) == (answer, "succeeded"), moment


async def test_what_came_before_a_step_of_a_region_does_not_run_again(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(_over(max_concurrency=2), store=store)
        await play_run(play.start("s", {"inputs": {"items": {"value": ["a", "b"]}}}))
        steps = [moment async for moment in play.history("s") if moment.round == 1 and moment.next == ("u",)]
        await play.fork("s", "twin", steps[0].checkpoint)
        assert (await play_run(play.continue_("twin")))[1] == ["+u", "-u", "-it", "+out", "-out"]
        answer, events = await play_run(await play.rerun("s", "again", "u", round=0, changes={"t@result": "T"}))
        assert (answer, events) == ('["T?", "b!?"]', ["+u", "-u", "-it", "+out", "-out"])


async def test_the_beginning_of_an_id_is_enough() -> None:
    play = runner_of(LOOP, variables=ADD, saver=_saver())
    await play_run(play.start("s", {"query": "q"}))
    moments = [moment async for moment in play.history("s")]
    inner = next(moment for moment in moments if moment.region == "lp" and moment.next == ("set",))
    shared = [m.checkpoint for m in moments if m is not inner]
    length = next(n for n in range(1, 37) if not any(id_.startswith(inner.checkpoint[:n]) for id_ in shared))
    await play.fork("s", "short", inner.checkpoint[:length])
    assert await play_run(play.continue_("short"))
    for wrong, reason in (("1", r"begin with '1'.*history s"), ("zz", r"no checkpoint 'zz'.*history s")):
        with pytest.raises(CheckpointError, match=reason):
            await play.fork("s", "wrong", wrong)


async def test_a_fork_of_what_a_region_waits_for_now_takes_the_question_along(reopen: OpenStore) -> None:
    body = {"ask": form("w", downstream=["set"]), "set": assign("lp@seen", "ask@w")}
    async with reopen() as store:
        play = runner_of({**loop(body, count=2, variables={"seen": ""}), **out("{lp@seen}")}, store=store)
        await play_run(play.start("s", {"query": "q"}))
        await play_run(play.resume("s", {"w": "1"}))
        steps = [moment async for moment in play.history("s") if moment.next == ("ask",)]
        await play.fork("s", "now", steps[0].checkpoint)
        assert [pause.node for pause in await play.pauses("now")] == ["ask"]
        await play.fork("s", "before", steps[1].checkpoint)
        assert await play_run(play.continue_("before")) == ("", ["?w"])
        for word in ("2", "3"):
            answer, _ = await play_run(play.resume("before", {"w": word}))
        assert answer == "3"


async def test_a_form_is_asked_again_by_a_rerun(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(ASK, store=store)
        await play_run(play.start("s", {"query": "q"}))
        await play_run(play.resume("s", {"w": "first"}))
        assert await play_run(await play.rerun("s", "again", "ask")) == ("", ["?w"])
        assert (await play_run(play.resume("again", {"w": "second"})))[0] == "q:second"


async def test_a_rerun_from_the_entry_node_takes_another_request(reopen: OpenStore) -> None:
    async with reopen() as store:
        told = out("{sys.query}|{sys.user_id}|{env.add}|{sys.conversation_turns}")
        play = runner_of(told, variables=ADD, store=store)
        assert (await play_run(play.start("s", {"query": "q", "user_id": "u"})))[0] == "q|u|a|1"
        for changes, answer in (
            ({"sys.query": "other", "env.add": "b"}, "other|u|b|1"),
            ({"sys.user_id": "ann"}, "q|ann|a|1"),
        ):
            run = await play.rerun("s", answer, "begin", changes=changes)
            assert (await play_run(run))[0] == answer


async def test_only_the_last_turn_is_run_again() -> None:
    components = {"if": switch(["out"], ["lp"], reference="sys.user_id"), **LOOP}
    play = runner_of(components, first=["if"], variables=ADD, saver=_saver())
    await play_run(play.start("s", {"query": "q"}))
    await play_run(play.start("s", {"query": "q", "user_id": "u"}))
    with pytest.raises(CheckpointError, match=r"'t' did not run in the last turn.*Those that ran: begin, if, out\."):
        await play.rerun("s", "new", "t")


async def test_what_cannot_be_branched_is_told() -> None:
    play = runner_of(LOOP, variables=ADD, saver=_saver())
    await play_run(play.start("s", {"query": "q"}))
    for start, more, reason in (
        ("nobody", {}, "no node 'nobody'"),
        ("te", {}, "no node 'te'. Did you mean"),
        ("t", {"round": 9}, "in round 9 .* It ran in rounds 0 to 3"),
        ("out", {"round": 1}, "not in a Loop or Iteration"),
        ("t", {"changes": {"nonsense": 1}}, "not a variable"),
        ("t", {"changes": {"nobody@x": 1}}, "no node 'nobody'"),
    ):
        with pytest.raises(CheckpointError, match=reason):
            await play.rerun("s", "new", start, **more)  # type: ignore[arg-type]
    with pytest.raises(ConflictError, match="already"):
        await play.rerun("s", "s", "t")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        await play.fork("s", "new", "1f000000-0000-6000-8000-000000000000")
    with pytest.raises(CheckpointError, match="no session 'nobody'"):
        await play.fork("nobody", "new")
    with pytest.raises(CheckpointError, match="Without a session store"):
        await runner_of(LOOP, variables=ADD).fork("s", "new")


def _saver() -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()
