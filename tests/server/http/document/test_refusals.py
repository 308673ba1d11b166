from typing import Any

from ragflow_lg.server.http.document.openapi_document import describe_refusals
from ragflow_lg.server.http.openai.openai_schemas import ChatError
from ragflow_lg.server.http.shared.described_routes import Description, Key, Surface
from ragflow_lg.server.http.shared.route_schemas import NotHere, Refusal
from ragflow_lg.server.http.webhooks.webhook_routes import WebhookRefusal


def list_shapes(surface: Surface, key: Key) -> dict[int, Any]:
    refusals = describe_refusals(Description(surface=surface, key=key))
    return {status: shape for status, (_, shape) in refusals.items()}


def test_every_surface_has_its_shape_of_refusals() -> None:
    assert list_shapes("envelope", "ApiKey") == {
        401: Refusal,
        404: NotHere,
        408: Refusal,
        413: Refusal,
        429: Refusal,
        431: Refusal,
        500: Refusal,
    }
    assert set(list_shapes("openai", "ApiKey").values()) == {ChatError}
    assert list_shapes("webhook", "")[400] is WebhookRefusal
    assert 401 not in list_shapes("webhook", "")
