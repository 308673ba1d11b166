from typing import Any

import pytest

from ragflow_lg.base.errors import AnswerError, ConflictError
from ragflow_lg.components.user_fill_up import user_fill_up
from ragflow_lg.dsl.forms import form_schema
from ragflow_lg.runs.wire.wire_events import UserInputs
from tests.fakes.canvas import switch
from tests.fakes.regions import form, node, out, play_run, runner_of, text
from tests.fakes.run import bind

ONE = {"ask": form("colour", tips="For {sys.query}", downstream=["out"]), **out("{ask@colour}/{ask@tips}/{sys.query}")}
SIZE_FORM = form(size={"name": "Size", "type": "integer"}, note={"type": "line", "optional": True}, downstream=["out"])
SIZED = {"ask": SIZE_FORM, **out("{ask@size}{ask@note}")}


async def test_a_form_with_values_that_cannot_be_stored_is_shown() -> None:
    fields = form(odd={"type": "line", "most": 2**80, "placeholder": "\ud800"}, downstream=["out"])
    play = runner_of({"ask": fields, **out("{ask@odd}")})
    run = play.start("s", {"query": "q"})
    assert (await play_run(run))[1] == ["+begin", "-begin", "?odd"]
    assert run.status == "waiting"
    (pause,) = await play.pauses("s")
    assert pause.inputs["odd"] == {"type": "line", "value": None, "most": str(2**80), "placeholder": "\ufffd"}
    assert (await play_run(play.resume("s", {"odd": "fine"})))[0] == "fine"


async def test_an_empty_answer_is_an_answer_and_a_text_answers_the_only_field() -> None:
    play = runner_of(ONE)
    for empty in ("", {"value": ""}):
        await play_run(play.start("s", {"query": "q"}))
        assert (await play_run(play.resume("s", {"colour": empty})))[0] == "/For q/q"
    await play_run(play.start("s", {"query": "q"}))
    assert (await play_run(play.start("s", {"query": "blue"})))[0] == "blue/For blue/blue"


async def test_a_turn_without_an_answer_shows_the_form_again() -> None:
    play = runner_of(SIZED)
    await play_run(play.start("s", {"query": "q"}))
    run = play.start("s", {"query": "hello?"})
    assert (await play_run(run))[1] == ["?size,note"]
    assert run.status == "waiting"
    assert (await play.state("s"))["history"] == [["user", "q"]]


async def test_an_invalid_answer_keeps_the_form_open_and_names_the_field() -> None:
    play = runner_of(SIZED)
    await play_run(play.start("s", {"query": "q"}))
    before = await play.pauses("s")
    for answer in ({"size": "large"}, {"note": "x"}, dict[str, Any]()):
        with pytest.raises(AnswerError, match="Size") as caught:
            await play_run(play.resume("s", answer))
        assert list(caught.value.problems) == ["size"]
        assert await play.pauses("s") == before
    assert (await play_run(play.resume("s", {"size": 3})))[0] == "3"


async def test_unexpected_answers_are_a_conflict() -> None:
    play = runner_of(ONE)
    with pytest.raises(ConflictError, match="is not waiting"):
        await play_run(play.resume("s", {"colour": "red"}))
    await play_run(play.start("s", {"query": "q"}))
    with pytest.raises(AnswerError, match="is not waiting for 0000"):
        await play_run(play.resume("s", {"0" * 32: {"colour": "red"}}))
    with pytest.raises(ConflictError, match="Resume it"):
        await play_run(play.continue_("s"))
    await play_run(play.resume("s", {"colour": "red"}))
    with pytest.raises(ConflictError, match="is not waiting"):
        await play_run(play.resume("s", {"colour": "red"}))
    with pytest.raises(ConflictError, match="no unfinished turn"):
        await play_run(play.continue_("s"))


async def test_clients_see_the_default_of_a_field() -> None:
    fields: dict[str, Any] = {"x": {"name": "x", "type": "integer", "value": 42}, "y": {"name": "y", "type": "line"}}
    play = runner_of({"ask": form(downstream=["out"], **fields), **out("{ask@x}")})
    run = play.start("s", {"query": "q"})
    (shown,) = [event.inputs async for event in run if isinstance(event, UserInputs)]
    assert shown == {"x": {**fields["x"], "value": None, "default": 42}, "y": {**fields["y"], "value": None}}
    (pause,) = await play.pauses("s")
    assert form_schema(pause.inputs)["properties"]["x"]["default"] == 42


async def test_an_empty_form_does_not_pause() -> None:
    scan = {"scan": {"type": "file", "optional": True}}
    for fields in ({}, scan):
        components = {"ask": form(tips="FYI {sys.query}", downstream=["out"], **fields), **out("{ask@tips}")}
        assert (await play_run(runner_of(components).start("s", {"query": "q"})))[0] == "FYI q"


async def test_lists_in_tips_are_joined_and_an_unknown_reference_is_an_error() -> None:
    cut = node("StringTransform", {"method": "split", "split_ref": "sys.query", "delimiters": [" "]}, ["ask"])
    play = runner_of({"cut": cut, "ask": form("x", tips="of {cut@result}", downstream=["out"]), **out("x")})
    await play_run(play.start("s", {"query": "a b"}))
    assert (await play.pauses("s"))[0].tips == "of a,b"
    run = runner_of({"ask": form("x", tips="{nobody@x}", downstream=["out"]), **out("x")}).start("s", {"query": "q"})
    await play_run(run)
    assert (run.status, run.failed_node) == ("failed", "ask")


async def test_a_form_in_a_cycle_pauses_each_time() -> None:
    choice = switch(["out"], ["ask"], "=", "ask@code")
    choice["obj"]["params"]["conditions"][0]["items"][0]["value"] = "42"
    play = runner_of({"ask": form("code", downstream=["sw"]), "sw": choice, **out("open")})
    await play_run(play.start("s", {"query": "q"}))
    assert (await play_run(play.resume("s", {"code": "7"})))[1][-1] == "?code"
    assert (await play_run(play.resume("s", {"code": "42"})))[0] == "open"


async def test_the_go_ports_fillup_has_no_tips() -> None:
    components = {"ask": node("Fillup", {"inputs": {"x": "any"}}, ["out"]), **out("{ask@x}"), "t": text()}
    play = runner_of(components)
    await play_run(play.start("s", {"query": "q"}))
    (pause,) = await play.pauses("s")
    assert (pause.tips, dict(pause.inputs)) == ("", {"x": {"name": "x", "type": "line", "value": None}})
    assert bind(user_fill_up, {"inputs": []}).inputs == {}
