"""Agents with scripted models and tools over a scripted HTTP client."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.callbacks import RunCallbacks, RunInfo
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.tool_policies import ToolPolicies, ToolSettings
from tests.fakes.agent_tools import with_test_tools
from tests.fakes.canvas import node
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedHttp, ScriptedModel, fake_services

TOOLS = with_test_tools(load_catalog())
"""All components, and the tools of `tests.fakes.agent_tools`."""

WIKI: dict[str, Any] = {"component_name": "Wikipedia", "name": "Wiki", "params": {}}
TAVILY: dict[str, Any] = {"component_name": "TavilySearch", "name": "Web Search", "params": {"api_key": "k"}}


def page(title: str, text: str) -> HttpResponse:
    """Return an answer of Wikipedia with one page."""
    entry = {"index": 1, "title": title, "fullurl": f"http://wiki.test/{title}", "extract": text}
    return HttpResponse(200, {}, json.dumps({"query": {"pages": {"1": entry}}}), "")


class RecordListener(RunCallbacks):
    """Collects the records of agents."""

    def __init__(self) -> None:
        self.records: list[AgentRecord] = []

    async def on_agent_record(self, run: RunInfo, record: AgentRecord) -> None:
        self.records.append(record)


@dataclass
class AgentTurn:
    """The result of an agent's turn."""

    run: Run
    model: ScriptedModel
    http: ScriptedHttp
    state: dict[str, Any]
    runner: Runner

    @property
    def outputs(self) -> dict[str, Any]:
        return self.state["outputs"]["a"]

    @property
    def tool_results(self) -> list[str]:
        """The results of tools in the last request to the model."""
        return [m["content"] for m in self.model.requests[-1][1].messages if m["role"] == "tool"]


async def play_agent(
    replies: list[Reply],
    params: Mapping[str, Any] | None = None,
    *,
    answers: Mapping[str, Any] | None = None,
    servers: Mapping[str, Any] | None = None,
    is_shown: bool = True,
    query: str = "q",
    policies: ToolPolicies | None = None,
    is_continued: bool = False,
    model: ScriptedModel | None = None,
    clock: Any = None,
    knowledge: Any = None,
    http: Any = None,
    tool_settings: ToolSettings | None = None,
    services: Mapping[str, Any] | None = None,
    decisions: Sequence[str] = (),
    **more: Any,
) -> AgentTurn:
    """Play one turn of an agent ``a`` that a Message shows or another node reads. A turn that hangs is cancelled.

    Citations are off unless the params enable them. ``services`` replaces more services, by name.
    ``decisions`` answer the questions about interrupted calls.
    """
    model = model or ScriptedModel()
    model.replies = list(replies)
    scripted = ScriptedHttp({"http://wiki.test": page("Laos", "Vientiane is the capital."), **(answers or {})})
    all_services = fake_services(
        models=OneModel(model),
        http=http or scripted,
        tools=tool_settings or ToolSettings({"wikipedia": "http://wiki.test", "tavily": "http://t"}),
        policies=policies or ToolPolicies(),
        servers=servers or {},
        knowledge=knowledge,
        **({"clock": clock} if clock is not None else {}),
        **(services or {}),
    )
    agent_params = {"llm_id": "m@Test", "prompts": "{sys.query}", "tools": [WIKI], "cite": False, **(params or {})}
    reader = node("Message", {"content": ["{a@content}"]}) if is_shown else node("VariableAssigner", {})
    if "store" not in more:
        more.setdefault("saver", InMemorySaver())
    runner = runner_of({"a": node("Agent", agent_params, ["out"]), "out": reader}, services=all_services, **more)
    run = runner.continue_("s") if is_continued else runner.start("s", {"query": query})

    async def until_it_hangs() -> None:
        while not model.is_hanging:
            await asyncio.sleep(0.001)
        run.cancel()

    watching = asyncio.create_task(until_it_hangs())
    async for _ in run:
        pass
    for decision in decisions:
        assert run.status == "waiting"
        run = runner.resume("s", {"decision": decision})
        async for _ in run:
            pass
    watching.cancel()
    return AgentTurn(run, model, scripted, await runner.state("s"), runner)


def tool_calls(*calls: tuple[str, Any], text: str = "") -> Reply:
    """Return a reply that requests tool calls, each a name and arguments."""
    return Reply(text, calls=[{"name": name, "arguments": arguments} for name, arguments in calls])
