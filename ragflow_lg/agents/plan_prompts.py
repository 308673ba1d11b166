"""The prompts of the plan-and-reflect strategy.

Each of them can be replaced by a section of the canvas's system prompt: ``TASK_ANALYSIS``, ``PLAN_GENERATION``,
``REFLECTION``, ``CONTEXT_SUMMARY`` and ``CONTEXT_RANKING``.
"""

from __future__ import annotations

from collections.abc import Mapping

COMPLETE_TASK = "complete_task"
"""Name of the call with which a model reports that it can answer."""

PROMPTS: Mapping[str, str] = {
    "TASK_ANALYSIS": (
        "You analyze a task before anyone works on it. In a few plain sentences, state what the user is asking for, "
        "what a good answer must contain, which facts are still missing, and in which order the available tools could "
        "find them. Do not solve the task."
    ),
    "PLAN_GENERATION": (
        "You plan the next step of a task: decide which tools to call now. All calls of one step run in parallel, so "
        "include only calls that do not depend on each other's results. Respond with a JSON list and nothing else: "
        '[{"name": "tool", "arguments": {}}, …]. If the results so far are sufficient to answer, or if no tool can '
        f'help, respond with [{{"name": "{COMPLETE_TASK}", "arguments": {{}}}}].'
    ),
    "REFLECTION": (
        "You review the last step of a task. In a few plain sentences, state what the results show, how reliable they "
        "are, what is still missing, and what to do differently if a call failed."
    ),
    "CONTEXT_SUMMARY": (
        "You condense the result of a tool call for a task. Keep every fact, name, number, date and URL that is "
        "relevant to the task. Where the result has lines such as `ID: n`, put [ID:n] after each fact taken from that "
        "passage. Omit everything else and add nothing."
    ),
    "CONTEXT_RANKING": (
        "The numbered results of a task do not all fit into the context of the final answer. Rank them by their "
        "importance for the task, most important first. Respond with a JSON list of their numbers and nothing else."
    ),
}
"""Prompts by the name of the section that replaces them."""

TOOLS_HEAD = "Available tools:\n"
"""Precedes the JSON list of tools in the prompts that need it."""

FINAL_PROMPT = (
    "Tools are no longer available. Based on everything above, give your final answer to my question now. Be direct "
    "and complete."
)


def prompt_of(sections: Mapping[str, str], name: str) -> str:
    """Return a prompt, or the canvas section that replaces it."""
    return sections.get(name, "").strip() or PROMPTS[name]
