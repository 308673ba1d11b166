"""What does not fit of a request, in plain words: where, what it should be, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import AnswerError

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

    from ragflow_lg.component.plan import Plan

__all__ = ["MAX_FAULTS", "check_input_names", "describe_fault", "format_location", "list_known_names"]

MAX_FAULTS = 50
"""How many faults of one request are told."""
MAX_CHARS = 64
"""How long a name may be to be held against others."""

_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "string_type": "should be a text",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "int_parsing_size": "is too large a number",
    "dict_type": "should be an object",
    "model_type": "should be an object",
    "model_attributes_type": "should be an object",
    "list_type": "should be a list",
    "string_too_long": "has more than {max_length} characters",
    "string_too_short": "should not be empty",
    "too_short": "should not be empty",
    "too_long": "has more than {max_length} entries",
    "greater_than_equal": "should be at least {ge}",
    "less_than_equal": "should be at most {le}",
    "literal_error": "should be {expected}",
    "value_error": "{error}",
}
"""By pydantic's type of a fault; the names in braces are those of its context."""


_NO_BODY = {
    "missing": "is missing: send a JSON object",
    "model_type": "should be a JSON object, sent as application/json",
    "model_attributes_type": "should be a JSON object, sent as application/json",
}


def describe_fault(fault: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """Say what is wrong with a place; ``known`` are the names that could stand in that of an unknown one.

    >>> wording({"type": "extra_forbidden", "loc": ("body", "query_text"), "msg": ""}, ["query", "inputs"])
    'is unknown; did you mean `query`?'
    """
    kind, place = str(fault["type"]), fault["loc"]
    if kind == "extra_forbidden":
        return f"is unknown{_meant(str(place[-1]), list(known))}"
    if tuple(place) == ("body",) and kind in _NO_BODY:
        return _NO_BODY[kind]
    context: Mapping[str, Any] = fault.get("ctx") or {}
    try:
        return _WORDS[kind].format_map(context)
    except KeyError:
        return str(fault["msg"]).removeprefix("Input ").removeprefix("Value error, ")


def format_location(steps: Sequence[Any]) -> str:
    """Name a place; where a body or an address is read, that itself needs no name.

    >>> place_of(("body", "answers", "x", 0))
    'answers.x.0'
    """
    is_within = len(steps) > 1 and steps[0] in ("body", "query", "path", "header")
    kept = [step for step in (steps[1:] if is_within else steps) if step != "[key]"]
    return ".".join(str(step)[:80] for step in kept)


def list_known_names(route: APIRoute, part: str) -> list[str]:
    """Give the names that the ``body`` or the ``query`` of a route's requests can have."""
    if part == "query":
        return [parameter.alias for parameter in _query_parameters(route)]
    kind: Any = route.body_field.field_info.annotation if route.body_field is not None else None
    parts: Sequence[Any] = getattr(kind, "__args__", (kind,))
    return [name for model in parts for name in getattr(model, "model_fields", ())]


def check_input_names(plan: Plan, inputs: Iterable[str]) -> None:
    """Hold fields against the form of a canvas's Begin; one without a form takes any.

    Raises:
        AnswerError: if it has no field of a name.
    """
    entry = plan.nodes[plan.entry]
    declared: Any = getattr(entry.params, "inputs", None)
    known = list(cast("Mapping[str, Any]", declared or {}))
    unknown = [name for name in inputs if name not in known] if known else []
    if problems := {name: f"Begin's form has no such field{_meant(name, known)}" for name in unknown[:MAX_FAULTS]}:
        raise AnswerError(problems, node=plan.entry)


def _query_parameters(route: APIRoute) -> list[Any]:
    waiting, found = [route.dependant], list[Any]()  # codespell:ignore
    while waiting:
        part = waiting.pop()
        found += part.query_params
        waiting += part.dependencies
    return found


def _meant(name: str, known: list[str]) -> str:
    if len(name) <= MAX_CHARS and (near := get_close_matches(name, known, n=1)):
        return f"; did you mean `{near[0]}`?"
    return f"; there are {', '.join(f'`{each}`' for each in known)}" if known else "; there are none here"
