"""Nodes that share a step: events, answers and states are those of nodes with a step each, and sessions change over."""

import random
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.checkpoints import Store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.sessions import Durability
from tests.dsl_compiler.lower.test_graph import random_canvas
from tests.fakes.canvas import CATALOG, canvas, node, text
from tests.fakes.regions import assign, iteration, loop, out, play_run, runner_of
from tests.fakes.services import fake_services
from tests.harness.cases import read_cases
from tests.harness.play import play
from tests.stores import OpenStore, store_opener

CASES = list(read_cases(Path(__file__).parents[2] / "fixtures" / "random_canvases"))[::4]
LETTERS = [f"t{number}" for number in range(80)]
CHAIN = {
    name: text([after], f"{{sys.query}}{name}") for name, after in zip(LETTERS, [*LETTERS[1:], "out"], strict=True)
}


def _opener(durability: Durability, opener: OpenStore | None = None) -> OpenStore:
    opener = opener or store_opener("memory://")

    @asynccontextmanager
    async def open_again() -> AsyncGenerator[Store]:
        async with opener() as store:
            yield replace(store, durability=durability)

    return open_again


def _comparable(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without the numbers of steps, and without the ids that pauses have by them."""
    record = {**state.get("turn", {})}
    record |= {name: record[name][1:] for name in ("last", "error") if name in record}
    record["answers"] = list(record.get("answers", {}).values())
    return {**state, "turn": record}


async def test_random_canvases_have_the_same_events_answers_and_states() -> None:
    differing: list[str] = []
    for case in CASES:
        shared, single = [await play(case, _opener(durability)) for durability in ("effects", "steps")]
        found = [[(r.frames, r.answer, r.error, _comparable(r.state)) for r in results] for results in (shared, single)]
        differing += [case.id] if found[0] != found[1] else []
    assert differing == []


def _documents() -> list[dict[str, Any]]:
    body = {"a": text(["b"], "{item}"), "b": text([], "{a@result}!")}
    rounds = {"t": text(["set"], "{lp@rows}x"), "set": assign("lp@rows", "t@result")}
    items = {"items": {"name": "items", "type": "array", "value": ["1", "2", "3"]}}
    return [
        *(random_canvas(random.Random(seed)) for seed in range(6)),
        canvas({**CHAIN, **out("{t79@result}")}, ["t0"]),
        canvas({**iteration(body, {"r": "b@result"}, items="env.items"), **out("{it@r}")}, ["it"], variables=items),
        canvas({**loop(rounds, count=70, variables={"rows": ""}), **out("{lp@rows}")}, ["lp"]),
    ]


@pytest.mark.parametrize("forms", [("effects", "steps"), ("steps", "effects")])
async def test_a_session_that_stops_anywhere_continues_in_the_other_form(forms: tuple[Durability, Durability]) -> None:
    for document in _documents():
        opener = store_opener("memory://")
        compiled = compile_canvas(document, CATALOG)

        def runner_in(store: Store, compiled: Any = compiled) -> Runner:
            return Runner(compiled, fake_services(), store=store, event_limit=1)

        async with _opener(forms[0], opener)() as first, _opener(forms[1], opener)() as second:
            whole = [event.event async for event in runner_in(first).start("whole", {"query": "q"})]
            expected = _comparable(await runner_in(first).state("whole"))
            for stop in range(1, len(whole), max(1, len(whole) // 3)):
                run, session = runner_in(first).start(f"{stop}", {"query": "q"}), f"{stop}"
                count = 0
                async for _ in run:
                    count += 1
                    if count == stop:
                        run.cancel()
                if run.status == "cancelled":
                    await play_run(runner_in(second).continue_(session))
                assert _comparable(await runner_in(first).state(session)) == expected, (document, stop)


async def _history(durability: Durability, opened: AbstractAsyncContextManager[Store]) -> list[tuple[str, ...]]:
    async with opened as store:
        runner = runner_of({**CHAIN, **out("{t79@result}")}, store=replace(store, durability=durability), first=["t0"])
        assert (await play_run(runner.start("s", {"query": "q"})))[0] == "qt79"
        return [info.next async for info in runner.history("s")]


async def test_only_nodes_that_run_alone_and_without_effects_share_a_step() -> None:
    shared = await _history("effects", store_opener("memory://")())
    assert [names[0] for names in shared if names] == ["t64", "t0", "begin", "begin"]
    single = await _history("steps", store_opener("memory://")())
    assert len(single) > len(CHAIN)


async def test_a_node_with_an_effect_has_a_step_of_its_own() -> None:
    components = {
        "a": text(["m"]),
        "m": node("Message", {"content": ["x"], "memory_ids": ["memory"]}, ["b"]),
        "b": text(["c"]),
        "c": text(["out"]),
        **out("{c@result}"),
    }
    async with store_opener("memory://")() as store:
        runner = runner_of(components, store=store, first=["a"])
        await play_run(runner.start("s", {"query": "q"}))
        steps = [info.next async for info in runner.history("s") if info.next]
    assert steps == [("b",), ("m",), ("a",), ("begin",), ("begin",)]


@pytest.mark.parametrize(("name", "played"), [("set", ["+set", "-set"]), ("t", ["+t", "-t", "+set", "-set"])])
async def test_a_rerun_without_a_round_restarts_in_the_last_one(name: str, played: list[str]) -> None:
    body = {"t": text(["set"], "{lp@rows}x"), "set": assign("lp@rows", "t@result")}
    async with store_opener("memory://")() as store:
        components = {**loop(body, count=70, variables={"rows": ""}), **out("{lp@rows}")}
        runner = runner_of(components, store=replace(store, durability="effects"))
        await play_run(runner.start("s", {"query": "q"}))
        answer, events = await play_run(await runner.rerun("s", "again", name))
        assert answer == 70 * "x"
        assert [event for event in events if event[1:] in ("t", "set")] == played
        await runner.fork("s", "fork", name)
        assert await play_run(runner.continue_("fork")) == (answer, events)


async def test_a_rerun_of_a_stopped_turn_restarts_in_a_round_that_has_begun() -> None:
    body = {"t": text(["set"], "{lp@rows}x"), "set": assign("lp@rows", "t@result")}
    async with store_opener("memory://")() as store:
        components = {**loop(body, count=70, variables={"rows": ""}), **out("{lp@rows}")}
        runner = runner_of(components, store=replace(store, durability="effects"), event_limit=1)
        run, started = runner.start("s", {"query": "q"}), 0
        async for event in run:
            started += event.event == "node_started" and event.data()["component_id"] == "t"
            if started == 40:
                run.cancel()
        assert run.status == "cancelled"
        for name in ("t", "set"):
            _, events = await play_run(await runner.rerun("s", f"from {name}", name))
            assert events.count(f"+{name}") in (30, 31, 32)
