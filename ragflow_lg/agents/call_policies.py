"""One call of a tool, with the policies of the deployment around it: guards, remembered results, and once-only.

The order is: begun before? guards, remembered or marked and made, remember, guards again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec.structs import replace

from ragflow_lg.agents.agent_tool import AgentTool, Outcome
from ragflow_lg.base.values import to_json
from ragflow_lg.services.tool_policies import Allow, Refuse, Replace, ToolGuard, ToolUse, Verdict

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["call_tool", "is_cancelled"]

logger = logging.getLogger(__name__)

MAX_REASON_CHARS = 2_000
GUARD_LIMIT_S = 30.0
"""How long a guard may think about a call, or about a result."""

Make: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Outcome]]
"""Makes the call with these arguments; whatever goes wrong is an outcome."""


async def call_tool(ctx: RunContext, tool: AgentTool, given: Mapping[str, Any], position: str, make: Make) -> Outcome:
    """Make a call, if the policies let it be made; give what the model may be told of it."""
    if tool.runs_once and await ctx.has_begun(tool.name, given, position):
        return Outcome(
            f"A call of {tool.title} was interrupted, and it is not known whether it was done. It has not been made "
            "again. Take it neither as done nor as not done.",
            is_error=True,
        )
    guards = ctx.services.policies.guards
    use = ToolUse(tool.names[0] if tool.names else tool.name, ctx.node.id, to_json(given))
    for guard in guards:
        verdict = await _verdict(guard, "before", _copy(use))
        if isinstance(verdict, Replace) and isinstance(verdict.value, dict):
            use = replace(use, arguments=cast("Mapping[str, Any]", verdict.value))
        elif not isinstance(verdict, Allow):
            return Outcome(f"The call of {tool.title} was refused: {_reason(verdict)}", is_error=True)
    if tool.runs_once:
        await ctx.begin(tool.name, given, position)
    return await _told(guards, use, tool, await _result(ctx, tool, use.arguments, make))


async def _result(ctx: RunContext, tool: AgentTool, arguments: Mapping[str, Any], make: Make) -> Outcome:
    """Give a remembered result, or make the call and remember what it gives. Errors are never remembered."""
    cache = ctx.services.policies.cache
    if cache is None or tool.configuration is None or tool.runs_once or not cache.covers(tool.names):
        return await make(arguments)
    configuration, asked = tool.configuration(), to_json(arguments)
    is_there, held = await cache.find(tool.names, configuration, asked)
    if is_there:
        return Outcome(held["value"], chunks=held["chunks"], documents=held["documents"])
    outcome = await make(arguments)
    if not outcome.is_error and not outcome.artifacts:
        documents = None if outcome.documents is None else list(outcome.documents)
        kept = to_json({"value": outcome.value, "chunks": list(outcome.chunks), "documents": documents})
        await cache.put(tool.names, configuration, asked, kept)
    return outcome


async def _told(guards: Sequence[ToolGuard], use: ToolUse, tool: AgentTool, outcome: Outcome) -> Outcome:
    """Let the guards judge what a call gave. What they replace or withhold loses sources and files."""
    for guard in guards:
        verdict = await _verdict(guard, "after", _copy(use), to_json(outcome.value))
        if isinstance(verdict, Replace):
            outcome = outcome._replace(value=verdict.value, chunks=(), documents=(), artifacts=())
        elif not isinstance(verdict, Allow):
            said = f"{tool.title} was called, but what it gave is withheld: {_reason(verdict)}"
            return outcome._replace(value=said, is_error=True, chunks=(), documents=(), artifacts=())
    return outcome


async def _verdict(guard: ToolGuard, when: str, *about: object) -> object:
    """Ask for a verdict; what it replaces with is JSON. A guard that fails gives none, which refuses."""
    try:
        async with asyncio.timeout(GUARD_LIMIT_S):
            verdict: Verdict = await getattr(guard, when)(*about)
        return Replace(to_json(verdict.value)) if isinstance(verdict, Replace) else verdict
    except (Exception, asyncio.CancelledError):
        if is_cancelled():
            raise
        logger.warning("A guard of tools failed; what it should have judged is refused.", exc_info=True)
        return None


def is_cancelled() -> bool:
    """Whether this task is being stopped; foreign code may raise the same by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _reason(verdict: object) -> str:
    if not isinstance(verdict, Refuse):
        return "the guard of this deployment could not judge it."
    return str(verdict.reason)[:MAX_REASON_CHARS]


def _copy(use: ToolUse) -> ToolUse:
    """Give a guard arguments of its own: it may change them, but not those of the call."""
    return replace(use, arguments=to_json(use.arguments))
