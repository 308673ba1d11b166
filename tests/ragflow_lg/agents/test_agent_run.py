from typing import Any

from ragflow_lg.agents.agent_run import (
    TRUNCATION_MARK,
    AgentLoop,
    AgentResult,
    append_message,
    fit_context_window,
    result_text,
)
from ragflow_lg.agents.agent_tool import Outcome
from ragflow_lg.agents.toolbox import Toolbox
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import RunContext, TurnContext
from ragflow_lg.component.node_steps import MemorySteps
from ragflow_lg.services.chat import ChatRequest, TokenBudget, ToolCall, ToolSchema
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.regions import play_run
from tests.fakes.services import Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row
from tests.stores import OpenStore

LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="Looking. ")


async def test_completed_steps_are_not_repeated_when_the_turn_resumes(reopen: OpenStore) -> None:
    async with reopen() as store:
        first = await play_agent([LOOK, Reply("Vien", hangs=True)], store=store)
        assert (first.run.status, len(first.model.requests), len(first.http.requests)) == ("cancelled", 2, 1)
        first.model.replies.append(Reply("Vientiane."))
        run = first.runner.continue_("s")
        answer, _ = await play_run(run)
    assert run.status == "succeeded"
    assert (len(first.model.requests), len(first.http.requests)) == (3, 1)
    assert answer == "Looking. Vientiane."
    assert [m["role"] for m in first.model.requests[2][1].messages] == ["user", "assistant", "tool"]


async def test_usage_before_a_crash_counts(reopen: OpenStore) -> None:
    async with reopen() as store:
        first = await play_agent([LOOK, Reply(hangs=True)], store=store, is_shown=False)
        first.model.replies.append(Reply("Vientiane."))
        run = first.runner.continue_("s")
        finished = [event async for event in run if event.event == "workflow_finished"]
    data: Any = finished[0].data()
    assert data["usage"]["calls"] == 2


async def test_the_state_of_a_shared_budget_is_the_same_after_a_crash() -> None:
    plan, steps = plan_of(canvas({"a": text()})), MemorySteps()

    def process(spent: int) -> AgentLoop:
        ctx = RunContext(plan, plan.nodes[NodeId("a")], TurnContext(fake_services(), steps=steps), {}, task="t")
        outer = TokenBudget()
        outer.limit, ctx.budget = 10, TokenBudget(outer)
        ctx.budget.charge(spent)
        return AgentLoop(ctx, ScriptedModel(), ChatRequest("", ()), Toolbox(ctx, ()), 1)

    assert not await process(9).is_spent("round 1")
    assert not await process(10).is_spent("round 1")
    assert await process(10).is_spent("round 2")


@each_row(("value", "says"), [("é", "é"), (None, ""), ([1, "é"], '[1, "é"]'), (0, "0"), ({"a": None}, '{"a": null}')])
def test_results_are_texts_or_json(value: JsonValue, says: str) -> None:
    assert result_text(value) == says


def test_consecutive_messages_of_one_role_are_merged() -> None:
    assert append_message([{"role": "user", "content": "a"}], "user", "b") == [{"role": "user", "content": "a\n\nb"}]
    assert [m["role"] for m in append_message([{"role": "user", "content": "a"}], "assistant", "b")] == [
        "user",
        "assistant",
    ]


def test_calls_are_listed_with_their_arguments_parsed_if_possible() -> None:
    gathered = AgentResult()
    gathered.add_call("0.0", ToolCall("1", "t", '{"a": 1}'), Outcome([1]))
    gathered.add_call("0.1", ToolCall("2", "u", "[" * 100_000), Outcome("no", is_error=True))
    assert gathered.use_tools[0] == {"name": "t", "arguments": {"a": 1}, "results": [1]}
    assert gathered.use_tools[1]["arguments"] == "[" * 100_000


def test_a_call_that_another_attempt_repeats_is_listed_once() -> None:
    gathered = AgentResult()
    for arguments in ('{"a": 1}', '{"a": 1}', '{"a": 2}'):
        gathered.add_call("0.0", ToolCall("1", "t", arguments), Outcome("x"))
    assert [call["arguments"] for call in gathered.use_tools] == [{"a": 1}, {"a": 2}]


def links(*files: dict[str, Any], answer: str = "") -> str:
    gathered = AgentResult()
    for index, file in enumerate(files):
        gathered.add_call(f"0.{index}", ToolCall("1", "t", "{}"), Outcome("x", artifacts=[file]))
    return gathered.links(answer)


PNG = {"name": "a.png", "url": "/f/a.png", "mime_type": "image/png"}


def test_images_are_embedded_and_other_files_linked_once() -> None:
    table = {"name": "t.csv", "url": "https://x.test/t.csv?a=1", "mime_type": "text/csv"}
    assert links(PNG, table, PNG) == "\n\n![a.png](/f/a.png)\n\n[Download t.csv](https://x.test/t.csv?a=1)"
    assert links(PNG, answer="See ![a.png](/f/a.png)!") == ""
    assert links(PNG, answer="See ![a.png](/other)!") != ""


@each_row("url", ["javascript:alert(1)", "data:text/html,x", "", "x.png", "http://[", None, 1])
def test_invalid_urls_are_omitted(url: Any) -> None:
    assert links({**PNG, "url": url}) == ""


def test_names_and_urls_cannot_break_out_of_the_link() -> None:
    assert links({"name": "a](x)\n![b", "url": "/f/a b(c).png", "mime_type": None}) == (
        "\n\n[Download a\\](x) !\\[b](/f/a%20b%28c%29.png)"
    )


def request(*sizes: int, tools: int = 0) -> ChatRequest:
    messages = tuple({"role": "user", "content": "word " * size} for size in sizes)
    schemas = (ToolSchema("t", "x" * 4 * tools, {}),) if tools else ()
    return ChatRequest("system", messages, tools=schemas)


def test_a_request_that_fits_is_unchanged() -> None:
    original = request(10, 20)
    assert fit_context_window(original, 0, 1000) is original


def test_the_longest_results_are_truncated_first_and_the_question_never() -> None:
    fitted = fit_context_window(request(300, 2000, 400, 10), 1, 1200)
    sizes = [estimate_tokens(message["content"]) for message in fitted.messages]
    assert sum(sizes) <= 1200
    assert [message["content"].endswith(TRUNCATION_MARK) for message in fitted.messages] == [False, True, False, False]
    assert sizes[0] == 375


def test_tools_count_towards_the_context() -> None:
    assert fit_context_window(request(10, 500, tools=600), 1, 1000).messages[1]["content"].endswith(TRUNCATION_MARK)


def test_truncation_ends_even_if_the_request_cannot_fit() -> None:
    fitted = fit_context_window(request(5000, *[150] * 50), 1, 100)
    assert all(estimate_tokens(message["content"]) <= 120 for message in fitted.messages[1:])
    assert fit_context_window(request(5000), 1, 100) == request(5000)
