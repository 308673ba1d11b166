"""How arguments are sent: the tables of styles in the specification, bodies and keys."""

from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.integrations.openapi.api_document import Operation, Parameter, Scheme
from ragflow_lg.integrations.openapi.api_requests import build_request
from ragflow_lg.services.http import HttpRequest
from tests.harness.rows import each_row

LIST, MAP = ["blue", "black"], {"R": 100, "G": 200}
BASE = "https://api.example/v1/"


def request_of(
    place: str, style: str, explodes: bool, value: Any, *, is_json: bool = False, **changes: Any
) -> HttpRequest:
    parameter = Parameter("color", "color", place, style, explodes, is_json)
    path = "/c/{color}" if place == "path" else "/c"
    operation = Operation("o", "GET", path, "", "", {}, (parameter,), "", None)._replace(**changes)
    return build_request(operation, {"color": value}, BASE, key="k:ey")


@each_row(
    ("style", "explodes", "value", "expected"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, LIST, "blue,black"),
        ("simple", False, MAP, "R,100,G,200"),
        ("simple", True, MAP, "R=100,G=200"),
        ("simple", False, "a/b?c&ü", "a%2Fb%3Fc%26%C3%BC"),
        ("simple", False, True, "true"),
        ("label", False, "blue", ".blue"),
        ("label", True, LIST, ".blue.black"),
        ("label", True, MAP, ".R=100.G=200"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, LIST, ";color=blue,black"),
        ("matrix", True, LIST, ";color=blue;color=black"),
        ("matrix", True, MAP, ";R=100;G=200"),
    ],
)
def test_styles_in_the_path(style: str, explodes: bool, value: Any, expected: str) -> None:
    assert request_of("path", style, explodes, value).url == f"https://api.example/v1/c/{expected}"


@each_row(
    ("style", "explodes", "value", "expected"),
    [
        ("form", True, "a&b=c", "color=a%26b%3Dc"),
        ("form", True, LIST, "color=blue&color=black"),
        ("form", False, LIST, "color=blue,black"),
        ("form", False, MAP, "color=R,100,G,200"),
        ("form", True, MAP, "R=100&G=200"),
        ("spaceDelimited", False, LIST, "color=blue%20black"),
        ("pipeDelimited", False, LIST, "color=blue%7Cblack"),
        ("deepObject", True, MAP, "color%5BR%5D=100&color%5BG%5D=200"),
    ],
)
def test_styles_in_the_query(style: str, explodes: bool, value: Any, expected: str) -> None:
    assert request_of("query", style, explodes, value).url == f"https://api.example/v1/c?{expected}"


def test_headers_cookies_and_contents() -> None:
    assert request_of("header", "simple", False, LIST).headers == {"color": "blue,black"}
    assert request_of("header", "simple", True, MAP).headers == {"color": "R=100,G=200"}
    assert request_of("cookie", "form", True, "a;b").headers == {"Cookie": "color=a%3Bb"}
    assert request_of("query", "form", True, {"a": [1]}, is_json=True).url.endswith("?color=%7B%22a%22%3A%20%5B1%5D%7D")


@each_row("value", [None, "", ".", "..", "../admin", "a/../b", "..\\b", [".."]])
def test_a_value_never_leaves_its_place_in_the_path(value: Any) -> None:
    with pytest.raises(ComponentError, match="cannot be part of an address"):
        request_of("path", "simple", False, value)


@each_row(
    ("scheme", "url", "headers"),
    [
        (Scheme("header", "X-Key"), "/c?color=b", {"X-Key": "k:ey"}),
        (Scheme("header", "Authorization", "Bearer"), "/c?color=b", {"Authorization": "Bearer k:ey"}),
        (Scheme("header", "Authorization", "Basic"), "/c?color=b", {"Authorization": "Basic azpleQ=="}),
        (Scheme("query", "key"), "/c?color=b&key=k%3Aey", {}),
        (Scheme("cookie", "key"), "/c?color=b", {"Cookie": "key=k%3Aey"}),
    ],
)
def test_the_key_is_sent_where_the_document_says(scheme: Scheme, url: str, headers: dict[str, str]) -> None:
    request = request_of("query", "form", True, "b", scheme=scheme)
    assert (request.url, request.headers) == (f"https://api.example/v1{url}", headers)


@each_row("place", ["query", "cookie"])
def test_a_map_does_not_add_another_key(place: str) -> None:
    value = {"k": "invented", "key": "x"}
    request = request_of(place, "form", True, value, scheme=Scheme(place, "k"))
    assert "key=x" in str(request)
    assert "k=k%3Aey" in str(request)
    assert "invented" not in str(request)


def test_headers_of_the_settings_replace_others_whatever_their_case() -> None:
    parameters = tuple(Parameter(name, name, "header", "simple", False) for name in ("x-tenant", "x-key", "x-other"))
    operation = Operation("o", "GET", "/c", "", "", {}, parameters, "", Scheme("header", "X-Key"))
    arguments = {"x-tenant": "theirs", "x-key": "invented", "x-other": "1"}
    request = build_request(operation, arguments, BASE, key="k", headers={"X-Tenant": "ours"})
    assert request.headers == {"X-Tenant": "ours", "X-Key": "k", "x-other": "1"}


@each_row(
    ("kind", "body", "expected"),
    [
        ("application/json", {"ü": [1]}, '{"ü": [1]}'),
        ("application/merge-patch+json", None, None),
        ("application/x-www-form-urlencoded", {"a b": ["x", "y&z"], "n": 1}, "a%20b=x&a%20b=y%26z&n=1"),
        ("text/plain", "Hello", "Hello"),
    ],
)
def test_bodies(kind: str, body: Any, expected: str | None) -> None:
    request = build_request(Operation("o", "POST", "/c", "", "", {}, (), kind, None), {"body": body}, BASE)
    assert request.body == (None if expected is None else expected.encode())
    assert request.headers == ({} if expected is None else {"Content-Type": kind})
