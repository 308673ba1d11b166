"""FastAPI's OpenAPI document, completed for routes that parse their own requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from fastapi.dependencies.models import Dependant
from msgspec.structs import replace
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from ragflow_lg.server.http.native.native_events import build_event_schema
from ragflow_lg.server.http.native.problem_details import STATUS_DESCRIPTIONS, ProblemAnswer
from ragflow_lg.server.http.openai.openai_schemas import ChatError
from ragflow_lg.server.http.shared.auth import authenticate, authenticate_any, authenticate_beta
from ragflow_lg.server.http.shared.described_routes import DescribedRoute, Description, Key
from ragflow_lg.server.http.shared.route_schemas import LazyModel, NotHere, Refusal
from ragflow_lg.server.http.webhooks.webhook_routes import WebhookRefusal


class Greeting(LazyModel):
    """Name and version of the server, and links."""

    name: Literal["ragflow-lg"]
    version: str
    openapi: Literal["/openapi.json"]
    health: Literal["/health"]


class Health(LazyModel):
    """The process is alive."""

    status: Literal["ok"]


class Readiness(LazyModel):
    """Whether the server can handle requests."""

    status: Literal["ready", "starting", "stopping", "failing"]
    parts: dict[str, Literal["ok", "failed", "timed out", "late", "none"]]


OPERATIONAL_ROUTES = {
    "GET /": Description(surface="none", answer=Greeting),
    "GET /health": Description(surface="none", answer=Health),
    "GET /ready": Description(surface="none", answer=Readiness, more={503: Readiness}),
    "GET /metrics": Description(
        surface="none", key="MetricsKey", raw={"text/plain": "Metrics in Prometheus's text format."}
    ),
}


_STATUS_DESCRIPTIONS = STATUS_DESCRIPTIONS | {
    400: "The request is malformed or invalid.",
    408: "The body did not arrive in time.",
    409: "The session is busy, or its canvas has changed.",
    422: "The body is nested too deeply.",
    429: "Too many requests; retry after `Retry-After` seconds.",
    431: "The headers and the address are too large.",
    500: "The server or the run failed.",
}
_COMMON_STATUSES = (404, 408, 413, 429, 431, 500)


def describe_refusals(route: Description) -> dict[int, tuple[str, Any]]:
    """Return a route's refusal statuses, each with a description and a type."""
    statuses = {*_COMMON_STATUSES, 401} if route.key else {*_COMMON_STATUSES}
    shape: Any = Refusal
    if route.surface == "openai":
        shape, statuses = ChatError, statuses | {400, 409, 422}
    elif route.surface == "webhook":
        statuses |= {400}
    refusals: dict[int, tuple[str, Any]] = {
        status: (_STATUS_DESCRIPTIONS[status], shape) for status in sorted(statuses)
    }
    if route.surface != "openai":
        refusals[404] = ("No such path.", NotHere)
    if route.surface == "webhook":
        refusals[400] = ("The call is refused, or the turn failed.", WebhookRefusal)
    return refusals


ABOUT = """\
Agents built from RAGFlow canvases. Routes under `/native/v1` are the native API and use HTTP statuses.
Routes under `/api/v1` are RAGFlow's API: nearly all responses have the HTTP status 200, and `code` is 0 on success.
Routes under `/v1` and `/api/v1/agents_openai` are OpenAI-compatible.

Every response has the header `X-Request-Id`, which also appears in the server log. A request may set it.
"""
_KEYS = {
    "ApiKey": "An API key, created by `ragflow-lg keys create`.",
    "BetaKey": "A key for embedded pages, created by `POST /native/v1/keys` or `ragflow-lg keys create NAME --beta`.",
    "MetricsKey": "The `metrics_key` of the settings.",
}
_PATH = {
    "memory_id": "Id of the memory in the settings.",
    "key": "Key of the entry.",
    "agent_id": "Id of the agent.",
    "session_id": "Id of the session.",
    "task_id": "Id of the session.",
    "run_id": "Id of the run.",
    "message_id": "Id of the run: the `message_id` of its frames.",
    "version_id": "Id of the version.",
    "version": "`draft`, `published`, or the id of a version.",
    "file_id": "Id of the file.",
    "file_name": "Id of the file, and its extension.",
    "key_id": "Id of the key.",
    "schedule_id": "Id of the schedule.",
    "component_id": "Id of the component in the canvas.",
    "tenant_id": "Id of the tenant.",
    "provider": "Name of the provider.",
    "instance": "Name of the instance.",
    "mcp_id": "Id of the MCP server in the settings.",
    "dataset_id": "Id of the dataset.",
    "document_id": "Id of the document.",
    "checkpoint": "Id of the step, from the history of the session.",
    "name": "Name of the component, such as `LLM`.",
}
_AUTHENTICATION: dict[Any, Key] = {
    authenticate: "ApiKey",
    authenticate_beta: "BetaKey",
    authenticate_any: "AnyKey",
}
_WITHOUT_BODY = ("GET", "DELETE", "HEAD")
"""Methods of webhooks whose calls usually have no body."""
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_REFS = "#/components/schemas/{model}"


def complete_document(document: dict[str, Any], app_routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Complete FastAPI's document in place with the descriptions of the routes, and return it."""
    operations = {f"{method} {path}": operation for method, path, operation in iterate_operations(document)}
    described = OPERATIONAL_ROUTES | _collect_descriptions(app_routes)
    routes = {where: described[where] for where in operations if where in described}
    schemas, definitions = _build_schemas(routes.values())
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(definitions)
    components["securitySchemes"] = {
        name: {"type": "http", "scheme": "bearer", "description": description} for name, description in _KEYS.items()
    }
    document["info"]["description"] = ABOUT
    for where, operation in operations.items():
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter.setdefault("description", _PATH[parameter["name"]])
        if route := routes.get(where):
            _describe(operation, route, schemas, where.partition(" ")[0])
        if busy := operation["responses"].get("429"):
            busy["headers"] = _RETRY
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    return document


def _collect_descriptions(app_routes: Iterable[BaseRoute]) -> dict[str, Description]:
    return {
        f"{method} {route.path_format}": replace(route.details, key=_find_key(route.dependant))
        for route in app_routes
        if isinstance(route, DescribedRoute)
        for method in route.methods or ()
    }


def _find_key(dependant: Dependant) -> Key:
    """Return the kind of key that the dependencies of a route require."""
    for each in dependant.dependencies:
        if key := _AUTHENTICATION.get(each.call) or _find_key(each):
            return key
    return ""


def iterate_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the method, path and description of each operation in a document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _build_schemas(routes: Iterable[Description]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the schemas of all request and response types, and the definitions that they refer to."""
    bodies: list[Any] = []
    answers: list[Any] = [ProblemAnswer, Refusal]
    for route in routes:
        bodies.append(route.body)
        answers += [route.answer, route.frame, *route.more.values()]
        answers += [shape for _, shape in describe_refusals(route).values()]
    modes = {repr(each): (each, "serialization") for each in answers}
    modes |= {repr(each): (each, "validation") for each in bodies}
    adapters: list[tuple[Any, Any, Any]] = [(name, mode, TypeAdapter(each)) for name, (each, mode) in modes.items()]
    type_schemas, rest = TypeAdapter[Any].json_schemas(adapters, ref_template=_REFS)
    return {name: schema for (name, _), schema in type_schemas.items()}, rest.get("$defs", {})


def _describe(operation: dict[str, Any], route: Description, schemas: dict[Any, Any], method: str) -> None:
    if route.parameters:
        operation["parameters"] = [*operation.get("parameters", ()), *route.parameters]
    if route.body is not None and not (route.surface == "webhook" and method in _WITHOUT_BODY):
        content = {route.body_kind: {"schema": schemas[repr(route.body)]}}
        operation["requestBody"] = {"required": route.is_body_required, "content": content}
    if route.key:
        names = ["ApiKey", "BetaKey"] if route.key == "AnyKey" else [route.key]
        operation["security"] = [{name: []} for name in names]
    responses: dict[str, Any] = {"200": _describe_success(route, schemas)}
    refusals = describe_refusals(route)
    refusals |= {status: ("The operation failed.", shape) for status, shape in route.more.items() if status != 200}
    for status, (text, shape) in refusals.items():
        content = {"application/json": {"schema": schemas[repr(shape)]}}
        responses[str(status)] = {"description": text, "content": content}
    if route.surface == "webhook":
        responses["default"] = {"description": "Status and text as configured in the canvas."}
    operation["responses"] = responses


def _describe_success(route: Description, schemas: dict[Any, Any]) -> dict[str, Any]:
    """Describe the response with status 200, which most of RAGFlow's refusals also use."""
    forms: list[Any] = [] if route.answer is None else [schemas[repr(route.answer)]]
    can_refuse = route.surface in ("envelope", "plain", "listing")
    if can_refuse:
        forms = [_build_envelope(route, forms[0]), schemas[repr(Refusal)]]
        forms += [schemas[repr(shape)] for status, shape in route.more.items() if status == 200]
    elif route.surface == "webhook":
        forms.append({"description": "JSON configured in the canvas."})
    elif not forms and route.key == "AnyKey":
        can_refuse, forms = True, [{"description": "A refusal, or a file of type JSON."}]
    content: dict[str, Any] = {
        kind: {"schema": {"type": "string", "description": text}} for kind, text in route.raw.items()
    }
    if forms:
        content["application/json"] = {"schema": {"anyOf": forms} if len(forms) > 1 else forms[0]}
    if route.stream:
        schema = build_event_schema(schemas[repr(route.frame)], end="[DONE]")
        content["text/event-stream"] = {"schema": schema, "examples": {"stream": {"value": route.stream}}}
    return {"description": "Success, or a refusal with its `code`." if can_refuse else "Success.", "content": content}


def _build_envelope(route: Description, data: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {"code": {"const": 0}}
    required = ["code"]
    if route.surface != "plain":
        properties["message"] = {"type": "string"}
        required += ["message", "data"]
    properties["data"] = data
    if route.surface == "listing":
        properties["total"] = {"type": "integer", "description": "Number of rows on all pages."}
        required.append("total")
    return {"type": "object", "properties": properties, "required": required}
