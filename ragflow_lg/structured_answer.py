"""Answers that follow a JSON schema: asked for in the prompt, read leniently, checked strictly.

The wording is our own. `SCHEMA_HEAD` begins what `with_schema` appends to a system prompt, so that a demo model or
a test finds it again: everything from there to the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from ragflow_lg.errors import ComponentError
from ragflow_lg.thinking import without_thinking
from ragflow_lg.values import JsonValue

__all__ = [
    "SCHEMA_HEAD",
    "correction",
    "problems_of",
    "read_answer",
    "schema_in",
    "schema_of",
    "schema_problem",
    "with_schema",
]

SCHEMA_HEAD = (
    "Answer with one JSON object and nothing else, no explanation and no code fence. It must match this JSON schema:"
)
"""First words of the instructions that `with_schema` appends."""

_SHOWN_PROBLEMS = 5
_MAX_REFERENCES = 10_000
_MAX_SHOWN_CHARS = 300


def schema_of(outputs: Any) -> dict[str, Any] | None:
    """Give the JSON schema that a component's ``outputs`` declare, or None.

    It stands under ``structured``, there alone or below ``schema``, ``structured`` or ``value``. A schema without
    properties is none. Source: RAGFlow's ``agent/component/llm.py`` and ``agent_with_tools.py``.
    """
    declared = _as_map(_as_map(outputs).get("structured"))
    candidates = (declared, *(_as_map(declared.get(name)) for name in ("schema", "structured", "value")))
    return next((schema for schema in candidates if _as_map(schema.get("properties"))), None)


def _as_map(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def with_schema(system: str, schema: Mapping[str, Any]) -> str:
    """Append the request for an answer of this schema to a system prompt."""
    return f"{system}\n{SCHEMA_HEAD}\n{json.dumps(schema, ensure_ascii=False)}"


def schema_in(system: str) -> dict[str, Any] | None:
    """Find the schema that `with_schema` appended, or None."""
    _, found, text = system.rpartition(SCHEMA_HEAD + "\n")
    if not found:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def correction(problems: list[str]) -> str:
    """Give the user message that asks for another answer."""
    listed = "\n".join(f"- {problem}" for problem in problems)
    return f"This answer cannot be used:\n{listed}\nAnswer again with one JSON object that matches the schema."


def read_answer(answer: str) -> JsonValue:
    """Read an answer as JSON, mending it where it can be: thinking, code fences, missing quotes and brackets."""
    from json_repair import loads

    text = without_thinking(answer)
    _, fenced, inner = text.partition("```json")
    text = (inner if fenced else text).strip().removesuffix("```")
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    try:
        return cast("JsonValue", loads(text))
    except (ValueError, RecursionError):
        return None


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Say what is wrong with a schema itself, or ``""``."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = ".".join(str(segment) for segment in error.absolute_path)
        return f"{place}: {_shortened(error.message)}" if place else _shortened(error.message)
    except RecursionError:
        return "it is nested too deep"
    return ""


def problems_of(value: JsonValue, schema: Mapping[str, Any]) -> list[str]:
    """Say in what a value differs from a schema; an empty list means that it matches.

    Against a schema that is not valid itself, only whether the value is an object is checked. Patterns are not
    checked: a regular expression may take for ever.
    """
    if not isinstance(value, dict):
        return ["It is not a JSON object."]
    if schema_problem(schema):
        return []
    try:
        return list(islice(_differences(value, schema), _SHOWN_PROBLEMS))
    except RecursionError:
        raise ComponentError("The schema in outputs.structured refers to itself without end.") from None


def _differences(value: JsonValue, schema: Mapping[str, Any]) -> Iterator[str]:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    followed = 0
    follow = Draft202012Validator.VALIDATORS["$ref"]
    extra = Draft202012Validator.VALIDATORS["additionalProperties"]

    def reference(validator: Any, target: Any, instance: Any, of: Any) -> Iterator[Any]:
        nonlocal followed
        followed += 1
        if followed > _MAX_REFERENCES:
            raise RecursionError
        yield from follow(validator, target, instance, of) or ()

    def additional(validator: Any, target: Any, instance: Any, of: Any) -> Iterator[Any]:
        if "patternProperties" not in of:
            yield from extra(validator, target, instance, of) or ()

    def nothing(validator: Any, target: Any, instance: Any, of: Any) -> Iterator[Any]:
        yield from ()

    keywords = {
        "$ref": reference,
        "$dynamicRef": reference,
        "additionalProperties": additional,
        "pattern": nothing,
        "patternProperties": nothing,
        "unevaluatedProperties": nothing,
    }
    extend = cast("Any", validators).extend
    # An empty registry: a reference to another document is an error, never a request.
    checker = extend(Draft202012Validator, keywords)(schema, registry=cast("Any", Registry)())
    try:
        for error in checker.iter_errors(value):
            place = ".".join(str(segment) for segment in error.absolute_path)
            yield f"{place}: {_shortened(error.message)}" if place else _shortened(error.message)
    except Unresolvable as error:
        raise ComponentError(f"The schema in outputs.structured refers to what it does not hold: {error}") from None


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"
