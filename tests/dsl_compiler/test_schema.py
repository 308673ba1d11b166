import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from ragflow_lg.dsl_compiler.schema import canvas_schema
from tests.fakes.canvas import CATALOG, canvas, node, text

PUBLISHED = Path(__file__).parents[2] / "docs" / "canvas.schema.json"


@cache
def schema() -> dict[str, Any]:
    return canvas_schema(CATALOG)


@cache
def validator() -> Any:
    return Draft202012Validator(schema())


def is_valid(document: object) -> bool:
    return validator().is_valid(document)


def test_the_schema_is_valid_and_equals_the_published_one() -> None:
    Draft202012Validator.check_schema(schema())
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == schema()


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
    schemas = [each for each in _objects(schema()) if "default" in each and ("type" in each or "anyOf" in each)]
    assert len(schemas) > 100
    for each in schemas:
        single: Any = Draft202012Validator({**each, "$defs": schema().get("$defs", {})})
        assert single.is_valid(each["default"]), each


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
