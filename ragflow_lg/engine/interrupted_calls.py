"""Asking the user about work that must run once and that a crash has interrupted.

LangGraph returns the answers to earlier questions by their order. Questions that were asked before are therefore asked
again in the same order, and answered at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.turn_context import BegunCall, step_key
from ragflow_lg.dsl.forms import Form, unwrap_submission

if TYPE_CHECKING:
    from ragflow_lg.component.turn_context import TurnContext

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


async def begin_once(node: PlanNode, ctx: RunContext, turn: TurnContext, ask: Ask | None) -> bool:
    """Mark the start of a node that must not start twice; ask the user after each start that was interrupted.

    Return whether it may start. In a canvas that runs inside a node, `ask_about_calls` has already asked.
    """
    steps = turn.steps
    if steps is None or not ctx.task:
        return True
    if turn.nested is not None:
        mark, result = step_key(ctx.task, "begun", "", None), step_key(ctx.task, "visit", "", None)
        if ctx.begun_calls.contain(mark):
            return False
        await ctx.begun_calls.add(BegunCall(mark, result, node.title or node.spec.name))
        return True
    number, may_start = 0, True
    while (await steps.find(step_key(ctx.task, "begun", "", number or None)))[0]:
        tips = "This step was interrupted while running. It may already have had its effect."
        may_start = ask is not None and await _wants_repeat(node, ask, tips)
        number += 1
    if may_start:
        await steps.put(step_key(ctx.task, "begun", "", number or None), True)
    return may_start


async def ask_about_calls(node: PlanNode, ctx: RunContext, turn: TurnContext, ask: Ask | None) -> None:
    """Ask about each call inside a node of the session's canvas that must not start twice and was interrupted.

    Calls inside it are those of its tools, of their tools, and the nodes of canvases that it runs. Without an answer,
    or if the user does not want to repeat it, the model or the canvas receives an error instead of a result.
    """
    if turn.nested is not None or turn.steps is None or not ctx.task or not (node.tools or node.canvas):
        return
    begun = ctx.begun_calls
    calls = await begun.load()
    if ask is None or not calls:
        return
    asked: list[int] = []
    while (number := await begun.find("asked about", len(asked))) is not None:
        asked.append(cast("int", number))
    decisions: dict[str, bool] = {}
    for number in asked:
        decisions[calls[number].mark] = await _wants_repeat(node, ask, _tips(calls[number]))
    for number, call in enumerate(calls):
        if number in asked or await begun.has_result(call):
            continue
        await begun.put("asked about", len(asked), number)
        asked.append(number)
        decisions[call.mark] = await _wants_repeat(node, ask, _tips(call))
    for mark, wants_repeat in decisions.items():
        if wants_repeat:
            begun.allow_repeat(mark)


def _tips(call: BegunCall) -> str:
    shown = "" if call.arguments is None else str(call.arguments)
    shown = shown if len(shown) <= MAX_SHOWN_CHARS else shown[:MAX_SHOWN_CHARS] + "…"
    tips = f"A call of {call.title} was interrupted while running. It may already have had its effect"
    return f"{tips}: {shown}" if shown else f"{tips}."
