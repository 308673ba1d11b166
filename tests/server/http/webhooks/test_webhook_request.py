import json
from typing import Any, cast

import pytest
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl.webhook_configuration import WebhookConfiguration, read_configuration
from ragflow_lg.server.http.webhooks.webhook_request import MAX_UNDECLARED, read_payload, select_declared_fields
from ragflow_lg.services.services import DocumentParser
from tests.fakes.services import fake_services
from tests.harness.rows import each_row, read_rows

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
    payload = await read_payload(sent, configuration(), fake_services())
    assert list(payload) == ["query", "headers", "body", "input"]
    assert (payload["query"], payload["headers"], payload["body"]) == ({"a": "3"}, {"a": "5"}, {"a": "1"})
    assert payload["input"] == {
        "query": {"a": "3", "b": "4"},
        "headers": {"a": "5", "content-type": "application/json"},
        "body": {"a": "1", "b": 2},
        "content_type": "application/json",
    }


async def test_large_undeclared_fields_are_dropped() -> None:
    long, many = "x" * MAX_UNDECLARED, [1] * 20_000
    body = json.dumps({"a": long, "small": "y", "long": long, "many": many, "more": many, "z": 1}).encode()
    payload = await read_payload(request(body, "application/json"), configuration(), fake_services())
    assert (payload["body"], list(payload["input"]["body"])) == ({"a": long}, ["a", "small", "many", "more", "z"])
    body = json.dumps({"a": "b", **{f"x{i}": "y" * 10_000 for i in range(40)}}).encode()
    payload = await read_payload(request(body, "application/json"), configuration(), fake_services())
    assert list(payload["input"]["body"]) == ["a", *(f"x{i}" for i in range(26))]


async def test_an_unexpected_content_type_is_refused() -> None:
    expected = configuration(content_types="application/json")
    for kind in ("Application/JSON; charset=utf-8", ""):
        assert (await read_payload(request(b'{"a": "x"}', kind), expected, fake_services()))["body"] == {"a": "x"}
    with pytest.raises(RequestError, match="must be application/json, not text/plain"):
        await read_payload(request(b"{}", "text/plain"), expected, fake_services())


@pytest.mark.parametrize(
    ("kind", "how"), [("", "without a content type"), ("text/plain", "with content type text/plain")]
)
async def test_an_ignored_body_is_mentioned_when_a_field_is_missing(kind: str, how: str) -> None:
    expected = configuration(schema={"body": {"properties": {"a": {"type": "string"}}, "required": ["a"]}})
    with pytest.raises(RequestError, match=f"required.* it was sent {how} and is not a JSON.* as application"):
        await read_payload(request(b"a=x", kind), expected, fake_services())
    with pytest.raises(RequestError, match=r"^body missing required field: a$"):
        await read_payload(request(b"", kind), expected, fake_services())


def select(values: dict[str, Any], properties: dict[str, Any], *required: str, section: str = "body") -> dict[str, Any]:
    schema = {section: {"type": "object", "properties": properties, "required": list(required)}}
    return select_declared_fields(section, values, schema)


def convert(kind: str, value: Any) -> Any:
    return select({"x": value}, {"x": {"type": kind}})["x"]


def test_only_declared_fields_are_selected_and_missing_ones_are_empty() -> None:
    kinds = ("string", "number", "boolean", "object", "file", "null", "array", "array<number>")
    properties = {kind: {"type": kind} for kind in kinds}
    assert list(select({"other": 1}, properties).values()) == ["", 0, False, {}, [], None, [], []]
    assert (select({"a": "x", "b": "y"}, {"a": {}}), select({}, {"a": {"type": "colour"}})) == ({"a": "x"}, {"a": None})
    assert select_declared_fields("body", {"a": 1}, {}) == {}
    assert select_declared_fields("body", {"a": 1}, {"body": [], "query": None}) == {}


@each_row(("kind", "value", "expected"), read_rows("webhook_values"))
def test_values_are_converted_to_their_declared_type(kind: str, value: Any, expected: Any) -> None:
    converted = convert(kind, value)
    assert converted == expected
    assert type(converted) is type(expected)


@each_row(
    ("kind", "value", "message"),
    [*read_rows("webhook_mismatches"), ("number", "9" * 500, "mismatch"), ("array", f"[{2**80}]", "mismatch")],
)
def test_mismatches_are_named(kind: str, value: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        convert(kind, value)
    assert refused.value.number == 400


def test_missing_fields_and_headers() -> None:
    with pytest.raises(RequestError, match=r"^body missing required field: x$"):
        select({}, {"x": {"type": "string"}}, "x")
    with pytest.raises(RequestError, match=r"^query missing required field: y$"):
        select({}, {}, "y", section="query")
    assert select({"y": 1}, {}, "y") == {}
    values = {"x-event": "push"}
    assert select(values, {"X-Event": {"type": "string"}}, "X-Event", section="headers") == {"X-Event": "push"}
    assert select(values, {}, "X-EVENT", section="headers") == {}
    assert select({"x": ["1"]}, {"x": {"type": "array", "items": {"type": "number"}}}) == {"x": [1]}


class PageReader:
    """A parser that reads scanned pages."""

    async def parse(self, file: Any, layout_recognize: str) -> str | None:
        return f"{layout_recognize} read {len(file.content)} bytes" if file.name == "scan.pdf" else None


async def test_a_parser_reads_sent_files() -> None:
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.{kind}"\r\n\r\nfour\r\n'
        for name, kind in (("scan", "pdf"), ("note", "txt"))
    )
    sent = request(f"{parts}--x--\r\n".encode(), "multipart/form-data; boundary=x")
    services = fake_services(integrations={DocumentParser: PageReader()})
    declared = {"body": {"properties": {"scan": {"type": "string"}, "note": {"type": "string"}}}}
    payload = await read_payload(sent, configuration(schema=declared, layout_recognize="MinerU"), services)
    assert payload["body"] == {"scan": "MinerU read 4 bytes", "note": "four"}
