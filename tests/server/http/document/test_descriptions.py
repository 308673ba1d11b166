from ragflow_lg.server.http.document.chat_shapes import ChatError
from ragflow_lg.server.http.document.descriptions import describe_refusals
from ragflow_lg.server.http.document.response_shapes import WebhookRefusal
from ragflow_lg.server.http.shared.answers import NotHere, Refusal


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
