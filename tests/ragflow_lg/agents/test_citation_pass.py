from __future__ import annotations

import pytest

from ragflow_lg.models.citations import CITING_HEAD
from ragflow_lg.services.references import build_chunks, citation_number
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.services import Reply

LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}))
FOUND = build_chunks([("Laos", "http://wiki.test/Laos", "Vientiane is the capital.", 1.0)])
NUMBER = citation_number(str(FOUND[0]["chunk_id"]))
CITES = {"cite": True, "sys_prompt": "Help."}


async def test_an_answer_that_cites_nothing_is_written_again_and_shown_once() -> None:
    text = "Let me look. "
    replies = [tool_calls(("wikipedia_search_0", {"query": "Laos"}), text=text), Reply("It is Vientiane.")]
    replies.append(Reply(f"{text}It is Vientiane [ID:{NUMBER}]."))
    played = await play_agent(replies, CITES)
    assert played.run.answer == f"{text}It is Vientiane [ID:{NUMBER}]."
    assert played.outputs["content"].endswith(f"...</think>It is Vientiane [ID:{NUMBER}].")
    request = played.model.requests[-1][1]
    assert request.system.startswith(CITING_HEAD)
    assert "Vientiane is the capital." in request.system
    assert (request.messages, request.tools) == (({"role": "user", "content": "It is Vientiane."},), ())
    (block,) = played.run.trace
    assert [entry["tool_name"] for entry in block["trace"]] == ["wikipedia_search_0", "gen_citations"]


async def test_one_that_cites_goes_out_as_it_comes_from_there_on() -> None:
    replies = [LOOK, Reply(chunks=["Vien", f"tiane [ID:{NUMBER}", "]. And", " more."])]
    played = await play_agent(replies, CITES)
    assert played.run.answer == f"Vientiane [ID:{NUMBER}]. And more."
    assert len(played.model.requests) == 2


@pytest.mark.parametrize("second", [Reply("Nothing better."), Reply(error="down"), Reply("It is [ID:1000].")])
async def test_where_the_second_writing_gives_nothing_the_first_stands(second: Reply) -> None:
    played = await play_agent([LOOK, Reply("<think>hm</think>It is Vientiane [ID:1000]."), second], CITES)
    assert (played.run.status, played.run.answer) == ("succeeded", "It is Vientiane.")


async def test_a_second_writing_that_fails_half_way_is_a_failure() -> None:
    half = Reply(chunks=[f"It is [ID:{NUMBER}]", " Vien"], error="down")
    played = await play_agent([LOOK, Reply("It is Vientiane."), half], CITES)
    assert (played.run.status, played.run.answer) == ("failed", f"It is [ID:{NUMBER}] Vien")


async def test_what_is_said_before_more_calls_is_shown_before_them() -> None:
    more = tool_calls(("wikipedia_search_0", {"query": "more"}), text="Looking again. ")
    replies = [LOOK, more, Reply(f"So [ID:{NUMBER}].")]
    played = await play_agent(replies, CITES)
    notice = "<think>Running the wikipedia_search_0 tool...</think>"
    assert played.outputs["content"] == f"{notice}Looking again. {notice}So [ID:{NUMBER}]."


async def test_an_answer_that_breaks_off_is_shown_as_far_as_it_came() -> None:
    played = await play_agent([LOOK, Reply(chunks=["It is Vien"], error="down")], CITES)
    assert (played.run.status, played.run.answer) == ("failed", "It is Vien")
