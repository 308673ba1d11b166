import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import ragflow_lg.agents.toolbox as module
from ragflow_lg.adapters.system_services import MemoryResultCache
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.component.function_tool import function_tool
from ragflow_lg.services.tool_policies import Allow, Refuse, Replace, ToolPermits, ToolPolicies
from tests.fakes.agents import TAVILY, TOOLS, WIKI, page, play_agent, tool_calls
from tests.fakes.policies import Guard, catalog_with, entry
from tests.fakes.services import FixedClock, Reply
from tests.harness.rows import each_row

LOOK = ("wikipedia_search_0", {"query": "Laos"})


def with_guards(*guards: Any) -> ToolPolicies:
    return ToolPolicies(guards=guards)


async def test_a_forbidden_tool_is_neither_shown_nor_callable() -> None:
    policies = ToolPolicies(ToolPermits(deny=("wikipedia",)))
    replies = [tool_calls(LOOK, ("tavily_search_1", {"query": "x"})), Reply("ok")]
    turn = await play_agent(replies, {"tools": [WIKI, TAVILY]}, policies=policies)
    assert [tool.name for tool in turn.model.requests[0][1].tools] == ["tavily_search_1"]
    assert turn.tool_results[0] == "LLM tool wikipedia_search_0 does not exist"
    assert [request.url for request in turn.http.requests if "wiki" in request.url] == []


async def test_permits_of_the_deployment_apply_to_nested_agents() -> None:
    inner = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@T", "tools": [WIKI]}}
    replies = [tool_calls(("Helper_0", {"user_prompt": "x"})), Reply("I have none."), Reply("ok")]
    policies = ToolPolicies(ToolPermits(("Agent",)))
    turn = await play_agent(replies, {"tools": [inner]}, policies=policies, is_shown=False)
    assert [len(request.tools) for _, request in turn.model.requests] == [1, 0, 1]


async def test_a_refused_call_is_not_made_and_the_model_sees_the_reason() -> None:
    guard, next_guard = Guard(Refuse("It looks odd.")), Guard()
    turn = await play_agent([tool_calls(LOOK), Reply("ok")], policies=with_guards(guard, next_guard))
    assert turn.tool_results == ["The call to Wiki was refused: It looks odd."]
    assert turn.http.requests == []
    assert next_guard.calls == []


async def test_a_replacement_reaches_the_next_guard_and_the_tool() -> None:
    next_guard = Guard()
    policies = with_guards(Guard(Replace({"query": "Peru"}), Replace("masked")), next_guard)
    turn = await play_agent([tool_calls(LOOK), Reply("ok")], policies=policies)
    assert next_guard.calls == [("before", "Wikipedia", {"query": "Peru"}), ("after", "Wikipedia", "masked")]
    assert turn.http.requests[0].query["gsrsearch"] == "Peru"
    assert turn.tool_results == ["masked"]
    assert "references" not in turn.state["turn"]


async def test_a_withheld_result_is_neither_shown_to_the_model_nor_cited() -> None:
    withheld = with_guards(Guard(after_verdict=Refuse("Injection.")))
    turn = await play_agent([tool_calls(LOOK), Reply("ok")], policies=withheld)
    assert turn.tool_results == ["Wiki was called, but its result is withheld: Injection."]
    assert len(turn.http.requests) == 1
    assert "references" not in turn.state["turn"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class Acts(Guard):
    """A guard that calls a function before each call."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__()
        self._act = act

    async def before(self, use: Any) -> Any:
        await self._act()


class Plain:
    def before(self, use: Any) -> Any:
        return Allow()


async def stopped() -> Any:
    raise asyncio.CancelledError


BROKEN = [ValueError("secret of the guard"), None, True, "allow", Replace(["no map"]), ComponentError("x")]
FAILING = [Acts(asyncio.Event().wait), Acts(stopped), Plain(), object(), Guard(Replace({"query": nested(200)}))]


@each_row("guard", [*(Guard(says) for says in BROKEN), *FAILING])
async def test_a_failing_guard_refuses_the_call(guard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GUARD_TIMEOUT_S", 0.02)
    turn = await play_agent([tool_calls(LOOK), Reply("ok")], policies=with_guards(guard))
    assert turn.run.status == "succeeded"
    assert turn.tool_results == ["The call to Wiki was refused: a guard of this deployment failed to check it."]
    assert turn.http.requests == []


@each_row("says", BROKEN[:4])
async def test_a_guard_that_fails_after_a_call_withholds_the_result(says: Any) -> None:
    turn = await play_agent([tool_calls(LOOK), Reply("ok")], policies=with_guards(Guard(after_verdict=says)))
    assert "is withheld: a guard of this deployment failed to check it." in turn.tool_results[0]
    assert "Vientiane" not in turn.tool_results[0]


async def test_a_guard_cannot_change_the_arguments_in_place() -> None:
    class Changes(Guard):
        async def before(self, use: Any) -> Any:
            use.arguments["query"] = "Peru"
            return Allow()

    turn = await play_agent([tool_calls(LOOK), Reply("ok")], policies=with_guards(Changes()))
    assert turn.http.requests[0].query["gsrsearch"] == "Laos"


def with_cache(**seconds: float) -> ToolPolicies:
    return ToolPolicies(cache=MemoryResultCache(seconds or {"*": 60}, FixedClock()))


async def test_the_same_call_is_made_once_and_cited_each_time() -> None:
    policies = with_cache()
    turns = [await play_agent([tool_calls(LOOK), tool_calls(LOOK), Reply("ok")], policies=policies) for _ in range(2)]
    for turn in turns:
        assert "Vientiane" in turn.tool_results[0]
        assert turn.tool_results[0] == turn.tool_results[1]
        assert turn.state["turn"]["references"]["chunks"]
    assert turns[1].http.requests == []
    other = await play_agent([tool_calls((LOOK[0], {"query": "Peru"})), Reply("ok")], policies=policies)
    assert len(other.http.requests) == 1


async def test_calls_with_different_params_do_not_share_results() -> None:
    policies = with_cache()
    tools = [{**WIKI, "params": {"top_n": n}} for n in (1, 2)]
    for tool in tools:
        turn = await play_agent([tool_calls(LOOK), Reply("ok")], {"tools": [tool]}, policies=policies)
        assert len(turn.http.requests) == 1


async def test_errors_are_not_cached() -> None:
    policies = with_cache()
    answers = {"http://wiki.test": ComponentError("Down.")}
    first = await play_agent([tool_calls(LOOK), Reply("ok")], answers=answers, policies=policies)
    assert first.tool_results == ["Wikipedia error: Down."]
    answers = {"http://wiki.test": page("Laos", "Up.")}
    second = await play_agent([tool_calls(LOOK), Reply("ok")], answers=answers, policies=policies)
    assert "Up." in second.tool_results[0]


async def test_only_configured_tools_are_cached_and_never_once_only_tools_or_agents() -> None:
    calls: list[str] = []

    @function_tool(runs_once=True)
    def send(to: str) -> str:
        calls.append(to)
        return "sent"

    def look(at: str) -> str:
        calls.append(at)
        return "seen"

    helper = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@T"}}
    requests = [("Send_0", {"to": "a"}), ("Look_1", {"at": "b"}), ("Helper_2", {"user_prompt": "c"})]
    replies = [tool_calls(requests[0], requests[1]), tool_calls(requests[0], requests[1]), Reply("ok")]
    params = {"tools": [entry("Send"), entry("Look"), helper]}
    catalog = catalog_with(Send=send, Look=look)
    await play_agent(replies, params, catalog=catalog, policies=with_cache())
    assert sorted(calls) == ["a", "a", "b"]
    calls.clear()
    look_, ask = tool_calls(requests[1]), tool_calls(requests[2])
    replies = [look_, look_, ask, Reply("one"), ask, Reply("two"), Reply("ok")]
    turn = await play_agent(replies, params, catalog=catalog, policies=with_cache(Wikipedia=60), is_shown=False)
    assert calls == ["b", "b"]
    assert turn.tool_results[2:] == ["one", "two"]


async def test_guards_check_cached_results() -> None:
    cache = with_cache().cache
    await play_agent([tool_calls(LOOK), Reply("ok")], policies=ToolPolicies(cache=cache))
    withheld = ToolPolicies(cache=cache, guards=(Guard(after_verdict=Refuse("No.")),))
    turn = await play_agent([tool_calls(LOOK), Reply("ok")], policies=withheld)
    assert "withheld: No." in turn.tool_results[0]
    assert turn.http.requests == []


async def test_another_attempt_of_the_agent_does_not_repeat_a_once_only_call() -> None:
    """Without a session store too: the second attempt goes on after the rounds that the first one has finished."""
    calls: list[str] = []

    @function_tool(runs_once=True)
    def send(to: str) -> str:
        calls.append(to)
        return "sent"

    ask = tool_calls(("Send_0", {"to": "ada"}))
    params = {"tools": [entry("Send")], "max_retries": 1, "delay_after_error": 0}
    replies = [ask, Reply(error="The model is down."), Reply("ok")]
    turn = await play_agent(replies, params, catalog=catalog_with(Send=send), is_shown=False)
    assert turn.outputs["content"] == "ok"
    assert turn.tool_results == ["sent"]
    assert calls == ["ada"]


async def test_the_timeout_of_a_once_only_tool_leaves_its_effect_unknown() -> None:
    @function_tool(runs_once=True, timeout_s=0.02)
    async def send() -> None:
        await asyncio.Event().wait()

    turn = await play_agent(
        [tool_calls(("Send_0", {})), Reply("ok")], {"tools": [entry("Send")]}, catalog=catalog_with(Send=send)
    )
    assert turn.tool_results == ["Send returned no result within 0.02 s. It is unknown whether the call took effect."]


async def draw(policies: ToolPolicies) -> str | None:
    """Return the answer of an agent whose tool draws a picture."""
    replies = [tool_calls(("draw_0", {"query": "q"})), Reply("ok")]
    return (await play_agent(replies, {"tools": [entry("Draw")]}, policies=policies, catalog=TOOLS)).run.answer


async def test_files_of_a_withheld_result_are_not_shown_and_results_with_files_are_not_cached() -> None:
    for verdict in (Refuse("No."), Replace("clean")):
        assert await draw(with_guards(Guard(after_verdict=verdict))) == "ok"
    policies = with_cache(Draw=60)
    assert await draw(policies) == await draw(policies) != "ok"
