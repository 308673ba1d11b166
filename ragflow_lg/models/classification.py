"""Classifying a message into one of several categories, and parsing the model's answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragflow_lg.models.prompt_texts import PROMPTS

_FIRST_LINE = PROMPTS["categorize"].text.partition("\n")[0]
_BEFORE_NAMES, _, _AFTER_NAMES = PROMPTS["categorize"].ragflow.partition("{names}")


class NamedCategory(NamedTuple):
    """A category as described to the model."""

    name: str
    description: str = ""
    examples: tuple[str, ...] = ()


def describe_categories(categories: Sequence[NamedCategory]) -> dict[str, str]:
    """Return what a prompt can show of categories: a line of JSON for each, or, as RAGFlow's prompt, three lists."""
    descriptions = [f"------\nCategory: {c.name}\nDescription: {c.description}" for c in categories if c.description]
    examples = [f'USER: "{" ".join(text.split())}" → {c.name}' for c in categories for text in c.examples]
    return {
        "categories": "\n".join(json.dumps(_as_json(category), ensure_ascii=False) for category in categories),
        "names": "\n".join(f" - {category.name}" for category in categories),
        "descriptions": "\n".join(descriptions) or "(none)",
        "examples": "\n".join(examples) or "(none)",
    }


def _as_json(category: NamedCategory) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": category.name}
    if category.description:
        fields["description"] = category.description
    if category.examples:
        fields["examples"] = list(category.examples)
    return fields


def parse_categories(system: str) -> list[NamedCategory]:
    """Return the categories in the system prompt of a style; an empty list for other texts."""
    if system.startswith(_BEFORE_NAMES):
        names = system.removeprefix(_BEFORE_NAMES).partition(_AFTER_NAMES.partition("{")[0])[0]
        return [_find_category(system, line.removeprefix(" - ")) for line in names.split("\n")]
    if not system.startswith(_FIRST_LINE):
        return []
    lines = [json.loads(line) for line in system.split("\n") if line.startswith('{"name": ')]
    return [NamedCategory(line["name"], line.get("description", ""), tuple(line.get("examples", ()))) for line in lines]


def _find_category(system: str, name: str) -> NamedCategory:
    """Return a category of the style ``ragflow``, whose description is up to one line."""
    description = re.search(rf"^Category: {re.escape(name)}\nDescription: (.*)", system, re.MULTILINE)
    examples = re.findall(rf'^USER: "(.*)" → {re.escape(name)}$', system, re.MULTILINE)
    return NamedCategory(name, description[1] if description else "", tuple(examples))


def format_conversation(messages: Sequence[Mapping[str, str]], line_break: str = " ") -> str:
    """Format a conversation on one line: ``USER: "…" | ASSISTANT: "…"``."""
    return " | ".join(f'{m["role"].upper()}: "{line_break.join(m["content"].splitlines())}"' for m in messages)


def match_category(answer: str, names: Sequence[str]) -> str | None:
    """Return the category that an answer names, ignoring case; None if it names none.

    If the entire answer is a category, return it. Otherwise return the category that occurs most often: the first in
    the list if several are equally frequent. A name inside another word does not count. Long names are counted before
    the names that they contain. Source: RAGFlow's ``agent/component/categorize.py``, which counts ``order`` inside
    ``order status`` and ``billing`` inside ``rebilling`` as well, and takes the last category if none occurs.
    """
    reply = answer.strip().strip("\"'`.*").strip().casefold()
    for name in names:
        if name.strip().casefold() == reply:
            return name
    rest = answer.casefold()
    counts: dict[str, int] = {}
    for name in sorted(names, key=len, reverse=True):
        rest, counts[name] = _word_pattern(name.strip().casefold()).subn("\0", rest)
    best = max(names, key=lambda name: counts[name])
    return best if counts[best] else None


_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
"""Scripts without spaces between words, or, as Hangul, with endings right after them."""
_LETTER = rf"[^\W{_UNSPACED}\U00020000-\U0003ffff]"

_SOLID = _LETTER.replace("\\W", "\\W_")
"""A letter or digit, but no underscore."""


def _word_pattern(name: str) -> re.Pattern[str]:
    """Return an expression that finds a name, but not inside a longer word. ``_name_`` is emphasis in Markdown."""
    before = rf"(?<!{_SOLID})(?<!{_SOLID}_)(?<!{_SOLID}__)" if re.match(_LETTER, name) else ""
    after = rf"(?!_{{0,2}}{_SOLID})" if re.match(_LETTER, name[-1:]) else ""
    return re.compile(before + re.escape(name) + after)
