"""One tool call under the deployment's policies: guards, cached results and once-only execution.

The order is: check for an interrupted start, ask the guards, look in the cache or mark the start and call, cache the
result, ask the guards about it.
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

logger = logging.getLogger(__name__)

MAX_REASON_CHARS = 2_000
GUARD_TIMEOUT_S = 30.0
"""Time limit for a guard to return a verdict."""

Make: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Outcome]]
"""Make the call with these arguments. Errors are outcomes too."""


async def call_tool(
    ctx: RunContext, tool: AgentTool, name: str, arguments: dict[str, Any], position: str, make: Make
) -> Outcome:
    """Make a call if the policies allow it; return the outcome to show to the model.

    ``name``, ``arguments`` and ``position`` are those of the step that stores the outcome.
    """
    if tool.runs_once and ctx.has_begun(name, arguments, position):
        return Outcome(
            f"A previous call to {tool.title} was interrupted, and it is unknown whether it took effect. It was not "
            "repeated. Do not assume that it succeeded or that it failed.",
            is_error=True,
        )
    guards = ctx.services.policies.guards
    use = ToolUse(
        tool.names[0] if tool.names else tool.name, ctx.node.id, cast("Mapping[str, Any]", to_json(arguments))
    )
    for guard in guards:
        verdict = await _ask_guard(guard, "before", _copy(use))
        if isinstance(verdict, Replace) and isinstance(verdict.value, dict):
            use = replace(use, arguments=cast("Mapping[str, Any]", verdict.value))
        elif not isinstance(verdict, Allow):
            return Outcome(f"The call to {tool.title} was refused: {_reason(verdict)}", is_error=True)
    if tool.runs_once:
        await ctx.begin(name, arguments, position, tool.title)
    return await _guard_result(guards, use, tool, await _call_or_cache(ctx, tool, use.arguments, make))


async def _call_or_cache(ctx: RunContext, tool: AgentTool, arguments: Mapping[str, Any], make: Make) -> Outcome:
    """Return the cached result, or make the call and cache its result. Errors and files are never cached."""
    cache = ctx.services.policies.cache
    if cache is None or tool.configuration is None or tool.runs_once or not cache.covers(tool.names):
        return await make(arguments)
    configuration, key = tool.configuration(), to_json(arguments)
    is_cached, stored = await cache.find(tool.names, configuration, key)
    if is_cached:
        entry = cast("Mapping[str, Any]", stored)
        return Outcome(entry["value"], chunks=entry["chunks"], documents=entry["documents"])
    outcome = await make(arguments)
    if not outcome.is_error and not outcome.artifacts:
        documents = None if outcome.documents is None else list(outcome.documents)
        result = to_json({"value": outcome.value, "chunks": list(outcome.chunks), "documents": documents})
        await cache.put(tool.names, configuration, key, result)
    return outcome


async def _guard_result(guards: Sequence[ToolGuard], use: ToolUse, tool: AgentTool, outcome: Outcome) -> Outcome:
    """Ask the guards about a result. A result that they replace or withhold loses its chunks and files."""
    for guard in guards:
        verdict = await _ask_guard(guard, "after", _copy(use), to_json(outcome.value))
        if isinstance(verdict, Replace):
            outcome = outcome._replace(value=verdict.value, chunks=(), documents=(), artifacts=())
        elif not isinstance(verdict, Allow):
            error = f"{tool.title} was called, but its result is withheld: {_reason(verdict)}"
            return outcome._replace(value=error, is_error=True, chunks=(), documents=(), artifacts=())
    return outcome


async def _ask_guard(guard: ToolGuard, when: str, *arguments: object) -> object:
    """Return a guard's verdict, with any replacement as JSON. If the guard fails, return None, which means refusal."""
    try:
        async with asyncio.timeout(GUARD_TIMEOUT_S):
            verdict: Verdict = await getattr(guard, when)(*arguments)
        return Replace(to_json(verdict.value)) if isinstance(verdict, Replace) else verdict
    except (Exception, asyncio.CancelledError):
        if is_cancelled():
            raise
        logger.warning("A tool guard failed; the call or result it was checking is refused.", exc_info=True)
        return None


def is_cancelled() -> bool:
    """Return whether this task is being cancelled; third-party code may also raise CancelledError."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _reason(verdict: object) -> str:
    if not isinstance(verdict, Refuse):
        return "a guard of this deployment failed to check it."
    return str(verdict.reason)[:MAX_REASON_CHARS]


def _copy(use: ToolUse) -> ToolUse:
    """Copy the arguments so that a guard cannot change the originals."""
    return replace(use, arguments=cast("Mapping[str, Any]", to_json(use.arguments)))
