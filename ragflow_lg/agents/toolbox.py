"""The tools of an agent, as its model sees them, and calling them."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic import ValidationError

from ragflow_lg.agents.agent_tool import AgentTool, Outcome
from ragflow_lg.agents.call_policies import call_tool, is_cancelled
from ragflow_lg.base.errors import ComponentError, RagflowLgError, RunCancelled, SettingsError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.tool import describe_validation_error
from ragflow_lg.services.chat import ToolCall, ToolSchema, Usage
from ragflow_lg.services.tool_policies import ToolPermits

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["Begun", "Toolbox", "read_arguments", "shown_name"]

Begun: TypeAlias = Callable[[str, JsonValue], Awaitable[None]]
"""Is told the title of a tool and its arguments, just before it is called."""

logger = logging.getLogger(__name__)

MAX_NAME_CHARS = 64
MAX_MENDED_CHARS = 50_000
MAX_MENDED_BRACKETS = 200
"""Texts of more brackets are not mended: the mender takes seconds for thousands of them."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class Toolbox:
    """The tools of one visit that may be called. Their names are numbered, so that two of a kind stay apart."""

    def __init__(self, ctx: RunContext, tools: Iterable[AgentTool]) -> None:
        self._ctx = ctx
        named = ((_visible(tool.name, index), tool) for index, tool in enumerate(tools))
        self._tools = {name: tool for name, tool in named if self._is_permitted(tool)}

    def _is_permitted(self, tool: AgentTool) -> bool:
        node = self._ctx.node
        allowed = node.spec.allowed_tools(node.params)
        own = ToolPermits() if allowed is None else ToolPermits(tuple(allowed))
        return self._ctx.services.policies.permits.permits(tool.names) and own.permits(tool.names)

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The tools as a model is shown them."""
        return tuple(ToolSchema(name, tool.description, tool.parameters) for name, tool in self._tools.items())

    def title(self, name: str) -> str | None:
        """Give the title of a tool by the name that the model is shown; None if there is no such tool."""
        tool = self._tools.get(name)
        return tool.title if tool is not None else None

    async def call(self, call: ToolCall, position: str, begun: Begun | None = None) -> Outcome:
        """Call a tool once. ``position`` tells the call from others of the visit.

        Whatever goes wrong is told the model. Should the visit be run again after a crash, a call that has ended is
        not repeated.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            return Outcome(f"LLM tool {shown_name(call.name)} does not exist", is_error=True)
        arguments = read_arguments(call.arguments)
        if not isinstance(arguments, dict):
            kind = type(arguments).__name__
            return Outcome(f"Tool arguments for {call.name} must be a JSON object, got {kind}", is_error=True)
        given = cast("dict[str, Any]", arguments)

        is_fresh = False

        async def run() -> JsonValue:
            nonlocal is_fresh
            is_fresh = True
            if tool.asks_models and self._ctx.budget.is_spent:
                said = f"The call of {tool.title} was not made: the budget of tokens is used up."
                return to_json(Outcome(said, is_error=True)._asdict())

            async def make(arguments: Mapping[str, Any]) -> Outcome:
                if begun is not None:
                    await begun(tool.title, arguments)
                return await _outcome(tool, arguments, position)

            clock = self._ctx.services.clock
            began = clock.monotonic()
            outcome = await call_tool(self._ctx, tool, given, position, make)
            return to_json(outcome._replace(seconds=clock.monotonic() - began)._asdict())

        stored: Any = await self._ctx.step(call.name, given, run, position=position, is_held=tool.runs_once)
        outcome = Outcome(**stored)._replace(usage=Usage(*stored["usage"]))
        self._ctx.cite(outcome.chunks, outcome.documents)
        self._ctx.count(outcome.usage)
        self._ctx.budget.take(position, outcome.tokens, is_charged=is_fresh)
        return outcome


async def _outcome(tool: AgentTool, given: Mapping[str, Any], position: str) -> Outcome:
    try:
        outcome = await _attempts(tool, given, position)
        return outcome._replace(
            value=to_json(outcome.value),
            chunks=to_json(list(outcome.chunks)),
            artifacts=to_json(list(outcome.artifacts)),
            documents=None if outcome.documents is None else to_json(list(outcome.documents)),
        )
    except RunCancelled:
        raise
    except ValidationError as error:
        said = f"The arguments do not fit: {describe_validation_error(error)}"
    except TimeoutError:
        said = f"{tool.title} gave no result within {tool.timeout_s:g} s."
        if tool.runs_once:
            said += " It is not known whether it was done."
    except RagflowLgError as error:
        said = f"{tool.label} error: {error}" if tool.label else str(error)
    except (Exception, asyncio.CancelledError) as error:
        if is_cancelled():
            raise
        logger.warning("The tool %s failed in a way of its own.", tool.title, exc_info=True)
        said = f"{tool.title} failed: {type(error).__name__}."
    return Outcome(said, is_error=True)


async def _attempts(tool: AgentTool, given: Mapping[str, Any], position: str) -> Outcome:
    """Call a tool, again after an error as often as it allows; a setting that is missing stays missing."""
    left = tool.extra_attempts
    while True:
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await tool.call(given, position)
        except (RagflowLgError, TimeoutError) as error:
            if not left or isinstance(error, RunCancelled | SettingsError):
                raise
        left -= 1
        await asyncio.sleep(tool.retry_delay_s)


def _visible(name: str, index: int) -> str:
    suffix = f"_{index}"
    return _FOREIGN.sub("_", name)[: MAX_NAME_CHARS - len(suffix)] + suffix


def shown_name(name: str) -> str:
    """Give the name of a tool as it is told: models make up names of any length."""
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"


def read_arguments(text: str) -> JsonValue:
    """Read arguments as JSON, mended where it nearly is; what is too deep or too large stays text; blank is ``{}``."""
    if not text.strip():
        return {}
    with suppress(ValueError, RecursionError, ComponentError):
        return to_json(json.loads(text))
    if len(text) <= MAX_MENDED_CHARS and text.count("{") + text.count("[") <= MAX_MENDED_BRACKETS:
        from json_repair import loads

        with suppress(ValueError, RecursionError, ComponentError):
            return to_json(loads(text))
    return text
