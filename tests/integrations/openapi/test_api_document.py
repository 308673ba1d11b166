"""OpenAPI documents as tools: schemas of 3.0 and 3.1, and hostile documents."""

import json
import time
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.openapi.api_document import (
    MAX_OPERATIONS,
    MAX_SCHEMA_CHARS,
    Operation,
    Scheme,
    read_document,
    restore_operations,
)
from ragflow_lg.models.structured_answer import find_problems
from tests.harness.rows import each_row


def read(document: dict[str, Any], version: str = "3.1.0") -> tuple[dict[str, Operation], list[str]]:
    text = json.dumps({"openapi": version, **document})
    operations, problems = json.loads(json.dumps(read_document(text)))
    return restore_operations(operations), problems


def one(operation: dict[str, Any], components: Any = None, version: str = "3.1.0", **more: Any) -> Operation:
    document = {
        "paths": {"/x/{id}": {"post": {"operationId": "x", **operation}}},
        "components": components or {},
        **more,
    }
    operations, problems = read(document, version)
    assert problems == []
    return operations["x"]


ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}


def body_of(schema: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"parameters": [ID], "requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


def test_cycles_of_references_stay_references() -> None:
    schemas = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}}
    operation = one(body_of({"$ref": "#/components/schemas/Node"}), {"schemas": schemas})
    assert operation.schema["properties"]["body"] == {"$ref": "#/$defs/Node"}
    arguments: Any = {"id": 1, "body": {"next": {"next": {"next": 3}}}}
    assert find_problems(arguments, operation.schema) != []
    assert find_problems({"id": 1, "body": {"next": {"next": {}}}}, operation.schema) == []


def test_a_name_in_properties_or_in_a_default_is_no_keyword() -> None:
    schema = {"properties": {"example": {"type": "string"}, "nullable": {"type": "boolean"}}, "default": {"$ref": "x"}}
    assert one(body_of(schema)).schema["properties"]["body"] == schema


def test_keywords_of_3_0_become_those_of_json_schema() -> None:
    schema = {"type": "integer", "nullable": True, "minimum": 1, "exclusiveMinimum": True, "example": 2}
    expected = {"anyOf": [{"type": "integer", "exclusiveMinimum": 1}, {"type": "null"}]}
    operation = one(body_of(schema), version="3.0.3")
    properties = operation.schema["properties"]["body"]
    assert find_problems({"id": 1, "body": None}, operation.schema) == []
    assert find_problems({"id": 1, "body": 1}, operation.schema) != []
    assert properties["anyOf"][1] == expected["anyOf"][1]


def test_parameters_of_the_path_are_inherited_replaced_and_renamed() -> None:
    other = {"name": "id", "in": "query", "schema": {"type": "string"}, "description": "The other one."}
    path = {
        "parameters": [{**ID, "schema": {"type": "string"}}, {"$ref": "#/components/parameters/Auth"}],
        "get": {"parameters": [ID, other], "summary": "Get it", "description": "Get it"},
    }
    auth = {"name": "Authorization", "in": "header"}
    operations, _ = read({"paths": {"/x/{id}": path}, "components": {"parameters": {"Auth": auth}}})
    (operation,) = operations.values()
    assert operation.name == "get_x_id"
    assert operation.description == "Get it"
    described = {"type": "string", "description": "The other one."}
    assert operation.schema["properties"] == {"id": {"type": "integer"}, "id_query": described}
    assert operation.schema["required"] == ["id"]


@each_row(
    ("security", "expected"),
    [
        ([{"basic": []}], (Scheme("header", "Authorization", "Basic"),)),
        ([{"digest": []}, {"oauth": ["read"]}], (Scheme("header", "Authorization", "Bearer"),)),
        ([{}, {"key": []}], (Scheme("query", "k"),)),
        ([{"missing": []}], ()),
        ([], ()),
    ],
)
def test_the_first_alternative_that_needs_one_key_counts(security: Any, expected: Any) -> None:
    schemes = {
        "basic": {"type": "http", "scheme": "Basic"},
        "digest": {"type": "http", "scheme": "digest"},
        "oauth": {"type": "oauth2"},
        "key": {"type": "apiKey", "in": "query", "name": "k"},
    }
    components = {"securitySchemes": schemes}
    assert one({"parameters": [ID], "security": security}, components, security=[{"key": []}]).schemes == expected


def test_variables_of_servers_have_their_defaults() -> None:
    server = {"url": "https://{region}.example/v{n}", "variables": {"region": {"default": "eu"}, "n": {"default": 2}}}
    assert one({"parameters": [ID]}, servers=[server]).server == "https://eu.example/v2"


def nested(levels: int) -> Any:
    return {"type": "array", "items": nested(levels - 1)} if levels else {"type": "string"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "remote": (body_of({"$ref": "https://attacker.example/schema.json"}), "refers to another document"),
    "file": (body_of({"$ref": "file:///etc/passwd"}), "refers to another document"),
    "missing": (body_of({"$ref": "#/components/schemas/None"}), "something that is missing"),
    "endless": ({"parameters": [{"$ref": "#/components/parameters/P"}]}, "leads to itself"),
    "deep": (body_of(nested(70)), "too large"),
    "wide": (body_of({"anyOf": [{"type": "string"}] * 6_000}), "too large"),
    "files": (body_of({"type": "object"}, "multipart/form-data"), "not sent: multipart/form-data"),
    "path": ({}, "'id' is not declared"),
    "place": ({"parameters": [ID, {"name": "x", "in": "moon"}]}, "no name or no place"),
}


@each_row("name", list(REFUSED))
def test_an_operation_that_cannot_be_called_is_left_out_and_the_reason_named(name: str) -> None:
    operation, reason = REFUSED[name]
    endless = {"P": {"$ref": "#/components/parameters/P"}}
    paths = {"/x/{id}": {"post": operation}, "/y": {"get": {"operationId": "y"}}}
    operations, (problem,) = read({"paths": paths, "components": {"parameters": endless}})
    assert [*operations] == ["y"]
    assert reason in problem


def test_a_large_schema_is_offered_without_its_details() -> None:
    schema = {"type": "object", "description": "x" * MAX_SCHEMA_CHARS}
    operation = one(body_of(schema))
    assert operation.schema["properties"] == {"id": {}, "body": {}}


def test_documents_with_many_operations_take_no_time() -> None:
    paths = {f"/{n}": {"get": {"operationId": f"o{n % 1500}"}} for n in range(20_000)}
    began = time.process_time()
    operations, problems = read({"paths": paths})
    assert time.process_time() - began < 5
    assert len(operations) == MAX_OPERATIONS
    assert problems == [f"Only {MAX_OPERATIONS:,} operations are offered."]


@each_row(
    ("text", "reason"),
    [
        ("{", "JSON of the document"),
        ("[]", "is no map"),
        ('{"swagger": "2.0"}', "no OpenAPI document of version 3.0 or 3.1"),
        ("[" * 100_000, "JSON of the document"),
        ("a: [", "neither JSON nor YAML"),
        ("openapi: 3.0.0\na: &a [1]\nb: [*a, *a]\n", "has aliases"),
        ("a: " + "[" * 5_000, "neither JSON nor YAML"),
        ("!!python/object/apply:os.system [id]", "neither JSON nor YAML"),
        ('{"openapi": "3.1.0", "paths": {}, "x": "' + "x" * 9_000_000 + '"}', "more than 8,388,608"),
    ],
)
def test_what_is_no_document_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ServiceError, match=reason):
        read_document(text)


def test_yaml_is_read() -> None:
    text = "openapi: 3.0.0\npaths:\n  /x:\n    get: {operationId: x, responses: {200: {description: 2020-01-01}}}\n"
    assert [*restore_operations(read_document(text)[0])] == ["x"]
