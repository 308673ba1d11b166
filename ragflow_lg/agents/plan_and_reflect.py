"""Plan and reflect: analyse the task, plan the next calls, reflect on what came of them, and so on; then answer.

Source: the loop of RAGFlow's earlier ``agent/component/agent_with_tools.py``. Here a call that fails is told as its
result and costs no others, calls beside ``complete_task`` count, and what does not fit is summed up and ranked, not
dropped by age.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentRun, joined, told
from ragflow_lg.agents.plan_prompts import COMPLETE_TASK, LAST, prompt_of
from ragflow_lg.base.thinking import AnswerPart, split_thinking, strip_thinking
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import JsonValue
from ragflow_lg.models.model_call import AnswerStream
from ragflow_lg.models.prompts import CONTEXT_SHARE
from ragflow_lg.models.structured_answer import append_schema, read_answer
from ragflow_lg.services.chat import ChatRequest, ToolCall

__all__ = ["plan_and_reflect"]

MAX_CALLS = 64
"""How many calls of one step are made."""

RESULT_SHARE = 8
"""A result that takes more than this part of the context is summed up."""

_ASK_NEXT = "Which tools are to be called next, or is the task complete? Answer with the JSON list only."
_NO_LIST = 'Answer with a JSON list of calls: [{"name": "tool", "arguments": {}}].'


class _Step(Struct):
    """One round: what was planned, what came of it, what is to be thought of it."""

    plan: str
    results: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Names of tools, and what they gave."""
    note: str = ""
    """The reflection, or what was wrong with the plan."""

    @property
    def observed(self) -> str:
        listed = json.dumps([{"name": name, "result": text} for name, text in self.results], ensure_ascii=False)
        return "\n\n".join(part for part in (f"Observation:\n{listed}" if self.results else "", self.note) if part)


async def plan_and_reflect(run: AgentRun) -> str:
    """Plan, call tools and reflect until the task is complete or the rounds are used up; then give the answer."""
    analysis = await _thought(run, _request(run, "TASK_ANALYSIS", _task(run), with_tools=True), "analysis")
    steps: list[_Step] = []
    is_complete = False
    while len(steps) <= run.max_rounds and not is_complete and not await run.is_spent(f"plan {len(steps)}"):
        step, is_complete = await _step(run, analysis, steps)
        steps.append(step)
    return await _answer(run, steps)


async def _step(run: AgentRun, analysis: str, steps: Sequence[_Step]) -> tuple[_Step, bool]:
    """Plan and do one step; tell whether the task is complete."""
    number = len(steps)
    system = f"{_system(run, 'PLAN_GENERATION', with_tools=True)}\n\nThe task, as it was analysed:\n{analysis}"
    messages = tuple(joined(_conversation(run, steps), "user", _ASK_NEXT))
    asked = replace(run.request, system=system, messages=messages, schema=None)
    text = strip_thinking((await run.ask(asked, f"plan {number}", _shown_as_thought(run, is_text_shown=False))).text)
    calls, problem = _calls(await run.ctx.run_in_thread(read_answer, text), number)
    step = _Step(text.strip() or "[]", note=problem)
    wanted = [call for call in calls if call.name != COMPLETE_TASK]
    is_complete = len(wanted) < len(calls)
    if not wanted:
        return step, is_complete
    outcomes = await run.call(wanted, str(number))
    for index, (call, outcome) in enumerate(zip(wanted, outcomes, strict=True)):
        step.results.append((call.name, await _summed_up(run, told(outcome.value), f"summary {number}.{index}")))
    if not is_complete and not await run.is_spent(f"reflection {number}"):
        asked = _request(run, "REFLECTION", f"{_task(run)}\n\nThe last step gave:\n{step.observed}")
        step.note = f"Reflection:\n{await _thought(run, asked, f'reflection {number}')}"
    return step, is_complete


def _calls(value: JsonValue, number: int) -> tuple[list[ToolCall], str]:
    """Read a plan; give its calls, and what is wrong with it."""
    entries = cast("list[Any]", [value] if isinstance(value, dict) else value)
    if not isinstance(value, list | dict) or not entries:
        return [], _NO_LIST
    calls: list[ToolCall] = []
    for index, entry in enumerate(entries[:MAX_CALLS]):
        held = cast("Mapping[str, Any]", entry if isinstance(entry, Mapping) else {})
        name, given = held.get("name"), held.get("arguments")
        if not isinstance(name, str) or not name:
            return [], f"Entry {index + 1} of that list has no name. {_NO_LIST}"
        text = given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
        calls.append(ToolCall(f"{number}.{index}", name, text))
    return calls, ""


async def _answer(run: AgentRun, steps: Sequence[_Step]) -> str:
    """Ask for the answer, which is shown as it comes."""
    steps = await _ranked(run, steps)
    messages = joined(_conversation(run, steps), "user", LAST)
    asked = replace(run.request, messages=tuple(messages))
    if run.schema is not None:
        is_native = run.model.has_schemas
        system = asked.system if is_native else append_schema(asked.system, run.schema)
        asked = replace(asked, system=system, schema=run.schema if is_native else None)
    return (await run.ask(run.told_to_cite(asked), "answer", run.show)).text


def _conversation(run: AgentRun, steps: Iterable[_Step]) -> list[dict[str, str]]:
    messages: list[dict[str, str]] = [dict(message) for message in run.request.messages]
    for step in steps:
        messages = joined(joined(messages, "assistant", step.plan), "user", step.observed or "(nothing)")
    return messages


# Side calls


def _task(run: AgentRun) -> str:
    return f"The task:\n{run.request.messages[-1]['content']}"


def _system(run: AgentRun, name: str, *, with_tools: bool = False) -> str:
    parts = [prompt_of(run.sections, name)]
    if run.request.system.strip():
        parts.append(f"Whoever answers has been told:\n{run.request.system}")
    if with_tools:
        tools = [
            {"name": t.name, "description": t.description, "parameters": t.parameters} for t in run.toolbox.schemas
        ]
        parts.append(f"The tools:\n{json.dumps(tools, ensure_ascii=False)}")
        parts.append(f"It is {run.ctx.global_value('sys.date') or run.ctx.services.clock.local_time()}.")
    return "\n\n".join(parts)


def _request(run: AgentRun, name: str, asked: str, *, with_tools: bool = False) -> ChatRequest:
    system = _system(run, name, with_tools=with_tools)
    room = int(run.model.context_tokens * CONTEXT_SHARE) - estimate_tokens(system)
    content = shorten(asked, max(room, run.model.context_tokens // RESULT_SHARE))
    return replace(run.request, system=system, messages=({"role": "user", "content": content},), schema=None)


async def _thought(run: AgentRun, request: ChatRequest, position: str) -> str:
    """Ask for something that is shown as a thought."""
    show = _shown_as_thought(run)
    text = (await run.ask(request, position, show)).text
    if show is not None and run.show is not None:
        await run.show.write_thought("\n")
    return strip_thinking(text).strip()


async def _summed_up(run: AgentRun, result: str, position: str) -> str:
    """Sum up a result that takes too much of the context."""
    if estimate_tokens(result) <= run.model.context_tokens // RESULT_SHARE or await run.is_spent(position):
        return result
    asked = _request(run, "CONTEXT_SUMMARY", f"{_task(run)}\n\nThe result:\n{result}")
    return strip_thinking((await run.ask(asked, position)).text).strip() or result


async def _ranked(run: AgentRun, steps: Sequence[_Step]) -> Sequence[_Step]:
    """Leave out the least important results where all together do not fit into the context."""
    results = [result for step in steps for result in step.results]
    room = int(run.model.context_tokens * CONTEXT_SHARE) - estimate_tokens(
        f"{run.request.system}{run.guidelines}{LAST}"
    )
    room -= sum(estimate_tokens(message["content"]) for message in _conversation(run, ()))
    needed = sum(estimate_tokens(step.observed + step.plan) for step in steps)
    if len(results) <= 1 or needed <= room or await run.is_spent("ranking"):
        return steps
    shown = run.model.context_tokens // (2 * len(results))
    listed = "\n\n".join(f"{n}. {name}: {shorten(text, shown)}" for n, (name, text) in enumerate(results, 1))
    asked = _request(run, "CONTEXT_RANKING", f"{_task(run)}\n\nThe results:\n{listed}")
    ranking = await run.ctx.run_in_thread(read_answer, (await run.ask(asked, "ranking")).text)
    return _kept(steps, ranking, room)


def _kept(steps: Sequence[_Step], ranking: JsonValue, room: int) -> list[_Step]:
    """Keep the results that fit, by rank; those without a rank come last, in their order."""
    sizes = [estimate_tokens(text) for step in steps for _, text in step.results]
    named = cast("list[Any]", ranking if isinstance(ranking, list) else [])
    ranked = [number - 1 for number in named if type(number) is int and 0 < number <= len(sizes)]
    room -= sum(estimate_tokens(step.observed + step.plan) for step in steps) - sum(sizes)
    kept: set[int] = set()
    for index in dict.fromkeys([*ranked, *range(len(sizes))]):
        if sizes[index] <= room:
            kept.add(index)
            room -= sizes[index]
    counter = count()
    return [replace(step, results=[result for result in step.results if next(counter) in kept]) for step in steps]


def _shown_as_thought(run: AgentRun, *, is_text_shown: bool = True) -> _ThoughtShow | None:
    return None if run.show is None else _ThoughtShow(run.show, is_text_shown=is_text_shown)


class _ThoughtShow:
    """Shows an answer of the model as a thought, or of it only what the model thought."""

    def __init__(self, show: AnswerStream, *, is_text_shown: bool) -> None:
        self._show = show
        self._is_text_shown = is_text_shown
        self._is_thinking = False

    @property
    def text(self) -> str:
        return self._show.text

    def begin(self) -> None:
        self._show.begin()
        self._is_thinking = False

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        for part in parts:
            if part.mark:
                self._is_thinking = part.mark == "start"
            elif self._is_text_shown or self._is_thinking:
                await self._show.write_thought(part.text)

    async def replay(self, text: str) -> None:
        self.begin()
        await self.write(split_thinking(text))
