from typing import Any

import pytest

from ragflow_lg.base.errors import AnswerError, ConflictError, InputRefusedError
from ragflow_lg.runs.pauses import BoundRequest, Pause, match_answers
from tests.fakes.regions import assign, form, iteration, out, play_run, runner_of, text
from tests.harness.rows import each_row

SHIRT, SHOES, BAG = "a" * 32, "b" * 32, "c" * 32
SIZE = {"name": "Size", "type": "integer", "optional": False}
OPEN = [
    Pause(SHIRT, "Form:Shirt", "", {"colour": {"name": "Colour", "type": "line"}, "size": SIZE}),
    Pause(SHOES, "Form:Shoes", "", {"size": SIZE}),
]


def match(inputs: Any, *, is_strict: bool = True, pauses: list[Pause] = OPEN, query: Any = "") -> Any:
    return match_answers(pauses, {"query": query, "inputs": inputs}, is_strict=is_strict)


def test_fields_answer_all_forms_that_have_them_and_an_id_answers_one() -> None:
    assert match({"colour": "red", "size": 4}) == {SHIRT: {"colour": "red", "size": 4}, SHOES: {"size": 4}}
    assert match({SHOES: {"size": 40}}) == {SHOES: {"size": 40}}
    assert match({}, is_strict=False, pauses=OPEN[1:], query="5") == {SHOES: {"size": {"value": "5"}}}
    assert match({}, is_strict=False, query="5") == {}
    assert match({"size": 4, "colour": "red", "more": 1}, is_strict=False)[SHOES] == {"size": 4, "more": 1}


@each_row(
    ("inputs", "problem"),
    [
        ({"Form:Shoes@size": 40, "colour": "red", "size": 4}, "No open form has a field 'Form:Shoes@size'."),
        ({"colr": "red", "size": 4, "colour": "red"}, "No open form has a field 'colr'."),
        ({SHOES: {"size": 4, "colour": "red"}}, "The form of Form:Shoes has no field 'colour'."),
        ({SHOES: {"size": 4}, "colour": "red"}, f"No open form has a field '{SHOES}'."),
    ],
)
def test_an_unknown_field_is_rejected_with_the_open_forms(inputs: Any, problem: str) -> None:
    with pytest.raises(AnswerError) as error:
        match(inputs)
    assert str(error.value) == f"{problem} The session is waiting for Form:Shirt (colour, size) and Form:Shoes (size)."


def test_an_unknown_pause_is_rejected_with_the_open_ones() -> None:
    reason = rf"is not waiting for ccc.*is waiting for Form:Shirt \(colour, size; id {SHIRT}\) and .* id {SHOES}\)"
    with pytest.raises(AnswerError, match=reason) as error:
        match({BAG: {}})
    assert list(error.value.problems) == [BAG]
    for answer in ("40", [["size", 40]], 5):
        with pytest.raises(AnswerError, match="map of its fields"):
            match({SHOES: answer})


def test_an_answer_to_certain_pauses_leaves_the_others_open() -> None:
    request: BoundRequest = {"inputs": {"size": 4}, "pauses": [SHOES]}
    assert match_answers(OPEN, request, is_strict=True) == {SHOES: {"size": 4}}
    with pytest.raises(AnswerError, match=f"is not waiting for {SHOES}"):
        match_answers(OPEN[:1], request, is_strict=True)


def test_all_problems_of_all_forms_are_reported_together() -> None:
    with pytest.raises(AnswerError) as error:
        match({"size": "big"})
    assert list(error.value.problems) == ["Form:Shirt@colour", "Form:Shirt@size", "Form:Shoes@size"]
    assert "Form:Shoes: 'Size' (size) should be a whole number, not 'big'." in str(error.value)
    with pytest.raises(AnswerError) as error_of_one:
        match({"size": "big"}, pauses=OPEN[1:])
    assert (list(error_of_one.value.problems), error_of_one.value.node) == (["size"], "Form:Shoes")


async def test_with_old_values_a_turn_that_goes_on_and_comes_to_no_node_fails() -> None:
    nodes = {"userfillup": form("colour", downstream=["a"]), "a": text(["nowhere"])}
    runner = runner_of(nodes, compat={"old_values": True})
    await play_run(runner.start("s", {"query": "q"}))
    with pytest.raises(InputRefusedError, match="The edge of a leads to 'nowhere', which does not exist"):
        await play_run(runner.resume("s", {"colour": "red"}))


async def test_the_files_of_an_answer_are_recorded_for_components_that_load_them() -> None:
    runner = runner_of({"ask": form("colour", downstream=["out"]), **out("{ask@colour}")})
    await play_run(runner.start("s", {"query": "q"}))
    request: Any = {"files": [{"id": "1", "name": "a.csv", "content": "x"}]}
    await play_run(runner.resume("s", {"colour": "red"}, request))
    record = (await runner.state("s"))["turn"]
    assert record["files"] == {"sys.files": [{"id": "1", "name": "a.csv"}]}
    assert record["inputs"] == {"colour": "red"}


async def test_an_interrupted_turn_asks_after_all_other_nodes_have_run() -> None:
    rounds = iteration(
        {"a": assign("env.s", "sys.query", downstream=["b"]), "b": text(script="{ii@item}")}, {"o": "b@result"}
    )
    components = {"f": form("w", downstream=["out"]), **rounds, **out("{env.s}{f@w}{sys.query}")}
    runner = runner_of(components, first=["f", "it"], variables={"env.s": ""})
    events: Any = aiter(runner.start("s", {"query": "first", "inputs": {"items": {"value": ["1", "2"]}}}))
    async for event in events:
        if event.event == "node_finished" and event.component_id == "ii":
            await events.aclose()
            break
    assert await runner.pauses("s") == []
    with pytest.raises(ConflictError, match="Continue it first"):
        await play_run(runner.resume("s", {"w": "x"}))
    assert "?w" in (await play_run(runner.continue_("s")))[1]
    assert (await play_run(runner.start("s", {"query": "second", "inputs": {"w": "x"}})))[0] == "firstxsecond"


async def test_a_form_of_a_region_remains_open_if_only_another_one_is_answered() -> None:
    body = {
        "t": text(["a", "b"]),
        "a": form("x", downstream=["c"]),
        "b": form("y", downstream=["c"]),
        "c": text(script="{a@x}{b@y}"),
    }
    runner = runner_of({**iteration(body, {"o": "c@result"}), **out("{it@o}")}, first=["it"])
    await play_run(runner.start("s", {"query": "q", "inputs": {"items": {"value": ["1"]}}}))
    await play_run(runner.start("s", {"query": "q", "inputs": {"x": "1"}}))
    assert [pause.node for pause in await runner.pauses("s")] == ["b"]
    assert "12" in (await play_run(runner.start("s", {"query": "q", "inputs": {"y": "2"}})))[0]
