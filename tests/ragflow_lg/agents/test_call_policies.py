from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ragflow_lg.agents.call_policies as module
from ragflow_lg.adapters.result_cache import MemoryResultCache
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.component.function_tool import function_tool
from ragflow_lg.services.tool_policies import Allow, Refuse, Replace, ToolPermits, ToolPolicies, ToolUse, Verdict
from tests.fakes.agents import TAVILY, TOOLS, WIKI, page, play_agent, tool_calls
from tests.fakes.policies import Guard, catalog_with, entry
from tests.fakes.services import FixedClock, Reply

LOOK = ("wikipedia_search_0", {"query": "Laos"})


def guarded(*guards: Any) -> ToolPolicies:
    return ToolPolicies(guards=guards)


# Permits


async def test_a_forbidden_tool_is_not_shown_and_not_known() -> None:
    policies = ToolPolicies(ToolPermits(deny=("wikipedia",)))
    replies = [tool_calls(LOOK, ("tavily_search_1", {"query": "x"})), Reply("ok")]
    played = await play_agent(replies, {"tools": [WIKI, TAVILY]}, policies=policies)
    assert [tool.name for tool in played.model.requests[0][1].tools] == ["tavily_search_1"]
    assert played.tool_results[0] == "LLM tool wikipedia_search_0 does not exist"
    assert [request.url for request in played.http.requests if "wiki" in request.url] == []


async def test_an_agent_below_is_held_by_the_deployment_too() -> None:
    inner = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@T", "tools": [WIKI]}}
    replies = [tool_calls(("Helper_0", {"user_prompt": "x"})), Reply("I have none."), Reply("ok")]
    policies = ToolPolicies(ToolPermits(("Agent",)))
    played = await play_agent(replies, {"tools": [inner]}, policies=policies, is_shown=False)
    assert [len(request.tools) for _, request in played.model.requests] == [1, 0, 1]


async def test_an_agent_whose_tools_are_all_forbidden_just_answers() -> None:
    played = await play_agent([Reply("hi")], policies=ToolPolicies(ToolPermits(())))
    assert played.outputs["content"] == "hi"
    assert played.model.requests[0][1].tools == ()


# Guards


async def test_a_guard_sees_every_call_and_what_it_gave() -> None:
    guard = Guard()
    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=guarded(guard))
    assert [asked[:2] for asked in guard.calls] == [("before", "Wikipedia"), ("after", "Wikipedia")]
    assert guard.calls[0][2] == {"query": "Laos"}
    assert guard.calls[1][2] == played.tool_results[0]
    assert "Vientiane" in played.tool_results[0]


async def test_a_refused_call_is_not_made_and_the_reason_is_told() -> None:
    guard, next_guard = Guard(Refuse("It looks odd.")), Guard()
    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=guarded(guard, next_guard))
    assert played.tool_results == ["The call to Wiki was refused: It looks odd."]
    assert played.http.requests == []
    assert next_guard.calls == []


async def test_what_one_guard_replaces_the_next_one_and_the_tool_see() -> None:
    next_guard = Guard()
    policies = guarded(Guard(Replace({"query": "Peru"}), Replace("masked")), next_guard)
    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=policies)
    assert next_guard.calls == [("before", "Wikipedia", {"query": "Peru"}), ("after", "Wikipedia", "masked")]
    assert played.http.requests[0].query["gsrsearch"] == "Peru"
    assert played.tool_results == ["masked"]
    assert "references" not in played.state["turn"]


async def test_a_withheld_result_is_neither_told_nor_cited() -> None:
    played = await play_agent(
        [tool_calls(LOOK), Reply("ok")], policies=guarded(Guard(after_verdict=Refuse("Injection.")))
    )
    assert played.tool_results == ["Wiki was called, but its result is withheld: Injection."]
    assert len(played.http.requests) == 1
    assert "references" not in played.state["turn"]


BROKEN = [ValueError("secret of the guard"), None, True, "allow", Replace(["no map"]), ComponentError("x")]


@pytest.mark.parametrize("says", BROKEN, ids=repr)
async def test_a_guard_that_fails_refuses(says: Any) -> None:
    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=guarded(Guard(says)))
    assert played.tool_results == ["The call to Wiki was refused: a guard of this deployment failed to check it."]
    assert played.http.requests == []


@pytest.mark.parametrize("says", BROKEN[:4], ids=repr)
async def test_a_guard_that_fails_behind_a_call_withholds(says: Any) -> None:
    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=guarded(Guard(after_verdict=says)))
    assert "is withheld: a guard of this deployment failed to check it." in played.tool_results[0]
    assert "Vientiane" not in played.tool_results[0]


async def test_a_guard_that_hangs_or_is_none_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(Guard):
        async def before(self, use: Any) -> Any:
            await asyncio.Event().wait()

    class Plain:
        def before(self, use: Any) -> Any:
            return Allow()

    monkeypatch.setattr(module, "GUARD_TIMEOUT_S", 0.02)
    for guard in (Hangs(), Plain()):
        played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=guarded(guard))
        assert "failed to check it" in played.tool_results[0]


async def test_a_guard_cannot_change_the_arguments_behind_our_back() -> None:
    class Changes(Guard):
        async def before(self, use: Any) -> Any:
            use.arguments["query"] = "Peru"
            return Allow()

    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=guarded(Changes()))
    assert played.http.requests[0].query["gsrsearch"] == "Laos"


# Remembered results


def remembering(**seconds: float) -> ToolPolicies:
    return ToolPolicies(cache=MemoryResultCache(seconds or {"*": 60}, FixedClock()))


async def test_the_same_call_is_made_once_and_cited_each_time() -> None:
    policies = remembering()
    for _ in range(2):
        played = await play_agent([tool_calls(LOOK), tool_calls(LOOK), Reply("ok")], policies=policies)
        assert "Vientiane" in played.tool_results[0]
        assert played.tool_results[0] == played.tool_results[1]
        assert played.state["turn"]["references"]["chunks"]
    assert played.http.requests == []
    other = await play_agent([tool_calls((LOOK[0], {"query": "Peru"})), Reply("ok")], policies=policies)
    assert len(other.http.requests) == 1


async def test_other_params_or_other_values_behind_them_are_another_call() -> None:
    policies = remembering()
    tools = [{**WIKI, "params": {"top_n": n}} for n in (1, 2)]
    for tool in tools:
        played = await play_agent([tool_calls(LOOK), Reply("ok")], {"tools": [tool]}, policies=policies)
        assert len(played.http.requests) == 1


async def test_errors_are_not_remembered() -> None:
    policies = remembering()
    answers = {"http://wiki.test": ComponentError("Down.")}
    first = await play_agent([tool_calls(LOOK), Reply("ok")], answers=answers, policies=policies)
    assert first.tool_results == ["Wikipedia error: Down."]
    answers = {"http://wiki.test": page("Laos", "Up.")}
    second = await play_agent([tool_calls(LOOK), Reply("ok")], answers=answers, policies=policies)
    assert "Up." in second.tool_results[0]


async def test_only_named_tools_are_and_never_once_only_ones_or_agents() -> None:
    calls: list[str] = []

    @function_tool(runs_once=True)
    def send(to: str) -> str:
        calls.append(to)
        return "sent"

    def look(at: str) -> str:
        calls.append(at)
        return "seen"

    helper = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@T"}}
    asked = [("Send_0", {"to": "a"}), ("Look_1", {"at": "b"}), ("Helper_2", {"user_prompt": "c"})]
    replies = [tool_calls(asked[0], asked[1]), tool_calls(asked[0], asked[1]), Reply("ok")]
    params = {"tools": [entry("Send"), entry("Look"), helper]}
    catalog = catalog_with(Send=send, Look=look)
    await play_agent(replies, params, catalog=catalog, policies=remembering())
    assert sorted(calls) == ["a", "a", "b"]
    calls.clear()
    replies = [
        tool_calls(asked[1]),
        tool_calls(asked[1]),
        tool_calls(asked[2]),
        Reply("one"),
        tool_calls(asked[2]),
        Reply("two"),
        Reply("ok"),
    ]
    played = await play_agent(replies, params, catalog=catalog, policies=remembering(Wikipedia=60), is_shown=False)
    assert calls == ["b", "b"]
    assert played.tool_results[2:] == ["one", "two"]


async def test_the_guard_judges_a_remembered_result_too() -> None:
    cache = remembering().cache
    await play_agent([tool_calls(LOOK), Reply("ok")], policies=ToolPolicies(cache=cache))
    withheld = ToolPolicies(cache=cache, guards=(Guard(after_verdict=Refuse("No.")),))
    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=withheld)
    assert "withheld: No." in played.tool_results[0]
    assert played.http.requests == []


# Once only (what a kill does is in test_killed.py)


async def test_another_attempt_of_the_agent_does_not_repeat_a_once_only_call() -> None:
    """Without a session store too: the second attempt gets the result of the first."""
    calls: list[str] = []

    @function_tool(runs_once=True)
    def send(to: str) -> str:
        calls.append(to)
        return "sent"

    ask = tool_calls(("Send_0", {"to": "ada"}))
    params = {"tools": [entry("Send")], "max_retries": 1, "delay_after_error": 0}
    replies = [ask, Reply(error="The model is down."), ask, Reply("ok")]
    played = await play_agent(replies, params, catalog=catalog_with(Send=send), is_shown=False)
    assert played.outputs["content"] == "ok"
    assert played.tool_results == ["sent"]
    assert calls == ["ada"]


async def test_the_same_call_of_a_later_round_is_another_one() -> None:
    calls: list[str] = []

    @function_tool(runs_once=True)
    def send(to: str) -> str:
        calls.append(to)
        return "sent"

    ask = tool_calls(("Send_0", {"to": "ada"}))
    await play_agent([ask, ask, Reply("ok")], {"tools": [entry("Send")]}, catalog=catalog_with(Send=send))
    assert calls == ["ada", "ada"]


async def test_a_once_only_tool_that_takes_too_long_may_have_done_it() -> None:
    @function_tool(runs_once=True, timeout_s=0.02)
    async def send() -> None:
        await asyncio.Event().wait()

    played = await play_agent(
        [tool_calls(("Send_0", {})), Reply("ok")], {"tools": [entry("Send")]}, catalog=catalog_with(Send=send)
    )
    assert played.tool_results == ["Send returned no result within 0.02 s. It is unknown whether the call took effect."]


class Deep(Guard):
    async def before(self, use: ToolUse) -> Verdict:
        held: Any = 1
        for _ in range(200):
            held = [held]
        return Replace({"query": held})


class Stopped(Guard):
    async def before(self, use: ToolUse) -> Verdict:
        raise asyncio.CancelledError


@pytest.mark.parametrize("guard", [object(), Deep(), Stopped()])
async def test_a_guard_whose_verdict_is_of_no_use_refuses(guard: Any) -> None:
    played = await play_agent([tool_calls(LOOK), Reply("ok")], policies=ToolPolicies(guards=(guard,)))
    assert played.run.status == "succeeded"
    assert played.tool_results == ["The call to Wiki was refused: a guard of this deployment failed to check it."]
    assert played.http.requests == []


@pytest.mark.parametrize("verdict", [Refuse("No."), Replace("clean")])
async def test_files_of_a_result_that_is_withheld_are_not_shown(verdict: Any) -> None:
    policies = ToolPolicies(guards=(Guard(after_verdict=verdict),))
    draw = {"component_name": "Draw", "name": "Draw", "params": {}}
    replies = [tool_calls(("draw_0", {"query": "q"})), Reply("ok")]
    played = await play_agent(replies, {"tools": [draw]}, policies=policies, catalog=TOOLS)
    assert played.run.answer == "ok"


async def test_a_result_with_files_is_not_remembered() -> None:
    draw = {"component_name": "Draw", "name": "Draw", "params": {}}
    replies = [tool_calls(("draw_0", {"query": "q"})), Reply("ok")]
    policies = remembering(Draw=60)
    answers = [
        (await play_agent(list(replies), {"tools": [draw]}, policies=policies, catalog=TOOLS)).run.answer
        for _ in range(2)
    ]
    assert answers[0] == answers[1] != "ok"
