from ragflow_lg.server.http.document.chat_shapes import ChatError
from ragflow_lg.server.http.document.descriptions import (
    describe_header,
    describe_pages,
    describe_query,
    describe_refusals,
)
from ragflow_lg.server.http.document.response_shapes import NotHere, Refusal, WebhookRefusal


def test_parameters_become_openapi_objects() -> None:
    assert describe_query("page", "From 1.", "integer", minimum=1).to_openapi() == {
        "name": "page",
        "in": "query",
        "required": False,
        "description": "From 1.",
        "schema": {"type": "integer", "minimum": 1},
    }
    assert describe_header("X-A", "What.").to_openapi()["in"] == "header"
    assert [parameter.name for parameter in describe_pages()] == ["page", "page_size", "desc"]


def test_every_surface_has_its_shape_of_refusals() -> None:
    assert {status: shape for status, (_, shape) in describe_refusals("envelope", "ApiKey").items()} == {
        401: Refusal,
        404: NotHere,
        408: Refusal,
        413: Refusal,
        429: Refusal,
        431: Refusal,
        500: Refusal,
    }
    assert {shape for _, shape in describe_refusals("openai", "ApiKey").values()} == {ChatError}
    assert describe_refusals("webhook", "")[400][1] is WebhookRefusal
    assert 401 not in describe_refusals("webhook", "")
