import json
from typing import Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.run import Run
from ragflow_lg.services.agent_metrics import ToolMetrics
from tests.fakes.agents import TAVILY, WIKI, RecordListener, play_agent, tool_calls
from tests.fakes.services import Reply
from tests.harness.rows import each_row
from tests.stores import OpenStore

KEY = "tvly-0123456789"
LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="<think>Where?</think>Looking. ")
INNER = {
    "component_name": "Agent",
    "name": "Fact Finder",
    "params": {"llm_id": "m@Test", "sys_prompt": "You find facts.", "tools": [WIKI]},
}
FIND = {"user_prompt": "Find it"}


async def records_of(run: Run) -> list[AgentRecord]:
    return [event async for event in run.with_records() if isinstance(event, AgentRecord)]


async def play_and_record(replies: list[Reply], params: Any = None, **more: Any) -> tuple[list[AgentRecord], Any]:
    """Play a turn; return its records and the turn."""
    listener = RecordListener()
    turn = await play_agent(replies, params, callbacks=[listener], **more)
    return listener.records, turn


def kinds(records: list[AgentRecord]) -> list[str]:
    return [("=" if r.is_replayed else "") + r.kind for r in records]


ROUND = ["iteration_started", "thought", "iteration_finished", "tool_started", "tool_finished"]
END = ["iteration_started", "iteration_finished", "agent_finished"]


@each_row("is_shown", [True, False])
async def test_a_round_a_call_and_an_answer_are_recorded(is_shown: bool) -> None:
    records, turn = await play_and_record([LOOK, Reply("Vientiane.")], is_shown=is_shown)
    assert kinds(records) == [*ROUND, *END]
    assert {(r.node, r.path, r.visit, r.caller) for r in records} == {("a", "a", 2, "")}
    details: list[dict[str, Any]] = [dict(r.details) for r in records]
    started, thought, finished, call, result, *_, last = details
    assert started == {"iteration": 1, "model": "m@Test", "step": "round 0"}
    assert thought == {"iteration": 1, "text": "Where?\nLooking."}
    assert (finished["calls"], finished["usage"]["calls"]) == (["wikipedia_search_0"], 1)
    place = {"iteration": 1, "position": 0, "step": "0.0", "call_id": "call_1"}
    assert call == {**place, "tool": "wikipedia_search_0", "title": "Wiki", "arguments": {"query": "Laos"}}
    assert "Vientiane is the capital." in result["result"]
    metrics = records[-1].metrics
    assert metrics is not None
    assert last == metrics.data()
    assert (metrics.iterations, metrics.calls, metrics.failures, metrics.usage.calls) == (2, 1, 0, 2)
    assert turn.run.agents == metrics
    json.dumps([r.data() for r in records])


async def test_failures_state_the_error_and_whether_a_tool_was_called() -> None:
    look, search = ("wikipedia_search_0", {"query": "Laos"}), ("tavily_search_1", {"query": "x"})
    calls = tool_calls(look, search, ("nothing_2", {}), ("wikipedia_search_0", "[1]"))
    answers = {"http://t/search": ServiceError(f"The key {KEY} is refused.")}
    tools = [WIKI, {**TAVILY, "params": {"api_key": KEY}}]
    records, turn = await play_and_record([calls, Reply("So.")], {"tools": tools}, answers=answers)
    failed = {r.details["position"]: r.details for r in records if r.kind == "tool_failed"}
    assert {at: details["was_called"] for at, details in failed.items()} == {1: True, 2: False, 3: False}
    assert failed[1]["error"] == "Tavily error: The key *** is refused."
    assert (failed[2]["title"], failed[3]["title"], failed[3]["arguments"]) == ("", "Wiki", [1])
    tools_used = {name: (tool.calls, tool.failures) for name, tool in turn.run.agents.tools.items()}
    assert tools_used == {"wikipedia_search_0": (2, 1), "tavily_search_1": (1, 1), "(unknown)": (1, 1)}
    assert [e["tool_name"] for e in turn.run.trace[0]["trace"]] == ["wikipedia_search_0", "tavily_search_1"]
    assert KEY not in repr(records)
    assert KEY not in repr(turn.run.trace)


async def test_a_nested_agent_has_separate_records() -> None:
    replies = [
        tool_calls(("Fact_Finder_0", FIND), ("Fact_Finder_0", FIND)),
        *(tool_calls(("wikipedia_search_0", {"query": "Laos"})) for _ in range(2)),
        *(Reply("Vientiane.", match="You find facts") for _ in range(2)),
        Reply("It is Vientiane."),
    ]
    records, turn = await play_and_record(replies, {"tools": [INNER]})
    inner = [r for r in records if r.path == "a-->Fact_Finder"]
    assert {r.caller for r in inner} == {"0.0", "0.1"}
    assert {(r.node, r.visit) for r in inner} == {("a", 2)}
    for caller in ("0.0", "0.1"):
        assert kinds([r for r in inner if r.caller == caller]) == [k for k in [*ROUND, *END] if k != "thought"]
    run = turn.run
    assert (run.agents.visits, run.agents.iterations, run.usage.calls) == (3, 6, 6)
    assert run.agents.usage == run.usage
    assert run.agents.tools["Fact_Finder_0"].calls == 2
    assert [e["path"] for e in run.trace[0]["trace"]] == ["-->Fact_Finder", "-->Fact_Finder", "", ""]


async def test_a_rewritten_question_is_a_note() -> None:
    first = await play_agent([Reply("A country.")])
    first.model.replies += [Reply("Vientiane."), Reply("How big is it?"), Reply("Big.")]
    async for _ in first.runner.start("s", {"query": "Its capital?"}):
        pass
    run = first.runner.start("s", {"query": "How big?"})
    records = await records_of(run)
    assert kinds(records) == ["note", *END]
    note = records[0].details
    assert (note["title"], note["result"]) == ("Multi-turn conversation optimization", "How big is it?")
    assert (run.agents.iterations, run.agents.usage.calls, run.usage.calls) == (1, 2, 2)
    entries: Any = run.trace[0]["trace"]
    assert [entry["tool_name"] for entry in entries] == [note["title"]]


async def test_stored_steps_are_replayed_after_a_crash_and_counted_once(reopen: OpenStore) -> None:
    async with reopen() as store:
        first = await play_agent([LOOK, Reply(hangs=True)], store=store)
        assert first.run.status == "cancelled"
        assert (first.run.agents.iterations, first.run.agents.calls) == (1, 1)
        first.model.replies.append(Reply("Vientiane."))
        run = first.runner.continue_("s")
        records = await records_of(run)
        traces = [await store.traces.get(r.envelope.message_id) for r in (first.run, run)]
    assert kinds(records) == [*(f"={kind}" for kind in ROUND), *END]
    assert (run.agents.iterations, run.agents.calls, run.agents.replayed) == (1, 0, 2)
    assert (run.agents.usage.calls, run.agents.replayed_usage.calls) == (1, 1)
    together = first.run.agents.plus(run.agents)
    assert (together.iterations, together.calls) == (2, 1)
    assert together.tools == {"wikipedia_search_0": ToolMetrics(1, 0, together.tools["wikipedia_search_0"].seconds)}
    blocks: list[Any] = [trace[0]["trace"] for trace in traces if trace]
    assert [["is_replayed" in entry for entry in block] for block in blocks] == [[False], [True]]
