"""Answers that follow a JSON schema: requested in the prompt, parsed leniently, validated strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.extras import require
from ragflow_lg.base.lenient_values import as_map, is_deeper
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.models.engine_prompts import fill_prompt
from ragflow_lg.models.prompt_texts import PROMPTS

_DEFAULT = PROMPTS["structured_output"].text
_CORRECTION = PROMPTS["structured_output_correction"].text
_SHOWN_PROBLEMS = 5
_MAX_SCHEMA_DEPTH = 40
_MAX_APPLIED = 100_000
_MAX_APPLIED_DEPTH = 60
_MAX_REPAIRED_CHARS = 50_000
_UNCHECKED = ("pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties")
"""Keywords that run the schema's regular expressions or need special reference resolution."""
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_MAX_SHOWN_CHARS = 300
_MAX_SMALL_CHARS = 1_000
"""Length of the answers that are repaired in the event loop, which takes up to ten milliseconds."""


def find_schema(outputs: Any) -> dict[str, Any] | None:
    """Return the JSON schema that a component's ``outputs`` declares, or None.

    It is in ``structured``, directly or under ``schema``, ``structured`` or ``value``. Schemas without properties are
    ignored. Source: RAGFlow's ``agent/component/llm.py`` and ``agent_with_tools.py``.
    """
    declared = as_map(as_map(outputs).get("structured"))
    candidates = (declared, *(as_map(declared.get(name)) for name in ("schema", "structured", "value")))
    return next((dict(schema) for schema in candidates if as_map(schema.get("properties"))), None)


def schema_of_keys(keys: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of an object with these keys, each with the type that it names, if any; None without keys.

    Keys that are a schema themselves are returned unchanged.
    """
    if not keys:
        return None
    if as_map(keys.get("properties")):
        return dict(keys)
    properties = {key: {"type": kind} if kind in _TYPES else {} for key, kind in keys.items()}
    return {"type": "object", "properties": properties, "required": list(keys)}


def append_schema(system: str, schema: Mapping[str, Any], prompt: str = _DEFAULT) -> str:
    """Append a request for an answer with this schema to a system prompt. ``prompt`` may be the deployment's text."""
    return f"{system}\n{fill_prompt(prompt, {'schema': json.dumps(schema, ensure_ascii=False)})}"


def extract_schema(system: str) -> dict[str, Any] | None:
    """Return the schema that `append_schema` appended with the text of a style, or None."""
    for prompt in (_DEFAULT, PROMPTS["structured_output"].ragflow):
        _, separator, text = system.rpartition(prompt.removesuffix("{schema}"))
        if separator:
            with suppress(ValueError, RecursionError):
                return json.loads(text)
    return None


def build_correction(problems: list[str], prompt: str = _CORRECTION) -> str:
    """Return the user message that requests a corrected answer."""
    return fill_prompt(prompt, {"problems": "\n".join(f"- {problem}" for problem in problems)})


def is_whole_json(answer: str) -> bool:
    """Return whether an answer is JSON without any repair. Some servers fill the rest of a limit with blanks."""
    text = _json_text(answer)
    if len(text) > _MAX_REPAIRED_CHARS:
        return False
    with suppress(ValueError, RecursionError):
        json.loads(text)
        return True
    return False


def _json_text(answer: str) -> str:
    text = strip_thinking(answer)
    _, fenced, inner = text.partition("```json")
    return (inner if fenced else text).strip().removesuffix("```")


@worker_task("Reading the answer", small_size=_MAX_SMALL_CHARS)
def read_answer(answer: str) -> JsonValue:
    """Parse an answer as JSON, repairing it if possible: thinking, code fences, missing quotes and missing brackets.

    Very long answers are not repaired.
    """
    from json_repair import loads

    text = _json_text(answer)
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    with suppress(ValueError, RecursionError):
        return cast("JsonValue", loads(text)) if len(text) <= _MAX_REPAIRED_CHARS else None
    return None


def find_schema_problem(schema: Mapping[str, Any]) -> str:
    """Return the problem with the schema itself, or ``""``."""
    require("schemas", "A structured answer")
    from jsonschema import Draft202012Validator, SchemaError

    if is_deeper(schema, _MAX_SCHEMA_DEPTH):
        return f"it is nested deeper than {_MAX_SCHEMA_DEPTH} levels"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return _describe_error(error)
    return ""


@worker_task("Checking the answer", small_size=_MAX_SMALL_CHARS)
def find_problems(
    value: JsonValue, schema: Mapping[str, Any], where: str = "The schema in outputs.structured"
) -> list[str]:
    """Return how a value differs from a schema; an empty list means that it matches. ``where`` starts error messages.

    If the schema itself is invalid, the only check is that the value is an object. Patterns are not checked, because a
    regular expression may run forever.

    Raises:
        ComponentError: if the schema refers to something outside itself, or refers to itself endlessly.
    """
    require("schemas", "A structured answer")
    from referencing.exceptions import Unresolvable

    if not isinstance(value, dict):
        return ["It is not a JSON object."]
    if find_schema_problem(schema):
        return []
    try:
        return [_describe_error(error) for error in islice(_checker(schema, where).iter_errors(value), _SHOWN_PROBLEMS)]
    except Unresolvable as error:
        raise ComponentError(f"{where} refers to something outside itself: {error}") from None
    except (AttributeError, TypeError):
        raise ComponentError(f"{where} refers to one of its parts that is not a schema.") from None


@worker_task("Reading the answer", small_size=_MAX_SMALL_CHARS)
def read_and_check(answer: str, schema: Mapping[str, Any]) -> list[Any]:
    """Return the object in an answer (``{}`` if it is not one), and its differences from the schema."""
    value = read_answer(answer)
    return [value if isinstance(value, dict) else {}, find_problems(value, schema)]


def _checker(schema: Mapping[str, Any], where: str) -> Any:
    """Return a validator that does a bounded amount of work for any schema."""
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    budget = _Budget(where)
    rules: dict[str, Any] = dict(Draft202012Validator.VALIDATORS)
    rules["additionalProperties"] = _without_patterns(rules["additionalProperties"])
    rules.update(dict.fromkeys(_UNCHECKED, _skip))
    extend = cast("Any", validators).extend
    checker = extend(Draft202012Validator, {name: budget.bound(rule) for name, rule in rules.items()})
    # With an empty registry, a reference to another document is an error, never a request.
    return checker(schema, registry=cast("Any", Registry)())


class _Budget:
    """Counts how often a schema's keywords are applied, both overall and nested."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.applied = 0
        self.depth = 0

    def bound(self, rule: Any) -> Any:
        def checked(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self.applied += 1
            self.depth += 1
            # Well below Python's recursion limit; reaching it would crash the native parts of jsonschema.
            if self.applied > _MAX_APPLIED or self.depth > _MAX_APPLIED_DEPTH:
                raise ComponentError(f"{self.where} is too deep, or refers to itself endlessly.")
            try:
                yield from rule(validator, target, instance, schema) or ()
            finally:
                self.depth -= 1

        return checked


def _without_patterns(rule: Any) -> Any:
    """Skip ``additionalProperties`` next to ``patternProperties``, because it would run their patterns."""

    def checked(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from rule(validator, target, instance, schema) or ()

    return checked


def _skip(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[Any]:
    yield from ()


def _describe_error(error: Any) -> str:
    place = ".".join(str(segment) for segment in error.absolute_path)
    text = _truncate(str(error.message))
    return f"{place}: {text}" if place else text


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"
