import json
import time
from itertools import pairwise
from typing import Any
from urllib.parse import quote_plus

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.redaction import REDACTED, Redactor
from ragflow_lg.dsl.variable_references import parse_template
from tests.harness.rows import each_row, read_rows

SECRET = 'we"ird\\ ücret/&1'


@each_row(("text", "expected"), read_rows("redacted_texts"))
def test_secrets_are_recognised_by_format_and_by_name(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected
    assert Redactor().text(expected) == expected


def test_a_known_secret_is_found_in_every_spelling() -> None:
    redactor = Redactor([SECRET])
    for form in (SECRET, json.dumps(SECRET), json.dumps(SECRET, ensure_ascii=False), quote_plus(SECRET)):
        cleaned = redactor.text(f"<{form}>")
        assert REDACTED in cleaned
        assert "cret" not in cleaned
    short = Redactor(["abc", "{env.api_key}", ""])
    assert short.text("abc {env.api_key}") == "abc {env.api_key}"


def test_a_secret_across_pieces_is_removed_from_all() -> None:
    redactor = Redactor(["topsecret-123"])
    assert redactor.pieces(["a top", "secr", "et-123 b", "c"]) == ["a ***", "", " b", "c"]
    assert redactor.pieces(["a", "b"]) == ["a", "b"]


@given(st.text(max_size=30), st.lists(st.integers(0, 60), max_size=5))
def test_no_cut_leaves_a_secret(around: str, cuts: list[int]) -> None:
    whole = f"{around}topsecret-123{around}"
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    redactor = Redactor(["topsecret-123"])
    cleaned = redactor.pieces(pieces)
    assert len(cleaned) == len(pieces)
    assert "".join(cleaned) == redactor.text(whole)
    assert "topsecret-123" not in "".join(cleaned)


def test_values_keep_their_shape() -> None:
    kept: dict[str, JsonValue] = {"keys": ["k"], "key": True, "n": None}
    value: JsonValue = {"token": 1, "credentials": {"user": ["a"]}, "text": "password=x", **kept}
    hidden = {"token": "***", "credentials": {"user": ["***"]}, "text": "password=***"}
    assert Redactor().value(value) == {**hidden, **kept}


def test_secrets_of_a_document_are_learned_by_their_names() -> None:
    document = {
        "globals": {"env.service_token": "aaaa-bbbb-cccc", "env.city": "Rome-is-big"},
        "nodes": [
            {"params": {"headers": '{"X-Api-Key": "dddd-eeee"}', "url": "https://u:ffff-gggg@h/", "key": "status-x"}}
        ],
        "auth": {"authorization": "Bearer hhhh-iiii"},
    }
    redactor = Redactor()
    redactor.learn_from(document)
    text = "aaaa-bbbb-cccc dddd-eeee ffff-gggg hhhh-iiii Rome-is-big status-x"
    assert redactor.text(text) == "*** *** *** *** Rome-is-big status-x"


class Params(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    api_key: str = "s3cret-of-the-house"
    headers: Any = None


def test_secrets_of_params_are_learned_by_their_names() -> None:
    headers = {"Authorization": parse_template("Bearer abc-42{sys.query}")}
    params = Params.model_validate({"headers": headers, "max_tokens": "12345678"})
    redactor = Redactor()
    redactor.learn_from([params, ({"env.db_password": "hunter2", "keywords": "parcel", "token": 5},)])
    assert redactor.text("s3cret-of-the-house abc-42 12345678 hunter2 parcel") == "*** *** 12345678 *** parcel"
    assert redactor.longest == len("s3cret-of-the-house")


def test_a_type_in_place_of_a_secret_is_not_learned_and_a_cyclic_map_ends() -> None:
    redactor = Redactor()
    cyclic: dict[str, Any] = {"token": "string", "password": "integer"}
    cyclic["again"] = cyclic
    redactor.learn_from(cyclic)
    assert redactor.text("a string, an integer") == "a string, an integer"


@each_row(
    "part",
    [
        *('"a":"', "token=a", "a=", '\\"', "://:", "Bearer ", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaa."),
        *("?key=", "-", "Basic  ", "Bearer\t", "sk_a", '"key": "'),
    ],
)
def test_hostile_texts_take_linear_time(part: str) -> None:
    began = time.process_time()
    Redactor(["topsecret-123"]).text(part * (100_000 // len(part)))
    assert time.process_time() - began < 1
