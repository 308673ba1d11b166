from typing import Any

import pytest

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.runs.pauses import Pause, match_answers, open_pauses
from tests.fakes.regions import form, out, play_run, runner_of

SHIRT, SHOES, BAG = "a" * 32, "b" * 32, "c" * 32
SIZE = {"name": "Size", "type": "integer", "optional": False}
OPEN = [
    Pause(SHIRT, "Form:Shirt", "", {"colour": {"name": "Colour", "type": "line"}, "size": SIZE}),
    Pause(SHOES, "Form:Shoes", "", {"size": SIZE}),
]


def answers(given: Any, *, is_strict: bool = True, pauses: list[Pause] = OPEN, query: Any = "") -> Any:
    return match_answers(pauses, {"query": query, "inputs": given}, is_strict=is_strict)


def test_fields_go_to_the_forms_that_have_them_and_ids_to_one() -> None:
    assert answers({"colour": "red", "size": 4}) == {SHIRT: {"colour": "red", "size": 4}, SHOES: {"size": 4}}
    assert answers({SHOES: {"size": 40}}) == {SHOES: {"size": 40}}
    assert answers({}, is_strict=False, pauses=OPEN[1:], query="5") == {SHOES: {"size": {"value": "5"}}}
    assert answers({}, is_strict=False, query="5") == {}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"Form:Shoes@size": 40, "colour": "red", "size": 4}, "No open form has a field 'Form:Shoes@size'."),
        ({"colr": "red", "size": 4, "colour": "red"}, "No open form has a field 'colr'."),
        ({SHOES: {"size": 4, "colour": "red"}}, "The form of Form:Shoes has no field 'colour'."),
        ({SHOES: {"size": 4}, "colour": "red"}, f"No open form has a field '{SHOES}'."),
    ],
)
def test_a_field_that_no_form_has_is_refused_with_the_forms_there_are(given: Any, named: str) -> None:
    with pytest.raises(AnswerError) as caught:
        answers(given)
    assert str(caught.value) == f"{named} The session waits for Form:Shirt (colour, size) and Form:Shoes (size)."


def test_what_a_client_sends_with_a_new_turn_may_hold_more() -> None:
    assert answers({"size": 4, "colour": "red", "more": 1}, is_strict=False)[SHOES] == {"size": 4}


def test_a_pause_that_is_not_there_is_refused_with_the_ids_that_are() -> None:
    told = rf"does not wait for ccc.*waits for Form:Shirt \(colour, size; id {SHIRT}\) and .* id {SHOES}\)"
    with pytest.raises(AnswerError, match=told) as caught:
        answers({BAG: {}})
    assert list(caught.value.problems) == [BAG]


def test_all_that_is_wrong_in_all_forms_comes_at_once() -> None:
    with pytest.raises(AnswerError) as caught:
        answers({"size": "big"})
    assert list(caught.value.problems) == ["Form:Shirt@colour", "Form:Shirt@size", "Form:Shoes@size"]
    assert "Form:Shoes: 'Size' (size) should be a whole number, not 'big'." in str(caught.value)
    with pytest.raises(AnswerError) as alone:
        answers({"size": "big"}, pauses=OPEN[1:])
    assert (list(alone.value.problems), alone.value.node) == (["size"], "Form:Shoes")


def test_an_answer_that_is_no_map_is_refused() -> None:
    with pytest.raises(AnswerError, match="map of its fields"):
        answers({SHOES: "40"})


async def test_a_refused_answer_leaves_the_session_waiting() -> None:
    components = {"a": form("w", downstream=["out"]), "b": form("w", downstream=["out"]), **out("{a@w}+{b@w}")}
    play = runner_of(components, first=["a", "b"])
    await play_run(play.start("s", {"query": "q"}))
    before = await play.pauses("s")
    with pytest.raises(AnswerError, match=r"(?i)no open form has a field 'a@w'.*waits for a \(w\) and b \(w\)"):
        await play_run(play.resume("s", {"a@w": "x", "w": "y"}))
    assert await play.pauses("s") == before
    by_node = {pause.node: pause.id for pause in before}
    assert (await play_run(play.resume("s", {by_node["a"]: {"w": "x"}, by_node["b"]: {"w": "y"}})))[0] == "x+y"


def test_a_snapshot_without_pauses_waits_for_nothing() -> None:
    class Snapshot:
        interrupts = ()
        values: dict[str, Any] = {}  # noqa: RUF012

    assert open_pauses(Snapshot()) == []
