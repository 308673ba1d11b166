from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from ragflow_lg.presented import MAX_CHARS, Presenter, secrets_in
from ragflow_lg.refs import parse_template

SECRET = "s3cret-of-the-house"


class Params(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    api_key: str = SECRET
    headers: Any = None


def test_secrets_are_found_by_the_names_they_stand_under() -> None:
    params = Params(headers={"Authorization": parse_template("Bearer abc{sys.query}")}, max_tokens="12345678")
    held = [params, {"env.db_password": "hunter22", "keywords": "parcel", "token": 5, "list": [{"accessToken": "t0k"}]}]
    assert set(secrets_in(held)) == {SECRET, "Bearer abc", "hunter22", "t0k"}


def test_a_loop_of_maps_ends() -> None:
    held: dict[str, Any] = {}
    held["again"] = held
    assert list(secrets_in(held)) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"key={SECRET}!", "key=***!"),
        ({"a": [SECRET, 1, None, True]}, {"a": ["***", 1, None, True]}),
        ({SECRET: 1}, {"***": 1}),
        (
            {"password": "x", "token": 5, "Cookie": "", "keyword": "y"},
            {"password": "***", "token": 5, "Cookie": "", "keyword": "y"},
        ),
        ("Authorization: Bearer abcdefghij.klm", "Authorization: Bearer ***"),
        ("redis://user:pass-word@host/0", "redis://***@host/0"),
        ("sk-proj-ABCDEFGHIJKLMNOP1234", "***"),
        ("header-token-1", "***"),
        (math.nan, None),
        (10**400, "a number of 1329 bits"),
        ("a\ud800b", "a?b"),
        ((1, 2), [1, 2]),
        ({1: b"x"}, {"1": "b'x'"}),
    ],
)
def test_what_is_shown(value: Any, shown: Any) -> None:
    presenter = Presenter([SECRET, "Bearer header-token-1", "a", ""])
    assert presenter.value(value) == shown
    json.dumps(presenter.value(value)).encode()


def test_short_secrets_would_garble_everything() -> None:
    assert Presenter(["a", "test"]).text("a test") == "a test"


@pytest.mark.parametrize("before", range(MAX_CHARS - len(SECRET) - 1, MAX_CHARS + 2, 4))
def test_a_secret_at_the_cut_leaves_nothing(before: int) -> None:
    shown = Presenter([SECRET]).text("." * before + SECRET + "." * 100)
    assert "s3c" not in shown
    assert len(shown) < MAX_CHARS + 50


@pytest.mark.parametrize(
    "value",
    ["x" * 8_000_000, ["x" * 1000] * 100_000, {str(i): i for i in range(200_000)}, [["y" * 9_000] * 9] * 9],
)
def test_large_values_become_small_quickly(value: Any) -> None:
    began = time.perf_counter()
    shown = json.dumps(Presenter([SECRET]).value(value))
    assert len(shown) < 3 * MAX_CHARS
    assert time.perf_counter() - began < 1.0


def test_deep_values_end() -> None:
    value: Any = "end"
    for _ in range(5000):
        value = [value]
    assert "end" not in json.dumps(Presenter().value(value))
