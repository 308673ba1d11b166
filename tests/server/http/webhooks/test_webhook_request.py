from typing import Any, cast

import pytest
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.webhooks.webhook_configuration import WebhookConfiguration, read_configuration
from ragflow_lg.server.http.webhooks.webhook_request import MAX_FIELDS, read_payload

FORM = "application/x-www-form-urlencoded"
ANY = {"properties": {"a": {"type": "string"}}}


def configuration(**params: Any) -> WebhookConfiguration:
    schema = dict.fromkeys(("query", "headers", "body"), ANY)
    return read_configuration({"security": {"allow_anonymous": True}, "schema": schema, **params})


def request(body: bytes = b"", kind: str = "", query: str = "", **headers: str) -> Request:
    sent_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
    if kind:
        sent_headers.append((b"content-type", kind.encode()))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "headers": sent_headers, "query_string": query.encode()}
    return Request(cast("Any", scope), cast("Any", receive))


async def test_the_payload_has_declared_fields_and_the_input_everything_but_secrets() -> None:
    sent = request(b'{"a": "1", "b": 2}', "application/json", "a=3&b=4", a="5", authorization="secret", cookie="secret")
    payload = await read_payload(sent, configuration())
    assert list(payload) == ["query", "headers", "body", "input"]
    assert (payload["query"], payload["headers"], payload["body"]) == ({"a": "3"}, {"a": "5"}, {"a": "1"})
    assert payload["input"] == {
        "query": {"a": "3", "b": "4"},
        "headers": {"a": "5", "content-type": "application/json"},
        "body": {"a": "1", "b": 2},
        "content_type": "application/json",
    }


async def test_an_unexpected_content_type_is_refused() -> None:
    expected = configuration(content_types="application/json")
    for kind in ("Application/JSON; charset=utf-8", ""):
        assert (await read_payload(request(b'{"a": "x"}', kind), expected))["body"] == {"a": "x"}
    with pytest.raises(RequestError, match="must be application/json, not text/plain"):
        await read_payload(request(b"{}", "text/plain"), expected)


@pytest.mark.parametrize(
    ("kind", "how"), [("", "without a content type"), ("text/plain", "with content type text/plain")]
)
async def test_an_ignored_body_is_mentioned_when_a_field_is_missing(kind: str, how: str) -> None:
    expected = configuration(schema={"body": {"properties": {"a": {"type": "string"}}, "required": ["a"]}})
    with pytest.raises(RequestError, match=f"required.* it was sent {how} and is not a JSON.* as application"):
        await read_payload(request(b"a=x", kind), expected)
    with pytest.raises(RequestError, match=r"^body missing required field: a$"):
        await read_payload(request(b"", kind), expected)


async def test_forms_have_a_limited_number_of_fields() -> None:
    assert (await read_payload(request(b"a=%C3%BC+x", FORM), configuration()))["body"] == {"a": "ü x"}
    with pytest.raises(RequestError, match="more than 1000 fields"):
        await read_payload(request(b"a=1&" * (MAX_FIELDS + 1) + b"a=1", FORM), configuration())


async def test_deep_bodies_are_refused() -> None:
    deep = b'{"a":' * 50_000
    with pytest.raises(RequestError, match="not JSON"):
        await read_payload(request(deep, "application/json"), configuration())
    assert (await read_payload(request(deep), configuration()))["body"] == {"a": ""}
