"""Asking the user: about work that must run once and that a crash has interrupted, and to approve calls of tools.

LangGraph returns the answers to earlier questions by their order. Questions that were asked before are therefore asked
again in the same order, and answered at once.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ragflow_lg.base.values import JsonValue, to_json, to_text
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.turn_context import Approval, BegunCall, Decision, step_key
from ragflow_lg.dsl.forms import Form, unwrap_submission

if TYPE_CHECKING:
    from ragflow_lg.component.turn_context import TurnContext

RUN_AGAIN, CONTINUE = "run it again", "continue with an error"
APPROVE, REFUSE = "approve", "refuse"
_DECISION = "decision"
MAX_SHOWN_CHARS = 300
MAX_LABEL_CHARS = 100
MAX_REASON_CHARS = 2_000

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
    or if the user does not want to repeat it, the model or the canvas receives an error instead of a result. The user
    has approved or refused other calls before (`ask_for_approval`).
    """
    if turn.nested is not None or turn.steps is None or not ctx.task or not _may_call(node):
        return
    begun = ctx.begun_calls
    calls = await begun.load()
    if ask is None:
        return
    begun.can_ask = True
    questions: list[int | list[Approval]] = []  # the number of a begun call, or the calls of a form
    while (entry := cast("Any", await begun.find("asked about", len(questions)))) is not None:
        questions.append(entry if isinstance(entry, int) else [Approval(*part) for part in entry])
    decisions: dict[str, bool] = {}
    for question in questions:
        if isinstance(question, list):
            await _decide(node, ctx, ask, question)
        else:
            decisions[calls[question].mark] = await _wants_repeat(node, ask, _tips(calls[question]))
    for number, call in enumerate(calls):
        if number in questions or await begun.has_result(call):
            continue
        await begun.put("asked about", len(questions), number)
        questions.append(number)
        decisions[call.mark] = await _wants_repeat(node, ask, _tips(call))
    begun.questions = len(questions)
    for mark, wants_repeat in decisions.items():
        if wants_repeat:
            begun.allow_repeat(mark)


def _may_call(node: PlanNode) -> bool:
    return bool(node.tools or node.canvas or any(True for _ in node.spec.server_tools(node.params)))


async def ask_for_approval(node: PlanNode, ctx: RunContext, ask: Ask) -> None:
    """Ask the user to approve the calls inside a node of the session's canvas that wait for it, all in one form."""
    if ctx.shown and not ctx.compatibility.repeat_shown_text:
        await ctx.discard_answer()
    begun = ctx.begun_calls
    approvals = list(begun.open_approvals.values())
    await begun.put("asked about", begun.questions, [to_json(list(approval)) for approval in approvals])
    begun.questions += 1
    begun.open_approvals.clear()
    await _decide(node, ctx, ask, approvals)


async def _decide(node: PlanNode, ctx: RunContext, ask: Ask, approvals: Sequence[Approval]) -> None:
    """Note what the user answers about calls. What is not clearly approved is refused."""
    answer = await ask(node, _approval_form(ctx, approvals))
    for approval in approvals:
        values = [unwrap_submission(answer.get(name), {})[0] for name in _field_names(approval)]
        refusal = None if values[0] == APPROVE else to_text(values[1])[:MAX_REASON_CHARS]
        ctx.begun_calls.decisions[approval.mark] = Decision(cast("Any", approval.arguments), refusal)


def _field_names(approval: Approval) -> tuple[str, str]:
    """Return the fields for a call. No other open form has the same, so that an answer never approves another call."""
    return f"decision_{approval.mark[:12]}", f"reason_{approval.mark[:12]}"


def _approval_form(ctx: RunContext, approvals: Sequence[Approval]) -> Form:
    fields: dict[str, dict[str, JsonValue]] = {}
    tips = ["The agent asks for your approval:"]
    for number, approval in enumerate(approvals, 1):
        decision, reason = _field_names(approval)
        label = _label(approval) if len(approvals) == 1 else f"{number}. {_label(approval)}"
        options: list[JsonValue] = [APPROVE, REFUSE]
        fields[decision] = {"name": label, "type": "options", "optional": False, "options": options}
        fields[reason] = {"name": f"{label}: why not?", "type": "line", "optional": True}
        tips.append(f"`{label}`\n\n```json\n{ctx.redacted_view.redactor.text(_show(approval.arguments))}\n```")
    return Form("\n\n".join(tips), fields)


def _label(approval: Approval) -> str:
    """Return the name of a tool in the policies, and then its title, which a canvas may choose."""
    is_same = approval.title in (approval.tool, approval.tool.partition("/")[2])
    return _one_line(approval.tool) + ("" if is_same else f' "{_one_line(approval.title)}"')


def _show(arguments: JsonValue) -> str:
    """Return arguments as JSON in which nothing is invisible, and nothing ends the block of code around it."""
    text = json.dumps(arguments, ensure_ascii=False, indent=2).replace("`", "\\u0060")
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _one_line(text: str) -> str:
    """Return the beginning of a name or title, which a canvas may choose, as it is in a JSON string."""
    return _show(text[:MAX_LABEL_CHARS])[1:-1]


def _tips(call: BegunCall) -> str:
    shown = "" if call.arguments is None else str(call.arguments)
    shown = shown if len(shown) <= MAX_SHOWN_CHARS else shown[:MAX_SHOWN_CHARS] + "…"
    tips = f"A call of {_one_line(call.title)} was interrupted while running. It may already have had its effect"
    return f"{tips}: {shown}" if shown else f"{tips}."
