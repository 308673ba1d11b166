"""The scopes of regions. The regions themselves are tested with their components."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.services.code import CodeResult
from tests.fakes.code import ScriptedSandbox
from tests.fakes.regions import answer_of, assign, iteration, loop, node, out, play_run, runner_of, text
from tests.fakes.services import fake_services


async def test_a_body_reads_outer_values_without_copying_them() -> None:
    """No checkpoint of a body contains the large outer value that it reads."""
    body = {"t": text(["k"], "{big@result}"), "k": assign("lp@n", "t@result")}
    big = {"big": text(["lp"], "x" * 5000), **loop(body, count=3, variables={"n": ""}), **out("done")}
    saver = InMemorySaver()
    await play_run(runner_of(big, first=["big"], saver=saver).start("s", {"query": "q"}))
    checkpoints = [checkpoint async for checkpoint in saver.alist(None)]
    inner = [c.checkpoint["channel_values"] for c in checkpoints if c.config.get("configurable", {})["checkpoint_ns"]]
    assert inner
    assert all("big" not in values.get("outputs", {}) for values in inner)
    assert all("sys.query" not in values.get("globals", {}) for values in inner)


async def test_writes_of_a_body_reach_every_outer_level() -> None:
    inner: dict[str, Any] = {
        "lp": node("Loop", {"maximum_loop_count": 2}, [], parent_id="it"),
        "li": node("LoopItem", {}, ["w"], parent_id="lp"),
        "w": {**assign("env.n", "", "+=", ["v"]), "parent_id": "lp"},
        "v": {**assign("first@result", "ii@item", "overwrite"), "parent_id": "lp"},
    }
    inner["w"]["obj"]["params"]["variables"][0]["parameter"] = 1
    components: dict[str, Any] = {"first": text(["it"]), **iteration(inner, {}), **out("{env.n} {first@result}")}
    components["ii"]["downstream"] = ["lp"]
    variables = {"n": {"name": "n", "type": "number", "value": 0}}
    answer = await answer_of(components, inputs=["a", "b"], variables=variables, first=["first"])
    assert answer == "4 b"


async def test_outputs_of_a_body_can_be_read_after_the_region() -> None:
    components = {**iteration({"row": text(script="<{ii@item}>")}, {}), **out("{row@result} {ii@index}")}
    assert await answer_of(components, inputs=["a", "b"]) == "<b> 1"


async def test_messages_in_a_body_are_sent_in_every_round() -> None:
    body = {"show": node("Message", {"content": ["{ii@item};"]}), "t": text()}
    body["show"]["downstream"] = ["t"]
    assert await answer_of({**iteration(body, {}), **out("end")}, inputs=["a", "b"]) == "a;b;end"


async def test_a_cycle_in_a_body_runs_until_its_exit() -> None:
    body = {
        "add": text(["set"], "{lp@s}x"),
        "set": assign("lp@s", "add@result", downstream=["sw"]),
        "sw": node(
            "Switch",
            {
                "conditions": [{"items": [{"cpn_id": "lp@s", "operator": "end with", "value": "xxx"}], "to": ["ok"]}],
                "end_cpn_ids": ["add"],
            },
        ),
        "ok": text(),
    }
    assert await answer_of({**loop(body, count=1, variables={"s": ""}), **out("{lp@s}")}) == "xxx"


async def test_a_node_that_succeeds_with_an_empty_error_is_collected() -> None:
    """CodeExec has an output ``_ERROR`` even if its program succeeds, as in RAGFlow."""
    program = node("CodeExec", {"script": "x", "outputs": {"r": {"type": "Any"}}}, [], parent_id="it")
    components = {**iteration({"row": program}, {"rows": "row@r"}), **out("{it@rows}")}
    services = fake_services(code=ScriptedSandbox(CodeResult(has_value=True, value="v")))
    assert await answer_of(components, inputs=["a", "b"], services=services) == ["v", "v"]
