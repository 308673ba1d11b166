from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import switch
from tests.fakes.regions import assign, form, iteration, loop, node, out, play_run, runner_of, text
from tests.harness.rows import each_row
from tests.stores import OpenStore

BODY = {"t": text(["set"], "{lp@rows}{env.add}"), "set": assign("lp@rows", "t@result")}
LOOP = {**loop(BODY, count=4, variables={"rows": ""}), **out("{lp@rows}")}
ADD = {"add": {"name": "add", "type": "string", "value": "a"}}
ASK = {"ask": form("w", downstream=["out"]), **out("{sys.query}:{ask@w}")}


async def test_a_turn_can_be_rerun_from_a_node_in_any_round(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_of(LOOP, variables=ADD, store=store)
        assert (await play_run(runner.start("s", {"query": "q"})))[0] == "aaaa"
        before = [checkpoint async for checkpoint in runner.history("s")]
        assert await play_run(await runner.rerun("s", "1", "out")) == ("aaaa", ["+out", "-out"])
        answer, events = await play_run(await runner.rerun("s", "2", "t", round=2, changes={"env.add": "X"}))
        assert (answer, events.count("+t")) == ("aaXX", 2)
        assert (await play_run(await runner.rerun("s", "3", "set", round=1, changes={"t@result": "E"})))[0] == "Eaa"
        changes = {"env.add": "b", "sys.query": "other"}
        assert (await play_run(await runner.rerun("s", "4", "lp", changes=changes)))[0] == "bbbb"
        assert (await play_run(await runner.rerun("s", "5", "begin")))[0] == "aaaa"
        assert [checkpoint async for checkpoint in runner.history("s")] == before
        assert (await runner.state("s"))["outputs"]["out"]["content"] == "aaaa"
        runs = [record.status async for record in store.runs.of_session("2")]
        assert runs == ["succeeded"]


async def test_a_rerun_keeps_the_outputs_of_parallel_nodes() -> None:
    components = {"a": text(["out"], "A{env.add}"), "b": text(["out"], "B{env.add}"), **out("{a@result}{b@result}")}
    runner = runner_of(components, first=["a", "b"], variables=ADD, saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    answer, events = await play_run(await runner.rerun("s", "again", "a", changes={"env.add": "!"}))
    assert answer == "A!Ba"
    assert "+b" not in events


async def test_a_fork_waits_at_the_same_form_as_the_original(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_of(ASK, store=store)
        await play_run(runner.start("s", {"query": "q"}))
        await runner.fork("s", "twin")
        assert [p.node for p in await runner.pauses("twin")] == ["ask"]
        assert (await play_run(runner.resume("twin", {"w": "twin"})))[0] == "q:twin"
        assert (await play_run(runner.resume("s", {"w": "first"})))[0] == "q:first"


async def test_an_interrupted_fork_creates_no_session(reopen: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reopen() as store:
        runner = runner_of({**loop({"ask": form("w")}, count=1), **out("{sys.query}")}, store=store)
        await play_run(runner.start("s", {"query": "q"}))
        puts, put = 0, store.saver.aput

        async def fail_at_root(config: Any, *arguments: Any) -> Any:
            nonlocal puts
            puts += 1
            if config["configurable"]["checkpoint_ns"] == "":
                raise KeyboardInterrupt
            return await put(config, *arguments)

        monkeypatch.setattr(store.saver, "aput", fail_at_root)
        with pytest.raises(KeyboardInterrupt):
            await runner.fork("s", "twin")
        assert puts == 2
        monkeypatch.undo()
        assert await runner.pauses("twin") == []
        await runner.fork("s", "twin")
        assert (await play_run(runner.resume("twin", {"w": "x"})))[0] == "q"


async def test_a_fork_into_a_running_session_is_rejected(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store, reopen_shared() as other:
        runner = runner_of(ASK, store=store)
        await play_run(runner.start("s", {"query": "q"}))
        async with hold_lease(other.leases, "twin"):
            with pytest.raises(ConflictError, match="is already running"):
                await runner.fork("s", "twin")
            with pytest.raises(ConflictError, match="is already running"):
                await runner.rerun("s", "twin", "out")
        assert await runner.state("twin") == {}


def _over(items: str = "begin@items", **params: Any) -> dict[str, Any]:
    body = {"t": text(["u"], "{item}!"), "u": text([], "{t@result}?")}
    fields = {"items": {"name": "items", "type": "object", "optional": False}}
    begin = node("Begin", {"mode": "task", "inputs": fields}, ["it"])
    return {"begin": begin, **iteration(body, {"r": "u@result"}, items=items, **params), **out("{it@r}")}


@pytest.mark.parametrize("components", [LOOP, _over(), _over(max_concurrency=2)], ids=["loop", "items", "side by side"])
async def test_a_fork_of_any_checkpoint_in_the_history_ends_like_the_original(
    reopen: OpenStore, components: dict[str, Any]
) -> None:
    async with reopen() as store:
        runner = runner_of(components, variables=ADD, store=store)
        request: Any = {"inputs": {"items": {"value": ["a", "b"]}}}
        answer, _ = await play_run(runner.start("s", request, ignores_unknown=True))
        checkpoints = [checkpoint async for checkpoint in runner.history("s")]
        assert {checkpoint.region for checkpoint in checkpoints} == {None, "lp" if "lp" in components else "it"}
        for number, checkpoint in enumerate(checkpoints):
            await runner.fork("s", f"fork {number}", checkpoint.checkpoint)
            if number:
                await play_run(runner.continue_(f"fork {number}"))
            state = await runner.state(f"fork {number}")
            assert (state["outputs"]["out"]["content"], state["turn"]["status"]) == (answer, "succeeded"), checkpoint


async def test_a_fork_in_a_region_does_not_repeat_earlier_steps(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_of(_over(max_concurrency=2), store=store)
        await play_run(runner.start("s", {"inputs": {"items": {"value": ["a", "b"]}}}))
        steps = [step async for step in runner.history("s") if (step.round, step.next) == (1, ("u",))]
        await runner.fork("s", "twin", steps[0].checkpoint)
        assert (await play_run(runner.continue_("twin")))[1] == ["+u", "-u", "-it", "+out", "-out"]
        answer, events = await play_run(await runner.rerun("s", "again", "u", round=0, changes={"t@result": "T"}))
        assert (answer, events) == ('["T?", "b!?"]', ["+u", "-u", "-it", "+out", "-out"])


async def test_an_unambiguous_prefix_of_an_id_is_enough() -> None:
    runner = runner_of(LOOP, variables=ADD, saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    checkpoints = [checkpoint async for checkpoint in runner.history("s")]
    inner = next(checkpoint for checkpoint in checkpoints if checkpoint.region == "lp" and checkpoint.next == ("li",))
    others = [c.checkpoint for c in checkpoints if c is not inner]
    length = next(n for n in range(1, 37) if not any(id_.startswith(inner.checkpoint[:n]) for id_ in others))
    await runner.fork("s", "short", inner.checkpoint[:length])
    assert (await play_run(runner.continue_("short")))[0] == "aaaa"
    for prefix, reason in (("1", r"start with '1'.*history s"), ("zz", r"no checkpoint 'zz'.*history s")):
        with pytest.raises(CheckpointError, match=reason):
            await runner.fork("s", "new", prefix)


async def test_a_fork_of_a_region_that_waits_also_waits(reopen: OpenStore) -> None:
    body = {"ask": form("w", downstream=["set"]), "set": assign("lp@rows", "ask@w")}
    async with reopen() as store:
        runner = runner_of({**loop(body, count=2, variables={"rows": ""}), **out("{lp@rows}")}, store=store)
        await play_run(runner.start("s", {"query": "q"}))
        await play_run(runner.resume("s", {"w": "1"}))
        steps = [checkpoint async for checkpoint in runner.history("s") if checkpoint.next == ("ask",)]
        await runner.fork("s", "now", steps[0].checkpoint)
        assert [pause.node for pause in await runner.pauses("now")] == ["ask"]
        await runner.fork("s", "before", steps[1].checkpoint)
        assert await play_run(runner.continue_("before")) == ("", ["?w"])
        for word in ("2", "3"):
            answer, _ = await play_run(runner.resume("before", {"w": word}))
        assert answer == "3"


async def test_only_the_last_turn_can_be_rerun() -> None:
    components = {"if": switch(["out"], ["lp"], reference="sys.user_id"), **LOOP}
    runner = runner_of(components, first=["if"], variables=ADD, saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    await play_run(runner.start("s", {"query": "q", "user_id": "u"}))
    with pytest.raises(CheckpointError, match=r"'t' did not run in the last turn.*These nodes ran: begin, if, out\."):
        await runner.rerun("s", "new", "t")


@each_row(
    ("node_id", "round_", "changes", "reason"),
    [
        ("nobody", None, None, "no node 'nobody'. List them with: ragflow-lg sessions history s$"),
        ("te", None, None, "no node 'te'. Did you mean"),
        ("t", 9, None, "in round 9 .* It ran in rounds 0 to 3"),
        ("out", 1, None, "not in a Loop or Iteration"),
        ("t", None, {"nonsense": 1}, "not a variable"),
        ("t", None, {"nobody@x": 1}, "no node 'nobody'"),
    ],
)
async def test_an_impossible_rerun_is_rejected(
    node_id: str, round_: int | None, changes: dict[str, Any] | None, reason: str
) -> None:
    runner = runner_of(LOOP, variables=ADD, saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    with pytest.raises(CheckpointError, match=reason):
        await runner.rerun("s", "new", node_id, round=round_, changes=changes)


async def test_an_impossible_fork_is_rejected() -> None:
    runner = runner_of(LOOP, variables=ADD, saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    with pytest.raises(ConflictError, match="already"):
        await runner.rerun("s", "s", "t")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        await runner.fork("s", "new", "1f000000-0000-6000-8000-000000000000")
    with pytest.raises(CheckpointError, match="no session 'nobody'"):
        await runner.fork("nobody", "new")
    with pytest.raises(CheckpointError, match="Without a session store"):
        await runner_of(LOOP, variables=ADD).fork("s", "new")
