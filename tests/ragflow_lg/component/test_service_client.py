import json
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.component.service_client import MAX_LABEL_CHARS, MAX_ROWS, Service, read_label, read_number, read_text
from ragflow_lg.services.http import HttpRequest, HttpResponse
from tests.fakes.services import ScriptedHttp, fake_services
from tests.harness.rows import each_row

ECHO = Service("Echo", "k+y/1", error_field="message")


class Context:
    """The part of a `RunContext` that a service uses."""

    def __init__(self, answers: dict[str, HttpResponse | Exception]) -> None:
        self.http = ScriptedHttp(answers)
        self.services = fake_services(http=self.http)


CONTEXT: Any = Context({})


def answer(status: int = 200, text: str = "{}", **headers: str) -> HttpResponse:
    return HttpResponse(status, headers, text, "")


async def ask(service: Service, answers: dict[str, Any], method: Any = "GET") -> tuple[HttpResponse, ScriptedHttp]:
    context: Any = Context(answers)
    response = await service.ask(context, HttpRequest(method, "http://t/a", {"X": "1"}, {"q": "x"}))
    return response, context.http


@each_row(
    ("status", "text", "problem"),
    [
        (500, "{}", "Echo answered 500"),
        (200, "[]", "Echo answered 200"),
        (200, "no json", "Echo answered 200"),
        (404, "gone", "Echo answered 404"),
        (200, '{"results":[' + "[]," * 200_000 + "1]}", "Echo answered 200.* JSON that has more than 200,000 entries"),
        (200, '{"a": "' + "x" * 2_100_000 + '"}', "JSON that has more than 2,097,152 bytes"),
        (200, "[" * 200, "JSON that is nested more than 100 levels deep"),
    ],
)
async def test_an_answer_other_than_a_small_object_is_a_service_error(status: int, text: str, problem: str) -> None:
    with pytest.raises(ServiceError, match=problem) as caught:
        await Service("Echo").read_json(CONTEXT, answer(status, text))
    assert caught.value.is_retryable is (status >= 500)


async def test_the_error_field_of_an_answer_becomes_the_error_text() -> None:
    with pytest.raises(ServiceError, match=r"^slow down$") as caught:
        await ECHO.read_json(CONTEXT, answer(429, '{"message": "slow down"}'))
    assert caught.value.is_retryable
    with pytest.raises(ServiceError, match=r"^none left$"):
        ECHO.rows({"message": "none left"}, "items")
    with pytest.raises(ServiceError, match="without 'items'"):
        ECHO.rows({"message": {"text": "odd"}}, "items")


@each_row(
    ("header", "pause_s"),
    [("30", 30), ("0", 0), ("9" * 20, 86_400), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("-1", 0), ("²", 0)],
)
async def test_the_pause_that_a_service_asks_for_is_read(header: str, pause_s: float) -> None:
    with pytest.raises(ServiceError) as caught:
        await Service("Echo").read_json(CONTEXT, HttpResponse(429, {"retry-after": header}, "", ""))
    assert caught.value.retry_after_s == pause_s
    assert ("It asks clients to wait" in str(caught.value)) == bool(pause_s)


@each_row("message", ["bad key k+y/1", "bad k%2By%2F1", "k+y/1" * 100])
async def test_a_repeated_key_is_redacted(message: str) -> None:
    for text in (message, json.dumps({"message": message})):
        with pytest.raises(ServiceError) as caught:
            await ECHO.read_json(CONTEXT, answer(401, text))
        assert "k+y" not in str(caught.value)
        assert "%2By" not in str(caught.value)
    assert "k+y" not in repr(ECHO)


async def test_redirects_are_followed_a_few_times() -> None:
    answers = {
        "http://t/a": answer(301, location="/b?q=y"),
        "http://t/b?q=y": answer(302, location="https://u/c"),
        "https://u/c": answer(200, "there"),
    }
    response, http = await ask(Service("Echo"), answers)
    assert response.text == "there"
    assert [(r.url, dict(r.query)) for r in http.requests][1:] == [("http://t/b?q=y", {}), ("https://u/c", {})]
    with pytest.raises(ServiceError, match="Echo answered 302"):
        await ask(Service("Echo"), {"http://t/a": answer(302, location="/a")})


@pytest.mark.parametrize(("service", "method"), [(ECHO, "GET"), (Service("Echo"), "POST")])
async def test_neither_keys_nor_bodies_are_redirected(service: Service, method: str) -> None:
    with pytest.raises(ServiceError, match="Echo answered 307"):
        await ask(service, {"http://t/a": answer(307, location="http://u/"), "http://u/": answer()}, method)


def test_rows_are_plain_and_limited() -> None:
    rows: list[Any] = [{"a": float("nan"), "b": 2**80}] * (MAX_ROWS + 5)
    result = Service("Echo").rows({"rows": rows}, "rows")
    assert (len(result), result[0]) == (MAX_ROWS, {"a": None, "b": str(2**80)})
    assert len(Service("Echo").rows({"rows": rows}, "rows", 3)) == 3
    assert Service("Echo").rows({"rows": None}, "rows") == Service("Echo").rows({}, "rows") == []


@each_row("rows", [{}, "x", 1, 0, True, ["x"], [None], [[]], [{}, 1.5], [json.loads('{"a":' * 80 + "1" + "}" * 80)]])
def test_anything_but_a_list_of_objects_is_rejected(rows: Any) -> None:
    with pytest.raises(ServiceError, match=r"Echo answered with .* in 'rows'|nested deeper"):
        Service("Echo").rows({"rows": rows}, "rows")


def test_texts_are_read_from_a_row() -> None:
    row = {"a": {"b": "x"}, "n": 1, "list": ["ü"], "null": None, "long": "x" * 9999}
    assert [
        read_text(row, *path) for path in (("a", "b"), ("n",), ("list",), ("null",), ("no", "way"), ("n", "x"))
    ] == [*("x", "1", '["ü"]', "", "", "")]
    assert len(read_label(row, "long")) == MAX_LABEL_CHARS


@each_row(
    ("value", "number"),
    [(2, 2.0), ("0.5", 0.5), (True, 9.0), (None, 9.0), ("x", 9.0), ([], 9.0), (float("inf"), 9.0), (10**400, 9.0)],
)
def test_numbers_are_read_leniently(value: Any, number: float) -> None:
    assert read_number(value, 9.0) == number
