"""Asking a model for one of several categories, and reading its answer.

The wording is our own. A request of `build_instructions` and `format_conversation` can be recognised by
`INSTRUCTIONS_HEAD`, with which the system prompt begins, and `CONVERSATION_HEAD`, with which the user message
begins; the conversation is what follows it. The demo model and tests rely on both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = [
    "CONVERSATION_HEAD",
    "INSTRUCTIONS_HEAD",
    "NamedCategory",
    "parse_categories",
    "match_category",
    "format_conversation",
    "build_instructions",
]

INSTRUCTIONS_HEAD = "You sort conversations into categories."
"""First sentence of the system prompt."""

CONVERSATION_HEAD = "Choose the category of the last message of this conversation: "
"""Beginning of the user message; the conversation follows."""

_RULES = """
Each line below is one category as JSON: its name, what belongs to it, and examples.
- Judge the last message; earlier ones only help to understand it.
- If several categories fit, choose the most specific one.
- Choose a category named Other, if there is one, only if no other fits.
- Answer with the name of one category, exactly as it is written, and nothing else."""


class NamedCategory(NamedTuple):
    """A category as the model is told of it."""

    name: str
    description: str = ""
    examples: tuple[str, ...] = ()


def build_instructions(categories: Iterable[NamedCategory]) -> str:
    """Write the system prompt."""
    lines = [json.dumps(_as_json(category), ensure_ascii=False) for category in categories]
    return "\n".join([INSTRUCTIONS_HEAD + _RULES, *lines])


def _as_json(category: NamedCategory) -> dict[str, Any]:
    told: dict[str, Any] = {"name": category.name}
    if category.description:
        told["description"] = category.description
    if category.examples:
        told["examples"] = list(category.examples)
    return told


def parse_categories(system: str) -> list[NamedCategory]:
    """Find the categories that `build_instructions` wrote; none in another text."""
    if not system.startswith(INSTRUCTIONS_HEAD):
        return []
    lines = [json.loads(line) for line in system.split("\n") if line.startswith('{"name": ')]
    return [NamedCategory(line["name"], line.get("description", ""), tuple(line.get("examples", ()))) for line in lines]


def format_conversation(messages: Sequence[Mapping[str, str]]) -> str:
    """Write a conversation in one line: ``USER: "…" | ASSISTANT: "…"``."""
    return " | ".join(f'{m["role"].upper()}: "{" ".join(m["content"].splitlines())}"' for m in messages)


def match_category(answer: str, names: Sequence[str]) -> str:
    """Give the category that an answer names, ignoring case.

    It is the one that the answer consists of, else the one it names most often; the first listed of several that
    it names equally often; the last listed if it names none. A long name is counted before the names within
    it. Source: RAGFlow's ``agent/component/categorize.py``, which counts ``order`` inside ``order status`` too.
    """
    said = answer.strip().strip("\"'`.*").strip().casefold()
    for name in names:
        if name.strip().casefold() == said:
            return name
    rest = answer.casefold()
    counts: dict[str, int] = {}
    for name in sorted(names, key=len, reverse=True):
        sought = name.strip().casefold()
        counts[name] = rest.count(sought)
        rest = rest.replace(sought, "\0")
    best = max(names, key=lambda name: counts[name])
    return best if counts[best] else names[-1]
