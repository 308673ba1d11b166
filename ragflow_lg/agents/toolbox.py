"""An agent's tools as its model sees them, and how they are called."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic import ValidationError

from ragflow_lg.agents.agent_tool import AgentTool, Outcome
from ragflow_lg.agents.call_policies import call_tool, is_cancelled
from ragflow_lg.base.errors import ComponentError, RagflowLgError, RunCancelled, SettingsError, pause_before_retry
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.component.tool import describe_validation_error
from ragflow_lg.services.chat import ToolCall, ToolSchema, Usage
from ragflow_lg.services.tool_policies import ToolPermits
from ragflow_lg.services.workers import Workers

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

OnCall: TypeAlias = Callable[[str, JsonValue], Awaitable[None]]
"""Receives the title of a tool and its arguments just before the call."""

logger = logging.getLogger(__name__)

MAX_NAME_CHARS = 64
MAX_REPAIRED_CHARS = 50_000
MAX_REPAIRED_BRACKETS = 200
"""Text with more brackets is not repaired: json_repair takes seconds to process thousands of them."""
_INVALID_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Toolbox:
    """The tools permitted in one visit. Their names are numbered so that two tools of the same kind differ."""

    def __init__(self, ctx: RunContext, tools: Iterable[AgentTool]) -> None:
        self._ctx = ctx
        pairs = ((_function_name(tool.name, index), tool) for index, tool in enumerate(tools))
        self._tools = {name: tool for name, tool in pairs if self._is_permitted(tool)}

    def _is_permitted(self, tool: AgentTool) -> bool:
        node = self._ctx.node
        allowed = node.spec.allowed_tools(node.params)
        node_permits = ToolPermits() if allowed is None else ToolPermits(tuple(allowed))
        return self._ctx.services.policies.permits.permits(tool.names) and node_permits.permits(tool.names)

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The tools as the model sees them."""
        return tuple(ToolSchema(name, tool.description, tool.parameters) for name, tool in self._tools.items())

    def title(self, name: str) -> str | None:
        """Return the title of a tool by its function name; None if there is no such tool."""
        tool = self._tools.get(name)
        return tool.title if tool is not None else None

    @property
    def searches(self) -> Mapping[str, AgentTool]:
        """The tools that search for a text, by function name."""
        return {name: tool for name, tool in self._tools.items() if tool.search_argument}

    async def call(
        self, call: ToolCall, position: str, on_call: OnCall | None = None, *, cites: bool = True
    ) -> Outcome:
        """Call a tool. ``position`` distinguishes the call from others in the visit.

        ``cites`` makes the chunks that were found citable under their usual numbers.

        Errors are returned to the model as outcomes. If the visit runs again after a crash, a completed call is not
        repeated.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            return Outcome(f"LLM tool {truncate_name(call.name)} does not exist", is_error=True)
        value = read_arguments(call.arguments)
        if not isinstance(value, dict):
            kind = type(value).__name__
            return Outcome(f"Tool arguments for {call.name} must be a JSON object, got {kind}", is_error=True)
        requested = cast("dict[str, Any]", value)

        is_fresh = False

        async def run() -> JsonValue:
            nonlocal is_fresh
            is_fresh = True
            if tool.asks_models and self._ctx.budget.is_spent:
                message = f"The call to {tool.title} was not made: the token budget is used up."
                return to_json(Outcome(message, is_error=True)._asdict())

            async def make(arguments: Mapping[str, Any]) -> Outcome:
                if on_call is not None:
                    await on_call(tool.title, cast("JsonValue", arguments))
                return await _outcome(tool, arguments, position)

            clock = self._ctx.services.clock
            start = clock.monotonic()
            outcome = await call_tool(self._ctx, tool, call.name, requested, position, make)
            return to_json(outcome._replace(seconds=clock.monotonic() - start)._asdict())

        await self._ctx.check_interruption()
        with nullcontext() if tool.asks_models else self._ctx.calling():
            stored: Any = await self._ctx.step(call.name, requested, run, position=position, in_memory=tool.runs_once)
        outcome = Outcome(**stored)._replace(usage=Usage(*stored["usage"]))
        if cites:
            self._ctx.cite(outcome.chunks, outcome.documents)
        self._ctx.count(outcome.usage)
        self._ctx.budget.charge_step(position, outcome.tokens, is_charged=is_fresh)
        return outcome


async def _outcome(tool: AgentTool, arguments: Mapping[str, Any], position: str) -> Outcome:
    outcome = await _safe_outcome(tool, arguments, position)
    if outcome.is_error and tool.default is not None:
        return outcome._replace(value=to_json(tool.default), is_error=False)
    return outcome


async def _safe_outcome(tool: AgentTool, arguments: Mapping[str, Any], position: str) -> Outcome:
    """Call a tool; return an error as an outcome."""
    try:
        outcome = await _call_with_retries(tool, arguments, position)
        return outcome._replace(
            value=to_json(outcome.value),
            chunks=to_json(list(outcome.chunks)),
            artifacts=to_json(list(outcome.artifacts)),
            documents=None if outcome.documents is None else to_json(list(outcome.documents)),
        )
    except RunCancelled:
        raise
    except ValidationError as error:
        message = f"Invalid arguments: {describe_validation_error(error)}"
    except TimeoutError:
        message = f"{tool.title} returned no result within {tool.timeout_s:g} s."
        if tool.runs_once:
            message += " It is unknown whether the call took effect."
    except RagflowLgError as error:
        message = f"{tool.label} error: {error}" if tool.label else str(error)
    except (Exception, asyncio.CancelledError) as error:
        if is_cancelled():
            raise
        logger.warning("The tool %s raised an unexpected error.", tool.title, exc_info=True)
        message = f"{tool.title} failed: {type(error).__name__}."
    return Outcome(message, is_error=True)


async def _call_with_retries(tool: AgentTool, arguments: Mapping[str, Any], position: str) -> Outcome:
    """Call a tool, retrying after errors as often as it allows. Errors in the settings are not retried."""
    retries = tool.extra_attempts
    while True:
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await tool.call(arguments, position)
        except (RagflowLgError, TimeoutError) as error:
            if not retries or isinstance(error, RunCancelled | SettingsError):
                raise
            pause_s = pause_before_retry(error, tool.retry_delay_s)
        retries -= 1
        await asyncio.sleep(pause_s)


def _function_name(name: str, index: int) -> str:
    suffix = f"_{index}"
    return _INVALID_IN_NAME.sub("_", name)[: MAX_NAME_CHARS - len(suffix)] + suffix


def truncate_name(name: str) -> str:
    """Return the name of a tool truncated to 64 characters: models invent names of any length."""
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"


def read_arguments(text: str) -> JsonValue:
    """Parse arguments as JSON; return ``{}`` for blank text.

    Text that is not JSON, or is too deeply nested or too large, is returned unchanged.
    """
    if not text.strip():
        return {}
    with suppress(ValueError, RecursionError, ComponentError):
        return to_json(json.loads(text))
    return text


async def repair_call(call: ToolCall, workers: Workers) -> ToolCall:
    """Return a call with small mistakes in the JSON of its arguments repaired, if that is possible."""
    text = call.arguments
    is_short = len(text) <= MAX_REPAIRED_CHARS and text.count("{") + text.count("[") <= MAX_REPAIRED_BRACKETS
    if not is_short or not isinstance(read_arguments(text), str):
        return call
    value = await workers.run(repair_json, text)
    return call if isinstance(value, str) else call._replace(arguments=json.dumps(value, ensure_ascii=False))


@worker_task("Repairing the arguments", small_size=1_000)
def repair_json(text: str) -> JsonValue:
    """Parse text that is almost JSON; return it unchanged if that is impossible."""
    from json_repair import loads

    with suppress(ValueError, RecursionError, ComponentError):
        return to_json(loads(text))
    return text
