"""When the steps of a run are stored: each before the next one begins."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.steps.thread_values import ThreadValues
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.sessions import Durability
from tests.fakes.canvas import node
from tests.fakes.regions import assign, form, iteration, loop, out, play_run, runner_of, text
from tests.stores import OpenStore, checkpoint_config, sqlite_file

Open = Callable[[Durability], AbstractAsyncContextManager[Store]]


@pytest.fixture
def open_file(tmp_path: Path) -> Open:
    return lambda durability: open_store(f"sqlite:///{tmp_path}/{durability}.db", durability=durability)


async def test_a_turn_whose_end_is_stored_succeeds_although_the_answer_of_the_store_is_lost(
    reopen_shared: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ThreadValues.write

    async def write_and_lose(self: ThreadValues, *arguments: Any, **options: Any) -> Any:
        result = await write(self, *arguments, **options)
        if not await store.leases.holder("s"):
            raise CheckpointError("The connection is lost.")
        return result

    async with reopen_shared() as store:
        runner = runner_of(out("{sys.query}"), store=store)
        with monkeypatch.context() as patch:
            patch.setattr(ThreadValues, "write", write_and_lose)
            assert (await play_run(run := runner.start("s", {"query": "q"})))[0] == "q"
        assert (run.status, run.error) == ("succeeded", None)
        assert [record.status async for record in store.runs.of_session("s")] == ["succeeded"]
        assert (await play_run(runner.start("s", {"query": "r"})))[0] == "r"


class Seen(ComponentOutputs):
    seen: list[str] = Field(default_factory=list[str])


def _runner(
    store: Store, components: dict[str, Any], first: Any, **bodies: Callable[[], Awaitable[list[str]]]
) -> Runner:
    """Return a runner whose catalog has components with effects, which run these functions."""
    catalog = load_catalog()
    for name, body in bodies.items():

        async def run(ctx: Any, params: ComponentParams, body: Callable[[], Awaitable[list[str]]] = body) -> Seen:
            return Seen(seen=await body())

        effects = "none" if name == "Wait" else "pays"
        build = component(name, params=ComponentParams, outputs=Seen, description="Look.", effects=effects)
        catalog.add(build(run))
    return runner_of({**components, **out("{sys.query}")}, store=store, first=first, catalog=catalog)


async def _finished(store: Store) -> list[str]:
    """Return the nodes whose results another process would find."""
    stored = await store.saver.aget_tuple(checkpoint_config(thread_of_session("s")))
    assert stored is not None
    names = set(stored.checkpoint["channel_values"].get("outputs", {}))
    names |= {name for _, channel, value in stored.pending_writes or () if channel == "outputs" for name in value}
    return sorted(names)


async def test_an_effect_begins_after_the_steps_before_it_are_stored(open_file: Open) -> None:
    async def probe() -> list[str]:
        async with open_file("effects") as other:
            return await _finished(other)

    components = {"a": text(["b"]), "b": text(["p"]), "p": node("Probe", {}, ["out"])}
    async with open_file("effects") as store:
        runner = _runner(store, components, ["a"], Probe=probe)
        await play_run(runner.start("s", {"query": "q"}))
        assert (await runner.state("s"))["outputs"]["p"]["seen"] == ["a", "b", "begin"]


async def test_a_message_shows_the_result_of_an_effect_after_it_is_stored(open_file: Open) -> None:
    async def pay() -> list[str]:
        return []

    components = {"p": node("Pay", {}, ["t"]), "t": text(["out"])}
    async with open_file("effects") as store, open_file("effects") as other:
        run = _runner(store, components, ["p"], Pay=pay).start("s", {"query": "q"})
        shown = [await _finished(other) async for event in run if event.event == "message"]
    assert {"begin", "p"} <= {*shown[0]}


async def test_the_result_of_an_effect_is_stored_although_others_still_run(open_file: Open) -> None:
    may_end, log = asyncio.Event(), list[str]()

    async def pay() -> list[str]:
        log.append("paid")
        return []

    async def wait() -> list[str]:
        await may_end.wait()
        return []

    components = {"p": node("Pay", {}, []), "w": node("Wait", {}, ["out"])}
    async with open_file("effects") as store, open_file("effects") as other:
        runner = _runner(store, components, ["p", "w"], Pay=pay, Wait=wait)
        run = asyncio.create_task(play_run(runner.start("s", {"query": "q"})))
        async with asyncio.timeout(60):
            while not log or "p" not in await _finished(other):
                await asyncio.sleep(0.01)
        assert "w" not in await _finished(other)
        may_end.set()
        await run


async def test_the_turn_keeps_its_seed_and_time(open_file: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_file("effects") as store:
        chain = {"a": text(["b"]), "b": text(["c"], "{sys.query}x"), "c": text(["out"])}
        runner = runner_of({**chain, **out("{b@result}")}, store=store)
        put = store.saver.aput
        steps: list[int] = []

        async def fail(config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
            if metadata["step"] > 1:
                raise CheckpointError("disk full")
            steps.append(metadata["step"])
            return await put(config, checkpoint, metadata, versions)

        monkeypatch.setattr(store.saver, "aput", fail)
        with pytest.raises(CheckpointError, match="disk full"):
            await play_run(runner.start("s", {"query": "q"}))
        before = await runner.state("s")
        monkeypatch.setattr(store.saver, "aput", put)
        answer, events = await play_run(runner.continue_("s"))
        after = await runner.state("s")
    assert (answer, "+begin" in events, steps) == ("qx", False, [-1, 0, 1])
    assert before["turn"]["seed"] == after["turn"]["seed"]
    assert before["globals"]["sys.date"] == after["globals"]["sys.date"]


async def test_growing_lists_take_linear_space(tmp_path: Path) -> None:
    """A list grows by an assigner in a Loop, as the history of a session, or in a region that is resumed."""

    async def bytes_of(store: Store) -> int:
        rows = await sqlite_file(store).read(
            "SELECT (SELECT sum(length(content)) FROM session_blobs)"
            " + (SELECT sum(length(checkpoint)) FROM session_checkpoints)"
            " + (SELECT coalesce(sum(length(value)), 0) FROM session_writes)"
        )
        return int(rows[0][0])

    sizes: dict[str, list[int]] = {"assigner": [], "conversation": [], "iteration": []}
    row = "x" * 200
    variables: dict[str, Any] = {"rows": {"name": "rows", "type": "array<string>", "value": []}}
    for count in (8, 16, 32):
        body = {"t": text(["set"], row + "{lp@n}"), "set": assign("env.rows", "t@result", "append")}
        async with open_store(f"sqlite:///{tmp_path}/a{count}.db") as store:
            canvas_ = {**loop(body, count=count), **out("done")}
            await play_run(runner_of(canvas_, store=store, variables=variables).start("s", {"query": "q"}))
            sizes["assigner"].append(await bytes_of(store))
        async with open_store(f"sqlite:///{tmp_path}/c{count}.db") as store:
            runner = runner_of(out("{sys.query}" + row), store=store)
            for number in range(count // 2):
                await play_run(runner.start("s", {"query": f"{number}" + row}))
            sizes["conversation"].append(await bytes_of(store))
        async with open_store(f"sqlite:///{tmp_path}/r{count}.db") as store:
            body = {"ask": form("w", downstream=["join"]), "join": text([], row + "{ask@w}")}
            canvas_ = {**iteration(body, {"r": "join@result"}), **out("done")}
            runner = runner_of(canvas_, store=store)
            await play_run(runner.start("s", {"query": "q", "inputs": {"items": {"value": list(range(count // 4))}}}))
            for number in range(count // 4):
                await play_run(runner.resume("s", {"w": f"{number}"}))
            sizes["iteration"].append(await bytes_of(store))
    for name, (small, middle, large) in sizes.items():
        assert large - middle < 3 * (middle - small), (name, small, middle, large)


async def test_a_chain_of_large_values_takes_little_space(tmp_path: Path) -> None:
    nodes = {f"n{number}": text([f"n{number + 1}"], f"{number:04}" * 256) for number in range(256)}
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        await play_run(runner_of({**nodes, "n256": out("done")["out"]}, first=["n0"], store=store).start("s", {}))
    assert (tmp_path / "s.db").stat().st_size < 3_000_000
