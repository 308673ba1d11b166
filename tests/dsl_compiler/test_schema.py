import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from ragflow_lg.dsl_compiler.schema import canvas_schema
from tests.fakes.canvas import CATALOG, canvas, node, text

SCHEMA = canvas_schema(CATALOG)
PUBLISHED = Path(__file__).parents[2] / "docs" / "canvas.schema.json"


VALIDATOR: Any = Draft202012Validator(SCHEMA)


def is_valid(document: object) -> bool:
    return VALIDATOR.is_valid(document)


def test_the_schema_is_valid_and_equals_the_published_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == SCHEMA


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON value."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        yield entries
        value = list(entries.values())
    if isinstance(value, list):
        for entry in cast("list[Any]", value):
            yield from _objects(entry)


def test_every_default_is_valid() -> None:
    schemas = [schema for schema in _objects(SCHEMA) if "default" in schema and ("type" in schema or "anyOf" in schema)]
    assert len(schemas) > 100
    for schema in schemas:
        validator: Any = Draft202012Validator({**schema, "$defs": SCHEMA.get("$defs", {})})
        assert validator.is_valid(schema["default"]), schema


@pytest.mark.parametrize("content", ["x", ["x"], None])
def test_lenient_shapes_are_valid(content: object) -> None:
    assert is_valid(canvas({"a": node("Message", {"content": content, "unknown": 1})}))
    assert is_valid({"title": {"en": "x"}, "dsl": canvas({"a": text()})})
    assert is_valid({"graph": {"nodes": []}})


def test_invalid_values_are_not_valid() -> None:
    assert not is_valid(canvas({"a": node("ListOperations", {"operations": "explode"})}))
    assert not is_valid(canvas({"a": node("Switch", {"conditions": 3})}))
    assert not is_valid({"components": []})
    assert not is_valid({})
