from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.testclient import TestClient

from ragflow_lg.server.http.shared.described_routes import (
    PAGES,
    DescribedRoute,
    Description,
    PlainRoute,
    describe,
    describe_header,
    describe_query,
)
from ragflow_lg.server.http.shared.route_schemas import Answer


class Named(Answer):
    name: str
    kind: str = "agent"


async def get_named() -> list[Named]:
    return [Named(name="Ada")]


@describe(describe_query("a", "A."), answer=str, surface="none")
async def get_text() -> Response:
    return Response("text")


def serve(route_class: type[DescribedRoute]) -> tuple[Any, list[Description]]:
    router = APIRouter(route_class=route_class)
    router.add_api_route("/named", get_named)
    router.add_api_route("/text", get_text)
    app = FastAPI()
    app.router.routes.extend(router.routes)
    with TestClient(app) as client:
        assert client.get("/text").text == "text"
        return client.get("/named").json(), [each.details for each in router.routes if isinstance(each, DescribedRoute)]


def test_what_a_handler_returns_is_put_into_the_envelope_of_its_route() -> None:
    data = [{"name": "Ada", "kind": "agent"}]
    assert serve(DescribedRoute)[0] == {"code": 0, "message": "success", "data": data}
    assert serve(PlainRoute)[0] == {"code": 0, "data": data}


def test_a_route_is_described_by_what_its_handler_returns_or_by_its_declaration() -> None:
    named, text = serve(PlainRoute)[1]
    assert (named.answer, named.surface) == (list[Named], "plain")
    assert (text.answer, text.surface, [each["name"] for each in text.parameters]) == (str, "none", ["a"])


def test_parameters_become_openapi_objects() -> None:
    assert describe_query("page", "From 1.", "integer", minimum=1) == {
        "name": "page",
        "in": "query",
        "required": False,
        "description": "From 1.",
        "schema": {"type": "integer", "minimum": 1},
    }
    assert describe_header("X-A", "What.")["in"] == "header"
    assert [parameter["name"] for parameter in PAGES] == ["page", "page_size"]
