"""Agents in crash runs: a model that calls every tool, in any strategy, and tools that need no service.

Each tool call is named after its position in the agent's execution, and its result starts with that name. This
distinguishes stored results from calls that only ran.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.agents.plan_and_reflect import TOOLS_HEAD
from ragflow_lg.base.values import to_text
from ragflow_lg.component.spec import AnySpec, ToolResult
from ragflow_lg.models.prompt_texts import COMPLETE_TASK, PROMPTS
from ragflow_lg.models.structured_answer import append_schema
from ragflow_lg.services.chat import ONE_CALL, ChatAnswer, ChatDelta, ChatRequest, ToolCall, ToolSchema

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext
    from ragflow_lg.services.sessions import Steps

Reach = Callable[[str, str], None]
"""Called when a point is reached, with its kind and the name of the node or call."""

MODEL = "model"
"""Name of every model call that an agent makes."""

ANSWER = "The tools returned nothing else."
ROUNDS = 2
"""Number of calls to each tool."""

_REACT_TOOL = re.compile(r"^- (\S+): .*\n  Arguments \(JSON schema\): (.*)$", re.MULTILINE)
_PLAN_TOOLS = re.compile(rf"^{TOOLS_HEAD}(.*)$", re.MULTILINE)


_REACT_HEAD = PROMPTS["react"].text.partition("\n")[0]
_PLAN_HEADS = {
    name: PROMPTS[name].text
    for name in ("task_analysis", "plan_generation", "reflection", "context_summary", "context_ranking")
}
_FINAL_TEXT = PROMPTS["final_answer"].text.removeprefix("{reason} ")
_REPORT_HEAD = PROMPTS["research_report"].text.partition(" {reason}")[0]
_FINDING = '"finding": '


def _is_final(request: ChatRequest) -> bool:
    content = request.messages[-1]["content"]
    return content.endswith(_FINAL_TEXT) or _REPORT_HEAD in content


class ToolUser(DemoChat):
    """A demo model that calls each of its tools twice before it answers."""

    def __init__(self, reach: Reach) -> None:
        super().__init__()
        self._reach = reach

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer, and report the call if an agent made it."""
        answer = await self._answer_agent(request)
        if answer is None:
            return await super().complete(request)
        self._reach("call", MODEL)
        return answer

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Yield the answer in two pieces."""
        answer = await self._answer_agent(request)
        if answer is None:
            async for delta in super().stream(request):
                yield delta
            return
        self._reach("call", MODEL)
        half = len(answer.text) // 2
        yield ChatDelta(answer.text[:half])
        yield ChatDelta(answer.text[half:])
        yield ChatDelta("", calls=answer.calls, usage=ONE_CALL)

    async def _answer_agent(self, request: ChatRequest) -> ChatAnswer | None:
        done = sum(message["role"] == "assistant" for message in request.messages)
        if _REACT_HEAD in request.system:
            schemas = [_schema(name, json.loads(text)) for name, text in _REACT_TOOL.findall(request.system)]
            calls = await self._calls(schemas, done)
            written = (f'{{"name": "{call.name}", "arguments": {call.arguments}}}' for call in calls)
            return ChatAnswer("\n".join(f"<tool_call>{text}</tool_call>" for text in written) or ANSWER)
        if request.system.startswith(_PLAN_HEADS["plan_generation"]):
            tools = json.loads(_PLAN_TOOLS.findall(request.system)[-1])
            calls = await self._calls([_schema(tool["name"], tool["parameters"]) for tool in tools], done)
            plan = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in calls]
            return ChatAnswer(json.dumps(plan or [{"name": COMPLETE_TASK, "arguments": {}}]))
        if request.system.startswith(PROMPTS["research_step"].text):
            searches = request.messages[-1]["content"].count(_FINDING)
            return ChatAnswer(f"Reasoning: so.\nSearch: sample {searches}" if searches < ROUNDS else "Done")
        if request.system.startswith(PROMPTS["research_summary"].text):
            return ChatAnswer(ANSWER)
        if request.system.startswith(tuple(_PLAN_HEADS.values())) or _is_final(request):
            return ChatAnswer(ANSWER)
        if request.tools or any(message["role"] == "tool" for message in request.messages):
            calls = await self._calls(request.tools, done)
            return ChatAnswer("" if calls else ANSWER, tuple(calls))
        return None

    async def _calls(self, tools: Sequence[ToolSchema], done: int) -> list[ToolCall]:
        """Return one call to each tool with sample arguments, or no calls after `ROUNDS` rounds."""
        calls: list[ToolCall] = []
        for index, tool in enumerate(tools if done < ROUNDS else ()):
            request = ChatRequest(append_schema("", tool.parameters), ({"role": "user", "content": tool.name},))
            sample = (await super().complete(request)).text
            calls.append(ToolCall(f"{done}.{index}", tool.name, sample))
        return calls


def _schema(name: str, parameters: Mapping[str, Any]) -> ToolSchema:
    return ToolSchema(name, "", parameters)


def watch_tool(spec: AnySpec, reach: Reach) -> AnySpec:
    """Return a tool that reports its calls. It returns a sample, unless it is an agent or a canvas."""
    if spec.tool is None:
        return spec
    real = spec.tool.call

    async def call(ctx: RunContext, params: Any, arguments: Any) -> ToolResult:
        name = ctx.task.partition("/")[2] + ctx.node.id
        reach("call", name)
        if spec.must_run_once(ctx, params):
            reach("effect", name)
        runs_nodes = spec.kind == "model" or spec.plays is not None
        result = await real(ctx, params, arguments) if runs_nodes else ToolResult("a sample")
        reach("called", name)
        return replace(result, value=f"{name}: {to_text(result.value)}")

    return replace(spec, tool=replace(spec.tool, call=call))


class WatchedSteps:
    """Steps that report each stored result, with the name of its call."""

    def __init__(self, inner: Steps, reach: Reach) -> None:
        self._inner = inner
        self._reach = reach

    async def put(self, key: str, value: Any) -> None:
        """Store a result and report it."""
        await self._inner.put(key, value)
        if node := _nested_node(value):
            self._reach("stored", node)
        else:
            self._reach("saved", _call_name(value))

    async def find(self, key: str) -> tuple[bool, Any]:
        """Return whether a result is stored, and the result itself."""
        return await self._inner.find(key)


def _nested_node(value: Any) -> str:
    """Return the id of a node in a canvas that runs inside another node, if this is its stored visit."""
    update = cast("Mapping[str, Any]", value).get("update") if isinstance(value, Mapping) else None
    outputs = cast("Mapping[str, Any]", update).get("outputs") if isinstance(update, Mapping) else None
    return next(iter(cast("Mapping[str, Any]", outputs)), "") if isinstance(outputs, Mapping) else ""


def _call_name(value: Any) -> str:
    step = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
    if "calls" in step:
        return MODEL
    result = step.get("value")
    return result.partition(": ")[0] if isinstance(result, str) else ""
