"""An Agent that calls a tool, and a minimal one written by hand with a model node and a tools node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from benchmarks.canvases import component, document
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import ComponentParams, ToolResult
from ragflow_lg.component.tool import tool
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest, ToolCall, Usage


class Params(ComponentParams):
    """No parameters."""


class Arguments(BaseModel):
    """The text to repeat."""

    query: str


@tool("Echo", function="echo", params=Params, arguments=Arguments, description="Repeat a text.")
async def echo(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Return the query."""
    return ToolResult(arguments.query)


def catalog() -> Registry:
    """Return all components and the tool."""
    components = load_catalog()
    components.add(echo)
    return components


class CallingModel:
    """A model that makes ``width`` calls in each of ``rounds`` rounds, then answers."""

    context_tokens = 1_000_000
    has_vision = has_schemas = False
    has_tools = True

    def __init__(self, rounds: int, width: int) -> None:
        self._rounds = rounds
        self._width = width

    def calls(self, round: int) -> tuple[ToolCall, ...]:
        """Return the calls of a round; none after the last round."""
        if round >= self._rounds:
            return ()
        return tuple(
            ToolCall(f"c{round}-{index}", "echo_0", json.dumps({"query": f"{round}.{index}"}))
            for index in range(self._width)
        )

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the calls of the next round, or the answer."""
        calls = self.calls(sum(message["role"] == "assistant" for message in request.messages))
        return ChatAnswer("" if calls else "done", calls)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Yield the answer in one piece."""
        answer = await self.complete(request)
        if answer.text:
            yield ChatDelta(answer.text)
        yield ChatDelta("", calls=answer.calls, usage=Usage(calls=1))


def agent(rounds: int) -> dict[str, Any]:
    """Return a canvas with Begin, an Agent with a tool, and a Message that shows the answer."""
    params = {
        "prompts": "{sys.query}",
        "max_rounds": rounds,
        "tools": [{"component_name": "Echo", "name": "Echo", "params": {}}],
    }
    return document(
        {
            "begin": component("Begin", {}, ["agent"]),
            "agent": component("Agent", params, ["message"]),
            "message": component("Message", {"content": ["{agent@content}"]}, []),
        }
    )


@langchain_tool("echo_0")
async def _echo(query: str) -> str:
    """Repeat the text."""
    return query


def agent_by_hand(model: CallingModel) -> Any:
    """Return the graph from LangGraph's guide: a model node and a ToolNode, without limits or events."""

    async def ask(state: MessagesState) -> MessagesState:
        calls = model.calls(sum(isinstance(message, AIMessage) for message in state["messages"]))
        tool_calls = [{"id": c.id, "name": c.name, "args": json.loads(c.arguments), "type": "tool_call"} for c in calls]
        answer = AIMessage("" if calls else "done", tool_calls=tool_calls)  # pyright: ignore[reportArgumentType] - partial calls are enough here
        return {"messages": [answer]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", ask)
    builder.add_node("tools", ToolNode([_echo]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile()
