"""OpenAPI documents as tools: schemas of 3.0 and 3.1, and hostile documents."""

import json
import time
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.openapi.api_document import (
    MAX_OPERATION_CHARS,
    MAX_OPERATIONS,
    MAX_SCHEMA_CHARS,
    Operation,
    Scheme,
    read_document,
    restore_operations,
)
from ragflow_lg.models.structured_answer import find_problems
from tests.harness.rows import each_row


def read(document: dict[str, Any], version: str = "3.1.0", *own: Any) -> tuple[dict[str, Operation], list[str]]:
    text = json.dumps({"openapi": version, **document})
    operations, problems = json.loads(json.dumps(read_document(text, *own)))
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
        ([{"basic": []}], Scheme("header", "Authorization", "Basic")),
        ([{"digest": []}, {"oauth": ["read"]}], Scheme("header", "Authorization", "Bearer")),
        ([{}, {"key": []}], Scheme("query", "k")),
        ([{"basic": [], "key": []}, {"key": []}], Scheme("query", "k")),
        ([{"basic": [], "key": []}], None),
        ([{"missing": []}], None),
        ([], None),
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
    document: dict[str, Any] = {
        "paths": {"/x": {"get": {"security": security}}},
        "components": components,
        "security": [{"key": []}],
    }
    assert read(document)[0]["get_x"].scheme == expected
    problems = [] if expected else ["The key is not sent with get_x: the document names no scheme that is one key."]
    assert read(document, "3.1.0", None, (), True)[1] == problems


def test_what_the_settings_send_is_no_argument() -> None:
    places = [("header", "x-tenant"), ("header", "x-key"), ("query", "X-Key"), ("query", "x-tenant")]
    parameters = [{"name": name, "in": place, "required": True, "schema": True} for place, name in places]
    document: dict[str, Any] = {
        "paths": {"/x": {"parameters": parameters, "get": {"security": [{"key": []}]}}},
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    }
    operation = read(document, "3.1.0", None, ["X-Tenant"], True)[0]["get_x"]
    assert [(each.place, each.name) for each in operation.parameters] == places[2:]
    assert operation.schema["properties"] == {"X-Key": {}, "x-tenant": {}}
    assert operation.schema["required"] == ["X-Key", "x-tenant"]


def test_variables_of_servers_have_their_defaults() -> None:
    server = {"url": "https://{region}.example/v{n}", "variables": {"region": {"default": "eu"}, "n": {"default": 2}}}
    assert one({"parameters": [ID]}, servers=[server]).server == "https://eu.example/v2"


def test_variables_of_servers_do_not_multiply() -> None:
    variables = {f"v{n}": {"default": f"{{v{n + 1}}}" * 9} for n in range(9)}
    _, problems = read({"paths": {"/x": {"get": {}}}, "servers": [{"url": "{v0}", "variables": variables}]})
    assert problems == ["get_x: its address is too long."]


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
    "text": ({"parameters": [{**ID, "schema": "integer", "description": "x"}]}, "no map"),
    "false": (body_of(False), "no map"),
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
    assert problems == ["Only 1,000 operations are offered: the others are too many or too large."]


def test_operations_that_share_large_schemas_take_little_memory() -> None:
    schemas = {f"S{n}": {"type": "object", "description": "x" * 400} for n in range(100)}
    shared: Any = {"anyOf": [{"$ref": f"#/components/schemas/S{n}"} for n in range(100)]}
    paths = {f"/{n}/{{id}}": {"post": {"operationId": f"o{n}", **body_of(shared)}} for n in range(500)}
    document = {"paths": paths, "components": {"schemas": schemas}}
    operations, (problem,) = read(document)
    assert 100 < len(operations) < 500
    assert "are offered: the others are too many or too large" in problem
    assert len(json.dumps([*operations.values()])) < 1.1 * MAX_OPERATION_CHARS
    operations, problems = read(document, "3.1.0", ["o499"])
    assert ([*operations], problems) == (["o499"], [])


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


@each_row(
    ("scalar", "expected"),
    [
        ("on", "on"),
        ("NO", "NO"),
        ("True", "True"),
        ("012", "012"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        (".inf", ".inf"),
        ("true", True),
        ("-12", -12),
        ("1.5e3", 1500.0),
        ("null", None),
        ("", None),
        ("'1'", "1"),
    ],
)
def test_scalars_in_yaml_are_those_of_json(scalar: str, expected: Any) -> None:
    text = f"""
openapi: 3.0.0
paths:
  /x:
    get:
      operationId: x
      parameters: [{{name: a, in: query, schema: {{properties: {{on: {{enum: [y, no]}}}}, default: {scalar} }} }}]
"""
    schema = restore_operations(read_document(text)[0])["x"].schema["properties"]["a"]
    assert schema == {"properties": {"on": {"enum": ["y", "no"]}}, "default": expected}
    assert type(schema["default"]) is type(expected)
