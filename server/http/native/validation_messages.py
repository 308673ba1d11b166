"""Messages for invalid requests: where the fault is, what is expected, and which name was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import AnswerError

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

    from ragflow_lg.component.plan import Plan

MAX_FAULTS = 50
"""Maximum number of faults that a response lists."""
MAX_CHARS = 64
"""Longest name for which similar names are suggested."""

_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "string_too_long": "has more than {max_length} characters",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "too_long": "has more than {max_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}
"""Messages by pydantic error type. Names in braces refer to the error's context."""


_NO_BODY = {
    "missing": "is missing: send a JSON object",
    "model_type": "must be a JSON object, sent as application/json",
    "model_attributes_type": "must be a JSON object, sent as application/json",
}


def describe_fault(fault: Mapping[str, Any], names: Iterable[str] = ()) -> str:
    """Describe a fault. ``names`` are the names that are valid instead of an unknown name.

    >>> describe_fault({"type": "extra_forbidden", "loc": ("body", "query_text"), "msg": ""}, ["query", "inputs"])
    'is unknown; did you mean `query`?'
    """
    kind, location = str(fault["type"]), fault["loc"]
    if kind == "extra_forbidden":
        return f"is unknown{_suggest(str(location[-1]), list(names))}"
    if tuple(location) == ("body",) and kind in _NO_BODY:
        return _NO_BODY[kind]
    context: Mapping[str, Any] = fault.get("ctx") or {}
    try:
        return _WORDS[kind].format_map(context)
    except KeyError:
        return str(fault["msg"]).removeprefix("Input ").removeprefix("Value error, ")


def format_location(steps: Sequence[Any]) -> str:
    """Format a fault's location. ``body``, ``query``, ``path`` and ``header`` are omitted before a field.

    >>> format_location(("body", "answers", "x", 0))
    'answers.x.0'
    """
    is_within = len(steps) > 1 and steps[0] in ("body", "query", "path", "header")
    parts = [step for step in (steps[1:] if is_within else steps) if step != "[key]"]
    return ".".join(str(step)[:80] for step in parts)


def list_known_names(route: APIRoute, part: str) -> list[str]:
    """List the names of fields that the ``body`` or the ``query`` of a route accepts."""
    if part == "query":
        return [parameter.alias for parameter in _list_query_parameters(route)]
    kind: Any = route.body_field.field_info.annotation if route.body_field is not None else None
    parts: Sequence[Any] = getattr(kind, "__args__", (kind,))
    return [name for model in parts for name in getattr(model, "model_fields", ())]


def check_input_names(plan: Plan, inputs: Iterable[str]) -> None:
    """Check input names against Begin's form. A canvas without a form accepts any names.

    Raises:
        AnswerError: if a name is not a field in the form.
    """
    entry = plan.nodes[plan.entry]
    fields: Any = getattr(entry.params, "inputs", None)
    names = list(cast("Mapping[str, Any]", fields or {}))
    unknown = [name for name in inputs if name not in names] if names else []
    if problems := {name: f"is not a field of Begin's form{_suggest(name, names)}" for name in unknown[:MAX_FAULTS]}:
        raise AnswerError(problems, node=plan.entry)


def _list_query_parameters(route: APIRoute) -> list[Any]:
    pending, parameters = [route.dependant], list[Any]()  # codespell:ignore
    while pending:
        dependant = pending.pop()
        parameters += dependant.query_params
        pending += dependant.dependencies
    return parameters


def _suggest(name: str, names: list[str]) -> str:
    if len(name) <= MAX_CHARS and (matches := get_close_matches(name, names, n=1)):
        return f"; did you mean `{matches[0]}`?"
    return f"; valid names: {', '.join(f'`{each}`' for each in names)}" if names else "; no names are valid here"
