"""What written-out nodes compute: texts, lists, conditions and answers to forms, as RAGFlow's components do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.thinking import strip_tags
from ragflow_lg.base.values import JsonValue, join_texts, to_text
from ragflow_lg.components.user_fill_up import join_tips
from ragflow_lg.dsl.conditions import OPERATORS
from ragflow_lg.dsl.downloads import drop_duplicates, show_value
from ragflow_lg.dsl.forms import declared_options, read_value, unwrap_submission
from ragflow_lg.ejected.turn_state import Outputs, StateUpdate, output


def tip_text(*parts: JsonValue) -> str:
    """Return the text of a form; the items of a list are joined by commas, and null is shown as such.

    >>> tip_text("Sizes: ", [41, 42], ", ", None)
    'Sizes: 41,42, null'
    """
    return join_tips(parts)


def read_answer(fields: Mapping[str, Any], answer: Mapping[str, Any]) -> Outputs:
    """Return the values of a form: those of its fields, and submitted ones that it does not declare.

    >>> read_answer({"size": {"type": "integer"}}, {"size": {"value": 42}})
    {'size': 42}
    """
    values: Outputs = {}
    for name in dict.fromkeys((*fields, *answer)):
        declared = as_map(fields.get(name))
        values[name] = read_value(*unwrap_submission(answer.get(name), declared), declared_options(declared))
    return values


def join_text(*parts: JsonValue) -> str:
    """Return the parts as one text; lists and maps are written as JSON.

    >>> join_text("n = ", 2, [1])
    'n = 2[1]'
    """
    return join_texts(part if isinstance(part, str) else to_text(part) for part in parts)


def show(*parts: JsonValue, **more: JsonValue) -> Outputs:
    """Return what a Message shows: ``content``, and the files among the parts as ``downloads``.

    ``more`` are further outputs.

    >>> show("Size ", 42)
    {'content': 'Size 42', 'downloads': []}
    """
    shown = [show_value(part) for part in parts]
    content = "".join(strip_tags(value.text) for value in shown)
    downloads = drop_duplicates([file for value in shown for file in value.downloads])
    return {**more, "content": content, "downloads": downloads}


def compare(value: JsonValue, operator: str, literal: JsonValue) -> bool:
    """Return whether a condition of a Switch is met.

    >>> compare("A red shirt", "contains", "RED"), compare("10", "≥", 9)
    (True, True)
    """
    return OPERATORS[operator](value, literal)


def join_items(value: JsonValue, delimiter: str) -> str:
    """Return a list as text with a delimiter between the items, and any other value as text.

    >>> join_items(["a", 1], "-"), join_items("b", "-")
    ('a-1', 'b')
    """
    if not isinstance(value, list) or not delimiter:
        return to_text(value)
    return delimiter.join(to_text(item) for item in cast("list[Any]", value))


def split_text(value: JsonValue, delimiters: Sequence[str]) -> list[str]:
    """Return the pieces of a text between delimiters.

    Raises:
        ComponentError: if the value is not text.

    >>> split_text("a,b;c", [",", ";"])
    ['a', 'b', 'c']
    """
    text = value or ""
    if not isinstance(text, str):
        raise ComponentError(f"The input variable must be a string, not {to_text(text)[:60]!r}.")
    return re.split("|".join(map(re.escape, delimiters)), text) if delimiters else [text]


def first_value(*values: JsonValue) -> JsonValue:
    """Return the first value that is not null, ``""`` or an empty list or map; null if there is none.

    >>> first_value("", [], 0)
    0
    """
    return next((value for value in values if value is not None and value not in ("", [], {})), None)


def as_list(value: JsonValue, problem: str) -> list[Any]:
    """Return a value that has to be a list.

    Raises:
        ComponentError: if it is none. ``problem`` is the message, in which ``{type}`` stands for its type.

    >>> as_list([1], "This is no list.")
    [1]
    """
    if not isinstance(value, list):
        raise ComponentError(problem.replace("{type}", _type_name(value)))
    return cast("list[Any]", value)


def _type_name(value: JsonValue) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return "map" if isinstance(value, dict) else "text" if isinstance(value, str) else "number"


def collected(state: Mapping[str, Any], node: str, name: str, *path: str, default: JsonValue = "") -> Any:
    """Return an output of a node for a list that an Iteration collects; ``default`` if the node has failed."""
    outputs: Outputs = state.get(node) or {}
    if outputs.get("_ERROR"):
        return default
    return output(state, node, name, *path, default=default)


def join_updates(first: StateUpdate, second: StateUpdate) -> StateUpdate:
    """Return two updates as one; the second one counts where both change the same.

    >>> join_updates({"turn": {"seed": 1}, "a": {}}, {"turn": {"last": []}})
    {'turn': {'seed': 1, 'last': []}, 'a': {}}
    """
    both = {key: {**first[key], **second[key]} for key in ("turn", "variables") if key in first and key in second}
    return {**first, **second, **both}
