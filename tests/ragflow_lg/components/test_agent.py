from collections.abc import AsyncIterator
from typing import Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.runs.wire.wire_events import WireNodeFinished
from ragflow_lg.services.chat import ChatDelta, ChatRequest, Usage, estimate_usage
from ragflow_lg.services.references import build_chunks, citation_number
from tests.fakes.agents import TOOLS, WIKI, page, play_agent, tool_calls
from tests.fakes.prompts import GUIDELINES, head_of
from tests.fakes.services import Reply, ScriptedModel
from tests.harness.rows import each_row

NUMBER = citation_number(str(build_chunks([("Laos", "", "The capital is Vientiane.", 1.0)])[0]["chunk_id"]))
LOOK_UP = tool_calls(("look_up_0", {"query": "Laos"}))
LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}))
SCHEMA = {"structured": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


async def test_calls_and_the_answer_are_streamed() -> None:
    turn = await play_agent([tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="Well. "), Reply("Vientiane.")])
    assert turn.run.answer == "Well. Vientiane."
    assert turn.outputs["content"] == "Well. <think>Running the wikipedia_search_0 tool...</think>Vientiane."
    assert turn.tool_results[0].endswith("Vientiane is the capital.")
    assert turn.run.usage.calls == 2


async def test_thinking_without_an_opening_tag_beside_a_call_is_not_part_of_the_answer() -> None:
    look = tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="I ponder.</think>Well. ")
    turn = await play_agent([look, Reply("Vientiane.")])
    assert turn.outputs["content"] == "Well. <think>Running the wikipedia_search_0 tool...</think>Vientiane."
    assert turn.run.answer == "Well. Vientiane."


async def test_an_empty_question_of_a_longer_conversation_changes_nothing() -> None:
    prompts = [{"role": role, "content": f"m{n}"} for n, role in enumerate(["user", "assistant"] * 2 + ["user"])]
    turn = await play_agent([Reply(""), Reply("hi")], {"prompts": prompts})
    assert turn.model.requests[0][1].system.startswith(head_of("standalone_question"))
    assert turn.model.requests[1][1].messages[-1]["content"] == "m4"


async def test_a_failure_closes_an_open_thought() -> None:
    params = {"exception_method": "comment", "exception_default_value": "Later."}
    turn = await play_agent([LOOK, Reply(error="down")], params)
    assert turn.run.answer == "Later."
    assert turn.run.status == "succeeded"


DRAW: dict[str, Any] = {"component_name": "Draw", "name": "Draw", "params": {}}
LOOKUP: dict[str, Any] = {"component_name": "LookUp", "name": "LookUp", "params": {}}


async def test_links_to_files_of_tools_follow_the_answer() -> None:
    for is_shown in (True, False):
        replies = [tool_calls(("draw_0", {"query": "cat"})), Reply("See ![cat.png](/files/cat.png).")]
        turn = await play_agent(replies, {"tools": [DRAW]}, catalog=TOOLS, is_shown=is_shown)
        assert turn.outputs["content"].endswith("See ![cat.png](/files/cat.png).\n\n[Download cat.csv](/files/cat.csv)")


async def test_files_of_another_visit_are_not_linked() -> None:
    turn = await play_agent([tool_calls(("draw_0", {"query": "cat"})), Reply("a")], {"tools": [DRAW]}, catalog=TOOLS)
    turn.model.replies.append(Reply("b"))
    run = turn.runner.start("s", {"query": "again"})
    async for _ in run:
        pass
    assert run.answer == "b"


def child_agent(**params: Any) -> dict[str, Any]:
    return {"component_name": "Agent", "name": "Child", "params": {"sys_prompt": "Child.", **params}}


async def test_a_nested_agent_gets_citation_guidelines_once_there_is_something_to_cite() -> None:
    number, look = NUMBER, LOOK_UP
    cited = f"Vientiane [ID:{number}] [ID:1000]."
    ask_child = tool_calls(("Child_0", {"user_prompt": "x"}))
    params = {"tools": [child_agent(tools=[LOOKUP])], "cite": True}
    replies = [ask_child, look, Reply(cited), Reply("B.")]
    turn = await play_agent(replies, params, catalog=TOOLS, is_shown=False)
    cites = f"Child.\n\n{GUIDELINES}"
    assert [request.system for _, request in turn.model.requests] == ["", "Child.", cites, GUIDELINES]
    assert turn.tool_results == [f"Vientiane [ID:{number}]."]

    # It can also cite what its caller found.
    params = {"tools": [LOOKUP, child_agent()], "cite": True}
    replies = [look, tool_calls(("Child_1", {"user_prompt": "x"})), Reply(cited), Reply("B.")]
    turn = await play_agent(replies, params, catalog=TOOLS, is_shown=False)
    assert turn.model.requests[2][1].system == cites
    assert turn.tool_results[-1] == f"Vientiane [ID:{number}]."


@each_row(
    ("arguments", "prompt"),
    [
        ({"user_prompt": "Look."}, "Look."),
        ({"user_prompt": "Look.", "reasoning": "", "context": " "}, "Look."),
        ({"user_prompt": "Look.", "context": "Laos"}, "\nCONTEXT:\nLaos\n\nQUERY:\nLook.\n"),
        ({"user_prompt": "Look.", "reasoning": "why"}, "\nREASONING:\nwhy\n\nQUERY:\nLook.\n"),
        ({"user_prompt": 7}, "7"),
        ({}, "Own prompt about rice"),
        ({"user_prompt": "", "context": "Laos"}, "Own prompt about rice"),
        ({"user_prompt": None}, "Own prompt about rice"),
    ],
)
async def test_a_nested_agent_is_asked_the_task_or_its_own_prompts(arguments: dict[str, Any], prompt: str) -> None:
    child = child_agent(prompts=[{"role": "user", "content": "Own prompt about {sys.query}"}])
    replies = [tool_calls(("Child_0", arguments)), Reply("inner"), Reply("done")]
    turn = await play_agent(replies, {"tools": [child]}, is_shown=False, query="rice")
    assert turn.model.requests[1][1].messages == ({"role": "user", "content": prompt},)
    assert (turn.tool_results, turn.outputs["content"]) == (["inner"], "done")


async def test_a_nested_agent_that_fails_returns_its_default_value_or_its_error() -> None:
    replies = [tool_calls(("Child_0", {"user_prompt": "x"})), Reply(error="no credit"), Reply("done")]
    default = {"exception_method": "comment", "exception_default_value": "n/a"}
    goto = {"exception_method": "goto", "exception_default_value": "n/a", "exception_goto": ["out"]}
    for policy, result in ((default, "n/a"), ({}, "Child error: no credit"), (goto, "Child error: no credit")):
        turn = await play_agent(list(replies), {"tools": [child_agent(**policy)]}, is_shown=False)
        assert turn.tool_results == [result]


async def test_a_nested_agent_is_retried_with_what_was_wrong() -> None:
    child = child_agent(outputs=SCHEMA, max_retries=1, delay_after_error=0)
    replies = [tool_calls(("Child_0", {"user_prompt": "x"})), Reply("no"), Reply('{"city": "Vientiane"}'), Reply("A.")]
    turn = await play_agent(replies, {"tools": [child]}, is_shown=False)
    assert turn.tool_results == ['{"city": "Vientiane"}']
    assert "Your answer is invalid" in turn.model.requests[2][1].messages[-1]["content"]


async def test_use_tools_lists_the_calls_of_all_attempts() -> None:
    params = {"outputs": SCHEMA, "max_retries": 1, "delay_after_error": 0}
    turn = await play_agent([LOOK, Reply("Vientiane"), Reply('{"city": "Vientiane"}')], params, is_shown=False)
    assert turn.outputs["structured"] == {"city": "Vientiane"}
    (call,) = turn.outputs["use_tools"]
    assert (call["name"], call["arguments"]) == ("wikipedia_search_0", {"query": "Laos"})


async def test_a_retry_after_a_rejected_answer_asks_again_without_repeating_tool_calls() -> None:
    look, good = LOOK_UP, Reply(f"Vientiane [ID:{NUMBER}].")
    params = {"tools": [LOOKUP], "requires_evidence": True, "max_retries": 2, "delay_after_error": 0}
    refused = [look, Reply("No."), Reply("Still no.")]
    async with open_store("memory://") as store:
        turn = await play_agent([*refused, *refused, look, good], params, catalog=TOOLS, store=store)
    assert (turn.run.answer, turn.model.replies, len(turn.model.requests)) == (good.text, [], 8)
    assert [(metrics.calls, turn.run.agents.replayed) for metrics in turn.run.agents.tools.values()] == [(1, 2)]


async def test_an_answer_that_never_matches_its_schema_is_output_as_text() -> None:
    params = {"outputs": SCHEMA, "exception_method": "goto", "exception_goto": ["out"]}
    turn = await play_agent([Reply("<think>hm</think>It is Vientiane.")], params, is_shown=False)
    assert turn.outputs["content"] == "It is Vientiane."
    assert "does not match the schema" in turn.outputs["_ERROR"]


class Diligent(ScriptedModel):
    """A model that calls 18 children at once, which call their tool as often as possible; 40 tokens per answer."""

    def _next(self, request: ChatRequest, *, is_streaming: bool) -> Reply:
        self.requests.append((is_streaming, request))
        tool = request.tools[0].name if request.tools else ""
        calls = {"Child_0": [("Child_0", {"user_prompt": "x"})] * 18, "": []}.get(tool, [(tool, {"query": "Laos"})])
        if tool == "Child_0" and request.messages[-1]["role"] == "tool":
            calls = []
        return Reply("" if calls else "A.", calls=tool_calls(*calls).calls, usage=Usage(30, 10, 1))


async def test_a_budget_limits_nested_agents_and_the_calls_of_one_round() -> None:
    # Without a limit there would be 2 + 18 * 10 model calls. Twelve children start before 500 tokens are used; their
    # next round is the last one. Six are not called.
    child: dict[str, Any] = {"component_name": "Agent", "name": "Child", "params": {"tools": [WIKI], "max_rounds": 9}}
    turn = await play_agent([], {"tools": [child], "max_total_tokens": 500}, model=Diligent())
    assert turn.run.answer == "A."
    assert len(turn.model.requests) == 1 + 12 * 2 + 1
    assert ["was not made: the token budget" in result for result in turn.tool_results] == [False] * 12 + [True] * 6
    assert turn.run.usage.prompt_tokens == 26 * 30


class WithoutTools(ScriptedModel):
    """Its server refuses tools."""

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        if request.tools:
            self.has_tools = False
            self.requests.append((True, request))
            raise ServiceError("tools are refused")
        async for delta in super().stream(request):
            yield delta


async def test_tools_that_the_server_refuses_are_described_in_the_prompt() -> None:
    written = '<tool_call>{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}</tool_call>'
    turn = await play_agent([Reply(written), Reply("Vientiane.")], model=WithoutTools())
    assert [bool(request.tools) for _, request in turn.model.requests] == [True, False, False]
    assert "wikipedia_search_0" in turn.model.requests[1][1].system
    assert (turn.run.answer, len(turn.outputs["use_tools"])) == ("Vientiane.", 1)


class SmallWindow(ScriptedModel):
    """Its server refuses long requests and then names its window."""

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        if estimate_usage(request, "").prompt_tokens > 600:
            self.requests.append((True, request))
            self.context_tokens = 600
            error = ServiceError("too long")
            error.refused = "context_tokens"
            raise error
        async for delta in super().stream(request):
            yield delta


async def test_a_prompt_and_results_that_the_server_refuses_for_their_length_are_cut() -> None:
    long = page("Laos", "Vientiane. " * 1000)
    for query, replies, sizes in (("q" * 4000, ["Hi."], [1, 1]), ("q", [LOOK, "Hi."], [1, 3, 3])):
        replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]
        turn = await play_agent(replies, model=SmallWindow(), query=query, answers={"http://wiki.test": long})
        assert (turn.run.answer, turn.run.error) == ("Hi.", None)
        assert [len(request.messages) for _, request in turn.model.requests] == sizes
        assert all(request.tools for _, request in turn.model.requests)


async def test_an_agent_that_called_no_tool_says_so_beside_its_answer() -> None:
    turn = await play_agent([Reply("one")], is_shown=False)
    for replies, notices in (([Reply("two")], ("The model called none of its 1 tools.",)), ([LOOK, Reply("two")], ())):
        turn.model.replies = replies
        run = turn.runner.start("s", {"query": "again"})
        events = [event async for event in run if isinstance(event, WireNodeFinished)]
        assert [(e.outputs["content"], e.notices) for e in events if e.component_id == "a"] == [("two", notices)]
