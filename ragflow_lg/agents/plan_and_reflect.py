"""Plan and reflect: analyze the task, then plan tool calls and reflect on their results until the task is complete.

Source: the loop of RAGFlow's earlier ``agent/component/agent_with_tools.py``. Unlike in that version, a failed call
becomes a result and does not affect other calls, calls requested together with ``complete_task`` are made, and results
that do not fit into the context are summarized and ranked instead of dropped by age.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from ragflow_lg.agents.agent_run import (
    AgentLoop,
    append_message,
    final_prompt,
    make_thought_sink,
    request_schema,
    result_text,
)
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import JsonValue
from ragflow_lg.models.engine_prompts import engine_prompt, fill_prompt, prompt_text
from ragflow_lg.models.prompt_texts import COMPLETE_TASK
from ragflow_lg.models.prompts import CONTEXT_SHARE
from ragflow_lg.models.structured_answer import is_whole_json, read_answer
from ragflow_lg.services.chat import ChatRequest, ToolCall

MAX_CALLS = 64
"""Maximum number of calls per step; any further calls are ignored."""

RESULT_SHARE = 8
"""A result longer than one eighth of the context is summarized."""

TOOLS_HEAD = "Available tools:\n"
"""Precedes the JSON list of tools in the prompts that need it."""

_LIST_EXPECTED = 'Respond with a JSON list of calls: [{"name": "tool", "arguments": {}}].'

_PLAN_CUT = f"Your list was cut off at the limit of tokens, so no call was made. Request fewer calls. {_LIST_EXPECTED}"


class _Step(Struct):
    """One round: the plan, its results and a note about them."""

    plan: str
    results: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The name and the result of each call."""
    note: str = ""
    """The reflection, or the problem with an invalid plan."""

    @property
    def observation(self) -> str:
        results = json.dumps([{"name": name, "result": text} for name, text in self.results], ensure_ascii=False)
        return "\n\n".join(part for part in (f"Observation:\n{results}" if self.results else "", self.note) if part)


async def plan_and_reflect(run: AgentLoop) -> str:
    """Plan, call tools and reflect until the task is complete or the rounds are used up; return the answer."""
    analysis = await _ask_for_thought(run, _request(run, "TASK_ANALYSIS", _task(run), with_tools=True), "analysis")
    steps: list[_Step] = []
    is_complete = False
    while len(steps) <= run.max_rounds and not is_complete and not await run.is_spent(f"plan {len(steps)}"):
        step, is_complete = await _run_step(run, analysis, steps)
        steps.append(step)
    return await _answer(run, steps)


async def _run_step(run: AgentLoop, analysis: str, steps: Sequence[_Step]) -> tuple[_Step, bool]:
    """Plan and execute one step; return it and whether the task is complete."""
    number = len(steps)
    system = _system(run, "PLAN_GENERATION", f"Analysis of the task:\n{analysis}", with_tools=True)
    messages = tuple(append_message(_conversation(run, steps), "user", engine_prompt(run.ctx, "plan_request")))
    request = replace(run.request, system=system, messages=messages, schema=None)
    sink = make_thought_sink(run, is_text_shown=False)
    answer = await run.ask(request, f"plan {number}", sink)
    text = strip_thinking(answer.text)
    if answer.end == "length" and not is_whole_json(text):
        planned, problem = list[ToolCall](), _PLAN_CUT
    else:
        planned, problem = _read_plan(await run.ctx.services.workers.run(read_answer, text), number)
    step = _Step(text.strip() or "[]", note=problem)
    calls = await run.repair([call for call in planned if call.name != COMPLETE_TASK])
    is_complete = len(calls) < len(planned)
    if not calls:
        return step, is_complete
    outcomes = await run.call(calls, str(number))
    for index, (call, outcome) in enumerate(zip(calls, outcomes, strict=True)):
        result = await _summarize_long(run, result_text(outcome.value), f"summary {number}.{index}")
        step.results.append((call.name, result))
    if not is_complete and not await run.is_spent(f"reflection {number}"):
        request = _request(run, "REFLECTION", f"{_task(run)}\n\nResults of the last step:\n{step.observation}")
        step.note = f"Reflection:\n{await _ask_for_thought(run, request, f'reflection {number}')}"
    return step, is_complete


def _read_plan(value: JsonValue, number: int) -> tuple[list[ToolCall], str]:
    """Return a plan's calls and ``""``, or no calls and the problem."""
    entries = cast("list[Any]", [value] if isinstance(value, dict) else value)
    if not isinstance(value, list | dict) or not entries:
        return [], _LIST_EXPECTED
    calls: list[ToolCall] = []
    for index, entry in enumerate(entries[:MAX_CALLS]):
        call = cast("Mapping[str, Any]", entry if isinstance(entry, Mapping) else {})
        name, arguments = call.get("name"), call.get("arguments")
        if not isinstance(name, str) or not name:
            return [], f"Entry {index + 1} in your list has no name. {_LIST_EXPECTED}"
        if not isinstance(arguments, str):
            arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        calls.append(ToolCall(f"{number}.{index}", name, arguments))
    return calls, ""


async def _answer(run: AgentLoop, steps: Sequence[_Step]) -> str:
    """Ask for the final answer and stream it."""
    steps = await _fit_results(run, steps)
    messages = append_message(_conversation(run, steps), "user", final_prompt(run.ctx))
    request = replace(run.request, messages=tuple(messages))
    request = request_schema(run, request)
    return await run.ask_for_answer(run.with_guidelines(request), "answer")


def _conversation(run: AgentLoop, steps: Iterable[_Step]) -> list[dict[str, str]]:
    messages: list[dict[str, str]] = [dict(message) for message in run.request.messages]
    for step in steps:
        messages = append_message(
            append_message(messages, "assistant", step.plan), "user", step.observation or "(no results)"
        )
    return messages


# Auxiliary model calls


def _task(run: AgentLoop) -> str:
    return f"Task:\n{run.request.messages[-1]['content']}"


def _system(run: AgentLoop, name: str, analysis: str = "", *, with_tools: bool) -> str:
    """Return a system prompt with its material, where the engine's text has placeholders, or else at the end."""
    parts: dict[str, str] = {}
    if run.request.system.strip():
        parts["instructions"] = f"Instructions for the final answer:\n{run.request.system}"
    if with_tools:
        tools = [
            {"name": t.name, "description": t.description, "parameters": t.parameters} for t in run.toolbox.schemas
        ]
        now = run.ctx.global_value("sys.date") or run.ctx.services.clock.local_time()
        parts["tools"] = f"{TOOLS_HEAD}{json.dumps(tools, ensure_ascii=False)}"
        parts["now"] = f"Current date and time: {now}."
    if analysis:
        parts["analysis"] = analysis
    section, text = run.sections.get(name, "").strip(), prompt_text(run.ctx, name.lower())
    rest = [part for slot, part in parts.items() if section or f"{{{slot}}}" not in text]
    return "\n\n".join([section or fill_prompt(text, {"instructions": "", **parts}), *rest])


def _request(run: AgentLoop, name: str, prompt: str, *, with_tools: bool = False) -> ChatRequest:
    system = _system(run, name, with_tools=with_tools)
    room = int(run.model.context_tokens * CONTEXT_SHARE) - estimate_tokens(system)
    content = shorten(prompt, max(room, run.model.context_tokens // RESULT_SHARE))
    return replace(run.request, system=system, messages=({"role": "user", "content": content},), schema=None)


async def _ask_for_thought(run: AgentLoop, request: ChatRequest, position: str) -> str:
    """Ask the model and show its answer as a thought."""
    sink = make_thought_sink(run)
    text = (await run.ask(request, position, sink)).text
    if sink is not None and run.stream is not None:
        await run.stream.write_thought("\n")
    return strip_thinking(text).strip()


async def _summarize_long(run: AgentLoop, result: str, position: str) -> str:
    """Return a result, summarized by the model if it takes up too much of the context."""
    if estimate_tokens(result) <= run.model.context_tokens // RESULT_SHARE or await run.is_spent(position):
        return result
    request = _request(run, "CONTEXT_SUMMARY", f"{_task(run)}\n\nResult:\n{result}")
    return strip_thinking((await run.ask(request, position)).text).strip() or result


async def _fit_results(run: AgentLoop, steps: Sequence[_Step]) -> Sequence[_Step]:
    """Drop the least important results if they do not all fit into the context; the model ranks them."""
    results = [result for step in steps for result in step.results]
    room = int(run.model.context_tokens * CONTEXT_SHARE) - estimate_tokens(
        f"{run.request.system}{run.guidelines}{final_prompt(run.ctx)}"
    )
    room -= sum(estimate_tokens(message["content"]) for message in _conversation(run, ()))
    needed = sum(estimate_tokens(step.observation + step.plan) for step in steps)
    if len(results) <= 1 or needed <= room or await run.is_spent("ranking"):
        return steps
    size = run.model.context_tokens // (2 * len(results))
    excerpts = "\n\n".join(f"{n}. {name}: {shorten(text, size)}" for n, (name, text) in enumerate(results, 1))
    request = _request(run, "CONTEXT_RANKING", f"{_task(run)}\n\nResults:\n{excerpts}")
    ranking = await run.ctx.services.workers.run(read_answer, (await run.ask(request, "ranking")).text)
    return _drop_by_rank(steps, ranking, room)


def _drop_by_rank(steps: Sequence[_Step], ranking: JsonValue, room: int) -> list[_Step]:
    """Return the steps with the results that fit, chosen by rank; unranked results come last, in their order."""
    sizes = [estimate_tokens(text) for step in steps for _, text in step.results]
    numbers = cast("list[Any]", ranking if isinstance(ranking, list) else [])
    ranks = [number - 1 for number in numbers if type(number) is int and 0 < number <= len(sizes)]
    room -= sum(estimate_tokens(step.observation + step.plan) for step in steps) - sum(sizes)
    fitting: set[int] = set()
    for index in dict.fromkeys([*ranks, *range(len(sizes))]):
        if sizes[index] <= room:
            fitting.add(index)
            room -= sizes[index]
    counter = count()
    return [replace(step, results=[result for result in step.results if next(counter) in fitting]) for step in steps]
