"""FastAPI's document of the routes, with all that it cannot know of those that read their requests themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from ragflow_lg.server.http.document.agent_operations import AGENT_ROUTES
from ragflow_lg.server.http.document.descriptions import Route, describe_refusals
from ragflow_lg.server.http.document.response_shapes import Refusal
from ragflow_lg.server.http.document.turn_operations import TURN_ROUTES
from ragflow_lg.server.http.native.native_events import build_event_schema

__all__ = ["ROUTES", "complete_document"]

ROUTES: dict[str, Route] = {**AGENT_ROUTES, **TURN_ROUTES}
"""By method and path."""

ABOUT = """\
Agents of RAGFlow's canvases. The routes under `/native/v1` are this server's own: HTTP's status says how it went.
Those under `/api/v1` are RAGFlow's: HTTP says 200 for almost everything, and `code` is 0 if it went well. Those under
`/v1` and `/api/v1/agents_openai` are OpenAI's.

Every answer has the header `X-Request-Id`, which stands in the server's log, too; a request may bring its own.
"""
_KEYS = {
    "ApiKey": "An API key of `ragflow-lg keys`.",
    "BetaKey": "A key of `ragflow-lg keys create NAME --beta`, for embedded pages.",
    "MetricsKey": "The `metrics_key` of the settings.",
}
_PATH = {
    "agent_id": "Id of an agent.",
    "session_id": "Id of a session.",
    "task_id": "Id of a session.",
    "run_id": "Id of a run.",
    "message_id": "Id of a run: the `message_id` of its frames.",
    "version_id": "Id of a version.",
    "version": "`draft`, `published`, or the id of a version.",
    "file_id": "Id of a file.",
    "component_id": "Id of a component of the canvas.",
}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_REFS = "#/components/schemas/{model}"


def complete_document(document: dict[str, Any]) -> dict[str, Any]:
    """Put what is known of each route into FastAPI's document; give the same document."""
    schemas, definitions = _schemas()
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(definitions)
    components["securitySchemes"] = {
        name: {"type": "http", "scheme": "bearer", "description": told} for name, told in _KEYS.items()
    }
    document["info"]["description"] = ABOUT
    for method, path, operation in iterate_operations(document):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter.setdefault("description", _PATH[parameter["name"]])
        if described := ROUTES.get(f"{method} {path}"):
            _describe(operation, described, schemas)
        if busy := operation["responses"].get("429"):
            busy["headers"] = _RETRY
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    return document


def iterate_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Go through the operations of a document: method, path and what is said of it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _schemas() -> tuple[dict[Any, Any], dict[str, Any]]:
    """Give the schema of each type that routes take or answer with, and the definitions that these refer to."""
    types: list[Any] = [Refusal]
    for described in ROUTES.values():
        types += [described.answer, described.body, described.frame, *described.more.values()]
        types += [shape for _, shape in describe_refusals(described.surface, described.key).values()]
    wanted = {repr(each): each for each in types}
    adapters: list[tuple[Any, Any, Any]] = [(name, "validation", TypeAdapter(each)) for name, each in wanted.items()]
    made, rest = TypeAdapter[Any].json_schemas(adapters, ref_template=_REFS)
    return {name: schema for (name, _), schema in made.items()}, rest.get("$defs", {})


def _describe(operation: dict[str, Any], described: Route, schemas: dict[Any, Any]) -> None:
    if parameters := [parameter.shown() for parameter in described.parameters]:
        operation["parameters"] = [*operation.get("parameters", ()), *parameters]
    if described.body is not None:
        content = {described.body_kind: {"schema": schemas[repr(described.body)]}}
        operation["requestBody"] = {"required": described.is_body_required, "content": content}
    if described.key:
        names = ["ApiKey", "BetaKey"] if described.key == "AnyKey" else [described.key]
        operation["security"] = [{name: []} for name in names]
    told: dict[str, Any] = {str(described.status): _well(described, schemas)}
    for status, (text, shape) in describe_refusals(described.surface, described.key).items():
        told[str(status)] = _answer(text, schemas[repr(shape)])
    for status, shape in described.more.items():
        if status != described.status:
            told[str(status)] = _answer("It does not go well.", schemas[repr(shape)])
    if described.surface == "webhook":
        told["default"] = {"description": "What the canvas answers with: its status, its text."}
    operation["responses"] = told


def _well(described: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    """Describe the answer of 200, which is also that of most of RAGFlow's refusals."""
    refusal, shape = schemas[repr(Refusal)], schemas[repr(described.answer)]
    content: dict[str, Any] = {}
    if described.surface in ("envelope", "plain", "listing"):
        forms = [_envelope(described, shape), refusal]
        forms += [schemas[repr(other)] for status, other in described.more.items() if status == described.status]
        content["application/json"] = {"schema": {"anyOf": forms}}
    elif described.answer is not None and described.surface != "webhook":
        content["application/json"] = {"schema": shape}
    for kind, text in described.raw.items():
        content[kind] = {"schema": {"type": "string", "description": text}}
    if described.surface == "none" and described.key == "AnyKey":
        content["application/json"] = {"schema": {"description": "A refusal, or a file that is JSON."}}
    if described.surface == "webhook":
        content["application/json"] = {"schema": {"anyOf": [shape, {"description": "What the canvas says."}]}}
    if described.stream:
        schema = build_event_schema(schemas[repr(described.frame)], end="[DONE]")
        content["text/event-stream"] = {"schema": schema, "examples": {"stream": {"value": described.stream}}}
    can_refuse = described.surface in ("envelope", "plain", "listing") or described.key == "AnyKey"
    told = "It went well; or a refusal, by its `code`." if can_refuse else "It went well."
    return {"description": told, "content": content}


def _envelope(described: Route, data: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {"code": {"const": 0}}
    required = ["code"]
    if described.surface != "plain":
        properties["message"] = {"type": "string"}
        required += ["message", "data"]
    properties["data"] = data
    if described.surface == "listing":
        properties["total"] = {"type": "integer", "description": "Rows of all pages."}
        required.append("total")
    return {"type": "object", "properties": properties, "required": required}


def _answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
