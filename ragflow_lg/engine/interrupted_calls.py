"""Asking the user about work that must run once and that a crash has interrupted.

LangGraph returns the answers to earlier questions by their order. Questions that were asked before are therefore asked
again in the same order, and answered at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.node_steps import step_key
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl.forms import Form, unwrap_submission

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext
    from ragflow_lg.services.sessions import Steps

RUN_AGAIN, CONTINUE = "run it again", "continue with an error"
_DECISION = "decision"
MAX_SHOWN_CHARS = 300

Ask: TypeAlias = Callable[[PlanNode, Form], Awaitable[dict[str, JsonValue]]]
"""Asks the user. Returns the answer by field name, or pauses the run by raising a LangGraph exception."""


def _form(tips: str) -> Form:
    question: dict[str, JsonValue] = {
        "name": "How should the run continue?",
        "type": "options",
        "optional": False,
        "options": [RUN_AGAIN, CONTINUE],
    }
    return Form(tips, {_DECISION: question})


async def _wants_repeat(node: PlanNode, ask: Ask, tips: str) -> bool:
    answer = await ask(node, _form(tips))
    value, _ = unwrap_submission(answer.get(_DECISION), {})
    return value == RUN_AGAIN


async def begin_once(node: PlanNode, ctx: RunContext, steps: Steps | None, ask: Ask | None) -> bool:
    """Mark the start of a node that must not start twice; ask the user after each start that was interrupted.

    Return whether it may start.
    """
    if steps is None or not ctx.task:
        return True
    number, may_start = 0, True
    while (await steps.find(step_key(ctx.task, "begun", "", number or None)))[0]:
        tips = "This step was interrupted while running. It may already have had its effect."
        may_start = ask is not None and await _wants_repeat(node, ask, tips)
        number += 1
    if may_start:
        await steps.put(step_key(ctx.task, "begun", "", number or None), True)
    return may_start


async def ask_about_calls(node: PlanNode, ctx: RunContext, steps: Steps | None, ask: Ask | None) -> None:
    """Ask about each of the node's own calls of tools that run once and were interrupted by a crash.

    Without an answer, or if the user does not want to repeat it, the model receives an error instead of a result.
    """
    if steps is None or not ctx.task or not node.tools:
        return
    calls: list[list[Any]] = []
    while (entry := await _find(steps, ctx.task, "begun call", len(calls))) is not None:
        calls.append(cast("list[Any]", entry))
    ctx.begun_calls = len(calls)
    if ask is None or not calls:
        return
    asked: list[int] = []
    while (number := await _find(steps, ctx.task, "asked about", len(asked))) is not None:
        asked.append(cast("int", number))
    decisions: dict[str, bool] = {}
    for number in asked:
        decisions[calls[number][0]] = await _wants_repeat(node, ask, _tips(calls[number]))
    for number, (mark, position, name, arguments, _) in enumerate(calls):
        has_result, _result = await steps.find(step_key(ctx.task, position, name, arguments))
        if has_result or number in asked:
            continue
        await steps.put(step_key(ctx.task, "asked about", "", len(asked)), number)
        asked.append(number)
        decisions[mark] = await _wants_repeat(node, ask, _tips(calls[number]))
    ctx.repeated_calls = frozenset(mark for mark, repeats in decisions.items() if repeats)


async def _find(steps: Steps, task: str, what: str, number: int) -> JsonValue:
    _, value = await steps.find(step_key(task, what, "", number))
    return value


def _tips(call: list[Any]) -> str:
    _, _, name, arguments, title = call
    shown = str(arguments)
    shown = shown if len(shown) <= MAX_SHOWN_CHARS else shown[:MAX_SHOWN_CHARS] + "…"
    return f"A call of {title or name} was interrupted while running. It may already have had its effect: {shown}"
