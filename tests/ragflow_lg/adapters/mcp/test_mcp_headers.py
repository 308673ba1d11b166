from __future__ import annotations

import pytest

from ragflow_lg.adapters.mcp.mcp_headers import filled, server_headers
from ragflow_lg.base.errors import ServiceError


def test_names_become_values_and_unknown_ones_stay() -> None:
    assert filled("$a ${a}b $$a $z ${z} $", {"a": "1"}) == "1 1b $a $z ${z} $"


def test_names_and_values_of_headers_are_filled() -> None:
    given = {"X-$kind": "${token}", "Authorization": "Bearer $token"}
    assert server_headers(given, {"kind": "Key", "token": "abc"}, {}) == {
        "X-Key": "abc",
        "Authorization": "Bearer abc",
    }


@pytest.mark.parametrize("value", ["", "  ", "Bearer ", "bearer", "Bearer $token", "$token"])
def test_headers_without_a_value_are_left_out(value: str) -> None:
    assert server_headers({"Authorization": value, " ": "x"}, {"token": ""}, {}) == {}


def test_a_value_of_the_letters_of_bearer_stays() -> None:
    assert server_headers({"X-Area": "area"}, {}, {}) == {"X-Area": "area"}


def test_headers_of_the_canvas_win_whatever_their_case() -> None:
    assert server_headers({"X-Team": "a", "X-More": "b"}, {}, {"x-team": "c"}) == {"x-team": "c", "X-More": "b"}


def test_a_canvas_reads_no_variable_of_the_settings() -> None:
    own = {"X-Stolen": "$token", "who": "me", "X-Who": "$who"}
    assert server_headers({}, {"token": "abc"}, own) == {"X-Stolen": "$token", "who": "me", "X-Who": "me"}


def test_neither_the_frame_of_a_message_nor_the_session_is_chosen() -> None:
    own = {"Host": "evil.test", "Content-Length": "0", "Mcp-Session-Id": "x", "Transfer-Encoding": "chunked"}
    assert server_headers({}, {}, own) == {}


@pytest.mark.parametrize("own", [{"X y": "1"}, {"X": "a\r\nB: c"}, {"X\n": "a:b", "Ü": "1"}])
def test_what_no_header_can_be_is_refused(own: dict[str, str]) -> None:
    with pytest.raises(ServiceError, match="header"):
        server_headers({}, {}, own)
