from __future__ import annotations

import pytest

from ragflow_lg.adapters.mcp.mcp_headers import build_headers, substitute
from ragflow_lg.base.errors import ServiceError


def test_known_names_are_substituted_and_unknown_ones_stay() -> None:
    assert substitute("$a ${a}b $$a $z ${z} $", {"a": "1"}) == "1 1b $a $z ${z} $"


def test_variables_are_substituted_in_names_and_values() -> None:
    headers = {"X-$kind": "${token}", "Authorization": "Bearer $token"}
    assert build_headers(headers, {"kind": "Key", "token": "abc"}, {}) == {
        "X-Key": "abc",
        "Authorization": "Bearer abc",
    }


@pytest.mark.parametrize("value", ["", "  ", "Bearer ", "bearer", "Bearer $token", "$token"])
def test_headers_without_a_value_are_dropped(value: str) -> None:
    assert build_headers({"Authorization": value, " ": "x"}, {"token": ""}, {}) == {}


def test_a_value_with_letters_of_bearer_is_kept() -> None:
    assert build_headers({"X-Area": "area"}, {}, {}) == {"X-Area": "area"}


def test_headers_of_the_canvas_override_those_of_the_settings_ignoring_case() -> None:
    assert build_headers({"X-Team": "a", "X-More": "b"}, {}, {"x-team": "c"}) == {"x-team": "c", "X-More": "b"}


def test_a_canvas_cannot_read_variables_of_the_settings() -> None:
    own = {"X-Token": "$token", "who": "me", "X-Who": "$who"}
    assert build_headers({}, {"token": "abc"}, own) == {"X-Token": "$token", "who": "me", "X-Who": "me"}


def test_framing_and_protocol_headers_of_a_canvas_are_dropped() -> None:
    own = {"Host": "evil.test", "Content-Length": "0", "Mcp-Session-Id": "x", "Transfer-Encoding": "chunked"}
    assert build_headers({}, {}, own) == {}


@pytest.mark.parametrize("own", [{"X y": "1"}, {"X": "a\r\nB: c"}, {"X\n": "a:b", "Ü": "1"}])
def test_invalid_headers_are_rejected(own: dict[str, str]) -> None:
    with pytest.raises(ServiceError, match="header"):
        build_headers({}, {}, own)
