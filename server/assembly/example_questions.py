"""Questions with which a conversation can begin, as far as the canvas tells."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan

MAX_QUESTIONS = 3
_MAX_CHARS = 120
_QUERY = "sys.query"
_TEXTUAL = frozenset({"contains", "start with", "end with", "=", "is"})


def find_questions(plan: Plan) -> list[str]:
    """Return up to three questions: examples of categories, one of each first, then texts that a Switch looks for.

    A canvas that asks for a form, or that no person talks to, gets none.
    """
    params: Any = plan.nodes[plan.entry].params
    if getattr(params, "inputs", None) or getattr(params, "mode", "conversational") != "conversational":
        return []
    nodes = [node.params for node in plan.nodes.values()]
    rows = [row for each in nodes for row in _examples(each)]
    texts = [text for column in zip_longest(*rows) for text in column if text]
    texts += [text for each in nodes for text in _searched(each)]
    lines = dict.fromkeys(" ".join(text.split()) for text in texts)
    return [line for line in lines if line and len(line) <= _MAX_CHARS and "{" not in line][:MAX_QUESTIONS]


def _examples(params: Any) -> Iterator[list[str]]:
    categories: Any = getattr(params, "category_description", None) or {}
    for category in categories.values():
        yield list(category.examples)


def _searched(params: Any) -> Iterator[str]:
    for condition in getattr(params, "conditions", None) or ():
        for item in getattr(condition, "items", None) or ():
            value = getattr(item.value, "source", item.value)
            if str(item.cpn_id) == _QUERY and item.operator in _TEXTUAL and isinstance(value, str):
                yield value
