import json
from typing import Any

import pytest

from ragflow_lg.base.errors import StreamPositionError
from ragflow_lg.server.streaming.sse import (
    native_frame,
    openai_frame,
    parse_event_number,
    parse_event_position,
    ragflow_frame,
)
from tests.harness.rows import each_row

PAYLOADS: list[dict[str, Any]] = [
    {"event": "message", "data": {"content": "zwei\nZeilen\r\n\n, ü, 😀, \u2028"}},
    {"half": "\ud83d", "number": 1.5, "none": None, "big": 10**30},
    {},
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_each_frame_is_one_line_of_data_that_can_be_parsed(payload: dict[str, Any]) -> None:
    for frame, head in (
        (ragflow_frame(payload), b"data:{"),
        (ragflow_frame(payload, 3), b"id:3\ndata:{"),
        (openai_frame(payload), b"data: {"),
        (native_frame(payload, "message"), b"event: message\ndata: {"),
        (native_frame(payload, "message", 3), b"id: 3\nevent: message\ndata: {"),
    ):
        assert frame.startswith(head)
        assert frame.endswith(b"}\n\n")
        lines = frame.decode().split("\n")
        assert len(lines) == head.count(b"\n") + 3
        assert json.loads(lines[-3].partition(":")[2]) == payload


def test_keys_keep_their_order_and_values_without_a_json_form_become_null() -> None:
    assert ragflow_frame({"b": float("nan"), "a": object()}) == b'data:{"b":null,"a":null}\n\n'


def test_an_event_name_cannot_add_lines() -> None:
    with pytest.raises(ValueError, match="Invalid event name"):
        native_frame({}, "message\ndata: evil")


@each_row(
    ("header", "first", "after"),
    [(None, None, 0), ("", "", 0), ("0", None, 0), (" 12 ", None, 12), (None, "0", 0), (None, "1", 0), ("3", "9", 3)],
)
def test_the_header_takes_precedence_over_the_query(header: str | None, first: str | None, after: int) -> None:
    assert parse_event_number(header, first) == after


@each_row("text", ["x", "-1", "1.5", "٣", "9" * 16, "1\r\nX-Evil: 1", "a" * 4000])
def test_a_text_that_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(StreamPositionError, match="must be the number of an event") as raised:
        parse_event_number(text)
    assert len(str(raised.value)) < 200
    with pytest.raises(StreamPositionError, match=r"^from "):
        parse_event_number(None, text)


def test_an_event_id_names_its_run() -> None:
    assert parse_event_position("5f0c:7", "3", "other") == ("5f0c", 7)
    assert parse_event_position("7", None, "5f0c") == ("5f0c", 7)
    assert (parse_event_position(None, None, "5f0c"), parse_event_position("", "")) == (("5f0c", 0), ("", 0))


@pytest.mark.parametrize(
    ("header", "first", "problem"),
    [("7", None, "run is missing"), (None, "3", "run is missing"), ("a:", None, "number")],
)
def test_a_position_without_a_run_or_a_number_is_refused(header: str | None, first: str | None, problem: str) -> None:
    with pytest.raises(StreamPositionError, match=problem):
        parse_event_position(header, first)
