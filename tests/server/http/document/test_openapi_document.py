import re
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.responses import Response

from ragflow_lg.base.values import JsonValue
from ragflow_lg.server.http.document.openapi_document import complete_document, iterate_operations
from ragflow_lg.server.http.ragflow import agent_routes as agents
from ragflow_lg.server.http.ragflow_ui import account_routes, missing_routes, sign_in_routes
from ragflow_lg.server.http.shared.described_routes import DescribedRoute
from tests.server.http.app_server import start_app
from tests.server.http.ragflow_ui.ui_server import start_ui

PATH = re.compile(r"\{(\w+)\}")
WITHOUT_BODY = ("/{agent_id}/reset", "/{task_id}/cancel", "/cancel/{task_id}", "/auth/logout")


@pytest.fixture
async def document(tmp_path: Path) -> dict[str, Any]:
    async with start_ui(tmp_path) as server:
        return (await server.client.get(f"{server.url}/openapi.json")).json()


def references(value: JsonValue) -> set[str]:
    if isinstance(value, dict):
        reference = value.get("$ref")
        own = {reference} if isinstance(reference, str) else set[str]()
        return own.union(*(references(part) for part in value.values()))
    return set[str]().union(*(references(part) for part in value)) if isinstance(value, list) else set()


async def test_every_route_is_described(document: dict[str, Any]) -> None:
    frames = {f"{method} {path}": operation for method, path, operation in iterate_operations(document)}
    for where, operation in frames.items():
        assert operation["description"], where
        assert operation["responses"]["429"]["headers"]["Retry-After"], where
        assert all(parameter["description"] for parameter in operation.get("parameters", ())), where
        assert {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"} == set(
            PATH.findall(where)
        )
        if where.startswith(("POST", "PUT", "PATCH")) and not where.endswith(WITHOUT_BODY):
            assert operation["requestBody"]["content"], where
        for status, answer in operation["responses"].items():
            data = answer.get("content", {})
            assert data or status in ("204", "default"), (where, status)
            assert all(content.get("schema") is not None for content in data.values()), (where, status)


async def test_all_schemas_and_security_schemes_are_defined_and_used(document: dict[str, Any]) -> None:
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) == names
    schemes = [scheme for _, _, operation in iterate_operations(document) for scheme in operation.get("security", ())]
    assert {name for scheme in schemes for name in scheme} == set(document["components"]["securitySchemes"])


async def test_streams_bodies_and_headers_are_described(document: dict[str, Any]) -> None:
    operation = document["paths"]["/api/v1/agents/chat/completions"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/CompletionBody"
    }
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    names = {parameter["name"] for parameter in operation["parameters"]}
    assert {"Last-Event-ID", "X-RAGFlow-Event-Ids", "X-RAGFlow-On-Disconnect", "X-RAGFlow-Compat", "from"} <= names
    assert document["paths"]["/api/v1/agentbots/{agent_id}/inputs"]["get"]["security"] == [{"BetaKey": []}]


async def test_a_server_without_the_front_end_describes_none_of_its_routes(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        document = (await server.client.get(f"{server.url}/openapi.json")).json()
    routers = (account_routes.router, missing_routes.list_router, account_routes.older_router, sign_in_routes.router)
    paths = {route.path for router in routers for route in router.routes if isinstance(route, APIRoute)}
    assert len(paths) > 20
    assert not paths & set(document["paths"])
    assert "SignedIn" not in document["components"]["schemas"]


def test_other_routes_are_not_changed() -> None:
    app = FastAPI()
    app.router.routes.extend(agents.router.routes)
    app.add_api_route("/own", lambda: None)
    created = complete_document(app.openapi(), app.routes)
    assert "requestBody" in created["paths"]["/api/v1/agents"]["post"]
    assert created["paths"]["/own"]["get"]["responses"]["200"]["content"] == {"application/json": {"schema": {}}}


async def test_every_description_has_a_response(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        routes = [route for route in server.app.routes if isinstance(route, DescribedRoute)]
    assert len(routes) > 100
    for route in routes:
        details = route.details
        assert (details.answer is not None and details.answer is not Response) or details.raw, route.path
        assert bool(details.stream) is (details.frame is not None), route.path
