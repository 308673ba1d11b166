"""The lowered graph: which nodes run, how often and in which order."""

import random
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.adapters.system_services import InlineFiles
from ragflow_lg.base.errors import RunError
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import CATALOG, canvas, node, switch, text
from tests.fakes.regions import answer_of, out
from tests.fakes.services import fake_services
from tests.harness.rows import each_row

ALWAYS, NEVER = "not empty", "empty"


def random_canvas(chance: random.Random) -> dict[str, Any]:
    """Build a DAG whose routers choose at random. Ids are in topological order."""
    size = chance.randint(4, 16)
    components: dict[str, Any] = {}
    for i in range(size):
        later = [f"n{k}" for k in range(i + 1, size)]
        targets = chance.sample(later, min(len(later), chance.randint(0, 3)))
        if len(targets) > 1 and chance.random() < 0.4:
            cut = chance.randint(1, len(targets) - 1)
            components[f"n{i}"] = switch(targets[:cut], targets[cut:], chance.choice([ALWAYS, NEVER]))
        else:
            components[f"n{i}"] = text(targets)
    first = chance.sample(list(components), chance.randint(1, min(3, size)))
    return canvas(components, sorted(first, key=lambda n: int(n[1:])))


def targets_of(component: dict[str, Any]) -> list[str]:
    """Return the targets of the edges that are chosen."""
    params = component["obj"]["params"]
    if "conditions" not in params:
        return component["downstream"]
    (case,) = params["conditions"]
    return case["to"] if case["items"][0]["operator"] == ALWAYS else params["end_cpn_ids"]


def live_nodes(document: dict[str, Any]) -> set[str]:
    """Return the nodes on paths of chosen edges."""
    reached, stack = set[str](), ["begin"]
    while stack:
        if (id_ := stack.pop()) not in reached:
            reached.add(id_)
            stack += targets_of(document["components"][id_])
    return reached


async def node_events(document: dict[str, Any]) -> list[tuple[str, str]]:
    runner = Runner(compile_canvas(document, CATALOG), fake_services())
    run = runner.start("s", {"query": "q"})
    events = [(event.event, getattr(event, "component_id", "")) async for event in run]
    assert run.status == "succeeded"
    return events


@each_row("seed", range(120))
async def test_random_graphs_run_each_live_node_once_in_order(seed: int) -> None:
    document = random_canvas(random.Random(seed))
    events = await node_events(document)
    started = [id_ for event, id_ in events if event == "node_started"]
    assert sorted(started) == sorted(live_nodes(document)), "each live node once, no other"
    for source in started:
        for target in targets_of(document["components"][source]):
            assert events.index(("node_finished", source)) < events.index(("node_started", target))


async def test_a_join_after_a_cycle_runs_once_with_the_last_values_of_the_cycle() -> None:
    count = {"variables": [{"variable": "env.n", "operator": "+=", "parameter": 1}]}
    condition = {"items": [{"cpn_id": "env.n", "operator": "<", "value": "3"}], "to": ["up"]}
    components = {
        "up": node("VariableAssigner", count, ["again"]),
        "again": node("Switch", {"conditions": [condition], "end_cpn_ids": ["join"]}),
        "side": text(["join"]),
        "join": node("Message", {"content": ["n={env.n}"]}),
    }
    document = canvas(components, ["up", "side"], variables={"n": {"name": "n", "type": "number", "value": 0}})
    runner = Runner(compile_canvas(document, CATALOG), fake_services())
    run = runner.start("s", {"query": "q"})
    assert [e async for e in run if e.event == "message_end"] != []
    assert run.answer == "n=3"


async def test_a_join_runs_in_every_turn() -> None:
    document = canvas(
        {"a": text(["j"]), "b": text(["c"]), "c": text(["j"]), "j": node("Message", {"content": "x"})}, ["a", "b"]
    )
    runner = Runner(compile_canvas(document, CATALOG), fake_services(), saver=InMemorySaver())
    for _ in range(3):
        run = runner.start("s", {"query": "q"})
        async for _event in run:
            pass
        assert run.answer == "x"


GRAPH: Any = compile_canvas(canvas({"m": node("Message", {"content": "hi {sys.query}"})}), CATALOG).graph


async def test_a_graph_without_services_names_what_it_needs() -> None:
    with pytest.raises(RunError, match="TurnContext"):
        await GRAPH.ainvoke({"query": "q"})


async def test_unreadable_files_stop_the_turn_before_its_first_node() -> None:
    context = TurnContext(fake_services(files=InlineFiles()))
    state = await GRAPH.ainvoke({"query": "q", "files": [{"name": "a.pdf"}]}, context=context)
    assert state["outputs"] == {}
    assert state["turn"]["status"] == "failed"
    assert "a.pdf" in state["turn"]["error"][3]


async def test_a_target_that_the_compiler_omitted_is_not_chosen() -> None:
    components = {
        "sw": switch(["a", "gone"], ["b"]),
        "a": text(["out"], "A"),
        "b": text(["out"], "B"),
        **out("{a@result}"),
    }
    assert await answer_of(components) == "A"
