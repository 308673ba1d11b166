from typing import Any

from ragflow_lg.agents.agent_run import TRUNCATION_MARK, AgentLoop, AgentResult, fit_context_window
from ragflow_lg.agents.agent_tool import Outcome
from ragflow_lg.agents.toolbox import Toolbox
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.component.context import RunContext, TurnContext
from ragflow_lg.component.node_values import MemorySteps
from ragflow_lg.services.chat import ChatRequest, TokenBudget, ToolCall, ToolSchema
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row
from tests.stores import OpenStore

LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="Looking. ")


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


PNG = {"name": "a.png", "url": "/f/a.png", "mime_type": "image/png"}
TABLE = {"name": "t.csv", "url": "https://x.test/t.csv?a=1", "mime_type": "text/csv"}
BROKEN = {"name": "a](x)\n![b", "url": "/f/a b(c).png", "mime_type": None}
BOTH = "\n\n![a.png](/f/a.png)\n\n[Download t.csv](https://x.test/t.csv?a=1)"


@each_row(
    ("files", "answer", "links"),
    [
        ([PNG, TABLE, PNG], "", BOTH),
        ([PNG], "See ![a.png](/f/a.png)!", ""),
        ([PNG, TABLE], "See ![a.png](/other)!", BOTH),
        ([BROKEN], "", "\n\n[Download a\\](x) !\\[b](/f/a%20b%28c%29.png)"),
        *(
            ([{**PNG, "url": url}], "", "")
            for url in ("javascript:alert(1)", "data:text/html,x", "", "x.png", "http://[", None, 1)
        ),
    ],
)
def test_images_are_embedded_and_other_files_linked_once(files: list[Any], answer: str, links: str) -> None:
    gathered = AgentResult()
    for index, file in enumerate(files):
        gathered.add_call(f"0.{index}", ToolCall("1", "t", "{}"), Outcome("x", artifacts=[file]))
    assert gathered.links(answer) == links


def request(*sizes: int, tools: int = 0) -> ChatRequest:
    messages = tuple({"role": "user", "content": "word " * size} for size in sizes)
    schemas = (ToolSchema("t", "x" * 4 * tools, {}),) if tools else ()
    return ChatRequest("system", messages, tools=schemas)


def test_the_longest_results_are_truncated_first_and_the_question_never() -> None:
    fitted = fit_context_window(request(300, 2000, 400, 10), 1, 1200)
    sizes = [estimate_tokens(message["content"]) for message in fitted.messages]
    assert sum(sizes) <= 1200
    assert [message["content"].endswith(TRUNCATION_MARK) for message in fitted.messages] == [False, True, False, False]
    assert sizes[0] == 375
    assert fit_context_window(request(10, 500, tools=600), 1, 1000).messages[1]["content"].endswith(TRUNCATION_MARK)


def test_truncation_ends_even_if_the_request_cannot_fit() -> None:
    fitted = fit_context_window(request(5000, *[150] * 50), 1, 100)
    assert all(estimate_tokens(message["content"]) <= 120 for message in fitted.messages[1:])
    assert fit_context_window(request(5000), 1, 100) == request(5000)
