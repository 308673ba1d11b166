"""Invoke."""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.components.invoke import OWN_TIME_S, escape_value, invoke
from ragflow_lg.services.http import HttpRequest, HttpResponse
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import ScriptedHttp, fake_services
from tests.harness.rows import each_row, read_rows

URL = "http://api.test/x"
GLOBALS = {"sys.query": "tea", "sys.user_id": "u1", "env.key": "k-1", "env.map": {"a": "", "b": [1]}, "plain": 7}


async def run(
    params: dict[str, Any], answer: HttpResponse | Exception | None = None, **more: Any
) -> tuple[Result, ScriptedHttp]:
    """Run with ``url`` `URL` unless given; every URL of `ANSWERED` gets the same answer."""
    answers = dict.fromkeys([URL, *more.pop("urls", [])], answer or HttpResponse(200, {"x": "y"}, "ok", URL))
    http = ScriptedHttp(answers)
    value = {"url": URL, "delay_after_error": 0, **params}
    result = await run_component(invoke, value, globals=GLOBALS, services=fake_services(http=http), **more)
    return result, http


async def send(params: dict[str, Any], **more: Any) -> HttpRequest:
    _, http = await run(params, **more)
    return http.requests[0]


def variable(key: str = "a", ref: Any = "", value: Any = None) -> dict[str, Any]:
    return {"key": key, "ref": ref, "value": value}


@each_row("status", [200, 302, 404, 500])
async def test_outputs_are_text_status_and_headers(status: int) -> None:
    result, _ = await run({}, HttpResponse(status, {"content-type": "text/plain"}, "body", URL))
    assert result.error is None
    assert result.outputs == {"result": "body", "status_code": status, "headers": {"content-type": "text/plain"}}


@each_row(
    ("url", "expected"),
    [
        ("api.test/100%?x=100%&y=%41", "http://api.test/100%25?x=100%25&y=%41"),
        ("api.test/x", "http://api.test/x"),
        ("  https://api.test/x\n", "https://api.test/x"),
        ("//api.test/x", "http://api.test/x"),
        ("httpbin.test/x", "http://httpbin.test/x"),
        ("localhost:80/x", "http://localhost:80/x"),
        ("FTP://api.test", "FTP://api.test"),
        ("{sys.query}.test/{node@id}", "http://tea.test/"),
        ("{up@host}/a?q={up@text}", "http://up.test/a?q=x%0Ay%09z"),
    ],
)
async def test_urls_are_rendered_and_completed(url: str, expected: str) -> None:
    outputs = {"up": {"host": "up.test", "text": "x\ny\tz"}}
    assert (await send({"url": url}, outputs=outputs)).url == expected


@each_row(
    ("value", "expected"),
    [
        (variable(ref="sys.query", value="v"), "tea"), (variable(ref="{sys.query}"), "tea"),
        (variable(ref="up@null", value="v"), "v"), (variable(ref="up@null"), ""), (variable(ref="{up@null}"), ""),
        (variable(ref="up@map.none"), ""), (variable(value="{up@null}"), ""), (variable(value="a{up@null}b"), "ab"),
        (variable(ref="up@absent", value="v"), ""), (variable(ref="env.map.a"), ""),
        (variable(ref="sys.missing.x", value="v"), "v"), (variable(ref="up@map"), '{"b": [1.0, null]}'),
        (variable(value="by-{sys.user_id}"), "by-u1"), (variable(value=3), "3"), (variable(value="007"), "007"),
        (variable(value="1.0"), "1.0"), (variable(value=True), "true"), (variable(value=[1, "x"]), ["1", "x"]),
        (variable(value="{env.map.b}"), ["1"]), (variable(value="b={env.map.b}"), "b=[1]"),
        (variable(ref="up@list"), ["a b", "true", "1.5", '{"k": null}', "[2]", ""]), (variable(value=[]), []),
        (variable(value=[None]), []), (variable(value={}), "{}"), (variable(), ""),
        (variable(ref="no reference", value=""), "no reference"), (variable(ref=None, value=None), ""),
        ({"key": "a", "id": "row"}, ""),
    ],
)  # fmt: skip
async def test_query_arguments_are_texts(value: dict[str, Any], expected: str | list[str]) -> None:
    outputs = {"null": None, "map": {"b": [1.0, None]}, "list": ["a b", True, None, 1.5, {"k": None}, [2], ""]}
    request = await send({"variables": [value]}, outputs={"up": outputs})
    assert request.query == {"a": expected}
    assert (request.json, request.form) == (None, None)


@each_row(
    ("value", "expected"),
    [
        *[("7", 7), ("1.0", 1.0), ("true", True), ("null", None), ('{"b": [1]}', {"b": [1]}), ('"x"', "x")],
        *(
            (text, text)
            for text in ("007", "NaN", "1e999", "[-1e999]", "-Infinity", "tea", "", "[" * 9_999, "9" * 5000)
        ),
        *[([1], [1]), (False, False)],
    ],
)
async def test_text_that_is_json_becomes_its_value_in_a_body(value: Any, expected: Any) -> None:
    request = await send({"method": "post", "variables": [variable(value=value)]})
    body: Any = request.json
    assert body == {"a": expected}
    assert type(body["a"]) is type(expected)
    assert request.query == {}


@each_row("method", ["post", "put", "patch", "delete"])
async def test_forms_are_text(method: str) -> None:
    value = [variable("a", value="7"), variable("b", ref="env.map"), variable("", value="x"), variable("a", value="8")]
    request = await send({"method": method, "datatype": "FormData", "variables": value})
    assert request.form == {"a": ["7", "8"], "b": '{"a": "", "b": [1]}'}
    assert (request.json, request.query) == (None, {})


@each_row(("method", "datatype", "part"), [("GET", "json", "query"), ("POST", "formdata", "form")])
async def test_variables_with_one_key_are_all_sent(method: str, datatype: str, part: str) -> None:
    rows = [variable(value="1"), variable("b", value="x"), variable(value="2"), variable(ref="env.map.b")]
    request = await send({"method": method, "datatype": datatype, "variables": rows})
    assert getattr(request, part) == {"a": ["1", "2", "1"], "b": "x"}


def test_a_key_that_a_body_would_lose_is_reported() -> None:
    rows = [variable(value="1"), variable("b"), variable(value="2"), variable("")]
    for method, found in (("GET", []), ("POST", [("variables", 0, "key")])):
        params = bind(invoke, {"url": URL, "method": method, "variables": rows})
        assert [finding.path for finding in invoke.lint(params)] == found


@each_row(
    ("params", "sent"),
    [
        ({"body": '{"a": [1]}'}, '{"a": [1]}'),
        ({"body": '{"q": "say {sys.query}", "n": {up@n}, "m": {env.map}}'},
         '{"q": "say tea", "n": 7, "m": {"a": "", "b": [1]}}'),
        ({"body": '{"q": "{up@evil}", "r": {up@evil}, "\\"": {up@null}}'},
         '{"q": "\\", \\"a\\": \\"\\n", "r": "\\", \\"a\\": \\"\\n", "\\"": null}'),
        ({"body": "{up@json}", "content_type": "application/json; charset=utf-8"}, '{"k": [1.0]}'),
        ({"body": "a=1&b={up@evil}", "content_type": "application/x-www-form-urlencoded"},
         "a=1&b=%22%2C+%22a%22%3A+%22%0A"),
        ({"body": "Ä {up@json}", "content_type": "text/plain"}, 'Ä {"k": [1.0]}'),
        ({"body": "{up@n}", "headers": {"content-type": "text/csv"}, "content_type": "text/plain"}, "7"),
        ({"body": "x", "method": "get", "variables": [variable(value="1")], "content_type": "text/plain"}, "x"),
        ({"body": '<a b="{up@xml}">{up@n}</a>', "content_type": "application/soap+xml; charset=utf-8"},
         '<a b="&lt;c/&gt;&quot;">7</a>'),
        ({"body": " {up@xml}", "content_type": "text/xml"}, ' <c/>"'),
        ({"body": "--b\n\n{up@evil}\n--b--", "content_type": 'multipart/form-data; boundary="b"'},
         '--b\n\n", "a": "\n\n--b--'),
    ],
)  # fmt: skip
async def test_a_body_is_sent_with_its_type_and_escaped_values(params: dict[str, Any], sent: str) -> None:
    up = {"n": 7, "evil": '", "a": "\n', "null": None, "json": '{"k": [1.0]}', "xml": '<c/>"'}
    request = await send({"method": "post", **params}, outputs={"up": up})
    kind = params.get("headers", {}).get("content-type") or params.get("content_type") or "application/json"
    assert (request.body or b"").decode() == sent
    assert (request.headers, request.query, request.json, request.form) == ({"Content-Type": kind}, {}, None, None)


@each_row("value", ["x\n--b c\n", "b c"])
async def test_a_value_cannot_begin_a_part_of_a_body(value: str) -> None:
    params = {"method": "post", "body": "--b c\n\n--{up@v}", "content_type": 'multipart/mixed; Boundary = "b c "; x=y'}
    result, http = await run(params, outputs={"up": {"v": value}})
    assert (result.error, http.requests) == ("A value contains the boundary of the parts, --b c.", [])


@each_row(
    ("params", "found"),
    [
        ({"body": "x", "variables": [variable()]}, [("variables",)]),
        ({"body": "x", "variables": [variable("")], "content_type": "text/plain"}, []),
        ({"content_type": "text/plain"}, [("content_type",)]),
        ({"body": None, "content_type": None}, []),
    ],
)
def test_what_is_not_sent_with_a_body_or_without_one_is_reported(params: dict[str, Any], found: Any) -> None:
    assert [finding.path for finding in invoke.lint(bind(invoke, {"url": URL, "method": "POST", **params}))] == found


async def test_requests_without_arguments() -> None:
    assert (await send({"method": "post", "variables": None})).json == {}
    assert (await send({"method": "delete", "datatype": None})).json is None
    assert (await send({"method": "get", "datatype": "formdata"})).form is None


@each_row(
    ("headers", "expected"),
    [
        ("", {}),
        (None, {}),
        ({}, {}),
        ('{"X-A": "a b", "X-N": 7, "X-B": true, "X-0": null}', {"X-A": "a b", "X-N": "7", "X-B": "true"}),
        ({"Authorization": "Bearer {env.key}"}, {"Authorization": "Bearer k-1"}),
        ({"X": "{{up:1@text}} {up:1@map.k}"}, {"X": "t v"}),
        ({"X": "{plain}{absent}{a b} {up:1@map.none}{up:1@null} {env.map.b}"}, {"X": "7{absent}{a b}  [1]"}),
    ],
)
async def test_headers_are_rendered(headers: Any, expected: dict[str, str]) -> None:
    request = await send({"headers": headers}, outputs={"up:1": {"text": "t", "map": {"k": "v"}, "null": None}})
    assert request.headers == expected


@each_row(
    ("proxy", "expected"),
    [
        *[(None, ""), ("", ""), (" ", ""), ("http://", ""), ("https:", ""), ("HTTP:/", "")],
        *[("proxy.test:3128", "http://proxy.test:3128"), (" https://proxy.test ", "https://proxy.test")],
    ],
)
async def test_proxies_are_normalized(proxy: Any, expected: str) -> None:
    assert (await send({"proxy": proxy})).proxy == expected


async def test_a_null_reference_sends_an_empty_value_in_a_body_and_a_form() -> None:
    values = [variable("a", "up@null"), variable("b", value="{up@null}"), variable("c", "up@list")]
    for datatype, expected in (("json", {"a": "", "b": "", "c": [None, {"k": None}]}), ("formdata", None)):
        more = {"method": "post", "datatype": datatype, "variables": values}
        result, http = await run(more, outputs={"up": {"null": None, "list": [None, {"k": None}]}})
        assert http.requests[0].json == expected
        assert result.inputs == {"up@null": "", "up@list": [None, {"k": None}]}
    assert http.requests[0].form == {"a": "", "b": "", "c": ['{"k": null}']}


async def test_an_address_that_is_too_long_is_an_error() -> None:
    result, http = await run({"url": "{up@long}/{up@long}"}, outputs={"up": {"long": "x" * 40_000}})
    assert (result.error, http.requests) == ("The address has more than 65,536 characters.", [])


@each_row("ref", ["env.missing", "sys.missing.x", "ghost@x"])
async def test_unknown_references_send_nothing(ref: str) -> None:
    rows = [variable(ref=ref), variable("b", value="{env.key}")]
    body = {"method": "post", "body": f'{{"a": {{{ref}}}}}'}
    for params in ({"url": "{env.key}.test", "variables": rows}, {"headers": {"X-A": f"a {{{ref}}}"}}, body):
        result, http = await run(params)
        assert (result.error, http.requests) == (f"Can't find variable: {ref!r}", [])
        assert "k-1" not in str(result.inputs)


async def test_only_references_of_variables_are_recorded_as_inputs() -> None:
    value = {
        "url": "{sys.user_id}.test",
        "headers": {"Authorization": "{env.key}"},
        "variables": [variable(ref="sys.query"), variable("b", value="{env.key}")],
    }
    result, http = await run(value, urls=["http://u1.test"])
    assert result.inputs == {"sys.query": "tea"}
    assert http.requests[0].query == {"a": "tea", "b": "k-1"}


async def test_a_failure_is_retried() -> None:
    result, http = await run({"max_retries": 2}, ServiceError("gone"))
    assert len(http.requests) == 3
    assert result.error == "gone"
    assert result.outputs == {"result": None, "status_code": None, "headers": None, "_ERROR": "gone"}


async def test_an_error_status_is_not_retried() -> None:
    _, http = await run({"max_retries": 2}, HttpResponse(503, {}, "busy", URL))
    assert len(http.requests) == 1


async def test_html_pages_become_text() -> None:
    page = HttpResponse(200, {}, "<h1>Tea</h1><p>Green <b>tea</b>", URL)
    assert (await run({"clean_html": True}, page))[0].outputs["result"] == "# Tea\nGreen tea"
    assert (await run({"clean_html": None}, page))[0].outputs["result"] == page.text
    result, _ = await run({"clean_html": True}, HttpResponse(200, {}, "x" * 5_000_000, URL))
    assert "at most" in str(result.error)


@each_row(("timeout", "retries", "limit_s"), [(10, 0, 10), ("1.5", 1, 3), (60, None, 60)])
async def test_the_time_limit_includes_retries(timeout: Any, retries: int | None, limit_s: float) -> None:
    params = bind(invoke, {"url": URL, "timeout": timeout, "max_retries": retries})
    assert invoke.limit_s(params) == limit_s + OWN_TIME_S
    assert (await send({"timeout": timeout})).timeout_s == float(timeout)


@each_row("params", [{"timeout": float("inf")}, {"headers": "[" * 100_000}])
def test_extreme_params_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        bind(invoke, {"url": URL, **params})


@each_row(("before", "value", "after", "expected"), read_rows("values_in_addresses"))
def test_a_value_is_escaped_for_its_place_in_an_address(before: str, value: str, after: str, expected: str) -> None:
    assert escape_value(before, value, after) == expected


@each_row(
    ("before", "value", "after"), [("h.test/a/", "../b", ""), ("h.test/a/.", ".", "/b"), ("h.test/a", "/..", "/b")]
)
def test_a_value_cannot_leave_its_place_in_a_path(before: str, value: str, after: str) -> None:
    with pytest.raises(ValueError, match=r"'\.\.'"):
        escape_value(before, value, after)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%.")))
def test_a_value_changes_no_other_part(value: str) -> None:
    parts = urlsplit("https://h.test/p/" + escape_value("https://h.test/p/", value, "/end?a=1") + "/end?a=1")
    assert (parts.netloc, unquote(parts.path), parts.query, parts.fragment) == ("h.test", f"/p/{value}/end", "a=1", "")
    parts = urlsplit("https://h.test/p?q=" + escape_value("https://h.test/p?q=", value, "&b=2") + "&b=2")
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", value), ("b", "2")]
    assert (parts.path, parts.fragment) == ("/p", "")
