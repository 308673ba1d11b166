"""Structured answers: asking a model for JSON by prompt, reading and checking what comes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.values import JsonValue, to_json

__all__ = ["INSTRUCTIONS", "feedback", "instructions", "parse_answer", "schema_of"]

INSTRUCTIONS = "Answer with one JSON value and nothing else"
"""How the instructions begin; whoever compares requests can recognise them by it."""

MAX_ANSWER_CHARS = 500_000
_FENCE = re.compile(r"^.*?```(?:json)?\s*\n?|\n?```\s*$", re.DOTALL)


def schema_of(outputs: Any) -> dict[str, Any] | None:
    """Give the JSON schema of a structured output, in whichever form an editor wrote it; None if there is none.

    It stands in ``outputs.structured`` itself, or below it in ``value``, ``schema`` or ``structured``.
    """
    held = cast("dict[str, Any]", outputs).get("structured") if isinstance(outputs, dict) else None
    for _ in range(4):
        if not isinstance(held, dict):
            return None
        found = cast("dict[str, Any]", held)
        if isinstance(found.get("properties"), dict) and found["properties"]:
            return found
        held = next((found[k] for k in ("schema", "structured", "value") if isinstance(found.get(k), dict)), None)
    return None


def instructions(schema: Mapping[str, Any]) -> str:
    """Word the request for an answer that fits the schema."""
    text = json.dumps(schema, ensure_ascii=False, indent=2)
    return f"\n{INSTRUCTIONS}: no explanation, no code fence. It has to satisfy this JSON Schema:\n{text}"


def feedback(answer: str, problem: str) -> list[dict[str, str]]:
    """Give the messages that ask again after an answer that does not fit."""
    wish = f"That does not satisfy the schema: {problem}. {INSTRUCTIONS}."
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": wish}]


def parse_answer(answer: str, schema: Mapping[str, Any]) -> tuple[JsonValue, str]:
    """Read an answer, mending small faults of its JSON; give the value and what is wrong with it, ``""`` if nothing."""
    text = answer.rpartition("</think>")[2][:MAX_ANSWER_CHARS].strip()
    text = _FENCE.sub("", text) if "```" in text else text
    if not any(char in text for char in "{["):
        return None, "it holds no JSON object"
    value = _loads(text)
    if value is None or value == "":
        return None, "it is not JSON"
    return value, _violation(value, schema)


def _loads(text: str) -> JsonValue:
    try:
        return to_json(json.loads(text))
    except (ValueError, RecursionError):
        from json_repair import repair_json

    try:
        return to_json(repair_json(text, return_objects=True))
    except (ValueError, RecursionError):
        return None


def _violation(value: JsonValue, schema: Mapping[str, Any]) -> str:
    from jsonschema import SchemaError, ValidationError
    from jsonschema.validators import validator_for

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
        kind(schema).validate(value)
    except ValidationError as error:
        return f"at {error.json_path}: {error.message[:300]}"
    except (SchemaError, RecursionError):
        return ""  # the canvas's own schema is no JSON Schema; nothing can be held against the answer
    return ""
