from typing import Any

import pytest

from ragflow_lg.runs.wire.wire_events import WireNodeFinished
from tests.fakes.canvas import canvas, diagnostics_of, switch
from tests.fakes.regions import answer_of, assign, loop, node, out, play_run, runner_of, text
from tests.harness.rows import each_row

COUNT = {"inc": assign("lp@n", "", "+=")}
COUNT["inc"]["obj"]["params"]["variables"][0]["parameter"] = 1
ABOVE_2 = {"variable": "lp@n", "operator": ">", "value": 2}


def counting(*conditions: dict[str, Any], count: int = 9, logical: str = "and") -> dict[str, Any]:
    rows = [{"variable": "n", "input_mode": "constant", "type": "number", "value": 0}]
    ends: dict[str, Any] = {"loop_termination_condition": list(conditions), "logical_operator": logical}
    return {**loop(COUNT, count=count, loop_variables=rows, **ends), **out("{lp@n}")}


@each_row(
    ("conditions", "logical", "count", "expected"),
    [
        ([], "and", 0, 0),
        ([], "and", 4, 4),
        ([], "or", 4, 4),
        ([{"variable": "lp@n", "operator": "≥", "value": 3}], "and", 9, 3),
        ([{"variable": "n", "operator": "≥", "value": "3"}], "and", 9, 3),
        ([{"variable": "{n}", "operator": "=", "value": "env.stop", "input_mode": "variable"}], "and", 9, 5),
        ([ABOVE_2, {"variable": "lp@n", "operator": "<", "value": 2}], "and", 9, 9),
        ([ABOVE_2, {"variable": "lp@n", "operator": "<", "value": 1}], "or", 9, 0),
        ([{"variable": "lp@n", "operator": "≥", "value": 0}], "and", 9, 0),
    ],
)
async def test_conditions_are_tested_before_each_round(
    conditions: list[Any], logical: str, count: int, expected: int
) -> None:
    variables = {"stop": {"name": "stop", "type": "number", "value": 5}}
    components = counting(*conditions, count=count, logical=logical)
    assert await answer_of(components, variables=variables) == expected


async def test_many_rounds_hit_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("langgraph._internal._config.DEFAULT_RECURSION_LIMIT", 50)  # LangGraph's own is 10,007
    assert await answer_of(counting(count=200)) == 200


async def test_an_exit_leaves_the_loop_and_stops_other_branches_of_the_round() -> None:
    more = switch(["bye"], ["on"], "end with", "lp@s")
    more["obj"]["params"]["conditions"][0]["items"][0]["value"] = "xxx"
    keep = assign("lp@s", "add@result", downstream=["sw"])
    body = {"add": text(["keep"], "{lp@s}x"), "keep": keep, "sw": more, "bye": node("ExitLoop"), "on": text()}
    assert await answer_of({**loop(body, count=9, variables={"s": ""}), **out("{lp@s}")}) == "xxx"
    body = {"a": text(["bye", "b"]), "bye": node("ExitLoop"), "b": text(["c"]), "c": text()}
    _, events = await play_run(runner_of({**loop(body), **out("x")}).start("s", {"query": "q"}))
    assert ("+b" in events, "+c" in events, events[-3:]) == (True, False, ["-lp", "+out", "-out"])


async def test_variables_start_as_constants_references_or_empty_values() -> None:
    rows = [
        {"variable": "a", "input_mode": "constant", "type": "object", "value": {"k": 1}},
        {"variable": "b", "input_mode": "variable", "type": "string", "value": "sys.query"},
        {"variable": "c", "input_mode": "", "type": "number", "value": None},
        {"variable": "", "input_mode": "", "type": "", "value": ""},
    ]
    components = {**loop({"x": text()}, count=1, loop_variables=rows), **out("[{lp@a}, {lp@b}, {lp@c}]")}
    assert await answer_of(components, query="7") == [{"k": 1}, 7, 0]


@each_row(
    "row",
    [
        {"variable": "a", "input_mode": "constant", "type": "number", "value": None},
        {"variable": "a", "input_mode": "constant", "type": "", "value": 1},
        {"variable": "a", "input_mode": "variable", "type": "string", "value": "no reference"},
    ],
)
async def test_an_incomplete_variable_is_an_error_of_the_node(row: dict[str, Any]) -> None:
    run = runner_of({**loop({"x": text()}, loop_variables=[row]), **out("x")}).start("s", {"query": "q"})
    await play_run(run)
    assert (run.status, run.failed_node, run.error) == ("failed", "lp", "Loop Variable is not complete.")


@each_row(
    ("condition", "reason"),
    [
        ({"variable": "lp@n", "operator": "resembles", "value": 1}, "Unknown operator"),
        ({"variable": "", "operator": "=", "value": 1}, "incomplete"),
        ({"variable": "lp@n", "operator": "=", "value": 1, "input_mode": "guess"}, "neither constant nor variable"),
    ],
)
def test_invalid_conditions_are_rejected(condition: dict[str, Any], reason: str) -> None:
    (diagnostic,) = diagnostics_of(canvas(counting(condition)), "params-invalid")
    assert reason in diagnostic.message


def test_a_loop_that_never_runs_and_a_row_without_a_name_are_warned_about() -> None:
    components = {**loop({"x": text()}, count=0, loop_variables=[{"variable": ""}]), **out("x")}
    assert len([d for d in diagnostics_of(canvas(components), "params-unknown") if d.severity == "warning"]) == 2


async def test_an_unreadable_condition_is_an_error_of_the_loop() -> None:
    components = counting({"variable": "nobody@x", "operator": "=", "value": 1})
    components["lp"]["obj"]["params"] |= {"exception_method": "goto", "exception_goto": ["rescue"]}
    components["rescue"] = node("Message", {"content": ["rescued"]})
    assert await answer_of(components) == "rescued"


async def test_a_jump_out_of_the_body_leaves_the_loop_and_skips_its_successors() -> None:
    bad = {"exception_method": "goto", "exception_goto": ["rescue"], "query": "sys.query", "operations": "head", "n": 1}
    components = {
        **loop({"bad": node("ListOperations", bad)}),
        **out("behind"),
        "rescue": node("Message", {"content": ["rescued {lp@x}"]}),
    }
    answer, events = await play_run(runner_of(components).start("s", {"query": "q"}))
    assert answer == "rescued "
    assert events[-4:] == ["-bad", "-lp", "+rescue", "-rescue"]


INCOMPLETE = {"variable": "n", "input_mode": "variable", "type": "number", "value": "x"}


@each_row(
    ("params", "code"),
    [
        ({"loop_termination_condition": [{"variable": "n", "operator": "is", "value": 1}]}, "reference-unknown-output"),
        ({"loop_variables": [INCOMPLETE]}, "params-invalid"),
        ({"loop_variables": [{"variable": "n", "input_mode": "constant", "value": 1}]}, "params-invalid"),
    ],
)
def test_certain_failures_are_reported(params: dict[str, Any], code: str) -> None:
    components = {"l": node("Loop", {"maximum_loop_count": 1, **params}), "b": text(parent_id="l")}
    assert [d.severity for d in diagnostics_of(canvas(components), code)] == ["warning"]


@each_row(
    ("value", "count", "is_noted"), [(3, 9, False), (3, 3, False), (100, 3, True), ("x", 3, True), (None, 3, False)]
)
async def test_a_loop_that_its_count_ends_says_so(value: Any, count: int, is_noted: bool) -> None:
    conditions = [] if value is None else [{"variable": "lp@n", "operator": "≥", "value": value}]
    run = runner_of(counting(*conditions, count=count)).start("s", {"query": "q"})
    notices = [note async for e in run if isinstance(e, WireNodeFinished) for note in e.notices]
    limit = f"The Loop ends after {count} rounds (maximum_loop_count), before its conditions are met."
    assert notices == ([limit] if is_noted else [])
