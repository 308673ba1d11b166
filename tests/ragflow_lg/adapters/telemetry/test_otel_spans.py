import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.adapters.telemetry.otel_spans import OtelSpans
from ragflow_lg.base.errors import ServiceError, SettingsError
from tests.fakes.agents import TAVILY, WIKI, play_agent, tool_calls
from tests.fakes.regions import iteration, node, out, play_run, runner_of, text
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.stores import store_opener

LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="<think>Where?</think>")
INNER: dict[str, Any] = {
    "component_name": "Agent",
    "name": "Fact Finder",
    "params": {"llm_id": "m@Test", "sys_prompt": "You find facts.", "tools": [WIKI]},
}


class Spans:
    """The exported spans as a tree of names."""

    def __init__(self, *, include_content: bool = False) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.callback = OtelSpans(self.provider, include_content=include_content)

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def __getitem__(self, name: str) -> ReadableSpan:
        (match,) = [span for span in self.all if span.name == name]
        return match

    def tree(self, root: ReadableSpan | None = None) -> list[Any]:
        """Return span names in order of their start; the list of its children follows after each parent."""
        parent = root.context.span_id if root and root.context else None
        children = [s for s in self.all if (s.parent.span_id if s.parent else None) == parent]
        names: list[Any] = []
        for span in sorted(children, key=lambda s: (s.start_time or 0, s.context.span_id if s.context else 0)):
            subtree = self.tree(span)
            names += [span.name, subtree] if subtree else [span.name]
        return names


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


class TickingClock(SystemClock):
    """A clock that advances with every reading."""

    def __init__(self) -> None:
        self._at = 1_700_000_000.0

    def now(self) -> float:
        self._at += 0.001
        return self._at

    def monotonic(self) -> float:
        return self.now()


async def trace(replies: list[Reply], params: Any = None, *, include_content: bool = False, **more: Any) -> Spans:
    spans = Spans(include_content=include_content)
    await play_agent(replies, params, callbacks=[spans.callback], clock=TickingClock(), **more)
    return spans


async def test_spans_of_run_node_iteration_model_and_tool() -> None:
    spans = await trace([LOOK, Reply("Vientiane.")], canvas_id="/srv/guide.json")
    rounds = ["iteration 1", ["chat m", "execute_tool wikipedia_search_0"], "iteration 2", ["chat m"]]
    assert spans.tree() == ["invoke_workflow guide", ["Begin begin", "invoke_agent a", rounds, "Message out"]]
    chat = next(s for s in spans.all if s.name == "chat m")
    assert attributes(chat) == {
        **{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.provider.name": "test"},
        **{"gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0},
    }
    assert attributes(spans["execute_tool wikipedia_search_0"]) == {
        **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "wikipedia_search_0"},
        **{"gen_ai.tool.type": "function", "gen_ai.tool.call.id": "call_1", "ragflow_lg.tool.title": "Wiki"},
    }
    run = attributes(spans["invoke_workflow guide"])
    assert (run["gen_ai.operation.name"], run["ragflow_lg.run.status"]) == ("invoke_workflow", "succeeded")
    assert run["ragflow_lg.run.model_calls"] == 2
    assert attributes(spans["invoke_agent a"])["ragflow_lg.agent.calls"] == 1
    for span in spans.all:
        assert span.status.status_code is StatusCode.UNSET
        assert (span.end_time or 0) >= (span.start_time or 1)


async def test_content_is_included_only_on_request() -> None:
    replies = [LOOK, Reply("Vientiane.")]
    without = await trace(list(replies))
    exported = "".join(span.to_json() for span in without.all)
    assert not any(word in exported for word in ("Laos", "Vientiane", "Where?"))
    spans = await trace(list(replies), include_content=True)
    tool = attributes(spans["execute_tool wikipedia_search_0"])
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"query": "Laos"}
    assert "Vientiane is the capital." in tool["gen_ai.tool.call.result"]
    thoughts = [e.attributes for s in spans.all for e in s.events if e.name == "thought"]
    assert thoughts == [{"ragflow_lg.thought": "Where?"}]


async def test_a_nested_agent_is_a_child_of_its_tool_call() -> None:
    find = {"user_prompt": "Find it"}
    replies = [
        tool_calls(("Fact_Finder_0", find), ("Fact_Finder_0", find)),
        *(tool_calls(("wikipedia_search_0", {"query": "Laos"})) for _ in range(2)),
        *(Reply("Vientiane.", match="You find facts") for _ in range(2)),
        Reply("It is Vientiane."),
    ]
    spans = await trace(replies, {"tools": [INNER]})
    inner = ["iteration 1", ["chat m", "execute_tool wikipedia_search_0"], "iteration 2", ["chat m"]]
    call = ["execute_tool Fact_Finder_0", ["invoke_agent Fact_Finder", inner]]
    run = spans.tree()[1]
    assert run[run.index("invoke_agent a") + 1] == ["iteration 1", ["chat m", *call, *call], "iteration 2", ["chat m"]]


@pytest.mark.parametrize("include_content", [False, True])
async def test_failures_set_the_error_type_and_status(include_content: bool) -> None:
    calls = tool_calls(("tavily_search_0", {"query": "x"}))
    answers = {"http://t/search": ServiceError("refused for Ann")}
    spans = await trace(
        [calls, Reply(error="down for Ann")], {"tools": [TAVILY]}, answers=answers, include_content=include_content
    )
    failed = {s.name: (attributes(s)["error.type"], s.status.description) for s in spans.all if not s.status.is_ok}
    description = "down for Ann" if include_content else None
    assert failed == {
        "execute_tool tavily_search_0": ("tool", "Tavily error: refused for Ann" if include_content else None),
        "chat m": ("model", description),
        "iteration 2": ("model", description),
        "invoke_agent a": ("component", description),
        "invoke_workflow": ("run", description),
    }


async def test_a_cancel_ends_all_open_spans() -> None:
    spans = await trace([LOOK, Reply("Vien", hangs=True)])
    cancelled = [s.name for s in spans.all if attributes(s).get("error.type") == "cancelled"]
    assert sorted(cancelled) == ["chat m", "invoke_agent a", "invoke_workflow"]
    assert all(s.status.status_code is StatusCode.UNSET for s in spans.all)
    assert attributes(spans["invoke_workflow"])["ragflow_lg.run.status"] == "cancelled"


async def test_replayed_records_create_no_spans(tmp_path: Path) -> None:
    spans = Spans()
    async with store_opener(f"sqlite:///{tmp_path}/sessions.db")() as store:
        first = await play_agent([LOOK, Reply(hangs=True)], store=store, callbacks=[spans.callback])
        spans.exporter.clear()
        first.model.replies.append(Reply("Vientiane."))
        await play_run(first.runner.continue_("s"))
    names = [s.name for s in spans.all]
    assert "execute_tool wikipedia_search_0" not in names
    assert [name for name in names if name.startswith(("iteration", "chat"))] == ["chat m", "iteration 2"]


async def test_concurrent_nodes_and_runs_are_separate() -> None:
    spans = Spans()
    wide = {"a": text(["j"], "A"), "b": text(["j"], "B"), "j": text(["m"], "J"), "m": node("Message", {"content": "x"})}
    runner = runner_of(wide, first=["a", "b"], callbacks=[spans.callback])
    await asyncio.gather(*(play_run(runner.start(str(i), {"query": "q"})) for i in range(3)))
    trees = spans.tree()
    assert trees[::2] == ["invoke_workflow"] * 3
    names = ["Begin begin", "Message m", "StringTransform a", "StringTransform b", "StringTransform j"]
    assert [sorted(tree) for tree in trees[1::2]] == [names] * 3
    assert len({s.context.trace_id for s in spans.all if s.context}) == 3


async def test_concurrent_iterations_of_a_region() -> None:
    spans = Spans()
    model = ScriptedModel([Reply("said", repeat=True)])
    body = {"g": node("LLM", {"llm_id": "big@Acme", "prompts": "{item}"})}
    canvas = {**iteration(body, {"all": "g@content"}, max_concurrency=3), **out("{it@all}")}
    runner = runner_of(canvas, services=fake_services(models=OneModel(model)), callbacks=[spans.callback])
    await play_run(runner.start("s", {"query": "q", "inputs": {"items": {"value": ["a", "b", "c"]}}}))
    models = [s for s in spans.all if s.name == "LLM g"]
    assert len(models) == 3
    for span in models:
        values = attributes(span)
        assert (values["gen_ai.request.model"], values["ragflow_lg.node.region"]) == ("big", "it")
        assert "error.type" not in values
    assert "error.type" not in attributes(spans["Iteration it"])


async def test_the_current_span_is_the_parent() -> None:
    spans = Spans()
    runner = runner_of({"m": node("Message", {"content": "x"})}, callbacks=[spans.callback])
    with spans.provider.get_tracer("test").start_as_current_span("request"):
        await play_run(runner.start("s", {"query": "q"}))
    request, (run, nodes) = spans.tree()
    assert (request, run, sorted(nodes)) == ("request", "invoke_workflow", ["Begin begin", "Message m"])


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SettingsError, match=r"pip install '[^']*\[otel\]'"):
        OtelSpans()
