from typing import Any

import pytest

from ragflow_lg.models.citations import CITING_HEAD
from ragflow_lg.services.references import build_chunks, citation_number
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.services import Reply

LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}))
FOUND = build_chunks([("Laos", "http://wiki.test/Laos", "Vientiane is the capital.", 1.0)])
NUMBER = citation_number(str(FOUND[0]["chunk_id"]))
CITES = {"cite": True, "sys_prompt": "Help."}


async def test_an_answer_without_citations_is_rewritten_and_shown_once() -> None:
    text = "Let me look. "
    replies = [tool_calls(("wikipedia_search_0", {"query": "Laos"}), text=text), Reply("It is Vientiane.")]
    replies.append(Reply(f"{text}It is Vientiane [ID:{NUMBER}]."))
    turn = await play_agent(replies, CITES)
    assert turn.run.answer == f"{text}It is Vientiane [ID:{NUMBER}]."
    assert turn.outputs["content"].endswith(f"...</think>It is Vientiane [ID:{NUMBER}].")
    request = turn.model.requests[-1][1]
    assert request.system.startswith(CITING_HEAD)
    assert "Vientiane is the capital." in request.system
    assert (request.messages, request.tools) == (({"role": "user", "content": "It is Vientiane."},), ())
    (block,) = turn.run.trace
    entries: Any = block["trace"]
    assert [entry["tool_name"] for entry in entries] == ["wikipedia_search_0", "gen_citations"]


async def test_an_answer_is_streamed_from_its_first_citation_on() -> None:
    replies = [LOOK, Reply(chunks=["Vien", f"tiane [ID:{NUMBER}", "]. And", " more."])]
    turn = await play_agent(replies, CITES)
    assert turn.run.answer == f"Vientiane [ID:{NUMBER}]. And more."
    assert len(turn.model.requests) == 2


@pytest.mark.parametrize("second", [Reply("Nothing better."), Reply(error="down"), Reply("It is [ID:1000].")])
async def test_the_original_answer_is_shown_if_rewriting_adds_nothing(second: Reply) -> None:
    turn = await play_agent([LOOK, Reply("<think>hm</think>It is Vientiane [ID:1000]."), second], CITES)
    assert (turn.run.status, turn.run.answer) == ("succeeded", "It is Vientiane.")


async def test_a_rewrite_that_fails_midway_is_a_failure() -> None:
    half = Reply(chunks=[f"It is [ID:{NUMBER}]", " Vien"], error="down")
    turn = await play_agent([LOOK, Reply("It is Vientiane."), half], CITES)
    assert (turn.run.status, turn.run.answer) == ("failed", f"It is [ID:{NUMBER}] Vien")


async def test_text_before_further_calls_is_shown_before_them() -> None:
    more = tool_calls(("wikipedia_search_0", {"query": "more"}), text="Looking again. ")
    replies = [LOOK, more, Reply(f"So [ID:{NUMBER}].")]
    turn = await play_agent(replies, CITES)
    notice = "<think>Running the wikipedia_search_0 tool...</think>"
    assert turn.outputs["content"] == f"{notice}Looking again. {notice}So [ID:{NUMBER}]."


async def test_the_beginning_of_an_interrupted_answer_is_shown() -> None:
    turn = await play_agent([LOOK, Reply(chunks=["It is Vien"], error="down")], CITES)
    assert (turn.run.status, turn.run.answer) == ("failed", "It is Vien")
