from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.services.references import build_chunks, citation_number
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.agents import WIKI, page, play_agent, tool_calls
from tests.fakes.canvas import node
from tests.fakes.prompts import head_of
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedHttp, ScriptedModel, fake_services
from tests.harness.rows import each_row

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
    assert request.system.startswith(head_of("add_citations"))
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


@each_row("second", [Reply("Nothing better."), Reply(error="down"), Reply("It is [ID:1000].")])
async def test_the_original_answer_is_shown_if_rewriting_adds_nothing(second: Reply) -> None:
    turn = await play_agent([LOOK, Reply("<think>hm</think>It is Vientiane [ID:1000]."), second], CITES)
    assert (turn.run.status, turn.run.answer) == ("succeeded", "It is Vientiane.")


async def test_a_rewrite_that_fails_midway_is_a_failure() -> None:
    half = Reply(chunks=[f"It is [ID:{NUMBER}]", " Vien"], error="down")
    turn = await play_agent([LOOK, Reply("It is Vientiane."), half], CITES)
    assert (turn.run.status, turn.run.answer) == ("failed", f"It is [ID:{NUMBER}] Vien")


async def test_the_beginning_of_an_interrupted_answer_is_shown() -> None:
    turn = await play_agent([LOOK, Reply(chunks=["It is Vien"], error="down")], CITES)
    assert (turn.run.status, turn.run.answer) == ("failed", "It is Vien")


@each_row(
    ("second", "status", "content"),
    [
        (Reply("It is better."), "succeeded", "It is better."),  # also without a citation
        (Reply(""), "succeeded", "<think>Running the wikipedia_search_0 tool..."),
        (Reply(error="down"), "failed", "<think>Running the wikipedia_search_0 tool..."),
    ],
)
async def test_with_old_values_all_is_written_again_inside_the_thinking(
    second: Reply, status: str, content: str
) -> None:
    replies = [LOOK, Reply(f"<think>hm</think>It is [ID:{NUMBER}]."), second]
    turn = await play_agent(replies, CITES, compat={"old_values": True})
    assert (turn.run.status, turn.run.answer) == (status, "")
    assert turn.outputs["content"] == content
    sent = turn.model.requests[-1][1]
    shown = "<think>Running the wikipedia_search_0 tool..."
    assert sent.messages[0]["content"] == f"{shown}hm</think>It is [ID:{NUMBER}]."
    assert [tool.name for tool in sent.tools] == ["wikipedia_search_0"]


@each_row(
    ("turns", "replies", "answer"),
    [
        (4, ["Vientiane.", f"Vientiane [ID:{NUMBER}]."], f"Vientiane [ID:{NUMBER}]."),
        (4, [f"It is [ID:{NUMBER}]."], f"It is [ID:{NUMBER}]."),
        (3, ["Vientiane."], "Vientiane."),
    ],
)
async def test_from_the_fourth_turn_on_answers_from_earlier_sources_are_held_back(
    turns: int, replies: list[str], answer: str
) -> None:
    components = {
        "look": node("Wikipedia", {"query": "{sys.query}"}, ["a"]),
        "a": node("Agent", {"llm_id": "m@T", "tools": [WIKI], "sys_prompt": "{look@formalized_content}"}, ["out"]),
        "out": node("Message", {"content": ["{a@content}"]}),
    }
    model = ScriptedModel([Reply("Which capital?", match=head_of("standalone_question"), repeat=True)])
    http = ScriptedHttp({"http://wiki.test": page("Laos", "Vientiane is the capital.")})
    services = fake_services(models=OneModel(model), http=http, tools=ToolSettings({"wikipedia": "http://wiki.test"}))
    runner = runner_of(components, services=services, saver=InMemorySaver())
    model.replies += [Reply("Hm.")] * (turns - 1) + [Reply(text) for text in replies]
    run = None
    for _ in range(turns):
        run = runner.start("s", {"query": "capital?"})
        async for _ in run:
            pass
    assert run is not None
    assert (run.answer, len(model.replies)) == (answer, 1)
    notes = [entry["tool_name"] for block in run.trace for entry in cast("Any", block["trace"])]
    assert ("gen_citations" in notes) == (len(replies) == 2)
