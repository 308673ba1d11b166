"""The scopes of regions. The regions themselves are tested with their components."""

from typing import Any

import pytest

from ragflow_lg.integrations.code.programs import CodeResult, CodeSandbox
from tests.fakes.canvas import switch
from tests.fakes.code import ScriptedSandbox
from tests.fakes.regions import answer_of, assign, iteration, loop, node, out, play_run, runner_of, text
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services


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


async def test_messages_in_a_body_are_sent_and_its_outputs_can_be_read_later() -> None:
    body = {"show": node("Message", {"content": ["{ii@item};"]}, ["t"]), "t": text(script="<{ii@item}>")}
    components = {**iteration(body, {}), **out("{t@result} {ii@index}")}
    assert await answer_of(components, inputs=["a", "b"]) == "a;b;<b> 1"


async def test_a_cycle_in_a_body_runs_until_its_exit() -> None:
    choice = switch(["ok"], ["add"], "end with", "lp@s")
    choice["obj"]["params"]["conditions"][0]["items"][0]["value"] = "xxx"
    keep = assign("lp@s", "add@result", downstream=["sw"])
    body = {"add": text(["set"], "{lp@s}x"), "set": keep, "sw": choice, "ok": text()}
    assert await answer_of({**loop(body, count=1, variables={"s": ""}), **out("{lp@s}")}) == "xxx"


async def test_a_node_that_succeeds_with_an_empty_error_is_collected() -> None:
    """CodeExec has an output ``_ERROR`` even if its program succeeds, as in RAGFlow."""
    program = node("CodeExec", {"script": "x", "outputs": {"r": {"type": "Any"}}}, [], parent_id="it")
    components = {**iteration({"row": program}, {"rows": "row@r"}), **out("{it@rows}")}
    services = fake_services(integrations={CodeSandbox: ScriptedSandbox(CodeResult(has_value=True, value="v"))})
    assert await answer_of(components, inputs=["a", "b"], services=services) == ["v", "v"]


@pytest.mark.parametrize("concurrency", [0, 3])
async def test_what_was_shown_of_an_answer_belongs_to_its_item(concurrency: int) -> None:
    """The model shows a part and fails; then its default value replaces the rest."""
    failing = {"llm_id": "m", "max_retries": 0, "exception_method": "comment", "exception_default_value": "default"}
    body = {
        "s": switch(["m"], ["show"], reference="ii@item"),
        "m": node("LLM", failing, ["show"]),
        "show": node("Message", {"content": ["{ii@index}{m@content};"]}),
    }
    model = ScriptedModel([Reply(chunks=["part"], error="down", repeat=True)])
    region = iteration(body, {"c": "show@content"}, max_concurrency=concurrency)
    services = fake_services(models=OneModel(model))
    runner = runner_of({**region, **out("{it@c}")}, services=services)
    answer, _ = await play_run(runner.start("s", {"query": "q", "inputs": {"items": {"value": ["x", "", "y", ""]}}}))
    assert answer.endswith('["0partdefault;", "1;", "2partdefault;", "3;"]')


@pytest.mark.parametrize("concurrency", [0, 3])
async def test_a_jump_out_of_an_iteration_ends_its_lists(concurrency: int) -> None:
    leaving = {"exception_method": "goto", "exception_goto": ["escape"]}
    body = {
        "s": switch(["bad"], ["ok"], reference="ii@item"),
        "ok": text(script="ok"),
        "bad": node("ListOperations", {"query": "ii@item", "operations": "head", "n": 1, **leaving}),
    }
    region = iteration(body, {"r": "ok@result"}, max_concurrency=concurrency)
    components = {**region, "escape": text(["out"], "left"), **out("{escape@result} {it@r}")}
    assert await answer_of(components, inputs=["", "", "x", ""]) == 'left ["ok", "ok"]'
