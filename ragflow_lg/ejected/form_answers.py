"""Forms of written-out nodes: the text above the fields, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.components.user_fill_up import join_tips
from ragflow_lg.dsl.forms import read_value, unwrap_submission
from ragflow_lg.ejected.turn_state import Outputs


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
        declared = fields.get(name)
        declaration = cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else {}
        values[name] = read_value(*unwrap_submission(answer.get(name), declaration))
    return values
