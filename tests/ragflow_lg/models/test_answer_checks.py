"""Answers that are cut off, blocked, empty or endless, in LLM and Agent."""

import time
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.models.answer_checks import LENGTH_NOTICE, LENGTH_NOTICE_CHINESE, RepetitionGuard, length_notice
from ragflow_lg.runs.wire.wire_events import WireNodeFinished
from ragflow_lg.services.chat import AnswerEnd
from ragflow_lg.services.databases import Databases
from tests.fakes.agents import AgentTurn, play_agent, tool_calls
from tests.fakes.canvas import node
from tests.fakes.databases import SHOP, execute, new_database, open_databases
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

CUT = "First, switch off the mains. Second, do not"
SCHEMA = {"structured": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


async def play(*replies: Reply, is_shown: bool = True, **params: Any) -> AgentTurn:
    return await play_agent(list(replies), {"tools": [], "delay_after_error": 0, **params}, is_shown=is_shown)


async def test_an_answer_that_was_cut_off_says_so_where_it_is_shown() -> None:
    turn = await play(Reply(CUT, end="length"))
    assert turn.run.answer == turn.outputs["content"] == CUT + LENGTH_NOTICE
    assert (await play(Reply(CUT, end="length"), length_notice=False)).run.answer == CUT
    assert (await play(Reply(CUT, end="stop"))).run.answer == CUT


async def test_other_nodes_get_a_cut_answer_without_the_notice() -> None:
    assert (await play(Reply(CUT, end="length"), is_shown=False)).outputs["content"] == CUT


async def test_an_answer_cut_off_while_the_model_thinks_has_the_notice_after_the_thinking() -> None:
    turn = await play(Reply("<think>Let me see", end="length"))
    assert turn.outputs["content"] == "<think>Let me see</think>" + LENGTH_NOTICE


@each_row(
    ("text", "notice"),
    [
        ("首先，关闭电源。其次，不要", LENGTH_NOTICE_CHINESE),
        ("请使用 Python 3 和 FastAPI 编写服务，然后", LENGTH_NOTICE_CHINESE),
        ("まず電源を切ってください。次に", LENGTH_NOTICE),
        ("The word 你好 means hello, and", LENGTH_NOTICE),
        ("", LENGTH_NOTICE),
    ],
)
def test_the_notice_is_in_the_language_of_the_answer(text: str, notice: str) -> None:
    assert length_notice(text) == notice


@each_row("is_shown", [True, False])
async def test_a_blocked_answer_is_an_error_that_names_the_filter(is_shown: bool) -> None:
    turn = await play(Reply("I cannot help with that.", end="content_filter"), is_shown=is_shown)
    assert turn.run.status == "failed"
    assert "content filter" in turn.outputs["_ERROR"]
    assert "I cannot help with that." in turn.outputs["_ERROR"]


@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize("tools", [[], None], ids=["plain", "tools"])
async def test_an_empty_answer_is_requested_again_and_then_an_error(is_shown: bool, tools: Any) -> None:
    params: dict[str, Any] = {} if tools is None else {"tools": tools}
    turn = await play_agent([Reply(" \n"), Reply("there")], params, is_shown=is_shown)
    assert (turn.run.status, turn.outputs["content"].strip()) == ("succeeded", "there")
    turn = await play_agent([Reply(""), Reply(""), Reply("late")], {**params, "max_retries": 0}, is_shown=is_shown)
    assert (turn.run.status, len(turn.model.requests)) == ("failed", 2)
    assert "empty answer" in turn.outputs["_ERROR"]


async def test_structured_data_that_was_cut_off_is_never_repaired(caplog: pytest.LogCaptureFixture) -> None:
    reply = Reply('{"city": "Par', end="length")
    turn = await play(reply, Reply('{"city": "Paris"}'), outputs=SCHEMA, max_retries=1)
    assert turn.outputs["structured"] == {"city": "Paris"}
    turn = await play(reply, outputs=SCHEMA, max_retries=0)
    assert turn.run.status == "failed"
    assert "cut off" in turn.outputs["_ERROR"]
    assert 'The model\'s answer, which is not used: {"city": "Par' in caplog.text
    whole = Reply('{"city": "Paris"}' + " " * 50, end="length")
    assert (await play(whole, outputs=SCHEMA)).outputs["structured"] == {"city": "Paris"}


@pytest.mark.parametrize("kind", ["LLM", "Agent"])
@pytest.mark.parametrize("is_shown", [True, False])
async def test_sql_that_was_cut_off_is_not_run(tmp_path: Path, kind: str, is_shown: bool) -> None:
    with new_database("sqlite", tmp_path) as account:
        execute(account, SHOP)
        model = ScriptedModel()
        params = {"llm_id": "m@Test", "prompts": "{sys.query}", "max_retries": 0, "cite": False}
        show = {"m": node("Message", {"content": ["{a@content}"]})} if is_shown else {}
        sql = node("ExeSQL", {"connection": "reader", "sql": "{a@content}"})
        services = fake_services(models=OneModel(model), integrations={Databases: open_databases(account)})
        runner = runner_of({"a": node(kind, params, ["sql", *show]), "sql": sql, **show}, services=services)
        ends: list[tuple[AnswerEnd, str]] = [("length", "failed"), ("stop", "succeeded")]
        for end, status in ends:
            model.replies = [Reply("SELECT id FROM goods", end=end)]
            run = runner.start(end, {"query": "q"})
            [_ async for _ in run]
            assert run.status == status
            assert ("SQL is not complete" in str(run.error)) == (end == "length")


@each_row("text", ['{"query": "vacation da', '{"query": "vacation"', "", '{"query": "a", "n": 1'])
async def test_a_call_that_was_cut_off_is_not_made(text: str) -> None:
    cut = tool_calls(("wikipedia_search_0", text))
    cut.end = "length"
    turn = await play_agent([cut, Reply("ok")])
    assert (turn.run.answer, turn.http.requests) == ("ok", [])
    assert "cut off" in turn.tool_results[0]


async def test_a_whole_call_before_the_cut_is_made() -> None:
    calls = tool_calls(("wikipedia_search_0", {"query": "Laos"}), ("wikipedia_search_0", '{"query": "Pe'))
    calls.end = "length"
    turn = await play_agent([calls, Reply("ok")])
    assert ("Vientiane is the capital." in turn.tool_results[0], "cut off" in turn.tool_results[1]) == (True, True)
    assert len(turn.http.requests) == 1


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ("react", '<tool_call>{"name": "wikipedia_search_0", "arguments": {"query": "vacation da'),
        ("plan_and_reflect", '[{"name": "wikipedia_search_0", "arguments": {"query": "vacation da'),
    ],
)
async def test_written_calls_that_were_cut_off_are_not_made(strategy: str, text: str) -> None:
    end: AnswerEnd = "length"
    before, after = [], [Reply("ok")]
    if strategy == "plan_and_reflect":
        before, after = [Reply("Fine.")], [Reply('[{"name": "complete_task", "arguments": {}}]'), Reply("ok")]
    turn = await play_agent([*before, Reply(text, end=end), *after], {"strategy": strategy})
    assert (turn.run.status, turn.run.answer, turn.http.requests) == ("succeeded", "ok", [])
    assert any("cut off" in str(request.messages[-1]["content"]) for _, request in turn.model.requests)


def _feed(guard: RepetitionGuard, piece: str, times: int) -> None:
    for _ in range(times):
        guard.feed(piece)


@each_row("piece", ["ha ", "I am sorry. ", "。", "-" * 99 + "\n", "\n- the same line again and again, with commas"])
def test_endless_repetition_is_stopped(piece: str) -> None:
    guard = RepetitionGuard()
    guard.feed("Well, this is how it begins: ")
    start = time.process_time()
    with pytest.raises(ServiceError, match="repeats the same text"):
        _feed(guard, piece, 10_000)
    assert time.process_time() - start < 5


def test_long_texts_and_tables_are_no_repetition() -> None:
    guard = RepetitionGuard()
    for number in range(20_000):
        guard.feed(f"| {number} | the same text in every row of a table |\n")
    guard.feed("=" * 2_000)
    guard.feed(" ".join(["no"] * 900))


@pytest.mark.parametrize("is_shown", [True, False])
async def test_an_answer_without_end_is_an_error(is_shown: bool) -> None:
    turn = await play(Reply(chunks=["Well: ", *["ha "] * 5_000]), is_shown=is_shown)
    assert turn.run.status == "failed"
    assert "repeats the same text" in turn.outputs["_ERROR"]


async def test_the_event_of_the_node_says_why_an_answer_ended() -> None:
    turn = await play(Reply("whole", end="stop"))
    for end in ("length", "content_filter", "stop"):
        turn.model.replies = [Reply(CUT, end=end)]
        events = [event async for event in turn.runner.start(end, {"query": "q"})]
        (finished,) = [e for e in events if isinstance(e, WireNodeFinished) and e.component_id == "a"]
        assert finished.finish_reason == finished.data().get("finish_reason", "") == ("" if end == "stop" else end)
