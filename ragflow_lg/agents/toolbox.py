"""An agent's tools as its model sees them, and how they are called."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias, cast

from msgspec.structs import replace
from pydantic import ValidationError

from ragflow_lg.agents.agent_tool import AgentTool, Outcome
from ragflow_lg.agents.call_arguments import MAX_NAME_CHARS, describe_unreadable, read_arguments, truncate_name
from ragflow_lg.base.errors import RagflowLgError, RunCancelled, SettingsError, pause_before_retry
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.base.worker_tasks import measure
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.tool import describe_validation_error
from ragflow_lg.component.turn_context import Decision
from ragflow_lg.services.chat import ToolCall, ToolSchema, Usage
from ragflow_lg.services.tool_policies import Allow, Refuse, Replace, ToolGuard, ToolPermits, ToolUse, Verdict

OnCall: TypeAlias = Callable[[str, JsonValue], Awaitable[None]]
"""Receives the title of a tool and its arguments just before the call."""

logger = logging.getLogger(__name__)

_INVALID_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Toolbox:
    """The tools permitted in one visit. Their names are numbered so that two tools of the same kind differ."""

    def __init__(self, ctx: RunContext, tools: Iterable[AgentTool]) -> None:
        self._ctx = ctx
        pairs = ((_function_name(tool.name, index), tool) for index, tool in enumerate(tools))
        allowed, asked = ctx.node.spec.allowed_tools(ctx.node.params), ctx.node.spec.ask_tools(ctx.node.params)
        node_permits = ToolPermits(None if allowed is None else tuple(allowed), ask=tuple(asked))
        self._permits = (ctx.services.policies.permits, node_permits)
        permitted = ((name, tool) for name, tool in pairs if all(p.permits(tool.names) for p in self._permits))
        self._tools = {name: self._with_approval(tool) for name, tool in permitted}

    def _with_approval(self, tool: AgentTool) -> AgentTool:
        """Return a tool that waits for approval, if it must. What was approved is called once.

        Agents and canvases go on after a crash or another question, so each call inside them is made once.
        """
        names = (*tool.names, f"effects:{tool.effects}")
        if not any(permits.asks(names) for permits in self._permits):
            return tool
        once = tool.runs_once or not tool.asks_models
        return replace(tool, needs_approval=True, runs_once=once, extra_attempts=0, search_argument="")

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
        value = read_arguments(call.arguments)
        if not isinstance(value, dict):
            return Outcome(describe_unreadable(truncate_name(call.name), call.arguments), is_error=True)
        tool = self._tools.get(call.name)
        if tool is None:
            return Outcome(f"LLM tool {truncate_name(call.name)} does not exist", is_error=True)
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
                outcome = await _safe_outcome(tool, arguments, position)
                if outcome.is_error and tool.default is not None:
                    return outcome._replace(value=to_json(tool.default), is_error=False)
                return outcome

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


MAX_REASON_CHARS = 2_000
MAX_APPROVED_CHARS = 10_000
"""The most characters of arguments that a user is asked to approve."""

GUARD_TIMEOUT_S = 30.0
"""Time limit for a guard to return a verdict."""

Make: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Outcome]]
"""Make the call with these arguments. Errors are outcomes too."""


async def call_tool(
    ctx: RunContext, tool: AgentTool, name: str, arguments: dict[str, Any], position: str, make: Make
) -> Outcome:
    """Make a call if the policies allow it; return the outcome to show to the model.

    The order is: check for an interrupted start, ask the guards, check the arguments and wait for approval, look in the
    cache or mark the start and call, cache the result, ask the guards about it. What was approved is called as it was
    shown. ``name``, ``arguments`` and ``position`` are those of the step that stores the outcome.
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
    decision = ctx.decision(name, arguments, position) if tool.needs_approval else None
    for guard in guards if decision is None else ():
        verdict = await _ask_guard(guard, "before", _copy(use))
        if isinstance(verdict, Replace) and isinstance(verdict.value, dict):
            use = replace(use, arguments=cast("Mapping[str, Any]", verdict.value))
        elif not isinstance(verdict, Allow):
            return Outcome(f"The call to {tool.title} was refused: {_reason(verdict)}", is_error=True)
    if decision is not None:
        use = replace(use, arguments=decision.arguments)
    if tool.needs_approval and (refusal := _find_refusal(ctx, use.arguments, decision)):
        return Outcome(f"The call to {tool.title} was not made: {refusal}", is_error=True)
    if tool.needs_approval and decision is None:
        check = replace(tool, call=tool.check or tool.call)
        if tool.check and (checked := await _safe_outcome(check, use.arguments, position)).is_error:
            return checked
        tool_name = max(tool.names or (tool.name,), key=lambda each: ":" in each)  # rather canvas:NAME than Canvas
        ctx.need_approval(name, arguments, position, (tool_name, tool.title), cast("JsonValue", use.arguments))
    if tool.runs_once:
        await ctx.begin(name, arguments, position, tool.title)
    return await _guard_result(guards, use, tool, await _call_or_cache(ctx, tool, use.arguments, make))


def _find_refusal(ctx: RunContext, arguments: Mapping[str, Any], decision: Decision | None) -> str:
    """Return why a call that needs approval cannot be made; ``""`` if it was approved, or the user is to be asked."""
    if decision is not None:
        return "" if decision.refusal is None else f"the user refused it. {decision.refusal}".rstrip()
    if not ctx.begun_calls.can_ask:
        return "it needs a user's approval, and nobody can be asked here."
    too_long = measure(arguments, MAX_APPROVED_CHARS) > MAX_APPROVED_CHARS
    return "its arguments are too long for a user to approve them." if too_long else ""


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
