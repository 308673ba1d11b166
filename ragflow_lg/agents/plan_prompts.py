"""What the strategy of plan and reflection tells a model.

Each prompt gives way to a section of the system prompt: ``TASK_ANALYSIS``, ``PLAN_GENERATION``, ``REFLECTION``,
``CONTEXT_SUMMARY`` and ``CONTEXT_RANKING``.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMPLETE_TASK", "LAST", "PROMPTS", "prompt_of"]

COMPLETE_TASK = "complete_task"
"""Name of the call by which a model says that it can answer."""

PROMPTS: Mapping[str, str] = {
    "TASK_ANALYSIS": (
        "Study a task before anybody works on it. Say in a few plain sentences what is asked for, what a good answer "
        "has to contain, which facts are missing, and in which order the tools could find them. Do not solve the task."
    ),
    "PLAN_GENERATION": (
        "Decide on the next step of a task: which tools to call now. Calls of one step run at the same time, so put "
        "into it only what does not depend on a result that is still to come. Answer with a JSON list and nothing "
        'else: [{"name": "tool", "arguments": {}}, …]. When the results suffice for the answer, or no tool can help, '
        f'answer [{{"name": "{COMPLETE_TASK}", "arguments": {{}}}}].'
    ),
    "REFLECTION": (
        "Look back on the last step of a task. Say in a few plain sentences what the results tell, how far they can be "
        "trusted, what is still missing, and what to do differently if a call failed."
    ),
    "CONTEXT_SUMMARY": (
        "Shorten the result of a tool for those who work on the task. Keep every fact, name, number, date and address "
        "that matters for it, and the numbers in lines such as `ID: n` as [ID:n] behind the facts that they belong to. "
        "Leave out the rest; add nothing."
    ),
    "CONTEXT_RANKING": (
        "The results of a task do not all fit into the answer's context. Order them by how much they matter for the "
        "task, the most important first. Answer with a JSON list of their numbers and nothing else."
    ),
}
"""Prompts by the name of the section that takes their place."""

LAST = "No tool can be used any more. Give your final answer to my question now, direct and complete, from all this."


def prompt_of(sections: Mapping[str, str], name: str) -> str:
    """Give a prompt, or what the canvas has in its place."""
    return sections.get(name, "").strip() or PROMPTS[name]
