from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from ragflow_lg.base.values import JsonValue
from ragflow_lg.server.http.document.openapi_document import ROUTES, complete_document, iterate_operations
from ragflow_lg.server.http.ragflow import agent_routes as agents
from tests.server.http.app_server import start_app

PATH = re.compile(r"\{(\w+)\}")


@pytest.fixture
async def document(tmp_path: Path) -> dict[str, Any]:
    async with start_app(tmp_path) as server:
        return (await server.client.get(f"{server.url}/openapi.json")).json()


def references(value: JsonValue) -> set[str]:
    if isinstance(value, dict):
        reference = value.get("$ref")
        own = {reference} if isinstance(reference, str) else set[str]()
        return own.union(*(references(part) for part in value.values()))
    return set[str]().union(*(references(part) for part in value)) if isinstance(value, list) else set()


async def test_every_route_is_described_whole(document: dict[str, Any]) -> None:
    found = {f"{method} {path}": said for method, path, said in iterate_operations(document)}
    assert {where for where in found if " /native/" not in where} == set(ROUTES)
    for where, said in found.items():
        assert said["description"], where
        assert said["responses"]["429"]["headers"]["Retry-After"], where
        assert all(parameter["description"] for parameter in said.get("parameters", ())), where
        assert {each["name"] for each in said.get("parameters", ()) if each["in"] == "path"} == set(PATH.findall(where))
        if where.startswith(("POST", "PUT", "PATCH")) and "/reset" not in where and "/tasks/" not in where:
            assert said["requestBody"]["content"], where
        for status, answer in said["responses"].items():
            shown = answer.get("content", {})
            assert shown or status in ("204", "default"), (where, status)
            assert all(content.get("schema") is not None for content in shown.values()), (where, status)


async def test_it_refers_to_nothing_that_is_not_there_and_holds_nothing_unused(document: dict[str, Any]) -> None:
    held = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) == held
    keys = {name for _, _, said in iterate_operations(document) for held in said.get("security", ()) for name in held}
    assert keys == set(document["components"]["securitySchemes"])


async def test_streams_bodies_and_headers_stand_in_it(document: dict[str, Any]) -> None:
    said = document["paths"]["/api/v1/agents/chat/completions"]["post"]
    assert said["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/CompletionBody"
    }
    assert set(said["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    names = {parameter["name"] for parameter in said["parameters"]}
    assert {"Last-Event-ID", "X-RAGFlow-Event-Ids", "X-RAGFlow-On-Disconnect", "X-RAGFlow-Compat", "from"} <= names
    assert document["paths"]["/api/v1/agentbots/{agent_id}/inputs"]["get"]["security"] == [{"BetaKey": []}]


def test_routes_that_nobody_has_described_stay_as_they_are() -> None:
    app = FastAPI()
    app.include_router(agents.router)
    app.add_api_route("/own", lambda: None)
    made = complete_document(app.openapi())
    assert "requestBody" in made["paths"]["/api/v1/agents"]["post"]
    assert made["paths"]["/own"]["get"]["responses"]["200"]["content"] == {"application/json": {"schema": {}}}
