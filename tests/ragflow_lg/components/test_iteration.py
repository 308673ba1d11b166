import json
from typing import Any

import pytest

from ragflow_lg.checkpoints import open_store
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.engine import scope
from tests.fakes.canvas import canvas as document
from tests.fakes.canvas import diagnostics_of, switch
from tests.fakes.policies import Canvases
from tests.fakes.regions import answer_of, assign, iteration, nested, node, out, play_run, runner_of, text
from tests.harness.rows import each_row

ROW = {"row": text(script="{ii@index}:{ii@item}")}


def bad(**params: Any) -> dict[str, Any]:
    """Return a body that fails for an item that is no list."""
    return {"bad": node("ListOperations", {"query": "ii@item", "operations": "head", "n": 1, **params})}


@each_row(
    ("items", "expected"),
    [([], []), (["a"], ["0:a"]), (["a", None, 3, {"k": [1]}], ["0:a", "1:", "2:3", '3:{"k": [1]}'])],
)
@each_row("at_once", [0, 1, 3])
async def test_outputs_have_one_entry_per_item_in_order(items: list[Any], expected: list[str], at_once: int) -> None:
    components = {**iteration(ROW, {"rows": "row@result"}, max_concurrency=at_once), **out("{it@rows}")}
    assert await answer_of(components, inputs=items) == expected


@each_row(("at_once", "expected"), [(0, ["a,b", "a,b,c"]), (3, ["a,b", "c"])])
async def test_with_old_values_only_rounds_in_turn_go_on_where_an_earlier_entry_ended(
    at_once: int, expected: list[str]
) -> None:
    components = {**nested("ii@item", "{nn@item}", "{ni@cells}", max_concurrency=at_once), **out("{it@rows}")}
    deployment = Canvases(compatibility=Compatibility(old_values=True))
    assert await answer_of(components, inputs=[["a", "b"], ["c"]], deployment=deployment) == expected


@each_row("count", [3, 4, 5, 8, 30])
async def test_concurrent_rounds_start_in_waves(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "WAVE_ROUNDS", 4)
    components = {**iteration(ROW, {"rows": "row@result"}, max_concurrency=3), **out("{it@rows}")}
    run = runner_of(components).start("s", {"inputs": {"items": {"value": ["a"] * count}}})
    answer, events = await play_run(run)
    assert json.loads(answer) == [f"{index}:a" for index in range(count)]
    assert [events.count(event) for event in ("+it", "-it", "-row")] == [1, 1, count]


async def test_waves_are_continued_where_they_were_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "WAVE_ROUNDS", 4)
    components = {**iteration(ROW, {"rows": "row@result"}, max_concurrency=2), **out("{it@rows}")}
    async with open_store("memory://") as store:
        runner = runner_of(components, store=store)
        run = runner.start("s", {"inputs": {"items": {"value": ["a"] * 14}}})
        finished = 0
        async for event in run:
            finished += event.event == "node_finished" and getattr(event, "component_id", "") == "row"
            if finished == 6:
                run.drain()
        assert (run.status, finished) == ("drained", 6)
        answer, events = await play_run(runner.continue_("s"))
    assert json.loads(answer) == [f"{index}:a" for index in range(14)]
    assert events.count("-row") == 8


async def test_an_exit_only_ends_the_round() -> None:
    body = {"row": text(["bye"], "{ii@item}"), "bye": node("ExitLoop")}
    assert await answer_of({**iteration(body, {"r": "row@result"}), **out("{it@r}")}, inputs=["a", "b"]) == ["a", "b"]


async def test_after_an_error_no_further_wave_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "WAVE_ROUNDS", 2)
    components = {**iteration(bad(), {"r": "bad@result"}, max_concurrency=2), **out("x")}
    run = runner_of(components).start("s", {"inputs": {"items": {"value": [[1], "a", [2], [3]]}}})
    _, events = await play_run(run)
    assert (run.status, run.failed_node, events.count("+bad")) == ("failed", "bad", 2)


@each_row("value", ["text", 5, {"a": 1}, None])
async def test_a_value_that_is_not_a_list_is_an_error_of_the_node(value: Any) -> None:
    components = {**iteration(ROW, {"rows": "row@result"}), **out("{it@rows}")}
    run = runner_of(components).start("s", {"inputs": {"items": {"value": value}}})
    _, events = await play_run(run)
    assert events[-2:] == ["+it", "-it"]
    assert (run.status, run.failed_node) == ("failed", "it")
    assert "must be an array" in (run.error or "")


@pytest.mark.parametrize("at_once", [0, 3])
async def test_an_output_of_an_unknown_component_is_a_list_of_empty_strings(at_once: int) -> None:
    outputs = {"rows": "row@result", "none": "Message:Never@content"}
    components = {**iteration(ROW, outputs, max_concurrency=at_once), **out('{"r": {it@rows}, "n": {it@none}}')}
    assert await answer_of(components, inputs=["a", "b"]) == {"r": ["0:a", "1:b"], "n": ["", ""]}
    (diagnostic,) = diagnostics_of(document(components), "reference-unknown-node")
    assert diagnostic.severity == "warning"
    assert diagnostic.message.startswith("The output 'none' will be a list of empty strings: 'Message:Never@content'")


async def test_a_node_that_a_round_skips_yields_null() -> None:
    choice = switch(["yes"], ["no"], reference="ii@item")
    body = {"sw": choice, "yes": text(script="Y{ii@item}"), "no": text(script="N")}
    components = {**iteration(body, {"yes": "yes@result", "no": "no@result"}), **out('{"y": {it@yes}, "n": {it@no}}')}
    items = await answer_of(components, inputs=["a", "", "b"])
    assert items == {"y": ["Ya", None, "Yb"], "n": [None, "N", None]}


async def test_a_body_that_changes_the_list_does_not_change_the_rounds() -> None:
    body = {"grow": assign("env.l", "ii@item", "append"), "row": text(script="{ii@item}")}
    body["grow"]["downstream"] = ["row"]
    components = {**iteration(body, {"rows": "row@result"}, items="env.l"), **out("{it@rows} {env.l}")}
    variables = {"l": {"name": "l", "type": "array<string>", "value": ["a", "b"]}}
    assert await answer_of(components, variables=variables) == '["a", "b"] ["a", "b", "a", "b"]'


async def test_aliases_mean_the_nearest_iteration_also_from_a_loop_in_it() -> None:
    inner_loop = {
        "lp": node("Loop", {"maximum_loop_count": 1}, [], parent_id="it"),
        "li": node("LoopItem", {}, ["t"], parent_id="lp"),
        "t": text(script="{item}/{index}/{result}", parent_id="lp"),
    }
    components = {**iteration(inner_loop, {"rows": "t@result"}), **out("{it@rows}")}
    components["ii"]["downstream"] = ["lp"]
    assert await answer_of(components, inputs=["a", "b"]) == ["a/0/a", "b/1/b"]


async def test_an_iteration_without_an_item_node_starts_at_its_first_nodes() -> None:
    components = {
        **iteration({"a": text(["j"], "{item}"), "j": text([], "{a@result}{b@result}")}, {"r": "j@result"}),
        **out("{it@r}"),
    }
    del components["ii"]
    components["b"] = text(["j"], "{index}", parent_id="it")
    assert await answer_of(components, inputs=["x", "y"]) == ["x0", "y1"]


async def test_a_failing_body_stops_the_turn_unless_it_has_a_default() -> None:
    components = {**iteration(bad(), {"r": "bad@result"}), **out("{it@r}")}
    run = runner_of(components).start("s", {"inputs": {"items": {"value": ["a"]}}})
    _, events = await play_run(run)
    assert (run.status, run.failed_node, "-it" in events) == ("failed", "bad", False)
    default = bad(exception_method="comment", exception_default_value="none")
    components = {**iteration(default, {"r": "bad@result"}), **out("{it@r}")}
    assert await answer_of(components, inputs=["a", "b"]) == ["none", "none"]


def test_concurrent_rounds_are_rejected_if_the_body_pauses_or_writes_shared_values() -> None:
    body = {
        "a": text(["w"]),
        "w": assign("env.x", "a@result", downstream=["u"]),
        "u": node("UserFillUp", {"inputs": {}}),
    }
    diagnostic = diagnostics_of(document({**iteration(body, {}, max_concurrency=2), **out("x")}), "region-parallel")
    assert [d.node for d in diagnostic] == ["w", "u"]


@pytest.mark.parametrize("at_once", [0, 2])
async def test_the_item_and_its_index_can_be_collected(at_once: int) -> None:
    outputs = {"o": "ii@item", "p": "ii@index", "q": "item", "r": "{index}", "s": "ii@item.k"}
    components = {
        **iteration({"b": text()}, outputs, max_concurrency=at_once),
        **out("[{it@o}, {it@p}, {it@q}, {it@r}, {it@s}]"),
    }
    items = [{"k": 1}, {"k": 2}]
    assert await answer_of(components, inputs=items) == [items, [0, 1], items, [0, 1], [1, 2]]


@each_row(("value", "expected"), [("x", ["<x>"]), (["x", "y"], ["<x>", "<y>"]), ({"a": 1}, ['<{"a": 1}>'])])
async def test_the_simplified_form_reads_a_single_value_as_one_item(value: Any, expected: list[str]) -> None:
    inside = {"b": text(script="<{row}>", parent_id="it")}
    declared = {"o": {"ref": "b@result"}}
    region = node("Iteration", {"items": "{begin@items}", "item_var": "row", "outputs": declared}, ["out"])
    assert await answer_of({"it": region, **inside, **out("{it@o}")}, inputs=value) == expected


def test_an_output_without_a_valid_reference_is_reported() -> None:
    components = {**iteration({"b": text()}, {"o": "garbage", "p": "b@result"}), **out("{it@o}")}
    diagnostic, undeclared = diagnostics_of(document(components, ["it"]), "reference-unknown-output")
    assert "'o'" in diagnostic.message
    assert "Begin 'begin' has no output 'items'" in undeclared.message
